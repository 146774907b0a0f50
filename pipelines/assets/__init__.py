"""Dagster assets, one module a layer: sources, workload, estimates, publication. Thin: read a frame, call, write a table."""
