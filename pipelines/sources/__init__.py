"""One reader per outside format: a file or an API in, a canonical Polars frame out, nothing lost on the way.

Belongs here: formats and their quirks, detection, rejected rows with line and reason. Does not: DuckDB (`warehouse`),
what a workload or a model means (`estimator`), in which order sources are read (`pipelines.assets`).
"""
