"""The event loop: engines that step as vLLM V1 does, fed by a router.

Belongs here: the rules of the scheduler. Does not: containers (`queues`), KV blocks (`blocks`), record layouts (`state`),
how long a step takes (`estimator.step_time`), or anything per request outside the engine.

A decoding request is not touched by a step. All decoding requests move one token a step, so what a step changes is kept
as sums and as offsets from the engine's step count; ends of requests wait in a heap, and how many requests open a new
block is read from a count by phase. A step costs the same with 4 or 400 requests running.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from estimator.replay import blocks, queues, state
from estimator.replay.blocks import blocks_for, find, free_blocks, hold, publish, release, take
from estimator.replay.queues import (
    gap_bin,
    heap_pop,
    heap_push,
    heap_request,
    heap_step,
    longest_since,
    run_append,
    run_remove,
    stall_push,
    wait_append,
    wait_pop,
    wait_push_front,
)
from estimator.replay.state import (
    BY_BLOCKS,
    BY_PREEMPTION,
    BY_SEQUENCES,
    BY_TOKENS,
    DECODE,
    DONE,
    NONE,
    PREFILL,
    REJECTED,
    UNLIMITED,
    USAGE_BINS,
    WAITING,
    Fleet,
    Rules,
)
from estimator.step_time import kernel as step_kernel
from estimator.step_time import step_seconds

ROUND_ROBIN, LEAST_LOAD = range(2)
ROUTERS = {"round_robin": ROUND_ROBIN, "least_load": LEAST_LOAD}

Step = NDArray[np.float64]


@njit
def _account(f: Fleet, rules: Rules, g: Any, start_s: float, step_s: float) -> None:
    """Add a step that starts now to the fleet's figures."""
    if rules.from_s <= start_s < rules.to_s:
        g.busy_s += step_s
        g.running_s += step_s * g.running
        used = rules.kv_blocks - g.empty - g.idle
        f.usage_s[math.ceil(used * (USAGE_BINS / rules.kv_blocks) - 1e-9)] += step_s
        f.waits_s[g.limit] += step_s


@njit
def _live(f: Fleet, e: int, r: int) -> bool:
    return f.requests[r].place == DECODE and f.requests[r].engine == e


@njit
def _next_finish(f: Fleet, e: int) -> int:
    """The step with which the first decoding request ends. Entries of preempted requests are dropped on the way."""
    g = f.engines[e]
    heap = f.finish[e]
    while True:
        step = heap_step(heap[0])
        r = heap_request(heap[0])
        if _live(f, e, r) and f.requests[r].finish_step == step:
            return step
        g.finishes = heap_pop(heap, g.finishes)


@njit
def _start_decode(f: Fleet, rules: Rules, e: int, r: int) -> None:
    """Request `r` has computed all it knew and sampled a token: from the next step on it decodes."""
    g = f.engines[e]
    q = f.requests[r]
    q.place = DECODE
    q.base = g.steps - q.computed
    q.since_step = g.steps
    q.finish_step = g.steps + q.osl - q.generated
    g.decoding += 1
    g.kv_full += q.computed
    f.phases[e, q.base % rules.block_tokens] += 1
    if g.finishes == f.finish.shape[1]:
        kept = 0
        for i in range(g.finishes):
            other = heap_request(f.finish[e, i])
            if _live(f, e, other) and f.requests[other].finish_step == heap_step(f.finish[e, i]) and other != r:
                kept = heap_push(f.finish[e], kept, heap_step(f.finish[e, i]), other)
        g.finishes = kept
    g.finishes = heap_push(f.finish[e], g.finishes, q.finish_step, r)
    if q.computed >= rules.window:
        g.kv_window += rules.window
        return
    g.kv_window += q.computed
    g.below_window += 1
    if rules.window - q.computed <= q.osl - q.generated:
        if g.crossings == f.cross.shape[1]:
            kept = 0
            for i in range(g.crossings):
                other = heap_request(f.cross[e, i])
                step = heap_step(f.cross[e, i])
                if _live(f, e, other) and f.requests[other].base + rules.window == step and other != r:
                    kept = heap_push(f.cross[e], kept, step, other)
            g.crossings = kept
        g.crossings = heap_push(f.cross[e], g.crossings, q.base + rules.window, r)


