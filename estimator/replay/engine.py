"""An engine steps as vLLM V1 does: schedule, run, complete.

Belongs here: the rules of the scheduler. Does not: a request's own moves (`transitions`), KV blocks (`blocks`),
containers (`queues`), which engine a request goes to (`kernel`), or how long a step takes (`estimator.step_time`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from estimator.replay.blocks import blocks_for, find, free_blocks, hold, publish, take
from estimator.replay.queues import gap_bin, heap_pop, heap_request, heap_step, run_append, stall_push, wait_pop
from estimator.replay.state import (
    BY_BLOCKS,
    BY_PREEMPTION,
    BY_SEQUENCES,
    BY_TOKENS,
    CROSS,
    FINISH,
    PREFILL,
    UNLIMITED,
    USAGE_BINS,
    Fleet,
)
from estimator.replay.transitions import finish, is_current, next_finish, preempt, start_decode, stop_decode
from estimator.step_time import step_seconds

Step = NDArray[np.float64]


@njit()
def _account(f: Fleet, g: Any, start_s: float, step_s: float) -> None:
    """Add a step that starts now to the fleet's figures."""
    rules = f.rules[0]
    if rules.from_s <= start_s < rules.to_s:
        g.busy_s += step_s
        g.running_s += step_s * g.running
        used = rules.kv_blocks - g.empty - g.idle
        f.totals[0].usage_s[math.ceil(used * (USAGE_BINS / rules.kv_blocks) - 1e-9)] += step_s
        f.totals[0].waits_s[g.limit] += step_s


@njit()
def _tokens_advance(f: Fleet, e: int, counts: bool) -> None:
    """Every decoding request has one token more."""
    g = f.engines[e]
    if g.decoding > 0:
        g.kv_full += g.decoding
        g.kv_window += g.below_window
        if counts:
            f.totals[0].gaps[gap_bin(g.step_s)] += g.decoding
        stall_push(g, g.steps, g.step_s)
    prefill_tokens = 0
    for j in range(g.prefills):
        prefill_tokens += f.requests[f.prefills[e, j]].computed + f.requests[f.prefills[e, j]].chunk
    g.tokens_max = max(g.tokens_max, g.kv_full + prefill_tokens)


