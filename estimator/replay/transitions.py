"""A request's way through an engine: it starts to decode, stops, ends, is preempted; its client sends the next.

Belongs here: what each of these moves does to the sums and heaps of its engine. Does not: when it happens (`engine`).

A decoding request is not touched by a step. All decoding requests move one token a step, so what a step changes is kept
as sums and as offsets from the engine's step count; ends of requests wait in a heap, and how many requests open a new
block is read from a count by phase. A step costs the same with 4 or 400 requests running.
"""

from __future__ import annotations

from numba import njit

from estimator.replay.blocks import release
from estimator.replay.queues import (
    heap_pop,
    heap_push,
    heap_request,
    heap_step,
    longest_since,
    run_remove,
    wait_push_front,
)
from estimator.replay.state import CROSS, DECODE, DONE, FINISH, NONE, REJECTED, WAITING, Fleet


@njit()
def is_current(f: Fleet, e: int, which: int, entry: int) -> bool:
    """Whether a heap entry still says when its request ends or crosses; a preempted request leaves its entries behind.

    They cannot be mistaken for later ones: a request that decodes again ends and crosses at later steps.
    """
    q = f.requests[heap_request(entry)]
    if q.place != DECODE or q.engine != e:
        return False
    step = q.finish_step if which == FINISH else q.base + f.rules[0].window
    current: bool = step == heap_step(entry)
    return current


@njit()
def next_finish(f: Fleet, e: int) -> int:
    """The step with which the first decoding request ends; there must be one. Entries left behind are dropped."""
    g = f.engines[e]
    heap = f.heaps[e, FINISH]
    while not is_current(f, e, FINISH, heap[0]):
        g.finishes = heap_pop(heap, g.finishes)
    return heap_step(heap[0])


@njit()
def _note(f: Fleet, e: int, which: int, size: int, step: int, r: int) -> int:
    """Add (step, r) to a heap; when it is full, entries left behind make room. Returns its new size."""
    heap = f.heaps[e, which]
    if size == len(heap):
        kept = 0
        for i in range(size):
            entry = heap[i]
            if is_current(f, e, which, entry):
                kept = heap_push(heap, kept, heap_step(entry), heap_request(entry))
        size = kept
    return heap_push(heap, size, step, r)


@njit()
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


@njit()
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


@njit()
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


@njit()
def finish(f: Fleet, e: int, r: int) -> None:
    """Request `r` has all its tokens: it leaves the engine."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    q.end_s = g.end_s
    q.last_s = g.end_s
    q.place = DONE
    run_remove(g, f.requests, r)
    release(f, e, r, False)
    g.outstanding -= 1
    g.shut = 0
    if rules.clients > 0:
        send(f, r + rules.clients, g.end_s)


@njit()
def preempt(f: Fleet, e: int, now_s: float) -> None:
    """The request admitted last goes back to the head of the queue and loses its blocks."""
    g = f.engines[e]
    r = g.tail
    q = f.requests[r]
    if q.place == DECODE:
        stop_decode(f, e, r)
        q.last_s = now_s
    else:
        g.prefills -= 1
    run_remove(g, f.requests, r)
    release(f, e, r, True)
    q.computed = 0
    q.place = WAITING
    q.preemptions += 1
    wait_push_front(g, f.requests, r)
    g.shut = 0
