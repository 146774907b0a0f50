"""The capacity maths: numbers in, numbers out.

Belongs here: memory accounts, step times, bounds, replay, goodput, fleets, cost, correction. Does not: files, DuckDB,
Dagster, openpyxl, the network, the clock. Reading belongs to `pipelines.sources`, storing to `warehouse`."""