@njit
def _stop_decode(f: Fleet, rules: Rules, e: int, r: int) -> None:
    """Request `r` decodes no more; its token counts are its own again."""
    g = f.engines[e]
    q = f.requests[r]
    q.computed = g.steps - q.base
    q.generated = q.osl - (q.finish_step - g.steps)
    q.stall_s = max(q.stall_s, longest_since(g, f.stall_at[e], f.stall_s[e], q.since_step))
    g.decoding -= 1
    g.kv_full -= q.computed
    f.phases[e, q.base % rules.block_tokens] -= 1
    if q.computed < rules.window:
        g.kv_window -= q.computed
        g.below_window -= 1
    else:
        g.kv_window -= rules.window


@njit
def _send(f: Fleet, rules: Rules, r: int, now_s: float) -> None:
    """Closed loop: a client sends request `r` now, or its next one that an engine takes; none may be left."""
    while r < len(f.requests) and f.requests[r].outcome == REJECTED:
        f.requests[r].sent_s = now_s
        r += rules.clients
    if r < len(f.requests):
        f.requests[r].sent_s = now_s
        f.pending[f.pending_ends[1]] = r
        f.pending_ends[1] += 1


@njit
def _finish(f: Fleet, rules: Rules, e: int, r: int) -> None:
    g = f.engines[e]
    q = f.requests[r]
    q.end_s = g.end_s
    q.last_s = g.end_s
    q.place = DONE
    run_remove(g, f.requests, r)
    release(f, rules, e, r, q.computed, False)
    g.outstanding -= 1
    g.shut = 0
    if rules.clients > 0:
        _send(f, rules, r + rules.clients, g.end_s)


@njit
def _preempt(f: Fleet, rules: Rules, e: int, now_s: float) -> None:
    """The request admitted last goes back to the head of the queue and loses its blocks."""
    g = f.engines[e]
    r = g.tail
    q = f.requests[r]
    if q.place == DECODE:
        _stop_decode(f, rules, e, r)
        q.last_s = now_s
    else:
        g.prefills -= 1
    run_remove(g, f.requests, r)
    release(f, rules, e, r, q.computed, True)
    q.computed = 0
    q.place = WAITING
    q.preemptions += 1
    wait_push_front(g, f.requests, r)
    g.shut = 0


