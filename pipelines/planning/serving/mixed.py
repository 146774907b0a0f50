"""Collections of benchmark results from threads, stages and vendors' tables, loads of several kinds in one file.

Belongs here: the columns of such files and the rules for what they hold. Does not: what makes a case of any kind
(`building`).

Rules, from configuration columns alone:

- Offline maximum throughput keeps every slot busy: as many clients as the KV cache holds at the mean context of a
  request, up to the engine's own limit on sequences. Output tokens a second are predicted, of all GPUs together.
- A burst (all prompts at once) is as many clients as prompts, each sending one.
- Stages of inference-perf report a TPOT that counts chunks of the stream (about two tokens each): TPOT is worked out of
  mean E2E, mean TTFT and mean output length there.
- Settings are read from the notes where they are spelt as flags (`max-num-seqs 128`, `max-model-len 512`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from estimator.serving import Layout, Protocol
from pipelines.planning.serving.building import Built, Lookups, build, engine_of, version_of
from pipelines.planning.serving.cells import Cells, Unreadable, measured, positive
from pipelines.planning.serving.models import Models

COLUMNS = ("model", "gpu", "engine", "load_kind", "isl_mean", "osl_mean")
"""What a file must have; any other configuration column may be absent or empty."""
MEASURED = {
    "ttft": "ttft_mean_ms",
    "tpot": "tpot_mean_ms",
    "e2e": "e2e_mean_ms",
    "ttft_p99": "ttft_p99_ms",
    "throughput": "output_tok_s_total",
}
"""Metric to the column that measures it."""
OFFLINE_PROMPTS_PER_CLIENT = 20
"""Enough that the first prompts, all at once, do not show in a mean."""
_FLAGS = {"max_num_seqs": r"max-num-seqs (\d+)", "max_model_len": r"max-model-len (\d+)"}
_SHARED = re.compile(r"system prompts x (\d+) tok")


def measured_of(cells: Mapping[str, str]) -> dict[str, float]:
    """What a row measured, by metric."""
    found = measured(cells, MEASURED)
    if "stage json" in cells.get("source_kind", ""):
        found.pop("tpot", None)
        osl = positive(cells.get("osl_mean", ""))
        if "e2e" in found and "ttft" in found and osl is not None and osl > 1 and found["e2e"] > found["ttft"]:
            found["tpot"] = (found["e2e"] - found["ttft"]) / (osl - 1)
    return found


def read(cells: Cells, models: Models, lookups: Lookups) -> Built:
    """The case of one row; raises Unreadable (a ValueError) with the reason why there is none."""
    kind = cells.text("load_kind").lower()
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
    built = build(
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
    if kind.startswith("offline"):
        return _busy(built)
    return replace(built, uncounted={"throughput": "set by the load"})


def _busy(built: Built) -> Built:
    """The case with as many clients as its slots; raises Unreadable when no memory is left for a request."""
    case = built.case
    if case.kv_tokens is None:
        raise Unreadable("the memory account leaves no room for a KV cache")
    held = case.kv_tokens // (case.isl_tokens + case.osl_tokens / 2)
    slots = min(held, case.max_num_seqs * case.layout.dp) * case.layout.workers
    if slots < 1:
        raise Unreadable("the KV cache holds no request of this length")
    load = Protocol(concurrency=slots, prompts_per_client=OFFLINE_PROMPTS_PER_CLIENT)
    return replace(
        built,
        case=replace(case, protocol=load),
        assumed=(*built.assumed, f"{slots:,.0f} requests at once: what the KV cache and the engine's limit allow"),
    )


def _load(cells: Cells, kind: str, notes: str) -> tuple[Protocol, tuple[str, ...]]:
    if kind.startswith("offline"):
        return Protocol(concurrency=1.0), ("fixed lengths, as the mean",)  # how many there are follows from the memory
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
