"""Dagster assets, one module a layer. Thin: read a frame, call one function, write a table."""