@njit()
def _prompt_advances(f: Fleet, e: int, r: int, counts: bool) -> bool:
    """Request `r` has computed its chunk, and sampled a token if that was the last. Returns whether it was."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    before = min(q.computed // rules.block_tokens, q.hashed)
    q.computed += q.chunk
    after = min(q.computed // rules.block_tokens, q.hashed)
    if rules.caching and after > before:
        publish(f, e, r, before, after)
        g.shut = 0
    if q.computed < q.isl + q.generated:
        return False
    if q.generated == 0:
        q.first_s = g.end_s
    else:
        # It was preempted after its first token: its client has waited since the last one.
        gap_s = g.end_s - q.last_s
        q.stall_s = max(q.stall_s, gap_s)
        if counts:
            f.totals[0].gaps[gap_bin(gap_s)] += 1
    q.generated += 1
    return True


@njit()
def _complete(f: Fleet, e: int) -> int:
    """The step in flight ends: tokens appear, requests end, full blocks become hashable. Returns how many ended."""
    g = f.engines[e]
    g.steps += 1
    counts = f.rules[0].from_s <= g.start_s < f.rules[0].to_s
    _tokens_advance(f, e, counts)
    ended = 0
    heap = f.heaps[e, CROSS]
    while g.crossings > 0 and heap_step(heap[0]) <= g.steps:
        if is_current(f, e, CROSS, heap[0]):
            g.below_window -= 1
        g.crossings = heap_pop(heap, g.crossings)
    heap = f.heaps[e, FINISH]
    while g.finishes > 0 and heap_step(heap[0]) <= g.steps:
        if is_current(f, e, FINISH, heap[0]):
            r = heap_request(heap[0])
            stop_decode(f, e, r)
            finish(f, e, r)
            ended += 1
        g.finishes = heap_pop(heap, g.finishes)
    kept = 0
    for j in range(g.prefills):
        r = f.prefills[e, j]
        if not _prompt_advances(f, e, r, counts):
            f.prefills[e, kept] = r
            kept += 1
        elif f.requests[r].generated == f.requests[r].osl:
            finish(f, e, r)
            ended += 1
        else:
            start_decode(f, e, r)
    g.prefills = kept
    return ended


@njit()
def _admit(f: Fleet, e: int, now_s: float, budget: int) -> None:
    """Requests move from the queue to the running list while budget, sequences and blocks last; no look-past."""
    rules = f.rules[0]
    g = f.engines[e]
    g.limit = UNLIMITED
    while g.waiting > 0:
        if g.running >= rules.max_num_seqs:
            g.limit = BY_SEQUENCES
            return
        if g.shut:
            g.limit = BY_BLOCKS
            return
        if budget <= 0:
            g.limit = BY_TOKENS
            return
        r = g.wait_head
        q = f.requests[r]
        known = q.isl + q.generated
        hits = 0
        idle = 0
        if rules.caching:
            # The last token is always computed: it is what the next one is sampled from.
            hits, idle = find(f, e, r, (known - 1) // rules.block_tokens)
        computed = hits * rules.block_tokens
        chunk = min(known - computed, rules.long_prefill_threshold)
        if chunk > budget:
            if not rules.chunked:
                g.limit = BY_TOKENS
                return
            chunk = budget
        if blocks_for(known, rules.block_tokens) - hits + idle > free_blocks(g):
            g.limit = BY_BLOCKS
            g.shut = 1
            return
        wait_pop(g, f.requests)
        if rules.caching:
            hold(f, e, r, hits)
        take(f, e, blocks_for(computed + chunk, rules.block_tokens) - hits)
        if math.isnan(q.admitted_s):
            q.admitted_s = now_s
            q.cached = computed
        q.computed = computed
        q.chunk = chunk
        q.place = PREFILL
        run_append(g, f.requests, r)
        f.prefills[e, g.prefills] = r
        g.prefills += 1
        budget -= chunk


@njit()
def _schedule(f: Fleet, e: int, p: Step, now_s: float) -> None:
    """Start a step: running requests first, then the queue.

    Every decoding request gets its token before prompts share what is left of the budget. Without a long-prefill
    threshold that is the order of the running list, since only its tail can be half-way through a prompt.
    """
    rules = f.rules[0]
    g = f.engines[e]
    budget = rules.max_num_batched_tokens - g.decoding
    phase = g.steps % rules.block_tokens
    needed = f.phases[e, phase]
    for j in range(g.prefills):
        q = f.requests[f.prefills[e, j]]
        q.chunk = min(q.isl + q.generated - q.computed, rules.long_prefill_threshold, budget)
        budget -= q.chunk
        needed += blocks_for(q.computed + q.chunk, rules.block_tokens) - blocks_for(q.computed, rules.block_tokens)
    preempted = False
    while needed > free_blocks(g):
        # From the tail: each victim takes its own need away and gives its blocks back.
        q = f.requests[g.tail]
        if q.place == PREFILL:
            needed -= blocks_for(q.computed + q.chunk, rules.block_tokens) - blocks_for(q.computed, rules.block_tokens)
            budget += q.chunk
        else:
            if q.base % rules.block_tokens == phase:
                needed -= 1
            budget += 1
        preempt(f, e, now_s)
        g.preemptions += 1
        preempted = True
    take(f, e, needed)
    if preempted and g.running > 0:
        g.limit = BY_PREEMPTION
    else:
        _admit(f, e, now_s, budget)
    tokens = g.decoding
    sequences = g.decoding
    pairs = 0.0
    for j in range(g.prefills):
        q = f.requests[f.prefills[e, j]]
        if q.chunk > 0:
            tokens += q.chunk
            sequences += 1
            pairs += float(q.chunk) * (q.computed + 0.5 * q.chunk)
    g.step_s = step_seconds(
        p,
        float(tokens),
        float(sequences),
        float(g.kv_full),
        float(g.kv_window),
        pairs,
        float(tokens - g.decoding),
    )
    g.start_s = now_s
    g.end_s = now_s + g.step_s
    _account(f, g, now_s, g.step_s)


@njit()
def _fast_forward(f: Fleet, e: int, p: Step, until_s: float) -> bool:
    """Take decode steps in which nothing else can happen, while they end before `until_s`. Exact: the same times.

    Nothing can: no prompt is in work, the head of the queue cannot move, no request ends or crosses the window with
    these steps, and blocks suffice. Returns whether a step is in flight; if not, `end_s` is when the next may start.
    """
    rules = f.rules[0]
    g = f.engines[e]
    last = next_finish(f, e)
    if g.crossings > 0:
        last = min(last, heap_step(f.heaps[e, CROSS, 0]))
    g.limit = UNLIMITED
    if g.waiting > 0:
        g.limit = BY_SEQUENCES if g.running >= rules.max_num_seqs else BY_BLOCKS
    now_s = g.end_s
    longest_s = 0.0
    flying = False
    decoding = float(g.decoding)
    while g.steps + 1 < last:
        needed = f.phases[e, g.steps % rules.block_tokens]
        if needed > free_blocks(g):
            break
        take(f, e, needed)
        step_s = step_seconds(p, decoding, decoding, float(g.kv_full), float(g.kv_window), 0.0, 0.0)
        _account(f, g, now_s, step_s)
        if now_s + step_s >= until_s:
            g.start_s = now_s
            g.step_s = step_s
            flying = True
            now_s += step_s
            break
        g.steps += 1
        g.kv_full += g.decoding
        g.kv_window += g.below_window
        if rules.from_s <= now_s < rules.to_s:
            f.totals[0].gaps[gap_bin(step_s)] += g.decoding
        longest_s = max(longest_s, step_s)
        now_s += step_s
    g.end_s = now_s
    g.tokens_max = max(g.tokens_max, g.kv_full)
    if longest_s > 0.0:
        stall_push(g, g.steps, longest_s)
    return flying


@njit()
def advance(f: Fleet, e: int, p: Step, until_s: float) -> int:
    """Run engine `e` until its step in flight ends at `until_s` or later. Returns how many requests ended.

    In a closed loop it returns after the first step with which a request ended, before the next step starts.
    """
    rules = f.rules[0]
    g = f.engines[e]
    while g.end_s < until_s:
        if not g.asleep:
            ended = _complete(f, e)
            if g.running == 0 and g.waiting == 0:
                g.asleep = 1
                g.end_s = np.inf
                return ended
            if rules.clients > 0 and ended > 0:
                g.asleep = 1
                return ended
        g.asleep = 0
        quiet = g.prefills == 0 and g.decoding > 0 and rules.fast
        if quiet and (g.waiting == 0 or g.shut or g.running >= rules.max_num_seqs) and _fast_forward(f, e, p, until_s):
            return 0
        _schedule(f, e, p, g.end_s)
    return 0
