"""Predicting an engine's start-up log from its configuration, and the error against what it printed.

Belongs here: what the configuration columns of a start-up log mean, the prediction of one row, relative errors and
their summary. Does not: reading the file, finding the model's config (`pipelines`).

Configuration columns: model_id, weights_quant, gpu, gpu_mem_gib_seen, n_gpus, engine, engine_version, tp, pp, dp, ep,
max_model_len, mem_util, max_num_seqs, max_num_batched_tokens, kv_dtype, block_size. The measured columns are only
compared with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from estimator.architecture import Architecture
from estimator.engines import Rows, resolve_settings
from estimator.hardware import GIB, Accelerator, resolve_gpu
from estimator.memory.account import MemoryAccount, memory_account
from estimator.versions import in_range
from estimator.weights import weights

V0_LATER = "0.7.90"
"""What the profile calls V0 engines of releases from 0.8 on."""
SIZES = (1, 2, 4, 8, 16)
"""Ranks tried, the fewest that hold the model first, for a log that states neither TP nor GPUs."""
UNKNOWN_GIB = 4096.0
"""Stands for memory nobody stated: so much that nothing of what is predicted all the same depends on it."""
NEEDS_MEMORY = ("non_torch_gib", "kv_gib_per_gpu", "kv_tokens", "num_blocks", "max_concurrency")
"""Measured columns that cannot be predicted without the accelerator's memory."""
V0_ONLY = ("T4", "V100")
"""Accelerators before Ampere: vLLM ran them on V0 until it was taken out in 0.11."""
VISIBLE_SHARE = 0.985
UNSET = ("", "off", "auto")
"""What a cell holds that states no number of its own."""
MEASURED = {
    "weights_gib_per_gpu": "weights_gib_per_gpu",
    "activation_peak_gib": "activation_gib_per_gpu",
    "non_torch_gib": "non_torch_gib_per_gpu",
    "graph_gib_actual": "graph_gib_per_gpu",
    "kv_gib_per_gpu": "kv_budget_gib_per_gpu",
    "kv_tokens": "kv_budget_tokens",
    "num_blocks": "kv_blocks",
    "kv_bytes_per_token_gpu_implied": "kv_bytes_per_token_per_gpu",
}
"""Measured column of a log -> figure of the account."""
PRECISIONS = (
    (r"gguf|bnb|bitsandbytes", None),
    (r"mxfp4", "mxfp4"),
    (r"nvfp4|\bfp4\b", "nvfp4"),
    (r"w4a16|awq|gptq|int4|4bit|autoround", "int4"),
    (r"w8a8|int8|w8a16", "int8"),
    (r"fp8", "fp8"),
    (r"float32|fp32", "fp32"),
    (r"bf16|bfloat16", "bf16"),
    (r"fp16|float16|half", "fp16"),
)


class Unpredictable(ValueError):  # noqa: N818 - reads as a sentence where it is caught
    """A row whose configuration leaves open what decides the outcome; the message says what."""


@dataclass(frozen=True, slots=True)
class LogPrediction:
    """The account of a row, its concurrency at the row's length, and what was assumed because the row is silent."""

    account: MemoryAccount
    max_concurrency: float
    assumed: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)
    """Measured column -> predicted / measured - 1, for what the row states."""
    left_open: frozenset[str] = frozenset()
    """Measured columns the row does not decide, so the account's figure for them means nothing."""

    @property
    def sized(self) -> bool:
        """Whether the cache was sized at all: not where the accelerator's memory is not known."""
        return "kv_gib_per_gpu" not in self.left_open


def engine_version(engine: str, version: str) -> tuple[str, str, str | None]:
    """Engine name, version to resolve by, and what had to be assumed.

    `0.8.x V0` is a V0 engine; `(<=0.16, not stated)` the newest it may be; a bare date or nothing the newest known.
    """
    name = "sglang" if "sglang" in engine.lower() else "tensorrt-llm" if "tensorrt" in engine.lower() else "vllm"
    found = re.search(r"(?<![\d-])(\d+\.\d+(?:\.\d+)?)", version)
    if not found:
        return name, "", f"{engine} version (newest)"
    number = found.group(1)
    if re.search(r"\bV0\b", version) and not number.startswith(("0.1.", "0.2.", "0.3.", "0.4.", "0.5.", "0.6.", "0.7")):
        return name, V0_LATER, None
    return name, number, None


