"""Qwen-Bailian's usage traces: seconds, chains of turns, salted hashes of 16-token input blocks.

https://github.com/alibaba-edu/qwen-bailian-usagetraces-anon (Apache-2.0). A conversation is the chain of
`parent_chat_id` up to a root (-1). The last block is padded, so that its hash never matches: it is left out.
Think-tokens are stripped between turns, so that a turn's input need not hold all of the answer before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.columns import Reading, Rule, whole
from pipelines.sources.layout import Cells, Layout, Prepare, TraceOptions
from pipelines.sources.mooncake import fits

BLOCK_TOKENS = 16


def _chains(_: TraceOptions) -> Prepare:
    """Adds `root`: the first chat of the chain a row continues, as far back as the file has it."""
    roots: dict[float, float] = {}

    def prepare(rows: pl.DataFrame) -> pl.DataFrame:
        found = []
        for chat, parent in rows.select("chat_id", "parent_chat_id").iter_rows():
            root = chat if parent is None or parent < 0 else roots.get(parent, parent)
            if chat is not None:
                roots[chat] = root
            found.append(None if root is None or math.isnan(root) else str(int(root)))
        return rows.with_columns(pl.Series("root", found, dtype=pl.String))

    return prepare


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    block, unit = options.block_tokens or BLOCK_TOKENS, options.time_unit or "s"
    hashes = pl.col("hash_ids")
    there = Rule(hashes.is_not_null(), pl.lit("hash_ids is missing"))
    blocks = (pl.col("input_length") / block).ceil()
    whole_ones = hashes.list.head((blocks - 1).clip(0).cast(pl.Int64, strict=False))
    few = Rule(hashes.list.len() <= blocks, fits(block).reason)
    readings = [
        *relative("timestamp", unit, options),
        whole("isl_tokens", "input_length"),
        whole("osl_tokens", "output_length", least=0),
        Reading("prefix_hashes", whole_ones, (there, few)),
        Reading("prefix_block_tokens", pl.lit(block, pl.Int32)),
        Reading("session_id", pl.col("root")),
        Reading("request_id", pl.col("chat_id").cast(pl.Int64, strict=False).cast(pl.String)),
    ]
    if "type" in cells:
        readings.append(Reading("multimodal", pl.col("type").is_in(["image", "video", "audio"])))
    return readings, [
        f"timestamp in {unit} ({'declared' if options.time_unit else 'the format says so'}) from {options.start_at}",
        f"prefix blocks of {block} tokens, the padded last one left out",
        "a session is a chain of parent_chat_id",
    ]


BAILIAN = Layout(
    "bailian",
    "Qwen-Bailian trace",
    required=("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids"),
    optional=("type", "turn"),
    readings=_readings,
    heeds=("start_at", "time_unit", "block_tokens"),
    containers=("json",),
    cell_types={
        **{name: pl.Float64() for name in ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length")},
        "type": pl.String(),
        "turn": pl.Float64(),
        "hash_ids": pl.List(pl.Int64()),
    },
    prepare=_chains,
)
