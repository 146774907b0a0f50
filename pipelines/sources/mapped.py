"""A file of nobody's format: CSV, JSON or Parquet whose columns the workspace names, canonical name first.

`options: {columns: {arrival_at: ts, isl_tokens: usage.prompt, osl_tokens: usage.completion}}`. Everything the capsheet
layout reads can be named; a key with dots is a path in nested JSON. `arrival_s` counts in `time_unit` from `start_at`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.sources.canonical import CANONICAL, canonical_readings
from pipelines.sources.columns import Reading
from pipelines.sources.layout import Cells, TraceOptions


def _readings(
    source_file: str, cells: Cells, options: TraceOptions, _: Sequence[str]
) -> tuple[list[Reading], list[str]]:
    readings, notes = canonical_readings(source_file, cells, options, options.time_unit or "s")
    named = ", ".join(f"{name} from {column}" for name, column in options.columns.items())
    return readings, [*notes, f"columns declared: {named}"]


MAPPED = replace(
    CANONICAL,
    name="mapped",
    title="mapped columns",
    readings=_readings,
    heeds=("timezone", "start_at", "time_unit", "block_tokens", "columns"),
    by_name=True,
)
