"""capsheet's own trace layout, CSV or Parquet: the `request` table's columns, as few of them as one likes.

`arrival_at` (a time) or `arrival_s` (seconds), `isl_tokens` and `osl_tokens` are enough. In CSV, `prefix_hashes` is
numbers with spaces between, and asks for `prefix_block_tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipelines.sources.arrivals import relative, written
from pipelines.sources.base import SourceError
from pipelines.sources.columns import MAX_SECONDS, Reading, Rule, above_zero, hashes, quantity, text, truth, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions
from warehouse import registry

_TEXT = ("session_id", "model", "adapter", "tenant", "request_id", "finish_reason")
_LATENCY_MS = ("ttft_ms", "e2e_ms", "queue_ms", "deadline_ms")
_COUNTS = ("cached_tokens", "max_tokens", "samples", "media_items")
_SAMPLING = ("temperature", "top_p")
_FLAGS = ("streaming", "structured_output", "logprobs", "speculative", "multimodal")


def _readings(
    source_file: str, cells: Cells, options: TraceOptions, _: Sequence[str]
) -> tuple[list[Reading], list[str]]:
    notes = ["lengths in tokens"]
    if "arrival_at" in cells:
        arrival = written("arrival_at", cells["arrival_at"], options)
    else:
        arrival = relative("arrival_s", "s", options)
        notes.append(f"arrival_s in s from {options.start_at}")
    # A request that was not served may have no tokens; one that was has some.
    failed = ~pl.col("outcome").is_in(["ok", "unknown"]) if "outcome" in cells else pl.lit(value=False)
    isl, osl = (whole(name, name, least=0) for name in ("isl_tokens", "osl_tokens"))
    readings = [*arrival, above_zero(isl, unless=failed), above_zero(osl, unless=failed)]
    readings += [whole(name, name, least=0, required=False) for name in _COUNTS if name in cells]
    if "prefix_hashes" in cells:
        readings += _prefix(source_file, cells, options)
    readings += [text(name, name) for name in _TEXT if name in cells]
    readings += [quantity(name, name, most=MAX_SECONDS * 1_000) for name in _LATENCY_MS if name in cells]
    readings += [quantity(name, name, most=1_000) for name in _SAMPLING if name in cells]
    readings += [Reading(name, truth(name)) for name in _FLAGS if name in cells]
    if "outcome" in cells:
        readings.append(text("outcome", "outcome", registry.table("request").column("outcome").allowed))
    return readings, notes


def _prefix(source_file: str, cells: Cells, options: TraceOptions) -> list[Reading]:
    chain = hashes("prefix_hashes", "prefix_hashes", cells["prefix_hashes"])
    if "prefix_block_tokens" in cells:
        block = whole("prefix_block_tokens", "prefix_block_tokens", required=False)
        both = chain.value.is_null() | block.value.is_not_null()
        return [
            chain,
            Reading(block.column, block.value, (*block.rules, Rule(both, pl.lit("prefix_block_tokens is missing")))),
        ]
    if options.block_tokens:
        return [chain, Reading("prefix_block_tokens", pl.lit(options.block_tokens, pl.Int32))]
    raise SourceError(
        f"{source_file} has prefix_hashes but not the tokens a block holds. Add a column prefix_block_tokens, or set "
        "the option block_tokens."
    )


CANONICAL = Layout(
    "capsheet",
    "capsheet trace",
    one_of=("arrival_at", "arrival_s"),
    required=("isl_tokens", "osl_tokens"),
    optional=("prefix_hashes", "prefix_block_tokens", "outcome", *_COUNTS, *_TEXT, *_LATENCY_MS, *_SAMPLING, *_FLAGS),
    readings=_readings,
    heeds=("timezone", "start_at", "block_tokens"),
)
