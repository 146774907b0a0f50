"""Every table of the warehouse, declared once, by layer: sources, plan, feedback."""

from warehouse.tables.feedback import FEEDBACK
from warehouse.tables.plan import PLAN
from warehouse.tables.sources import SOURCES

ALL = (*SOURCES, *PLAN, *FEEDBACK)
