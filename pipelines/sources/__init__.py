"""One reader per outside format: a file or an API in, a canonical Polars frame out, nothing lost on the way.

Belongs here: formats and their quirks, detection, rejected rows with line and reason. Does not: DuckDB (`warehouse`),
what a workload or a model means (`estimator`), in which order sources are read (`pipelines.assets`).
"""

from pipelines.sources.base import SourceError, SourceRead, check_tolerance
from pipelines.sources.catalog import read_catalog_table, read_prices
from pipelines.sources.models import ModelRead, read_model
from pipelines.sources.observations import read_observations
from pipelines.sources.traces import read_trace

__all__ = [
    "ModelRead",
    "SourceError",
    "SourceRead",
    "check_tolerance",
    "read_catalog_table",
    "read_model",
    "read_observations",
    "read_prices",
    "read_trace",
]
