"""Mooncake's traces (FAST '25): JSON Lines with milliseconds and the hashes of 512-token input blocks.

https://github.com/kvcache-ai/Mooncake (Apache-2.0). ceil(input_length / 512) hashes a row, the last block partial yet
hashed. vLLM's timed traces look the same but count seconds and 16-token blocks, and neither file says so: a file whose
hashes do not fit 512-token blocks is read only with its unit and block size declared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.base import SourceError
from pipelines.sources.columns import Reading, Rule, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions

BLOCK_TOKENS = 512
_OTHER_BLOCKS = (16, 32, 64, 128, 256, 1024)


def _readings(
    source_file: str, _: Cells, options: TraceOptions, first_lines: Sequence[str]
) -> tuple[list[Reading], list[str]]:
    block = options.block_tokens or BLOCK_TOKENS
    if not (options.block_tokens and options.time_unit):
        _refuse_other_blocks(source_file, first_lines, block)
    unit = options.time_unit or "ms"
    length = pl.col("input_length")
    fitting = pl.col("hash_ids").list.len() == (length / block).ceil()
    told = pl.format(
        "{} hash_ids, but input_length {} makes {} blocks of {} tokens",
        pl.col("hash_ids").list.len(),
        length.cast(pl.Int64, strict=False),
        (length / block).ceil().cast(pl.Int64, strict=False),
        pl.lit(block),
    )
    readings = [
        *relative("timestamp", unit, options),
        whole("isl_tokens", "input_length"),
        whole("osl_tokens", "output_length", least=0),
        Reading(
            "prefix_hashes",
            pl.col("hash_ids"),
            (Rule(pl.col("hash_ids").is_not_null(), pl.lit("hash_ids is missing")), Rule(fitting, told)),
        ),
        Reading("prefix_block_tokens", pl.lit(block, pl.Int32)),
    ]
    said = "declared" if options.time_unit else "the format's own"
    return readings, [
        f"timestamp in {unit} ({said}) from {options.start_at}",
        f"prefix blocks of {block} tokens, the last one partial",
    ]


def _refuse_other_blocks(source_file: str, lines: Sequence[str], block: int) -> None:
    """Refuse a file whose first rows fit blocks of another size better than `block`: its unit is not known either."""
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
            rows.append((int(row["input_length"]), len(row["hash_ids"])))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue

    def fit(size: int) -> int:
        return sum(-(-length // size) == hashes for length, hashes in rows)

    best = max(_OTHER_BLOCKS, key=fit)
    if fit(best) > fit(block) and fit(best) * 2 > len(rows):
        raise SourceError(
            f"{source_file} has Mooncake's keys but its hashes fit blocks of {best} tokens, not {block}, so its time "
            f"unit is not known. Set the options block_tokens: {best} and time_unit: s or ms."
        )


MOONCAKE = Layout(
    "mooncake",
    "Mooncake trace",
    required=("timestamp", "input_length", "output_length", "hash_ids"),
    readings=_readings,
    heeds=("start_at", "time_unit", "block_tokens"),
    containers=("json",),
    cell_types={
        "timestamp": pl.Float64(),
        "input_length": pl.Float64(),
        "output_length": pl.Float64(),
        "hash_ids": pl.List(pl.Int64()),
    },
)
