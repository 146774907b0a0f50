"""A request's way through an engine: it joins, decodes, pauses, ends, is preempted, given up.

Belongs here: what each of these moves does to the sums and heaps of its engine. Does not: when it happens (`engine`).

A decoding request is not touched by a step. All decoding requests move one token a step, so what a step changes is kept
as sums and as offsets from the engine's step count; ends of requests wait in a heap, and how many requests open a new
block is read from a count by phase. A step costs the same with 4 or 400 requests running.
"""

from __future__ import annotations

import math

from estimator.replay.blocks import release
from estimator.replay.compiled import inner
from estimator.replay.loads import drop_load, keeps_blocks
from estimator.replay.queues import (
    heap_pop,
    heap_push,
    heap_request,
    heap_step,
    longest_since,
    run_append,
    run_remove,
    wait_push,
)
from estimator.replay.state import (
    CROSS,
    DECODE,
    DONE,
    FINISH,
    LOADING,
    NONE,
    PREEMPTED,
    PREFILL,
    REJECTED,
    WAITING,
    Fleet,
)


@inner
def is_current(f: Fleet, e: int, which: int, entry: int) -> bool:
    """Whether a heap entry still says when its request ends or crosses; a preempted request leaves its entries behind.

    They cannot be mistaken for later ones: a request that decodes again ends and crosses at later steps, or, where
    its prompt had steps of its own, may come to the same ones, and then the entry it left behind is its entry.
    """
    q = f.requests[heap_request(entry)]
    if q.place != DECODE or q.engine != e:
        return False
    step = q.finish_step if which == FINISH else q.base + f.rules[0].window
    current: bool = step == heap_step(entry)
    return current


@inner
def next_finish(f: Fleet, e: int) -> int:
    """The step with which the first decoding request ends; there must be one. Entries left behind are dropped."""
    g = f.engines[e]
    heap = f.heaps[e, FINISH]
    while not is_current(f, e, FINISH, heap[0]):
        g.finishes = heap_pop(heap, g.finishes)
    return heap_step(heap[0])


@inner
def _note(f: Fleet, e: int, which: int, size: int, step: int, r: int) -> int:
    """Add (step, r) to a heap; when it is full, entries left behind make room. Returns its new size."""
    heap = f.heaps[e, which]
    if f.rules[0].exclusive and f.requests[r].preemptions > 0:
        for i in range(size):
            if heap_step(heap[i]) == step and heap_request(heap[i]) == r:
                return size
    if size == len(heap):
        kept = 0
        for i in range(size):
            entry = heap[i]
            if is_current(f, e, which, entry):
                kept = heap_push(heap, kept, heap_step(entry), heap_request(entry))
        size = kept
    return heap_push(heap, size, step, r)


@inner
def start_decode(f: Fleet, e: int, r: int) -> None:
    """Request `r` has computed all it knew and sampled a token: from the next step on it decodes."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    q.place = DECODE
    q.base = g.steps - q.computed
    q.since_step = g.steps
    q.finish_step = g.steps + q.osl - q.generated
    g.decoding += 1
    g.kv_full += q.computed
    f.phases[e, q.base % rules.block_tokens] += 1
    g.finishes = _note(f, e, FINISH, g.finishes, q.finish_step, r)
    if q.computed >= rules.window:
        g.kv_window += rules.window
        return
    g.kv_window += q.computed
    g.below_window += 1
    if q.base + rules.window <= q.finish_step:
        g.crossings = _note(f, e, CROSS, g.crossings, q.base + rules.window, r)


@inner
def stop_decode(f: Fleet, e: int, r: int) -> None:
    """Request `r` decodes no more; its token counts are its own again."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    q.computed = g.steps - q.base
    q.generated = q.osl - (q.finish_step - g.steps)
    q.stall_s = max(q.stall_s, longest_since(g, q.since_step))
    g.decoding -= 1
    g.kv_full -= q.computed
    f.phases[e, q.base % rules.block_tokens] -= 1
    if q.computed < rules.window:
        g.kv_window -= q.computed
        g.below_window -= 1
    else:
        g.kv_window -= rules.window


@inner
def send(f: Fleet, r: int, now_s: float) -> None:
    """Closed loop: a client sends request `r` now, or its next one that an engine takes; none may be left."""
    rules = f.rules[0]
    while r < len(f.requests) and f.requests[r].outcome == REJECTED:
        f.requests[r].sent_s = now_s
        r += rules.clients
    if r < len(f.requests):
        f.requests[r].sent_s = now_s
        f.requests[r].after = NONE
        totals = f.totals[0]
        if totals.sent_first == NONE:
            totals.sent_first = r
        else:
            f.requests[totals.sent_last].after = r
        totals.sent_last = r


