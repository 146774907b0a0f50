"""From warehouse rows to estimator calls and back to rows: one module a step of the plan.

Belongs here: choosing what to estimate and laying the answers out as registry rows. Does not: formulas (`estimator`),
opening DuckDB (`warehouse`), Dagster (`pipelines.assets`).
"""
