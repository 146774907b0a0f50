"""Every trace format, in the order in which detection tries them.

Belongs here: the list. Does not: any one format (its own module), or how detection goes (`traces`).
"""

from pipelines.sources.azure import AZURE
from pipelines.sources.burstgpt import BURSTGPT
from pipelines.sources.canonical import CANONICAL
from pipelines.sources.layout import Layout
from pipelines.sources.mooncake import MOONCAKE

LAYOUTS: tuple[Layout, ...] = (AZURE, BURSTGPT, MOONCAKE, CANONICAL)
