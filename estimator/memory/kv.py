"""Pages of the KV cache: how an engine groups layers, how many blocks a request takes, what it prints.

Belongs here: the layout of one rank's pool. Does not: how large the pool is (`account`).

vLLM's hybrid manager gives every group of layers the same page: layers of a kind are cut into groups of the rarest
kind's count (of the commonest's where they are nearly as many), a smaller page gets longer blocks, and recurrent
layers' states are padded to the attention page. A request of L tokens then takes, in blocks b tokens long,
ceil(L/b) for full layers, ceil(min(window - 1 + batched, L)/b) + 1 for sliding ones, ceil(min(chunk + batched, L)/b)
for chunked ones, and a fixed number for recurrent ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.architecture import Attention, Layer
from estimator.engines import EngineSettings, Known
from estimator.memory import compressed
from estimator.memory.overheads import value

NEARLY_AS_MANY = 1.25
"""Kinds whose counts are within this factor share one group size (vLLM kv_cache_utils)."""
MLA_FP8_BYTES = {576: 656}
"""Sparse MLA's FP8 entry: 512 elements, four float32 scales, 64 rope elements in bf16 (fp8_ds_mla)."""
ALIGN_TOKENS = {"full": 16, "mla": 64}
"""Kernel block an attention page grown to a recurrent state's size is rounded up to."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share a block table: their kind, window, and tokens a block holds (0 for a state)."""

    kind: str
    window_tokens: int
    block_tokens: int


