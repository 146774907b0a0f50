"""The cache of DeepSeek-V4's compressed attention, as vLLM pages it and as SGLang pools it.

Belongs here: entries, states, pages and groups of CSA (one entry for 4 tokens, read through an indexer), HCA (one for
128) and the raw window every layer keeps. Does not: other attention (`kv`), how large the pool is (`account`).

An entry holds the dimensions without rotation in FP8, those with it in 16 bits, a scale for 64 and one byte of
padding: 448 + 2 x 64 + 8 = 584 B. An indexer's entry is one FP8 key and a float32 scale, 132 B. A compressor keeps
float32 key and score of the tokens it has not folded yet: 2 x 2 x 512 x 4 B a token of CSA (its windows overlap) and
2 x 512 x 4 B of HCA.

vLLM gives every layer several caches. Pages are rounded up to 576 B; a request of L tokens takes ceil(L / 256) blocks
of entries, and of the window (128 tokens in blocks of 64), the CSA states (8 in blocks of 4) and the HCA states (128
in blocks of 8) as a sliding window does: ceil(min(window - 1 + in flight, L) / block) + 1. At 8,192 tokens in flight
that is 3,354 blocks whatever the length: GiB / printed tokens is no rate. What a block holds changed twice:

    0  one slot for every page size and tuple of layers    vLLM to 0.22   V4-Flash 1,051,776 B
    1  slots of a size as many as a group needs of it      vLLM 0.23      V4-Flash 1,039,680 B, V4-Pro 1,473,408 B
    2  groups overlaid, each dense from the block's start  vLLM 0.27      V4-Flash 1,002,240 B, V4-Pro 1,315,008 B

Sources: vLLM kv_cache_utils, models/deepseek_v4 and its pull requests 44454 (+1.16 % tokens), 48993 (both strides of
V4-Pro) and 52495 (stride and blocks of a start-up); 44376 states 6.66 GiB for 30,000 tokens. SGLang pool_configurator,
whose log states 9,259.90 B a token for V4-Flash with drafts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from estimator.architecture import Attention
from estimator.engines import EngineSettings, Known
from estimator.memory.overheads import value

ENTRIES_BLOCK_TOKENS = 256
"""Raw tokens a block of entries stands for: engines set it themselves (DEEPSEEK_SPARSE_SWA)."""
WINDOW_BLOCK_TOKENS = 64
ALIGN_BYTES = 576
"""FP8 pages are rounded up to this; 16-bit ones to 512."""
STATES = {4: (2, 4), 128: (1, 8)}
"""Ratio -> (windows a compressor overlaps, tokens a block of its states holds)."""
STATE_RING = {4: 8, 128: 128}
"""SGLang: rows of a compressor's ring, twice as many with drafts."""


@dataclass(frozen=True, slots=True)
class Paged:
    """Caches that share a block table: name, window (0: all tokens), tokens a block holds, pages (size -> layers)."""

    name: str
    window_tokens: int
    block_tokens: int
    pages: Mapping[int, int]

    @property
    def layers(self) -> int:
        """Layers of the commonest page size: the tuples of layers this makes."""
        return max(self.pages.values())


