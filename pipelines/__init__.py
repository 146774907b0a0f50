"""When and in which order: the Dagster graph, the command line, and `sources/`, one reader per outside format.

Belongs here: assets, checks, schedules, the workspace file, commands. Does not: maths (`estimator`), DuckDB
(`warehouse`), cells (`reports`). Importing this package imports none of them: `capsheet --help` must stay quick.
"""
