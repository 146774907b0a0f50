"""Prefix hits: one pass against a cache played block by block, and against what Mooncake's authors published."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.prefixes import Reuse, reuse, tier_hits

BLOCK = 16


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[int, list[int]]]:
    """Requests as (input tokens, block ids); ids are chained, so a request is a walk down a tree of prefixes."""
    requests = []
    for _ in range(draw(st.integers(1, 25))):
        path = draw(st.lists(st.integers(0, 2), min_size=0, max_size=5))
        ids = [int("1" + "".join(map(str, path[: depth + 1])), 3) for depth in range(len(path))]
        short = draw(st.integers(0, BLOCK - 1)) if ids else 0
        requests.append((len(ids) * BLOCK - short or 1, ids))
    return requests


def of(requests: list[tuple[int, list[int]]]) -> Reuse:
    offsets = np.concatenate(([0], np.cumsum([len(ids) for _, ids in requests])))
    ids = np.array([i for _, chain in requests for i in chain], dtype=np.int64)
    return reuse(np.array([isl for isl, _ in requests]), offsets, ids, BLOCK)


def played(requests: list[tuple[int, list[int]]], capacity_blocks: int) -> int:
    """A cache that evicts the least recently used block; a chain's end is let go of before its beginning."""
    cache: OrderedDict[int, None] = OrderedDict()
    hit = 0
    for isl, chain in requests:
        for place, block in enumerate(chain):
            if block not in cache:
                break
            hit += min(BLOCK, isl - place * BLOCK)
        for block in reversed(chain):
            cache[block] = None
            cache.move_to_end(block)
            while len(cache) > capacity_blocks:
                cache.popitem(last=False)
    return hit


@settings(deadline=None)  # the first call compiles
@given(chains(), st.integers(1, 12))
def test_every_size_finds_what_a_cache_of_that_size_would(requests: list[tuple[int, list[int]]], blocks: int) -> None:
    assert of(requests).hit_tokens(blocks * BLOCK) == played(requests, blocks)
    assert of(requests).hit_tokens(float("inf")) == played(requests, 10_000)


@settings(deadline=None)
@given(chains())
def test_a_larger_tier_only_adds(requests: list[tuple[int, list[int]]]) -> None:
    found = of(requests)
    rows = tier_hits(found, [float("inf"), 2 * BLOCK, 5 * BLOCK])
    hits = [hit for _, hit, _ in rows]
    assert hits == sorted(hits) and all(added >= 0 for *_, added in rows)
    assert sum(added for *_, added in rows) == hits[-1] <= sum(isl for isl, _ in requests)
    assert found.hit_tokens(found.working_set_tokens) == hits[-1], "what holds all blocks misses nothing"


def test_mooncakes_conversation_trace_has_the_hits_its_blocks_show(shared: Path) -> None:
    """36.6 % of its blocks and 37.4 % of its tokens, counted over the published trace with an endless cache."""
    lines = (shared / "data" / "traces" / "mooncake_conversation.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    isl = np.array([row["input_length"] for row in rows])
    offsets = np.concatenate(([0], np.cumsum([len(row["hash_ids"]) for row in rows])))
    found = reuse(isl, offsets, np.array([i for row in rows for i in row["hash_ids"]]), 512)
    assert found.hit_tokens(float("inf")) / isl.sum() == pytest.approx(0.374, abs=0.0005)
    assert (found.distance < found.working_set_blocks).mean() == pytest.approx(0.366, abs=0.0005)