def precision_of(quant: str, architecture: Architecture) -> str:
    """The precision a log's `weights_quant` names: the checkpoint's own where they agree or it is silent.

    Raises Unpredictable for a container whose size the config does not decide.
    """
    if not quant:
        return "auto"
    for pattern, name in PRECISIONS:
        if re.search(pattern, quant, re.IGNORECASE):
            if name is None:
                raise Unpredictable(f"weights in {quant}: their size is not decided by the config")
            own = architecture.scheme.scheme
            if own == name or (own == "mixed" and name in {"fp8", "nvfp4", "mxfp4"}):
                return "auto"
            return name
    return "auto"


def accelerator_of(row: Mapping[str, str], catalog: Mapping[str, Accelerator]) -> Accelerator:
    """The accelerator of a row: the catalogue's, with the memory the log saw where it says; one of `UNKNOWN_GIB` when
    neither its name nor its memory is known."""
    name = row.get("gpu") or ""
    gpu_id = resolve_gpu(re.sub(r"\(.*|\bclass\b", "", name), catalog)
    within = re.search(r"\(\D*(\d+\.\d+)\s?GiB", name)
    seen = row.get("gpu_mem_gib_seen") or (within.group(1) if within else "")
    label = re.search(r"\b(\d+)\s?GB\b", name)
    if gpu_id is None and not seen and label:
        # A card known by its label only: consumer cards show 0.985 of it (RTX 3090: 23.58 of 24).
        return Accelerator(name, float(label.group(1)) * VISIBLE_SHARE, 1.0, 1.0)
    if gpu_id is None and not seen:
        return Accelerator(name or "not stated", UNKNOWN_GIB, 1.0, 1.0)
    if gpu_id is None:
        return Accelerator(name or "unnamed", float(seen), 1.0, 1.0)
    known = catalog[gpu_id]
    if not seen:
        return known
    return Accelerator(
        **{**{name: getattr(known, name) for name in known.__dataclass_fields__}, "visible_memory_gib": float(seen)}
    )


