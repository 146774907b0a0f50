"""What the event loop remembers: one record a request, one an engine, one a cached run of KV blocks.

Belongs here: the layout of those records, their initial values and the codes in them. Does not: any rule of the
scheduler. Records are NumPy structures, so that compiled code reads `request.computed` instead of a column number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Records = NDArray[Any]

NONE = -1

# Where a request is.
ABSENT, WAITING, PREFILL, DECODE, DONE = range(5)

# How it ended: all of its output, cut at the longest context the engine holds, or turned away on arrival.
FINISHED, CAPPED, REJECTED = range(3)
OUTCOMES = ("finished", "capped", "rejected")

# What kept the head of the queue waiting in a step: nothing waited, token budget, max_num_seqs, KV blocks, or that
# running requests had just been preempted.
UNLIMITED, BY_TOKENS, BY_SEQUENCES, BY_BLOCKS, BY_PREEMPTION = range(5)
WAITS = ("none", "max_num_batched_tokens", "max_num_seqs", "kv_blocks", "preemption")

REQUEST = np.dtype(
    [
        # results
        ("sent_s", "f8"),  # when its client sent it
        ("queued_s", "f8"),  # when it reached the engine's queue
        ("admitted_s", "f8"),  # start of the first step that held it
        ("first_s", "f8"),  # its first token
        ("last_s", "f8"),  # its latest token, kept up to date while it does not decode
        ("end_s", "f8"),
        ("stall_s", "f8"),  # longest gap between two of its tokens
        # the token axis: `computed` is C and `generated` is G while it does not decode; while it does, they follow from
        # the engine's step count (C = steps - base, G = osl - (finish_step - steps)), so that a step touches no request
        ("base", "i8"),
        ("finish_step", "i8"),
        ("since_step", "i8"),  # step of the first token of this decode stretch
        ("isl", "i4"),
        ("osl", "i4"),
        ("computed", "i4"),
        ("generated", "i4"),
        ("chunk", "i4"),  # prompt tokens it computes in the step in flight
        # queues
        ("before", "i4"),
        ("after", "i4"),
        # prefix cache
        ("hashed", "i4"),  # leading full blocks of its prompt that have a hash
        ("own_run", "i4"),  # cached run of its own blocks after a preemption
        ("own_full", "i4"),  # full blocks of that run
        # account
        ("cached", "i4"),  # prompt tokens found in cache when first admitted
        ("preemptions", "i4"),
        ("engine", "i4"),
        ("place", "i1"),
        ("outcome", "i1"),
    ],
    align=True,
)

ENGINE = np.dtype(
    [
        ("start_s", "f8"),  # of the step in flight
        ("end_s", "f8"),  # of the step in flight; infinite when idle
        ("step_s", "f8"),  # its length
        ("steps", "i8"),  # steps ended
        ("kv_full", "i8"),  # sum of C over decoding requests
        ("kv_window", "i8"),  # sum of min(C, window) over decoding requests
        ("head", "i8"),  # running requests, in order of admission
        ("tail", "i8"),
        ("wait_head", "i8"),
        ("wait_tail", "i8"),
        ("running", "i8"),
        ("waiting", "i8"),
        ("decoding", "i8"),
        ("below_window", "i8"),  # decoding requests whose context is shorter than the window
        ("prefills", "i8"),  # running requests that still compute their prompt
        ("finishes", "i8"),  # entries of the finish heap
        ("crossings", "i8"),  # entries of the window heap
        ("stalls", "i8"),  # entries of the stall stack
        ("shut", "i1"),  # the head of the queue did not fit and nothing has changed since
        ("asleep", "i1"),  # no step in flight: end_s is when the next one may start
        ("limit", "i1"),  # what the head of the queue waits for
        # KV blocks: used = all - empty - idle
        ("empty", "i8"),  # blocks that hold nothing
        ("idle", "i8"),  # cached blocks nobody uses
        ("oldest", "i8"),  # least recently used run
        ("newest", "i8"),
        ("spare", "i8"),  # run records given back
        ("fresh", "i8"),  # run records used at least once
        # account
        ("busy_s", "f8"),
        ("running_s", "f8"),  # integral of running requests over time
        ("waiting_max", "i8"),
        ("tokens_max", "i8"),  # most KV tokens held at once
        ("preemptions", "i8"),
        ("outstanding", "i8"),  # requests sent to it and not ended
        ("seen", "i8"),  # the same, as the router knows it
    ],
    align=True,
)

# A run is a row of blocks that are cached, used and evicted together: the blocks of one hash of the trace (deepest
# evicted first), or a request's own blocks after it left.
RUN = np.dtype(
    [
        ("key", "i8"),  # hash id; NONE for a run nobody can hit; OWN - r for the own blocks of request r
        ("blocks", "i4"),
        ("users", "i4"),
        ("older", "i4"),
        ("newer", "i4"),
    ],
    align=True,
)
OWN = -2

GAP_FLOOR_EXPONENT = -24
GAP_OCTAVES = 44
GAP_STEPS = 128
"""Histogram of gaps: GAP_STEPS equal bins in each power of two from 2**-24 s on, so a bin is at most 0.8 % wide."""

USAGE_BINS = 1000


class Rules(NamedTuple):
    """What every engine of the fleet obeys, in blocks and tokens."""

    kv_blocks: int
    block_tokens: int
    hash_blocks: int
    """Engine blocks under one hash of the trace."""
    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_threshold: int
    """Most prompt tokens of one request in a step."""
    chunked: bool
    caching: bool
    window: int
    """Tokens a windowed layer attends to."""
    fast: bool
    """Collapse steps in which nothing but decoding can happen."""
    clients: int
    """Clients that each send their next request when their last one ended; 0 in an open loop."""
    from_s: float
    to_s: float
    """Steps that start in [from_s, to_s) are accounted for in the fleet's figures."""


