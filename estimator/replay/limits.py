"""What an engine may hold and schedule: the flags and the KV pool that bound a step."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.engines import EngineSettings


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Limits of one engine (replica), as vLLM names them. `kv_blocks` is its whole pool, `block_tokens` tokens a block.

    `long_prefill_threshold` is the most prompt tokens of one request in a step; 0 sets no such limit. With
    `priority_scheduling` the queue and the choice of whom to preempt go by priority, then arrival. `max_waiting`
    (longest queue) and `max_outstanding` (queue and running) turn away what exceeds them; 0 sets no such limit.
    With `exclusive_prefill` prompts are computed in steps of their own and decodes wait (SGLang's default): the token
    budget is the prompts' alone. With an `output_reserve` a request waits until there is room for its whole answer too,
    beside that share of what the running ones have still to generate (SGLang's new_token_ratio; 4,096 tokens of an
    answer count at most); an engine with nothing to run takes it regardless.
    Raises ValueError for limits no engine starts with.
    """

    kv_blocks: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    block_tokens: int = 16
    chunked_prefill: bool = True
    prefix_caching: bool = True
    long_prefill_threshold: int = 0
    priority_scheduling: bool = False
    max_waiting: int = 0
    max_outstanding: int = 0
    exclusive_prefill: bool = False
    output_reserve: float = 0.0

    def __post_init__(self) -> None:
        """Check what vLLM checks at start-up (`SchedulerConfig`, 0.11)."""
        for name in ("kv_blocks", "max_num_seqs", "max_num_batched_tokens", "max_model_len", "block_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("long_prefill_threshold", "max_waiting", "max_outstanding"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: it must be 0 (none) or more")
        if not 0.0 <= self.output_reserve <= 1.0:
            raise ValueError(f"output_reserve is {self.output_reserve}: it must be a share, from 0 (none) to 1")
        if self.max_num_batched_tokens < self.max_num_seqs and not self.exclusive_prefill:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs ({self.max_num_seqs}): "
                "every running request needs a token a step"
            )
        if not self.chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ValueError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_model_len "
                f"({self.max_model_len}): without chunked prefill a prompt must fit in one step"
            )

    @classmethod
    def of(cls, settings: EngineSettings, kv_blocks: int, *, prefix_caching: bool = True) -> EngineLimits:
        """The limits of an engine that runs with `settings`; without `prefix_caching` every prompt is new to it."""
        return cls(
            kv_blocks=kv_blocks,
            block_tokens=settings.block_tokens,
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            max_model_len=settings.max_model_len,
            chunked_prefill=settings.chunked_prefill,
            prefix_caching=settings.prefix_caching and prefix_caching,
            exclusive_prefill=settings.exclusive_prefill,
            output_reserve=settings.output_reserve,
        )

    @property
    def kv_tokens(self) -> int:
        """Tokens the pool holds."""
        return self.kv_blocks * self.block_tokens