def predict_log(
    row: Mapping[str, str], architecture: Architecture, catalog: Mapping[str, Accelerator], profile: Rows
) -> LogPrediction:
    """Predict one start-up from its configuration columns, and compare with what it measured.

    Where the accelerator's memory is not known, only what does not depend on it is: weights, the cache's bytes a token
    of one kind of layer, and the activation peak when the batch is stated.

    Raises Unpredictable when the configuration leaves the outcome open, ValueError when it cannot be.
    """
    if architecture.unaccounted:
        raise Unpredictable(f"not accounted for: {'; '.join(architecture.unaccounted)}")
    accelerator = accelerator_of(row, catalog)
    engine, version, assumed_version = engine_version(row["engine"], row.get("engine_version") or "")
    if engine == "sglang" and architecture.compressed and not row.get("engine_version"):
        # Its pools changed soon after; a log that does not say is from when the model was new.
        version = min(str(r["version_from"]) for r in profile if r["parameter"] == "compressed_window_share")
        assumed_version = "SGLang version (the first that runs the model)"
    if engine == "vllm" and accelerator.gpu_id.startswith(V0_ONLY) and version and in_range(version, "0.8", "0.11"):
        version = V0_LATER
    pp, dp = _whole(row, "pp") or 1, _whole(row, "dp") or 1
    tp = _whole(row, "tp") or max(1, (_whole(row, "n_gpus") or 1) // (pp * dp))
    if engine == "sglang" and row.get("tp") and dp > 1:
        tp = max(1, tp // dp)  # SGLang counts the ranks of data-parallel attention among the tensor-parallel ones
    overrides: dict[str, object] = {
        "gpu_memory_utilization": float(row["mem_util"]) if row.get("mem_util") else None,
        "max_model_len": _whole(row, "max_model_len"),
        "max_num_seqs": _whole(row, "max_num_seqs"),
        "max_num_batched_tokens": _whole(row, "max_num_batched_tokens"),
        "block_tokens": _block(row, architecture),
        "kv_cache_dtype": _kv_dtype(row.get("kv_dtype") or "auto"),
    }
    settings = resolve_settings(engine, version, accelerator, architecture, profile, overrides)
    held = weights(architecture, precision_of(row.get("weights_quant") or "", architecture))

    def on(ranks: int) -> MemoryAccount:
        ep = ranks * dp if row.get("ep") not in {None, "", "1", "off"} else 1
        return memory_account(architecture, held, accelerator, settings, ranks, pp, dp, ep, profile=profile)

    alone = not row.get("tp") and not row.get("n_gpus")
    account = next((found for found in map(on, SIZES) if found.feasible), on(1)) if alone else on(tp)
    if pp > 1:
        account = _printed(account)
    silent = [name for name in ("gpu_memory_utilization", "max_model_len") if overrides[name] is None]
    left_open = _left_open(account, overrides, alone) if accelerator.visible_memory_gib == UNKNOWN_GIB else frozenset()
    silent += [f"GPU {accelerator.gpu_id}: its memory is not known, so the cache is not sized"] if left_open else []
    silent += ["tp"] if not row.get("tp") else []
    silent += [assumed_version] if assumed_version else []
    concurrency = account.max_concurrency(settings.max_model_len)
    errors = {
        column: getattr(account, figure) / float(row[column]) - 1
        for column, figure in MEASURED.items()
        if column not in left_open and row.get(column) and float(row[column]) > 0
    }
    if row.get("max_concurrency") and not left_open:
        errors["max_concurrency"] = concurrency / float(row["max_concurrency"]) - 1
    return LogPrediction(account, concurrency, tuple(silent), errors, left_open)


def _left_open(account: MemoryAccount, overrides: Mapping[str, object], ranks_open: bool) -> frozenset[str]:
    """Measured columns that depend on the accelerator's memory, by itself, by the defaults of its class or by how many
    ranks it takes."""
    found = {*NEEDS_MEMORY, *(("weights_gib_per_gpu",) if ranks_open else ())}
    if overrides["max_num_seqs"] is None or overrides["max_num_batched_tokens"] is None:
        found |= {"activation_peak_gib", "graph_gib_actual"}
    if account.layout.at_length and len(account.layout.groups) > 1:
        found.add("kv_bytes_per_token_gpu_implied")
    return frozenset(found)


def _printed(account: MemoryAccount) -> MemoryAccount:
    """The account as a log of pipeline stages prints it: memory of the first stage, tokens of the binding one."""
    first, tokens = account.first_stage, account.kv_budget_tokens
    return replace(
        account,
        weights_gib_per_gpu=first.weights_gib,
        activation_gib_per_gpu=first.activation_gib,
        graph_gib_per_gpu=first.graph_gib,
        kv_budget_gib_per_gpu=first.budget_gib,
        kv_bytes_per_token_per_gpu=first.budget_gib * GIB / tokens if tokens else account.kv_bytes_per_token_per_gpu,
    )


def _whole(row: Mapping[str, str], name: str) -> int | None:
    """A whole number, None where the row does not state it. Raises Unpredictable for anything else."""
    text = row.get(name) or ""
    if text in UNSET:
        return None
    if not re.fullmatch(r"[0-9]{1,12}(\.0+)?", text):
        raise Unpredictable(f"{name} is {text[:40]!r}, not a whole number")
    return int(float(text))


def _block(row: Mapping[str, str], architecture: Architecture) -> int | None:
    """The block size asked for; a recurrent hybrid's is the engine's own result, not a setting."""
    recurrent = any(layer.attention.state_elements for layer in architecture.layers)
    return None if recurrent else _whole(row, "block_size")


def _kv_dtype(text: str) -> str:
    inside = re.match(r"auto\(([\w-]+)\)", text)
    return inside.group(1) if inside else text


def summary(errors: Sequence[float]) -> dict[str, float]:
    """Count, median and 90th percentile of absolute relative errors, and their signed median."""
    if not errors:
        return {"rows": 0}
    ordered = sorted(abs(error) for error in errors)
    nearest = ordered[min(len(ordered) - 1, max(0, -(-9 * len(ordered) // 10) - 1))]
    return {"rows": len(errors), "median": median(ordered), "p90": nearest, "bias": median(errors)}