@dataclass(frozen=True, slots=True)
class Layout:
    """One rank's pool: `block_bytes` a block over the layers of a group, and the groups a request needs blocks of."""

    groups: tuple[Group, ...]
    block_bytes: float
    state_blocks: int
    batched_tokens: int
    at_length: bool
    state_bytes_per_sequence: float = 0.0

    @property
    def printed_block_tokens(self) -> int:
        """Tokens of a block as the engine counts them: the shortest of the groups that hold tokens."""
        return min((g.block_tokens for g in self.groups if g.block_tokens), default=1)

    @property
    def bytes_per_token(self) -> float:
        """Bytes of one printed token while every layer keeps it, pages' padding included; 0 without attention."""
        if not any(g.block_tokens for g in self.groups):
            return 0.0
        return self.block_bytes * len(self.groups) / self.printed_block_tokens

    def blocks(self, budget_bytes: float) -> int:
        """Whole blocks a budget holds."""
        return max(0, int(budget_bytes // self.block_bytes)) if self.block_bytes > 0 else 0

    def blocks_per_request(self, length_tokens: int) -> int:
        """Blocks a request of this length takes over all groups."""
        return sum(self._needed(group, length_tokens) for group in self.groups)

    def _needed(self, group: Group, length: int) -> int:
        if not group.block_tokens:
            return self.state_blocks
        if group.kind == "sliding":
            return math.ceil(min(group.window_tokens - 1 + self.batched_tokens, length) / group.block_tokens) + 1
        if group.kind == "chunked":
            return math.ceil(min(group.window_tokens + self.batched_tokens, length) / group.block_tokens)
        return math.ceil(length / group.block_tokens)

    def printed_tokens(self, blocks: int, max_model_len: int) -> int:
        """ "GPU KV cache size" as this version prints it: blocks // groups x block, or concurrency x length."""
        if not any(g.block_tokens for g in self.groups):
            return blocks // max(1, self.state_blocks * len(self.groups)) * max_model_len
        if self.at_length and len(self.groups) > 1:
            return int(blocks / self.blocks_per_request(max_model_len) * max_model_len)
        return blocks // len(self.groups) * self.printed_block_tokens


def token_bytes(attention: Attention, settings: EngineSettings, tp: int) -> float:
    """Bytes one token takes in one layer's cache on one rank.

    GQA heads are sliced over TP, never below one; MLA's latent (no factor 2) and indexers are whole on every rank. A
    compressed layer's window and compressor states are not in it: they do not grow with the context.
    """
    if not attention.kv_elements_per_token:
        return 0.0
    element = settings.kv_element_bytes
    if attention.compressed_rope_dim:
        return compressed.entry_bytes(attention, element) / attention.compress_ratio + attention.index_bytes_per_token
    if attention.kind == "mla" or attention.kv_heads == 0:
        own = attention.kv_elements_per_token * element
        if attention.index_bytes_per_token and element == 1:
            own = MLA_FP8_BYTES.get(attention.kv_elements_per_token, own)
        return own + attention.index_bytes_per_token
    held = max(1, math.ceil(attention.kv_heads / tp))
    return attention.kv_elements_per_token / attention.kv_heads * held * element + attention.index_bytes_per_token


def state_bytes(attention: Attention, element_bytes: float, tp: int) -> float:
    """Bytes of one sequence's state in one recurrent layer on one rank."""
    plain = attention.state_elements - attention.state_fp32_elements
    return (plain * element_bytes + attention.state_fp32_elements * 4.0) / tp


def _kind(attention: Attention) -> tuple[str, int]:
    if attention.kind in {"sliding", "chunked"} and attention.window_tokens:
        return attention.kind, attention.window_tokens
    return ("mla" if attention.kind == "mla" else "full"), 0


def layout(
    layers: Sequence[Layer], settings: EngineSettings, tp: int, activation_bytes: float, known: Mapping[str, Known]
) -> Layout:
    """The pool's layout for the layers of a stage. `activation_bytes` is the size of a 16- or 32-bit element."""
    caching = [layer.attention for layer in layers if layer.attention.kv_elements_per_token]
    recurrent = [layer.attention for layer in layers if layer.attention.state_elements]
    per_token = [token_bytes(attention, settings, tp) for attention in caching]
    states = [state_bytes(attention, activation_bytes, tp) for attention in recurrent]
    kinds = [_kind(attention) for attention in caching]
    state_blocks = int(value(known, "state_blocks", 1.0)) + settings.speculative_tokens
    at_length = value(known, "kv_tokens_at_length") > 0
    in_flight = int(settings.max_num_batched_tokens * value(known, "in_flight_steps", 1.0))
    base = settings.block_tokens

    def made(groups: tuple[Group, ...], block_bytes: float) -> Layout:
        return Layout(groups, block_bytes, state_blocks, in_flight, at_length, sum(states))

    if not caching:
        return made((Group("state", 0, 0),), sum(states))
    if caching[0].compressed_rope_dim:
        return made(*_compressed(caching, settings, known))
    grouped = value(known, "kv_groups") > 0
    if not recurrent and (not grouped or len(set(kinds)) == 1):
        kind, window = kinds[0] if grouped else ("full", 0)
        return made((Group(kind, window, base),), sum(per_token) * base)
    # One page for all: the largest a layer needs for its own block, or for a state.
    sizes = (
        Counter(zip(kinds, per_token, strict=True))
        if grouped
        else Counter({(("full", 0), max(per_token)): len(caching)})
    )
    if recurrent:
        align = ALIGN_TOKENS["mla" if any(kind == "mla" for kind, _ in kinds) else "full"]
        smallest = min(size for _, size in sizes)
        base = max(base, math.ceil(max(states) / smallest / align) * align)
    page = max(size * base for _, size in sizes)
    counts = [*sizes.values(), *([len(recurrent)] if recurrent else [])]
    least, most = min(counts), max(counts)
    group_size = most if most < least * NEARLY_AS_MANY else least
    groups: list[Group] = []
    for ((kind, window), size), count in sizes.items():
        block = max(base, int(page // size) // base * base)
        groups += [Group(kind, window, block)] * math.ceil(count / group_size)
    if recurrent:
        groups += [Group("state", 0, 0)] * math.ceil(len(recurrent) / group_size)
    return made(tuple(groups), page * group_size)


def _compressed(
    caching: Sequence[Attention], settings: EngineSettings, known: Mapping[str, Known]
) -> tuple[tuple[Group, ...], float]:
    """Groups and block bytes of DeepSeek-V4's caches: vLLM's pages, or one pool a token draws on (SGLang)."""
    if "compressed_packing" not in known:
        block = max(settings.block_tokens, compressed.ENTRIES_BLOCK_TOKENS)
        return (Group("full", 0, block),), block * compressed.pooled_bytes_per_token(caching, settings, known)
    paged = compressed.caches(caching, settings, drafts=min(settings.speculative_tokens, 1))
    groups, block_bytes = compressed.grouped(paged, int(known["compressed_packing"].value))
    kinds = (Group("sliding" if g.window_tokens else "full", g.window_tokens, g.block_tokens) for g in groups)
    return tuple(kinds), block_bytes
