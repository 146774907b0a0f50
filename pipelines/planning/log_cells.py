"""Whether the configuration cells of a measured row can be read at all.

Belongs here: what a cell may hold before anything is predicted from it, so that a cell nobody can read is never taken
for a default. Does not: the prediction (`estimator.memory.logs`), which rows count (`accuracy`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

COUNTS = ("n_gpus", "tp", "pp", "dp", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size")
SWITCH = frozenset({"on", "off", "true", "false", "yes", "no"})
_ENGINE = re.compile(r"vllm|sglang|tensorrt", re.IGNORECASE)


def problem(cells: Mapping[str, str]) -> str:
    """Why a row's configuration cannot be read, naming the column; empty when it can. A blank cell is not stated.

    `ep` may be a switch, since engines have it so; `dp` as a switch does not say how many ranks there are.
    """
    engine = cells.get("engine", "").strip()
    if not _ENGINE.search(engine):
        return f"engine {engine[:40] or 'not stated'}: only vLLM, SGLang and TensorRT-LLM are predicted"
    for name in COUNTS:
        text = cells.get(name, "").strip()
        if text.lower() in {"off", "false", "no"} and name == "dp":
            continue
        if text and (not re.fullmatch(r"\d+(\.0+)?", text) or float(text) < 1):
            return f"{name} is {text[:40]!r}, not a whole number from 1"
    experts = cells.get("ep", "").strip().lower()
    if experts and experts not in SWITCH and not re.fullmatch(r"\d+(\.0+)?", experts):
        return f"ep is {experts[:40]!r}, neither on, off nor a number"
    share = cells.get("mem_util", "").strip()
    if share and not 0 < _number(share) <= 1:
        return f"mem_util is {share[:40]!r}, not a share above 0 and up to 1"
    seen = cells.get("gpu_mem_gib_seen", "").strip()
    if seen and not 0 < _number(seen) < math.inf:
        return f"gpu_mem_gib_seen is {seen[:40]!r}, not a size above 0"
    return ""


def _number(text: str) -> float:
    """The number a cell holds, NaN when it holds none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
