"""Closed-loop sweeps: mean TTFT and TPOT at a number of clients.

Belongs here: the columns of such files, and the written rules for the layouts they spell in several ways. Does not:
what makes a case of any kind (`building`).

Rules, from configuration columns alone:

- Sweeps of InferenceX (provenance `InferenceX ...` or `csv dump ...`) record TP r and EP e of a worker, but their
  exports fill `tp_size` and `moe_*` in several ways. `moe_tp_size` and `moe_ep_size` both above 1 are r and e, where e
  divides r, and `tp_size` x `attention_dp_size` is r x e: the worker has r GPUs. One and the same measurement stands
  in three exports as (tp 4, moe 1 x 4), (tp 16, moe 4 x 4) and, with DP attention, (tp 1, dp 16, moe 4 x 4).
- There, vLLM rows with `attention_dp_size` = `tp_size` > 1 and `moe_ep_size` = their product are expert parallelism
  over the TP ranks (the same measurement stands in an earlier export as tp 4, dp 1, moe 1 x 4).
- Whatever the source, `tp_size` x `attention_dp_size` above 8 with both `moe_*` above 1 is read in the same way. A
  `tp_size` above 8 otherwise counts the GPUs of a whole deployment whose layout is not recorded: left out.
- `tp_size` below `moe_tp_size` x `moe_ep_size` of a mixture of experts, without a DP column, is DP attention.
- `batch_size` repeats the concurrency in sweeps. In NVIDIA's gap analyses a different one says that replicas or ranks
  nobody recorded share the load: left out. In any other file it is the most sequences a worker runs at once.
- Separated rows without `prefill_num_workers` and `decode_num_workers` say neither how many workers there are nor
  whether attention is data parallel: left out.
- InferenceX sweeps draw lengths in [0.8, 1] of nominal and send 10 prompts a client, with the settings of their launch
  scripts (`sweep_settings`); other files are taken to have fixed lengths, as many prompts and the engine's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping

from estimator.serving import Layout, Protocol
from pipelines.planning.serving.building import Built, Lookups, build, engine_of, version_of
from pipelines.planning.serving.cells import Cells, Unreadable, measured
from pipelines.planning.serving.models import Models, Served
from pipelines.planning.serving.sweep_settings import Run, Settings, settings_of

COLUMNS = ("model", "gpu", "engine", "concurrency", "isl", "osl")
"""What a file must have; any other configuration column may be absent or empty."""
MEASURED = {"ttft": "ttft_ms", "tpot": "tpot_ms"}
"""Metric to the column that measures it."""
NVLINK_GPUS = 8
"""GPUs of one worker in a node."""
SHORTEST_RATIO = 0.8
PROMPTS_PER_CLIENT = 10


def measured_of(cells: Mapping[str, str]) -> dict[str, float]:
    """What a row measured, in milliseconds by metric."""
    return measured(cells, MEASURED)


def read(cells: Cells, models: Models, lookups: Lookups) -> Built:
    """The case of one row; raises Unreadable (a ValueError) with the reason why there is none."""
    engine = engine_of(cells.required("engine"))
    label = cells.text("precision") or cells.text("moe_quant") or cells.text("gemm_quant")
    served = models.served(cells.required("model"), label)
    gpu = lookups.accelerator(cells.required("gpu"))
    clients = cells.needed("concurrency")
    separated = _separated(cells)
    sweep = _is_sweep(cells)
    load = Protocol(
        concurrency=clients,
        prompts_per_client=PROMPTS_PER_CLIENT,
        shortest_ratio=SHORTEST_RATIO if sweep else 1.0,
    )
    drawn = "lengths drawn in [0.8, 1] of nominal" if sweep else "fixed lengths"
    assumed: tuple[str, ...] = (f"{PROMPTS_PER_CLIENT} prompts a client", drawn)
    if separated:
        prefill, said = _worker(cells, served, "prefill_", sweep=sweep)
        pool, more = _worker(cells, served, "decode_", sweep=sweep)
        said = (*said, *more)
    else:
        prefill = None
        pool, said = _worker(cells, served, "", sweep=sweep)
    isl, osl = cells.needed("isl"), cells.needed("osl")
    scripted = Settings()
    if sweep:
        scripted = settings_of(engine, Run(served, gpu.gpu_id, pool, clients, isl, osl))
        assumed = (*assumed, "settings of the sweep's public launch scripts")
    return build(
        served,
        gpu,
        engine,
        version_of(cells.text("engine_version")),
        pool,
        load,
        isl,
        osl,
        lookups,
        settings={"max_num_batched_tokens": None if separated else scripted.max_num_batched_tokens},
        stored_as=scripted.kv_cache_dtype,
        admission_wait_steps=0.0 if separated else scripted.admission_wait_steps,
        prefill=prefill,
        assumed=(*assumed, *said),
    )


def _is_sweep(cells: Cells) -> bool:
    return cells.text("provenance").lower().startswith(("inferencex", "inferencemax", "csv dump"))


def _separated(cells: Cells) -> bool:
    mode = cells.text("mode").lower()
    if mode not in {"", "agg", "aggregated", "disagg", "disaggregated", "separated"}:
        raise Unreadable(f"mode {mode[:40]!r} is neither agg nor disagg")
    if mode in {"", "agg", "aggregated"}:
        return False
    if not cells.text("prefill_num_workers") or not cells.text("decode_num_workers"):
        raise Unreadable("separated, and how many workers prefill and decode is not recorded")
    return True


def _worker(cells: Cells, served: Served, prefix: str, *, sweep: bool) -> tuple[Layout, tuple[str, ...]]:
    """One pool's layout and what reading it assumed."""
    tp, dp = cells.count(f"{prefix}tp_size"), cells.count(f"{prefix}attention_dp_size")
    moe_tp, ep = cells.count(f"{prefix}moe_tp_size"), cells.count(f"{prefix}moe_ep_size")
    pp, workers = cells.count(f"{prefix}pp_size"), cells.count(f"{prefix}num_workers")
    said: list[str] = []
    if not cells.text(f"{prefix}tp_size"):
        said.append(f"{prefix}tp_size not stated: 1")
    if served.kind != "dense" and any(layer.feed_forward.experts for layer in served.architecture.layers):
        tp, dp, ep, note = _ranks(
            tp, dp, moe_tp, ep, stated_dp=bool(cells.text(f"{prefix}attention_dp_size")), sweep=sweep
        )
        said += [note] if note else []
    else:
        ep = 1
    if not prefix and tp > NVLINK_GPUS:
        raise Unreadable(
            "tp_size above 8 that is not TP x EP counts a whole deployment's GPUs: its layout is not recorded"
        )
    return Layout(tp=tp, dp=dp, ep=ep, pp=pp, workers=workers, batch=_batch(cells, prefix, dp, sweep=sweep)), tuple(
        said
    )


