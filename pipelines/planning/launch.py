"""How to start what was sized.

Belongs here: the launch command of each engine at its version, quoted for a shell. Does not: whether it fits, notes on
what the engine and the card make of the model (`compatibility`).
"""

from __future__ import annotations

import shlex
from pathlib import Path

from estimator.engines import KV_NAMES
from estimator.versions import before, version_key
from pipelines.planning.sizing import Sized

VLLM_SERVE = (0, 5, 3)
"""From here on vLLM's documentation starts a server with `vllm serve`; before, with its module."""
PYTORCH_DEFAULT = (1, 0)
"""Before, trtllm-serve takes the C++ path, which wants a built engine, unless told `--backend pytorch`."""
UNNAMED = "MODEL"
"""What stands for the model where a config file's name tells none."""
_MODELSCOPE = {"vllm": "VLLM_USE_MODELSCOPE=True", "sglang": "SGLANG_USE_MODELSCOPE=true"}
NO_BF16 = {"Turing", "Volta"}
"""Generations below compute capability 8.0."""


def launch_command(sized: Sized, generation: str = "") -> str:
    """The command that starts one replica, one option a line; every word from outside is quoted.

    `generation` is the accelerator's, such as Hopper.
    """
    words = {"sglang": _sglang, "tensorrt-llm": _tensorrt}.get(sized.engine, _vllm)(sized)
    if sized.read.model_id.startswith("modelscope:") and sized.engine in _MODELSCOPE:
        words[0].insert(0, _MODELSCOPE[sized.engine])
    revision = sized.ask.model.rpartition("@")[2] if sized.read.revision != "local" and "@" in sized.ask.model else ""
    if revision and sized.engine != "tensorrt-llm":
        words.append(["--revision", revision])
    if half_precision(sized, generation) and sized.engine != "tensorrt-llm":
        words.append(["--dtype", "half"])
    lines = [" ".join(shlex.quote(word) for word in line) for line in words]
    return " \\\n  ".join(lines)


def model_argument(sized: Sized) -> str:
    """What the engine is given: hub id, folder of a local config, the id a file is named after, or UNNAMED."""
    if sized.read.revision != "local":
        return sized.read.model_id.removeprefix("modelscope:")
    path = Path(sized.ask.model).expanduser()
    if path.suffix == ".json" and path.name != "config.json":
        named = path.name.split(".json")[0].replace("--", "/", 1)
        return named if "--" in path.name else UNNAMED
    text = str(path.parent if path.suffix == ".json" else path)
    return text if text.startswith(("/", ".")) else f"./{text}"


def _share(sized: Sized) -> str:
    assert sized.account is not None
    return f"{next(term.value for term in sized.account.terms if term.term == 'utilization'):g}"


def remote_code(sized: Sized) -> bool:
    """Whether the checkpoint brings code of its own; an engine then runs it only when told to trust it."""
    return bool(sized.read.config.get("auto_map"))


def shares_experts(sized: Sized) -> bool:
    """Whether data-parallel attention ranks share one set of experts."""
    return sized.ask.dp > 1 and any(layer.feed_forward.experts for layer in sized.architecture.layers)


def runtime_precision(sized: Sized) -> str | None:
    """The precision the engine must be told to make at load; None where the checkpoint already is in it."""
    asked = sized.ask.quantization.lower()
    name = sized.weights.precision
    if asked == "auto" or sized.weights.scheme == sized.architecture.scheme:
        return None
    return name


def kv_dtype(sized: Sized) -> str | None:
    """The cache's type as the engine must be told it; None where it would choose the same by itself."""
    asked = (sized.ask.kv_cache_dtype or "auto").lower()
    whole = KV_NAMES.get(asked, asked)
    own = sized.architecture.scheme.kv_cache_dtype or sized.architecture.dtype
    if asked == "auto" or whole == own:
        return None
    return whole if whole in {"bfloat16", "float16", "float32"} else asked


def half_precision(sized: Sized, generation: str) -> bool:
    """Whether the card cannot compute in the checkpoint's bfloat16, so that the engine is told to use float16."""
    return generation in NO_BF16 and sized.architecture.dtype == "bfloat16"


def _earlier(sized: Sized, version: tuple[int, ...]) -> bool:
    return before(version_key(sized.version), version)


def _vllm(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    old = _earlier(sized, VLLM_SERVE)
    start = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model"] if old else ["vllm", "serve"]
    lines = [[*start, model_argument(sized)], ["--tensor-parallel-size", str(ask.tp)]]
    lines += [["--pipeline-parallel-size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--data-parallel-size", str(ask.dp)]] if ask.dp > 1 else []
    lines += [["--enable-expert-parallel"]] if ask.ep > 1 else []
    lines += [
        ["--max-model-len", str(settings.max_model_len)],
        ["--gpu-memory-utilization", _share(sized)],
        ["--max-num-seqs", str(settings.max_num_seqs)],
        ["--max-num-batched-tokens", str(settings.max_num_batched_tokens)],
    ]
    kv, precision = kv_dtype(sized), runtime_precision(sized)
    lines += [["--kv-cache-dtype", kv]] if kv else []
    lines += [["--quantization", "fp8"]] if precision == "fp8" else []
    return lines + ([["--trust-remote-code"]] if remote_code(sized) else [])


def _sglang(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    shared = shares_experts(sized)  # SGLang counts data-parallel attention ranks among the tensor-parallel ones
    ranks = ask.tp * (ask.dp if shared else 1)
    lines = [
        ["python", "-m", "sglang.launch_server"],
        ["--model-path", model_argument(sized)],
        ["--tp-size", str(ranks)],
    ]
    lines += [["--pp-size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--dp-size", str(ask.dp)]] if ask.dp > 1 else []
    lines += [["--enable-dp-attention"]] if shared else []
    lines += [["--ep-size", str(ask.ep)]] if ask.ep > 1 else []
    lines += [
        ["--context-length", str(settings.max_model_len)],
        ["--mem-fraction-static", _share(sized)],
        ["--max-running-requests", str(settings.max_num_seqs)],
        ["--chunked-prefill-size", str(settings.max_num_batched_tokens)],
    ]
    lines += [] if settings.exclusive_prefill else [["--enable-mixed-chunk"]]
    kv, precision = kv_dtype(sized), runtime_precision(sized)
    kv = {"fp8": "fp8_e4m3", "bfloat16": "bf16"}.get(kv or "", kv)
    lines += [["--kv-cache-dtype", kv]] if kv else []
    runtime = {"fp8": "fp8", "int8": "w8a8_int8"}.get(precision or "")
    lines += [["--quantization", runtime]] if runtime else []
    return lines + ([["--trust-remote-code"]] if remote_code(sized) else [])


def _tensorrt(sized: Sized) -> list[list[str]]:
    ask, settings = sized.ask, sized.settings
    ranks = ask.tp * (ask.dp if shares_experts(sized) else 1)
    lines = [["trtllm-serve", model_argument(sized)], ["--tp_size", str(ranks)]]
    lines += [["--backend", "pytorch"]] if _earlier(sized, PYTORCH_DEFAULT) else []
    lines += [["--pp_size", str(ask.pp)]] if ask.pp > 1 else []
    lines += [["--ep_size", str(ask.ep)]] if ask.ep > 1 else []
    lines += [
        ["--max_seq_len", str(settings.max_model_len)],
        ["--max_batch_size", str(settings.max_num_seqs)],
        ["--max_num_tokens", str(settings.max_num_batched_tokens)],
        ["--kv_cache_free_gpu_memory_fraction", _share(sized)],
    ]
    return lines + ([["--trust_remote_code"]] if remote_code(sized) else [])
