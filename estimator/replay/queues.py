"""The loop's containers: the running list, the queue, heaps of steps, and a stack that knows the longest gap since.

Belongs here: containers over the records of `estimator.replay.state`. Does not: any rule of the scheduler.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.replay.compiled import inner
from estimator.replay.state import (
    GAP_FLOOR_EXPONENT,
    GAP_OCTAVES,
    GAP_STEPS,
    NONE,
    STALL_ENTRIES,
    WAITING,
    Records,
)

_REQUEST_BITS = 32
_REQUEST_MASK = (1 << _REQUEST_BITS) - 1


@inner
def run_append(g: Any, requests: Records, r: int) -> None:
    """Put request `r` at the tail of the running list."""
    requests[r].before = g.tail
    requests[r].after = NONE
    if g.tail == NONE:
        g.head = r
    else:
        requests[g.tail].after = r
    g.tail = r
    g.running += 1


@inner
def run_remove(g: Any, requests: Records, r: int) -> None:
    """Take request `r` out of the running list."""
    before = requests[r].before
    after = requests[r].after
    if before == NONE:
        g.head = after
    else:
        requests[before].after = after
    if after == NONE:
        g.tail = before
    else:
        requests[after].before = before
    g.running -= 1


@inner
def _meld(requests: Records, a: int, b: int) -> int:
    """One pairing heap (Fredman et al., 1986) of two, either of which may be empty; the lower rank on top."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if requests[b].rank < requests[a].rank:
        a, b = b, a
    requests[b].after = requests[a].before
    requests[a].before = b
    return a


@inner
def _drop_root(g: Any, requests: Records) -> None:
    paired = NONE
    child = requests[g.wait_root].before
    while child != NONE:
        first = child
        second = requests[first].after
        requests[first].after = NONE
        child = NONE
        if second != NONE:
            child = requests[second].after
            requests[second].after = NONE
            first = _meld(requests, first, second)
        requests[first].after = paired
        paired = first
    root = NONE
    while paired != NONE:
        rest = requests[paired].after
        requests[paired].after = NONE
        root = _meld(requests, root, paired)
        paired = rest
    g.wait_root = root


@inner
def wait_push(g: Any, requests: Records, r: int) -> None:
    """Queue request `r` where its rank says."""
    requests[r].before = NONE
    requests[r].after = NONE
    g.wait_root = _meld(requests, g.wait_root, r)
    g.waiting += 1
    g.waiting_max = max(g.waiting_max, g.waiting)


@inner
def wait_head(g: Any, requests: Records) -> int:
    """The head of the queue, which must not be empty. Requests that left it from its midst are dropped on the way."""
    while requests[g.wait_root].place != WAITING:
        _drop_root(g, requests)
    r: int = g.wait_root
    return r


@inner
def wait_pop(g: Any, requests: Records) -> int:
    """Take the head of the queue, which must not be empty."""
    r = wait_head(g, requests)
    _drop_root(g, requests)
    g.waiting -= 1
    return r


@inner
def heap_push(heap: NDArray[np.int64], size: int, step: int, r: int) -> int:
    """Add (step, r) to a heap of `size` entries; returns the new size. Equal steps come out in order of `r`."""
    entry = (step << _REQUEST_BITS) | r
    i = size
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] <= entry:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = entry
    return size + 1


@inner
def heap_pop(heap: NDArray[np.int64], size: int) -> int:
    """Drop the least entry of a heap; returns the new size."""
    size -= 1
    entry = heap[size]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if entry <= heap[child]:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = entry
    return size


@inner
def heap_step(entry: int) -> int:
    """The step of a heap entry."""
    return entry >> _REQUEST_BITS


@inner
def heap_request(entry: int) -> int:
    """The request of a heap entry."""
    return entry & _REQUEST_MASK


@inner
def stall_push(g: Any, step: int, gap_s: float) -> None:
    """Note that the gap that ended with `step` lasted `gap_s`.

    Gaps shorter than a later one can never be the longest since any step, so only a decreasing stack is kept. When it
    is full every second entry goes, each covered by the longer one below it.
    """
    at, seconds = g.stall_at, g.stall_s
    top = g.stalls
    while top > 0 and seconds[top - 1] <= gap_s:
        top -= 1
    if top == STALL_ENTRIES:
        kept = 0
        for i in range(1, top, 2):
            at[kept] = at[i]
            seconds[kept] = seconds[i - 1]
            kept += 1
        top = kept
    at[top] = step
    seconds[top] = gap_s
    g.stalls = top + 1


@inner
def longest_since(g: Any, step: int) -> float:
    """The longest gap that ended after `step`; 0 when none did."""
    at, seconds = g.stall_at, g.stall_s
    low, high = 0, g.stalls
    while low < high:
        middle = (low + high) >> 1
        if at[middle] > step:
            high = middle
        else:
            low = middle + 1
    return seconds[low] if low < g.stalls else 0.0


@inner
def gap_bin(gap_s: float) -> int:
    """Bin of the gap histogram; its ends take what lies beyond."""
    mantissa, exponent = math.frexp(gap_s)
    octave = exponent - GAP_FLOOR_EXPONENT
    if octave < 0:
        return 0
    if octave >= GAP_OCTAVES:
        return GAP_OCTAVES * GAP_STEPS - 1
    return octave * GAP_STEPS + int((mantissa - 0.5) * (2 * GAP_STEPS))
