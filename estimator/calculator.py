"""The paper-and-pencil calculators of capacity planning, each coefficient with default, usual range and source.

Belongs here: the closed formulas people check a plan with (2 x parameters x tokens, weights / bandwidth, KV per token).
Does not: what capsheet plans with, which is `estimator.memory`, `estimator.step_time` and the replay. These are bounds
and rules of thumb; every utilisation is an argument, to be replaced by a measured one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimator.hardware import GB

TERA = 1e12


@dataclass(frozen=True, slots=True)
class RuleOfThumb:
    """A coefficient anyone may override: default, usual range and where it comes from."""

    name: str
    default: float
    usual_low: float
    usual_high: float
    source: str


PREFILL_UTILISATION = RuleOfThumb(
    "prefill compute utilisation", 0.40, 0.30, 0.50, "vLLM on H100 with Llama-70B; NVIDIA MLPerf inference reports"
)
DECODE_BANDWIDTH_UTILISATION = RuleOfThumb(
    "decode bandwidth utilisation", 0.50, 0.40, 0.65, "Kwon et al. 2023, arXiv:2309.06180; NVIDIA inference guides"
)
COMMUNICATION_EFFICIENCY = RuleOfThumb(
    "tensor-parallel communication efficiency", 0.90, 0.80, 0.95, "NCCL all-reduce benchmarks, TP 8 over NVLink"
)
PARALLEL_EFFICIENCY = RuleOfThumb(
    "eight-GPU parallel efficiency", 0.80, 0.75, 0.85, "throughput of 1, 2, 4 and 8 GPUs: 100, 95, 87.5 and 75 %"
)
CONCURRENCY_DEGRADATION = RuleOfThumb(
    "concurrency degradation", 1.0, 1.0, 1.5, "no primary source: 1 (none) unless measured on the engine at hand"
)
ACTIVATION_SHARE = RuleOfThumb("activations, share of weights", 0.15, 0.10, 0.20, "rule of thumb of serving engineers")
FRAMEWORK_OVERHEAD_GB = RuleOfThumb("framework overhead per GPU", 3.0, 2.0, 4.0, "rule of thumb of serving engineers")
SAFETY_FACTOR = RuleOfThumb("share of the bound to load-test first", 0.7, 0.6, 0.8, "fragmentation, lengths, bursts")

RULES = (
    PREFILL_UTILISATION,
    DECODE_BANDWIDTH_UTILISATION,
    COMMUNICATION_EFFICIENCY,
    PARALLEL_EFFICIENCY,
    CONCURRENCY_DEGRADATION,
    ACTIVATION_SHARE,
    FRAMEWORK_OVERHEAD_GB,
    SAFETY_FACTOR,
)
"""All of them, for a table of assumptions."""


def weights_gb_per_gpu(parameters: float, bytes_per_parameter: float, gpus: int) -> float:
    """GB of weights a GPU holds under tensor parallelism, evenly divided: 13B in FP16 over 8 GPUs is 3.25."""
    return parameters * bytes_per_parameter / gpus / GB


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, element_bytes: float = 2.0) -> float:
    """Bytes a token's K and V take over all layers and GPUs: 2 x layers x heads x head_dim x bytes."""
    return 2.0 * layers * kv_heads * head_dim * element_bytes


def memory_concurrency(
    gpu_memory_gb: float,
    weights_gb: float,
    kv_gb_per_request_per_gpu: float,
    activation_share: float = ACTIVATION_SHARE.default,
    framework_overhead_gb: float = FRAMEWORK_OVERHEAD_GB.default,
) -> int:
    """K: requests whose KV cache fits beside weights, activations and framework, per GPU figures throughout.

    0 when nothing is left for the cache.
    """
    free_gb = gpu_memory_gb - weights_gb * (1 + activation_share) - framework_overhead_gb
    return max(0, math.floor(free_gb / kv_gb_per_request_per_gpu))


def prefill_flops(parameters: float, tokens: float) -> float:
    """Forward FLOPs of `tokens`, attention's square left out: 2 N a token (Kaplan et al. 2020, arXiv:2001.08361)."""
    return 2.0 * parameters * tokens


def prefill_tokens_per_s(
    parameters: float, peak_tflops_per_gpu: float, gpus: int, utilisation: float = PREFILL_UTILISATION.default
) -> float:
    """Prompt tokens a second at a share of peak FLOPs: 13B on 8 x A100 at 0.8 is about 77,000."""
    return peak_tflops_per_gpu * TERA * gpus * utilisation / prefill_flops(parameters, 1.0)


def prefill_seconds(
    parameters: float,
    tokens: float,
    peak_tflops_per_gpu: float,
    gpus: int,
    utilisation: float = PREFILL_UTILISATION.default,
) -> float:
    """Seconds to prefill `tokens`."""
    return tokens / prefill_tokens_per_s(parameters, peak_tflops_per_gpu, gpus, utilisation)


def weight_read_seconds(weights_gb_on_gpu: float, bandwidth_gbs: float, utilisation: float = 1.0) -> float:
    """Seconds to stream a GPU's weights once: the floor of TPOT at utilisation 1 (7B in FP16 on an H100: 4 ms)."""
    return weights_gb_on_gpu / (bandwidth_gbs * utilisation)


def decode_tokens_per_s(
    weights_gb_on_gpu: float,
    bandwidth_gbs: float,
    gpus: int = 1,
    utilisation: float = DECODE_BANDWIDTH_UTILISATION.default,
    communication_efficiency: float = COMMUNICATION_EFFICIENCY.default,
) -> float:
    """Tokens a second of a cluster whose every GPU reads `weights_gb_on_gpu` a token; communication counts from 2 GPUs.

    As the published calculators have it, linear in the GPUs. `weights_gb_on_gpu` must be the whole model's: with
    weights divided over the GPUs as well, tensor parallelism would be counted twice (throughput growing with N^2).
    """
    efficiency = communication_efficiency if gpus > 1 else 1.0
    return gpus * efficiency / weight_read_seconds(weights_gb_on_gpu, bandwidth_gbs, utilisation)


def sla_concurrency(
    cluster_tokens_per_s: float, tokens_per_s_per_user: float, degradation: float = CONCURRENCY_DEGRADATION.default
) -> int:
    """L: users served at their rate; a degradation above 1 is what concurrency costs."""
    return math.floor(cluster_tokens_per_s / tokens_per_s_per_user / degradation)


def bottleneck(k_requests: int, l_requests: int) -> str:
    """Which bound binds: memory capacity where K <= L, else bandwidth or compute."""
    return "memory capacity" if k_requests <= l_requests else "memory bandwidth / compute"


def published_parallel_efficiency(gpus: int, eight: float = PARALLEL_EFFICIENCY.default) -> float | None:
    """The efficiency published for a number of GPUs; `eight` is that of eight, None for a number nobody published."""
    return {1: 1.0, 2: 0.95, 4: 0.875, 8: eight}.get(gpus)


def parallel_efficiency(throughput: float, single_gpu_throughput: float, gpus: int) -> float:
    """Share of a linear speed-up that `gpus` reach together."""
    return throughput / (gpus * single_gpu_throughput)