def _ranks(tp: int, dp: int, moe_tp: int, ep: int, *, stated_dp: bool, sweep: bool) -> tuple[int, int, int, str]:
    """TP, DP attention and EP of one worker that serves experts, and the rule that was needed (see above)."""
    crossed = moe_tp > 1 and ep > 1 and tp * dp == moe_tp * ep and moe_tp % ep == 0
    if crossed and (sweep or tp * dp > NVLINK_GPUS):
        return (1, moe_tp, ep, "TP x EP written as DP") if dp > 1 else (moe_tp, 1, ep, "tp_size written as TP x EP")
    if sweep and dp > 1 and tp == dp and moe_tp == 1 and ep == tp * dp:
        return tp, 1, tp, "attention_dp_size repeats expert parallelism"
    ranks = moe_tp * ep
    if not stated_dp and dp == 1 and tp < ranks:
        if ranks % tp:
            raise Unreadable(f"tp_size {tp} is no divisor of moe_tp_size x moe_ep_size = {ranks}")
        return tp, ranks // tp, ep, "tp_size below moe_tp_size x moe_ep_size is DP attention"
    if (tp * dp) % ep:
        raise Unreadable(f"moe_ep_size {ep} does not divide the {tp * dp} GPUs of tp_size x attention_dp_size")
    return tp, dp, ep, ""


def _batch(cells: Cells, prefix: str, dp: int, *, sweep: bool) -> int | None:
    """The most sequences of a worker, where the cell says that."""
    if not cells.text(f"{prefix}batch_size"):
        return None
    batch = cells.count(f"{prefix}batch_size")
    if prefix:
        return batch * dp
    clients = cells.needed("concurrency")
    if sweep or batch >= clients:
        return None
    if cells.text("provenance").lower().startswith("nvidia internal gap"):
        raise Unreadable("batch_size is not the concurrency: what shares the load is not recorded")
    return batch
