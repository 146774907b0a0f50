"""Mooncake's traces (FAST '25): JSON Lines with milliseconds and the hashes of 512-token input blocks.

https://github.com/kvcache-ai/Mooncake (Apache-2.0). ceil(input_length / 512) hashes a row, the last block partial yet
hashed. vLLM's timed traces look the same but count seconds and 16-token blocks, and neither file says so: a file whose
hashes do not fit 512-token blocks is read only with its unit and block size declared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.base import SourceError
from pipelines.sources.columns import Reading, Rule, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions

BLOCK_TOKENS = 512
KEYS = ("timestamp", "input_length", "output_length", "hash_ids")
CELL_TYPES: Mapping[str, pl.DataType] = {
    "timestamp": pl.Float64(),
    "input_length": pl.Float64(),
    "output_length": pl.Float64(),
    "hash_ids": pl.List(pl.Int64()),
}
_OTHER_BLOCKS = (16, 32, 64, 128, 256, 1024)


def trace_readings(options: TraceOptions, own_unit: str, own_block: int) -> tuple[list[Reading], list[str]]:
    """Readings of Mooncake's keys and notes on them; the format's own unit and block size where none is declared."""
    block, unit = options.block_tokens or own_block, options.time_unit or own_unit
    hashes = pl.col("hash_ids")
    readings = [
        *relative("timestamp", unit, options),
        whole("isl_tokens", "input_length"),
        whole("osl_tokens", "output_length", least=0),
        Reading(
            "prefix_hashes",
            hashes,
            (Rule(hashes.is_not_null(), pl.lit("hash_ids is missing")), fits(block)),
        ),
        Reading("prefix_block_tokens", pl.lit(block, pl.Int32)),
    ]
    said = "declared" if options.time_unit else "the format's own"
    return readings, [
        f"timestamp in {unit} ({said}) from {options.start_at}",
        f"prefix blocks of {block} tokens, the last one partial",
    ]


def fits(block: int) -> Rule:
    """The rule that a row has one hash for every started block of its input."""
    hashes, length = pl.col("hash_ids").list.len(), pl.col("input_length")
    told = pl.format(
        "{} hash_ids, but input_length {} makes {} blocks of {} tokens",
        hashes,
        length.cast(pl.Int64, strict=False),
        (length / block).ceil().cast(pl.Int64, strict=False),
        pl.lit(block),
    )
    return Rule(hashes == (length / block).ceil(), told)


def fitting(rows: Sequence[Mapping[str, object]], block: int) -> int:
    """How many rows have as many hashes as their input has started blocks of this size."""
    found = 0
    for row in rows:
        length, hashes = row.get("input_length"), row.get("hash_ids")
        if isinstance(length, int) and isinstance(hashes, list):
            found += -(-length // block) == len(hashes)
    return found


def _readings(
    source_file: str, _: Cells, options: TraceOptions, first_lines: Sequence[str]
) -> tuple[list[Reading], list[str]]:
    if not (options.block_tokens and options.time_unit):
        _refuse_other_blocks(source_file, first_lines, options.block_tokens or BLOCK_TOKENS)
    return trace_readings(options, "ms", BLOCK_TOKENS)


def _refuse_other_blocks(source_file: str, lines: Sequence[str], block: int) -> None:
    """Refuse a file whose first rows fit blocks of another size better than `block`: its unit is not known either."""
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    best = max(_OTHER_BLOCKS, key=lambda size: fitting(rows, size))
    if fitting(rows, best) > fitting(rows, block) and fitting(rows, best) * 2 > len(rows):
        raise SourceError(
            f"{source_file} has Mooncake's keys but its hashes fit blocks of {best} tokens, not {block}, so its time "
            f"unit is not known. Set the options block_tokens: {best} and time_unit: s or ms."
        )


MOONCAKE = Layout(
    "mooncake",
    "Mooncake trace",
    required=KEYS,
    readings=_readings,
    heeds=("start_at", "time_unit", "block_tokens"),
    containers=("json",),
    cell_types=CELL_TYPES,
)