class Fleet(NamedTuple):
    """All that changes during a replay. First axis: engines, but for `requests` and what all engines add up in."""

    requests: Records
    engines: Records
    runs: Records
    spare: NDArray[np.int32]
    run_of: NDArray[np.int32]
    """Run that holds a hash id, or NONE."""
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    """Hash ids of request r: ids[offsets[r] : offsets[r + 1]]."""
    phases: NDArray[np.int64]
    """Decoding requests by base modulo block size: those whose next token opens a block share a phase."""
    prefills: NDArray[np.int32]
    """Running requests that still compute their prompt, in order of admission."""
    finish: NDArray[np.int64]
    cross: NDArray[np.int64]
    """Heaps of (step, request): when a request ends, when its context reaches the window."""
    stall_at: NDArray[np.int64]
    stall_s: NDArray[np.float64]
    gaps: NDArray[np.int64]
    usage_s: NDArray[np.float64]
    """Seconds by share of KV blocks in use."""
    waits_s: NDArray[np.float64]
    """Seconds by what kept the head of the queue waiting."""
    reported_s: NDArray[np.float64]
    """When the engines last reported their load to the router."""
    pending: NDArray[np.int32]
    pending_ends: NDArray[np.int64]
    """Closed loop: requests on their way to an engine, in order; entries pending_ends[0] to pending_ends[1]."""


def new_requests(n: int) -> Records:
    """Records of `n` requests that have not arrived."""
    requests = np.zeros(n, dtype=REQUEST)
    for name in ("admitted_s", "first_s", "last_s", "end_s"):
        requests[name] = np.nan
    for name in ("before", "after", "own_run", "engine"):
        requests[name] = NONE
    return requests


def new_engines(n: int, kv_blocks: int) -> Records:
    """Records of `n` idle engines with `kv_blocks` empty blocks each."""
    engines = np.zeros(n, dtype=ENGINE)
    engines["end_s"] = np.inf
    engines["asleep"] = 1
    for name in ("head", "tail", "wait_head", "wait_tail", "oldest", "newest"):
        engines[name] = NONE
    engines["empty"] = kv_blocks
    return engines


def gap_bin_upper_s(bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Upper edges, in seconds, of bins of the gap histogram."""
    octave, step = np.divmod(bins, GAP_STEPS)
    return np.ldexp(0.5 + (step + 1) / (2 * GAP_STEPS), octave + GAP_FLOOR_EXPONENT)