def entry_bytes(attention: Attention, element_bytes: float) -> float:
    """Bytes of one entry of a layer: mixed at one byte an element, plain otherwise."""
    dim, rope = attention.head_dim, attention.compressed_rope_dim
    return float(dim - rope + 2 * rope + (dim - rope) // 64 + 1) if element_bytes <= 1 else dim * element_bytes


def index_entry_bytes(attention: Attention) -> int:
    """Bytes of one entry of a layer's indexer; 0 without."""
    return attention.index_bytes_per_token * attention.compress_ratio


def caches(attentions: Sequence[Attention], settings: EngineSettings, drafts: int = 0) -> list[Paged]:
    """vLLM's block tables of a stage's layers, entries first. `drafts` adds window-only draft layers."""
    block = max(settings.block_tokens, ENTRIES_BLOCK_TOKENS) // 128 * 128
    mixed = settings.kv_element_bytes <= 1
    align = ALIGN_BYTES if mixed else 512

    def page(size: float, *, state: bool = False) -> int:
        step = 1 if state and not mixed else align
        return math.ceil(size / step) * step

    one = attentions[0]
    entry = entry_bytes(one, settings.kv_element_bytes)
    ratios = Counter(a.compress_ratio for a in attentions if a.compress_ratio > 1)
    entries: Counter[int] = Counter()
    for a in attentions:
        if a.compress_ratio > 1:
            entries[page(entry * (block // a.compress_ratio))] += 1
        if a.compressed_index_dim:
            entries[page(index_entry_bytes(a) * (block // a.compress_ratio))] += 1
    found = [Paged("entries", 0, block, entries)] if entries else []
    window = one.window_tokens or 128
    found.append(
        Paged("window", window, WINDOW_BLOCK_TOKENS, {page(entry * WINDOW_BLOCK_TOKENS): len(attentions) + drafts})
    )
    for ratio, layers in sorted(ratios.items()):
        overlap, tokens = STATES[ratio]
        pages: Counter[int] = Counter()
        pages[page(tokens * 2 * overlap * one.head_dim * 4, state=True)] += layers
        index = max(a.compressed_index_dim for a in attentions if a.compress_ratio == ratio)
        if index:
            pages[page(tokens * 2 * overlap * index * 4, state=True)] += layers
        found.append(Paged(f"states of {ratio}", overlap * ratio, tokens, pages))
    return found


def grouped(found: Sequence[Paged], packing: int) -> tuple[list[Paged], float]:
    """The groups caches are cut into, and the bytes of a block over all of them, by a way of packing."""
    size = _group_size([cache.layers for cache in found], found[0].layers)
    groups = [found[0]] if not found[0].window_tokens else []
    for cache in found[len(groups) :]:
        parts = math.ceil(cache.layers / size)
        for part in range(parts):
            share = {page: len(range(part, layers, parts)) for page, layers in cache.pages.items()}
            groups.append(Paged(cache.name, cache.window_tokens, cache.block_tokens, share))
    if packing >= 2:
        return groups, float(max(sum(page * layers for page, layers in group.pages.items()) for group in groups))
    slots = sorted(groups[0].pages)
    needed: Counter[int] = Counter()
    for group in groups:
        held: Counter[int] = Counter()
        for page, layers in group.pages.items():
            held[min((slot for slot in slots if slot >= page), default=page)] += layers
        for slot, layers in held.items():
            needed[slot] = max(needed[slot], layers)
    if packing == 1:
        return groups, float(sum(slot * layers for slot, layers in needed.items()))
    return groups, float(sum(slots) * max(needed.values()))


def _group_size(layers: Sequence[int], at_least: int) -> int:
    """Layers of a group: the size from `at_least` on that needs least padding, the largest of equals."""
    return min(range(at_least, max(layers) + 1), key=lambda size: (sum(-n % size for n in layers), -size))


def pooled_bytes_per_token(
    attentions: Sequence[Attention], settings: EngineSettings, known: Mapping[str, Known]
) -> float:
    """SGLang: bytes all its pools spend for each token of context, the window's pool at its share of the tokens.

    With drafts the rings double and one layer's share more is set aside. Before the HCA states were counted by
    request (`pooled_state_bytes`) they too grew with the tokens.
    """
    one = attentions[0]
    entry = entry_bytes(one, settings.kv_element_bytes)
    share = value(known, "compressed_window_share")
    rings = 2 if settings.speculative_tokens else 1
    total = 0.0
    for a in attentions:
        total += share * entry
        if a.compress_ratio == 1:
            continue
        total += (entry + index_entry_bytes(a)) / a.compress_ratio
        if a.compress_ratio == 128 and value(known, "compressed_states_by_request") > 0:
            continue
        overlap, _ = STATES[a.compress_ratio]
        rows = share * STATE_RING[a.compress_ratio] * rings / (a.window_tokens or 128)
        total += rows * 2 * overlap * (a.head_dim + a.compressed_index_dim) * 4
    return total * (1 + 1 / len(attentions)) if settings.speculative_tokens else total


def pooled_state_bytes(attentions: Sequence[Attention], settings: EngineSettings, known: Mapping[str, Known]) -> float:
    """SGLang: bytes of the HCA states of `max_num_seqs` requests, a ring each and two to spare."""
    if value(known, "compressed_states_by_request") <= 0:
        return 0.0
    rings = 2 if settings.speculative_tokens else 1
    rows = (settings.max_num_seqs + 2) * STATE_RING[128] * rings + 1
    held = sum(2 * a.head_dim * 4 for a in attentions if a.compress_ratio == 128)
    return float(math.ceil(rows / 128) * 128 * held)