@inner
def join(f: Fleet, e: int, r: int, chunk: int, now_s: float) -> None:
    """Request `r`, whose blocks are taken, runs from this step on and computes `chunk` tokens in it."""
    g = f.engines[e]
    q = f.requests[r]
    if math.isnan(q.admitted_s):
        q.admitted_s = now_s
    q.chunk = chunk
    q.place = PREFILL
    run_append(g, f.requests, r)
    f.prefills[e, g.prefills] = r
    g.prefills += 1
    if q.adapter != NONE:
        _adapter_joins(f, e, q.adapter)


@inner
def _adapter_joins(f: Fleet, e: int, a: int) -> None:
    """An adapter is used; loading it, if it has to be, makes the step longer and drops the one unused longest."""
    rules = f.rules[0]
    g = f.engines[e]
    adapters = f.adapters[e]
    if adapters[a].users == 0:
        g.adapters += 1
    adapters[a].users += 1
    if adapters[a].step == NONE:
        g.load_s += rules.adapter_s
        loaded = 0
        oldest = NONE
        for b in range(len(adapters)):
            if adapters[b].step != NONE:
                loaded += 1
                if adapters[b].users == 0 and (oldest == NONE or adapters[b].step < adapters[oldest].step):
                    oldest = b
        if rules.max_loras > 0 and loaded >= rules.max_loras and oldest != NONE:
            adapters[oldest].step = NONE
    adapters[a].step = g.steps + g.prompt_steps


@inner
def _leave(f: Fleet, e: int, r: int) -> None:
    """Request `r` is in the running list no more."""
    g = f.engines[e]
    a = f.requests[r].adapter
    run_remove(g, f.requests, r)
    if a != NONE:
        f.adapters[e, a].users -= 1
        if f.adapters[e, a].users == 0:
            g.adapters -= 1
    g.shut = 0


@inner
def finish(f: Fleet, e: int, r: int) -> None:
    """Request `r` has all its tokens: it leaves the engine."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    q.end_s = g.end_s
    q.last_s = g.end_s
    q.place = DONE
    _leave(f, e, r)
    if not keeps_blocks(f, e, r):
        release(f, e, r, 0, False)
    g.outstanding -= 1
    if rules.clients > 0:
        send(f, r + rules.clients, g.end_s)


@inner
def stop_prefill(f: Fleet, e: int, r: int) -> None:
    """Request `r` is in the list of prompts no more."""
    g = f.engines[e]
    kept = 0
    for j in range(g.prefills):
        f.prefills[e, kept] = f.prefills[e, j]
        if f.prefills[e, j] != r:
            kept += 1
    g.prefills = kept


@inner
def pause(f: Fleet, e: int, r: int, now_s: float) -> None:
    """A decoding request gets no token in this step, though it keeps its place and its blocks."""
    stop_decode(f, e, r)
    f.requests[r].last_s = now_s - f.engines[e].held_s
    f.requests[r].place = PREFILL
    f.requests[r].chunk = 0


@inner
def victim(f: Fleet, e: int) -> int:
    """The running request that is preempted first: the last admitted, or, by priority, the last in rank."""
    g = f.engines[e]
    last: int = g.tail
    if f.rules[0].priority:
        r = g.head
        while r != NONE:
            if f.requests[r].rank > f.requests[last].rank:
                last = r
            r = f.requests[r].after
    return last


@inner
def preempt(f: Fleet, e: int, r: int, ahead: int, now_s: float) -> None:
    """Running request `r` goes back to the queue and loses its blocks, those for `ahead` tokens of this step too."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    if q.place == DECODE:
        stop_decode(f, e, r)
        q.last_s = now_s - g.held_s
    elif f.prefills[e, g.prefills - 1] == r:
        g.prefills -= 1
    else:
        stop_prefill(f, e, r)
    _leave(f, e, r)
    release(f, e, r, ahead, True)
    q.computed = 0
    q.chunk = 0
    q.place = WAITING
    q.preemptions += 1
    wait_push(g, f.requests, r)
    g.preemptions += 1
    if rules.series_bins > 0:
        f.totals[0].series[min(rules.series_bins - 1, int(now_s / rules.series_s)), PREEMPTED] += 1.0


@inner
def give_up(f: Fleet, e: int, r: int) -> None:
    """Request `r`, queued or running, leaves the engine unfinished."""
    g = f.engines[e]
    q = f.requests[r]
    if q.place <= LOADING:
        g.waiting -= q.place == WAITING
        drop_load(f, e, r)
    else:
        if q.place == DECODE:
            stop_decode(f, e, r)
        else:
            stop_prefill(f, e, r)
        _leave(f, e, r)
        release(f, e, r, 0, False)
    q.place = DONE
    g.outstanding -= 1
    g.shut = 0