@njit
def _complete(f: Fleet, rules: Rules, e: int) -> int:
    """The step in flight ends: tokens appear, requests end, full blocks become hashable. Returns how many ended."""
    g = f.engines[e]
    g.steps += 1
    now_s = g.end_s
    counts = rules.from_s <= g.start_s < rules.to_s
    if g.decoding > 0:
        g.kv_full += g.decoding
        g.kv_window += g.below_window
        if counts:
            f.gaps[gap_bin(g.step_s)] += g.decoding
        stall_push(g, f.stall_at[e], f.stall_s[e], g.steps, g.step_s)
    prefill_tokens = 0
    for j in range(g.prefills):
        prefill_tokens += f.requests[f.prefills[e, j]].computed + f.requests[f.prefills[e, j]].chunk
    g.tokens_max = max(g.tokens_max, g.kv_full + prefill_tokens)
    ended = 0
    while g.crossings > 0 and heap_step(f.cross[e, 0]) <= g.steps:
        r = heap_request(f.cross[e, 0])
        if _live(f, e, r) and f.requests[r].base + rules.window == g.steps:
            g.below_window -= 1
        g.crossings = heap_pop(f.cross[e], g.crossings)
    while g.finishes > 0 and heap_step(f.finish[e, 0]) <= g.steps:
        r = heap_request(f.finish[e, 0])
        if _live(f, e, r) and f.requests[r].finish_step == g.steps:
            _stop_decode(f, rules, e, r)
            _finish(f, rules, e, r)
            ended += 1
        g.finishes = heap_pop(f.finish[e], g.finishes)
    kept = 0
    for j in range(g.prefills):
        r = f.prefills[e, j]
        q = f.requests[r]
        before = min(q.computed // rules.block_tokens, q.hashed)
        q.computed += q.chunk
        if rules.caching:
            after = min(q.computed // rules.block_tokens, q.hashed)
            if after > before:
                publish(f, rules, e, r, before, after)
                g.shut = 0
        if q.computed < q.isl + q.generated:
            f.prefills[e, kept] = r
            kept += 1
            continue
        if q.generated == 0:
            q.first_s = now_s
        else:
            gap_s = now_s - q.last_s
            q.stall_s = max(q.stall_s, gap_s)
            if counts:
                f.gaps[gap_bin(gap_s)] += 1
        q.generated += 1
        if q.generated == q.osl:
            _finish(f, rules, e, r)
            ended += 1
        else:
            _start_decode(f, rules, e, r)
    g.prefills = kept
    return ended


@njit
def _admit(f: Fleet, rules: Rules, e: int, now_s: float, budget: int) -> None:
    """Requests move from the queue to the running list while budget, sequences and blocks last; no look-past."""
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
            hits, idle = find(f, rules, e, r, (known - 1) // rules.block_tokens)
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
            hold(f, rules, e, r, hits)
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


@njit
def _schedule(f: Fleet, rules: Rules, e: int, p: Step, now_s: float) -> None:
    """Start a step: running requests first, then the queue.

    Every decoding request gets its token before prompts share what is left of the budget. Without a long-prefill
    threshold that is the order of the running list, since only its tail can be half-way through a prompt.
    """
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
        _preempt(f, rules, e, now_s)
        g.preemptions += 1
        preempted = True
    take(f, e, needed)
    if preempted and g.running > 0:
        g.limit = BY_PREEMPTION
    else:
        _admit(f, rules, e, now_s, budget)
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
    _account(f, rules, g, now_s, g.step_s)


@njit
def _fast_forward(f: Fleet, rules: Rules, e: int, p: Step, until_s: float) -> bool:
    """Take decode steps in which nothing else can happen, while they end before `until_s`. Exact: the same times.

    Nothing can: no prompt is in work, the head of the queue cannot move, no request ends or crosses the window with
    these steps, and blocks suffice. Returns whether a step is in flight; if not, `end_s` is when the next may start.
    """
    g = f.engines[e]
    last = _next_finish(f, e)
    if g.crossings > 0:
        last = min(last, heap_step(f.cross[e, 0]))
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
        _account(f, rules, g, now_s, step_s)
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
            f.gaps[gap_bin(step_s)] += g.decoding
        longest_s = max(longest_s, step_s)
        now_s += step_s
    g.end_s = now_s
    if longest_s > 0.0:
        stall_push(g, f.stall_at[e], f.stall_s[e], g.steps, longest_s)
    return flying


@njit
def _advance(f: Fleet, rules: Rules, e: int, p: Step, until_s: float) -> int:
    """Run engine `e` until its step in flight ends at `until_s` or later. Returns how many requests ended.

    In a closed loop it returns after the first step with which a request ended, before the next step starts.
    """
    g = f.engines[e]
    while g.end_s < until_s:
        if not g.asleep:
            ended = _complete(f, rules, e)
            if g.running == 0 and g.waiting == 0:
                g.asleep = 1
                g.end_s = np.inf
                return ended
            if rules.clients > 0 and ended > 0:
                g.asleep = 1
                return ended
        g.asleep = 0
        quiet = g.prefills == 0 and g.decoding > 0 and rules.fast
        if (
            quiet
            and (g.waiting == 0 or g.shut or g.running >= rules.max_num_seqs)
            and _fast_forward(f, rules, e, p, until_s)
        ):
            return 0
        _schedule(f, rules, e, p, g.end_s)
    return 0


@njit
def _enqueue(f: Fleet, e: int, r: int, now_s: float) -> None:
    g = f.engines[e]
    q = f.requests[r]
    q.queued_s = now_s
    q.engine = e
    q.place = WAITING
    wait_append(g, f.requests, r)
    g.outstanding += 1
    if g.asleep and g.end_s > now_s:
        g.end_s = now_s


@njit
def _route(f: Fleet, rules: Rules, p: Step, router: int, stale_s: float, turn: int, now_s: float) -> int:
    """The engine a request that arrives now goes to; `turn` is where the search for the least loaded starts."""
    n = len(f.engines)
    if router == ROUND_ROBIN or n == 1:
        return turn
    if stale_s > 0.0 and rules.clients == 0:
        # The router knows each engine's load as of the last report, plus what it sent there since.
        report_s = math.floor(now_s / stale_s) * stale_s
        if report_s > f.reported_s[0]:
            f.reported_s[0] = report_s
            for e in range(n):
                _advance(f, rules, e, p, report_s)
                f.engines[e].seen = f.engines[e].outstanding
    else:
        for e in range(n):
            if rules.clients == 0:
                _advance(f, rules, e, p, now_s)
            f.engines[e].seen = f.engines[e].outstanding
    best = turn
    for k in range(1, n):
        e = (turn + k) % n
        if f.engines[e].seen < f.engines[best].seen:
            best = e
    f.engines[best].seen += 1
    return best


@njit
def _run_open(f: Fleet, rules: Rules, p: Step, router: int, stale_s: float) -> None:
    """Replay requests that arrive at their `sent_s` whatever the engines do."""
    turn = 0
    n = len(f.engines)
    for r in range(len(f.requests)):
        if f.requests[r].outcome == REJECTED:
            continue
        now_s = f.requests[r].sent_s
        e = _route(f, rules, p, router, stale_s, turn, now_s)
        turn = (e + 1) % n
        _advance(f, rules, e, p, now_s)
        _enqueue(f, e, r, now_s)
    for e in range(n):
        _advance(f, rules, e, p, np.inf)


@njit
def _run_closed(f: Fleet, rules: Rules, p: Step, router: int, request_s: float) -> None:
    """Replay `rules.clients` clients that all start at 0: client c sends requests c, c + clients, ... one at a time.

    Each reaches its engine `request_s` after it was sent. Engines take turns in order of time, so that ends, and with
    them arrivals, are met in order.
    """
    for c in range(rules.clients):
        _send(f, rules, c, 0.0)
    turn = 0
    n = len(f.engines)
    while True:
        arrival_s = np.inf
        if f.pending_ends[0] < f.pending_ends[1]:
            r = f.pending[f.pending_ends[0]]
            arrival_s = f.requests[r].sent_s + request_s
        first = 0
        second_s = np.inf
        for e in range(1, n):
            if f.engines[e].end_s < f.engines[first].end_s:
                second_s = f.engines[first].end_s
                first = e
            else:
                second_s = min(second_s, f.engines[e].end_s)
        end_s = f.engines[first].end_s
        if arrival_s <= end_s:
            if arrival_s == np.inf:
                return
            f.pending_ends[0] += 1
            e = _route(f, rules, p, router, 0.0, turn, arrival_s)
            turn = (e + 1) % n
            _enqueue(f, e, r, arrival_s)
        else:
            _advance(f, rules, first, p, max(min(arrival_s, second_s), np.nextafter(end_s, np.inf)))


def _fingerprint(*modules: ModuleType | None) -> int:
    digest = hashlib.sha256()
    for module in modules:
        digest.update(inspect.getsource(module).encode() if module else b"")
    return int.from_bytes(digest.digest()[:7], "big")


def _entries(source: int) -> tuple[Callable[..., int], Callable[..., int]]:
    """The two loops, compiled on first use and kept on disk under `source`.

    Numba looks for changes in the file of a cached function only, and would run yesterday's step time for ever. So the
    entries alone are cached, and what they are compiled from is a constant they close over, which is part of the key.
    """

    @njit(cache=True)
    def open_loop(f: Fleet, rules: Rules, p: Step, router: int, stale_s: float) -> int:
        _run_open(f, rules, p, router, stale_s)
        return source

    @njit(cache=True)
    def closed_loop(f: Fleet, rules: Rules, p: Step, router: int, request_s: float) -> int:
        _run_closed(f, rules, p, router, request_s)
        return source

    return open_loop, closed_loop


run_open, run_closed = _entries(
    _fingerprint(
        inspect.getmodule(_run_open),
        blocks,
        queues,
        state,
        step_kernel,
    )
)
