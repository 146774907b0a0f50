"""BurstGPT: campus use of GPT models, version 1 (six columns) and 2 (eight, with session and elapsed time).

https://github.com/HPMLL/BurstGPT (CC-BY-4.0). Seconds from local midnight of the first day, which need not be 0;
`Response tokens` 0 is a request that failed; `Elapsed time` is end-to-end seconds, not the time to first token.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from pipelines.sources.arrivals import relative
from pipelines.sources.columns import MAX_SECONDS, Reading, above_zero, quantity, text, whole
from pipelines.sources.layout import Cells, Layout, TraceOptions
from pipelines.sources.outcome import ended


def _readings(_: str, cells: Cells, options: TraceOptions, __: Sequence[str]) -> tuple[list[Reading], list[str]]:
    osl = whole("osl_tokens", "Response tokens", least=0)
    readings = [
        *relative("Timestamp", options.time_unit or "s", options),
        above_zero(whole("isl_tokens", "Request tokens", least=0), unless=osl.value == 0),
        osl,
        text("model", "Model"),
        ended(pl.lit("ok"), osl.value),
    ]
    if "Session ID" in cells:
        readings.append(text("session_id", "Session ID"))
    if "Elapsed time" in cells:
        readings.append(quantity("e2e_ms", "Elapsed time", most=MAX_SECONDS, scale=1_000))
    unit = options.time_unit or "s"
    return readings, [f"Timestamp in {unit} from {options.start_at}", "0 response tokens is a failed request"]


BURSTGPT = Layout(
    "burstgpt",
    "BurstGPT trace",
    required=("Timestamp", "Model", "Request tokens", "Response tokens"),
    optional=("Session ID", "Elapsed time"),
    readings=_readings,
    heeds=("start_at", "time_unit"),
)
