"""Collections of benchmark results from threads, stages and vendors' tables, loads of several kinds in one file.

Belongs here: the columns of such files and the rules for what they hold. Does not: what makes a case of any kind
(`building`).

Rules, from configuration columns alone:

- Offline maximum throughput has no latency to predict: left out.
- A burst (all prompts at once) is as many clients as prompts, each sending one.
- Settings are read from the notes where they are spelt as flags (`max-num-seqs 128`, `max-model-len 512`).
"""

from __future__ import annotations

import re

from estimator.serving import Layout, Protocol
from pipelines.planning.serving.building import Built, Lookups, build, engine_of, version_of
from pipelines.planning.serving.cells import Cells, Unreadable
from pipelines.planning.serving.models import Models

COLUMNS = ("model", "gpu", "engine", "load_kind", "isl_mean", "osl_mean")
"""What a file must have; any other configuration column may be absent or empty."""
MEASURED = {"ttft": "ttft_mean_ms", "tpot": "tpot_mean_ms", "e2e": "e2e_mean_ms", "ttft_p99": "ttft_p99_ms"}
"""Metric to the column that measures it."""
_FLAGS = {"max_num_seqs": r"max-num-seqs (\d+)", "max_model_len": r"max-model-len (\d+)"}
_SHARED = re.compile(r"system prompts x (\d+) tok")


def read(cells: Cells, models: Models, lookups: Lookups) -> Built:
    """The case of one row; raises Unreadable (a ValueError) with the reason why there is none."""
    kind = cells.text("load_kind").lower()
    if kind.startswith("offline"):
        raise Unreadable("offline maximum throughput has no latency to predict")
    notes = cells.text("notes").lower()
    if "eagle" in notes or "speculative" in notes:
        raise Unreadable("speculative decoding: the share of drafts that were accepted is not recorded")
    engine = engine_of(cells.required("engine"))
    served = models.served(cells.required("model"), cells.text("precision"))
    gpu = lookups.accelerator(cells.required("gpu"))
    isl, osl = cells.needed("isl_mean"), cells.needed("osl_mean")
    load, assumed = _load(cells, kind, notes)
    settings: dict[str, object] = {
        name: int(found.group(1)) for name, flag in _FLAGS.items() if (found := re.search(flag, notes))
    }
    if "chunked prefill" in notes:
        settings["chunked_prefill"] = "no chunked prefill" not in notes
    return build(
        served,
        gpu,
        engine,
        version_of(cells.text("engine_version")),
        _layout(cells),
        load,
        isl,
        osl,
        lookups,
        settings=settings,
        assumed=assumed,
    )


def _load(cells: Cells, kind: str, notes: str) -> tuple[Protocol, tuple[str, ...]]:
    clients, prompts = cells.number("concurrency"), cells.number("num_prompts")
    requests = int(prompts) if prompts and prompts >= 1 else None
    if kind.startswith("burst"):
        at_once = cells.needed("num_prompts")
        return Protocol(concurrency=at_once, prompts_per_client=1.0), ("all prompts at once, fixed lengths",)
    if kind.startswith("open-loop constant"):
        shared = _SHARED.search(notes)
        return Protocol(
            rate_rps=cells.needed("request_rate_rps"),
            shared_prefix_tokens=float(shared.group(1)) if shared else 0.0,
            requests=requests,
        ), ("fixed lengths, as the mean", "evenly spaced arrivals")
    if kind.startswith("open-loop"):
        raise Unreadable("arrivals are not at a constant rate")
    if clients is None:
        raise Unreadable("load_kind does not say how requests arrive")
    per_client = max(1.0, prompts / clients) if prompts else 10.0
    return Protocol(concurrency=clients, prompts_per_client=per_client), ("fixed lengths, as the mean",)


def _layout(cells: Cells) -> Layout:
    tp, pp, ep = cells.count("tp"), cells.count("pp"), cells.count("ep")
    if cells.text("dp_attn").lower() in {"yes", "true", "on"}:
        return Layout(tp=1, dp=cells.count("n_gpus", empty=tp), ep=ep)
    return Layout(tp=tp, pp=pp, ep=ep)
