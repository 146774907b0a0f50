"""One configuration of a serving benchmark: what was served, on what, and how it was driven.

Belongs here: the configuration alone. Does not: what was measured, or how a file spells it.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.architecture import Architecture
from estimator.hardware import Accelerator
from estimator.step_time import CLOSED, OPEN
from estimator.weights import Weights

MOST_WAIT_STEPS = 1000
"""No engine lets a request wait longer on purpose."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How one pool of equal workers lies over its GPUs.

    `tp` divides attention; `dp` is the number of attention replicas inside one worker (DP attention), so a worker has
    tp x dp x pp GPUs; experts are cut in `ep` groups of the tp x dp ranks. `batch` is the most sequences a worker runs
    at once where it is stated.
    """

    tp: int
    dp: int = 1
    ep: int = 1
    pp: int = 1
    workers: int = 1
    batch: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a layout that cannot be."""
        if min(self.tp, self.dp, self.ep, self.pp, self.workers) < 1 or (self.batch is not None and self.batch < 1):
            raise ValueError(f"{self}: every size must be at least 1")
        if (self.tp * self.dp) % self.ep:
            raise ValueError(f"{self}: expert parallel {self.ep} must divide tp x dp = {self.tp * self.dp}")

    @property
    def gpus(self) -> int:
        """GPUs of one worker."""
        return self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True)
class Protocol:
    """How a benchmark drives its server.

    Closed loop: `concurrency` clients start at once and send `prompts_per_client` each. Open loop: `rate_rps`, evenly
    spaced. Lengths are drawn evenly from [`shortest_ratio`, 1] of nominal. `shared_prefix_tokens` of each prompt are
    the same in all. Just one of `concurrency` and `rate_rps` is given.
    """

    concurrency: float | None = None
    rate_rps: float | None = None
    prompts_per_client: float = 10.0
    shortest_ratio: float = 1.0
    shared_prefix_tokens: float = 0.0
    requests: int | None = None

    @property
    def load(self) -> str:
        """The kind of load, as coefficients tell them apart."""
        return OPEN if self.concurrency is None else CLOSED

    def __post_init__(self) -> None:
        """Raise ValueError for a load that is none."""
        if (self.concurrency is None) == (self.rate_rps is None):
            raise ValueError("give a concurrency (closed loop) or a rate (open loop), not both")
        if not (self.concurrency or self.rate_rps or 0) > 0:
            raise ValueError(f"{self}: concurrency or rate must be above 0")
        if not 0 < self.shortest_ratio <= 1 or not self.prompts_per_client >= 1:
            raise ValueError(f"{self}: shortest_ratio is from 0 to 1, prompts_per_client at least 1")


@dataclass(frozen=True, slots=True)
class ServingCase:
    """A benchmark's whole configuration. Lengths are nominal tokens.

    `prefill` is the pool that prefills when prefill and decode are separated (then `layout` is the decode pool), None
    when one engine does both. `precision` is the key of the coefficients (bf16, fp8, fp4, int4).
    """

    architecture: Architecture
    weights: Weights
    accelerator: Accelerator
    engine: str
    engine_version: str
    precision: str
    layout: Layout
    protocol: Protocol
    isl_tokens: float
    osl_tokens: float
    max_num_batched_tokens: int
    max_num_seqs: int
    prefill: Layout | None = None
    kv_cache_bytes: float = 2.0
    admission_wait_steps: float = 0.0
    """Decode steps a request waits on average before the engine looks at it: half of SGLang's receive interval,
    TensorRT-LLM's batch wait; 0 where the engine looks every step."""
    exclusive_prefill: bool = False
    """Whether prompts are computed in steps of their own while decodes wait, as the engine schedules."""
    kv_tokens: float | None = None
    """Tokens the KV cache of one worker of `layout` holds in requests of this length, all its attention ranks together;
    None where the memory account does not say."""

    def __post_init__(self) -> None:
        """Raise ValueError for lengths or limits no engine runs."""
        if not self.isl_tokens >= 1 or not self.osl_tokens >= 1:
            raise ValueError(f"lengths {self.isl_tokens:g} in, {self.osl_tokens:g} out: at least 1 token each")
        if not 0 <= self.admission_wait_steps <= MOST_WAIT_STEPS:
            raise ValueError(f"admission_wait_steps {self.admission_wait_steps:g}: from 0 to {MOST_WAIT_STEPS}")
        if self.max_num_batched_tokens < 1 or self.max_num_seqs < 1:
            raise ValueError("max_num_batched_tokens and max_num_seqs must both be at least 1")
