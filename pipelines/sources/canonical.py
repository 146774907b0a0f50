"""capsheet's own trace layout, CSV, JSON or Parquet: the `request` table's columns, as few of them as one likes.

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
from pipelines.sources.outcome import censored, of_status
from warehouse import registry

_TEXT = ("session_id", "model", "adapter", "tenant", "request_id", "finish_reason")
_LATENCY_MS = ("ttft_ms", "e2e_ms", "queue_ms", "deadline_ms")
_LATENCY_S = tuple(f"{name[:-3]}_s" for name in _LATENCY_MS)
_COUNTS = ("cached_tokens", "max_tokens", "samples", "media_items")
_SAMPLING = ("temperature", "top_p")
FLAGS = ("streaming", "structured_output", "logprobs", "speculative", "multimodal")


def _readings(
    source_file: str, cells: Cells, options: TraceOptions, _: Sequence[str]
) -> tuple[list[Reading], list[str]]:
    return canonical_readings(source_file, cells, options, "s")


def canonical_readings(
    source_file: str, cells: Cells, options: TraceOptions, unit: str
) -> tuple[list[Reading], list[str]]:
    """Readings of canonically named cells, and notes; `unit` is that of `arrival_s`.

    Raises:
        SourceError: there are hashes, and nobody says how many tokens a block holds.
    """
    notes = ["lengths in tokens"]
    if "arrival_at" in cells:
        arrival = written("arrival_at", cells["arrival_at"], options)
    else:
        arrival = relative("arrival_s", unit, options)
        notes.append(f"arrival_s in {unit} from {options.start_at}")
    # A request that was not served may have no tokens; one that was has some.
    failed, said = pl.lit(value=False), None
    if "outcome" in cells:
        failed = ~pl.col("outcome").cast(pl.String).is_in(["ok", "unknown"])
        said = text("outcome", "outcome", registry.table("request").column("outcome").allowed)
    elif "status_code" in cells:
        said = Reading("outcome", of_status(pl.col("status_code")))
        failed = ~said.value.is_in(["ok", "unknown"])
    isl, osl = (whole(name, name, least=0) for name in ("isl_tokens", "osl_tokens"))
    readings = [*arrival, above_zero(isl, unless=failed), above_zero(osl, unless=failed)]
    readings += [whole(name, name, least=0, required=False) for name in _COUNTS if name in cells]
    if "prefix_hashes" in cells:
        readings += _prefix(source_file, cells, options)
    readings += [text(name, name) for name in _TEXT if name in cells]
    readings += [quantity(name, name, most=MAX_SECONDS * 1_000) for name in _LATENCY_MS if name in cells]
    readings += [quantity(name, name, most=1_000) for name in _SAMPLING if name in cells]
    readings += [Reading(name, truth(name)) for name in FLAGS if name in cells]
    for name in _LATENCY_MS:
        if f"{name[:-3]}_s" in cells and name not in cells:
            readings.append(quantity(name, f"{name[:-3]}_s", most=MAX_SECONDS, scale=1_000))
    if said is not None:
        readings += [said, censored(pl.col("finish_reason") if "finish_reason" in cells else pl.lit(""), said.value)]
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
    optional=(
        "prefix_hashes",
        "prefix_block_tokens",
        "outcome",
        *_COUNTS,
        *_TEXT,
        *_LATENCY_MS,
        *_LATENCY_S,
        *_SAMPLING,
        *FLAGS,
        "status_code",
    ),
    containers=("csv", "json", "parquet"),
    cell_types={"prefix_hashes": pl.List(pl.Int64())},
    readings=_readings,
    heeds=("timezone", "start_at", "block_tokens"),
)
