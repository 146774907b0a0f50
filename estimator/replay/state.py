"""What the event loop remembers: one record a request, one an engine, one a cached run of KV blocks.

Belongs here: the layout of those records, their initial values and the codes in them. Does not: any rule of the
scheduler. Records are NumPy structures, so that compiled code reads `request.computed` instead of a column number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Records = NDArray[Any]

NONE = -1

STALL_ENTRIES = 1024

GAP_FLOOR_EXPONENT = -24
GAP_OCTAVES = 44
GAP_STEPS = 128
"""Histogram of gaps: GAP_STEPS equal bins in each power of two from 2**-24 s on, so a bin is at most 0.8 % wide."""

USAGE_BINS = 1000

# Where a request is; LOADING: it has blocks on the device, and its KV is on its way into them.
ABSENT, WAITING, LOADING, PREFILL, DECODE, DONE = range(6)

# How it ended: all of its output, cut at the longest context the engine holds, too long for the engine, turned away by
# an admission limit, given up by its client, or gone with its replica.
FINISHED, CAPPED, REJECTED, REFUSED, CANCELLED, LOST = range(6)
OUTCOMES = ("finished", "capped", "rejected", "refused", "cancelled", "lost")

# What kept the head of the queue waiting in a step: nothing waited, token budget, max_num_seqs, KV blocks, that running
# requests had just been preempted, or max_loras.
UNLIMITED, BY_TOKENS, BY_SEQUENCES, BY_BLOCKS, BY_PREEMPTION, BY_ADAPTERS = range(6)
WAITS = ("none", "max_num_batched_tokens", "max_num_seqs", "kv_blocks", "preemption", "max_loras")

# Columns of the time series: seconds in steps, integrals over time of requests running and waiting and of KV blocks in
# use, preemptions, and from LIMIT_0 on seconds by what kept the head of the queue waiting.
BUSY, RUNNING, WAITED, USED, PREEMPTED, LIMIT_0 = range(6)
SERIES_COLUMNS = LIMIT_0 + len(WAITS)
SERIES_BINS = 512

DRAFTS_MAX = 31

RESERVED_TOKENS = 4096
"""Most tokens of an answer that room is kept for (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""

# What happens to a replica: it takes no new requests, it is gone with all it holds, it is there again, empty.
CLOSE, KILL, OPEN = range(3)

HOST, REMOTE = range(2)

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
        # queues; while it waits, `before` is its first child and `after` its next sibling in a heap by rank
        ("rank", "i8"),  # priority, then order of arrival at the engine
        ("before", "i4"),
        ("after", "i4"),
        ("priority", "i4"),
        ("adapter", "i4"),
        ("deadline_s", "f8"),  # when its client gives up
        # prefix cache
        ("first_hash", "i8"),  # where its hash ids start
        ("hashed", "i4"),  # leading full blocks of its prompt that have a hash
        ("own_run", "i4"),  # cached run of its own blocks after a preemption
        ("own_full", "i4"),  # full blocks of that run
        # account
        ("cached", "i4"),  # prompt tokens found in cache when first admitted
        ("loaded", "i4", (2,)),  # of these, from the host's and from the remote tier
        ("preemptions", "i4"),
        ("engine", "i4"),
        ("by_deadline", "i4"),  # entry of another list: of requests whose clients give up some time, in order of when
        ("sends", "i4"),  # times it reached an engine
        # KV from elsewhere
        ("ready_s", "f8"),  # when what it loads is there
        ("remote", "i4"),  # tokens whose KV another engine has computed; HAD once it was asked for
        ("next", "i4"),  # in a list of its engine's port
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
        ("steps", "i8"),  # steps ended in which decodes had a part
        ("kv_full", "i8"),  # sum of C over decoding requests
        ("kv_window", "i8"),  # sum of min(C, window) over decoding requests
        ("head", "i8"),  # running requests, in order of admission
        ("tail", "i8"),
        ("wait_root", "i8"),  # heap of waiting requests; the cancelled ones in it are dropped when they surface
        ("running", "i8"),
        ("waiting", "i8"),
        ("decoding", "i8"),
        ("below_window", "i8"),  # decoding requests whose context is shorter than the window
        ("prefills", "i8"),  # running requests that still compute their prompt
        ("finishes", "i8"),  # entries of its heaps
        ("crossings", "i8"),
        ("stalls", "i8"),  # entries of the stack of gaps: step and length
        ("stall_at", "i8", (STALL_ENTRIES,)),
        ("stall_s", "f8", (STALL_ENTRIES,)),
        ("load_s", "f8"),  # added to the step in the making by what it loads
        ("deadline_s", "f8"),  # no client gives up before
        ("deadline_at", "i8"),  # place in the fleet's list of deadlines
        ("adapters", "i8"),  # different adapters running
        ("open", "i1"),  # takes new requests
        ("shut", "i1"),  # the limit at which the head of the queue did not fit, if nothing has changed since
        ("asleep", "i1"),  # no step in flight: end_s is when the next one may start
        ("limit", "i1"),  # what the head of the queue waits for
        ("alone", "i1"),  # its step computes prompts alone: decodes wait, and their step count stands still
        ("held_s", "f8"),  # how long such steps have held up decodes since their latest token
        ("prompt_steps", "i8"),  # such steps ended
        # KV blocks: used = all - empty - idle
        ("empty", "i8"),  # blocks that hold nothing
        ("idle", "i8"),  # cached blocks nobody uses
        ("oldest", "i8"),  # least recently used run
        ("newest", "i8"),
        ("spare", "i8"),  # run records given back, linked by `newer`
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

# What every engine of the fleet obeys, in blocks and tokens.
RULES = np.dtype(
    [
        ("kv_blocks", "i8"),
        ("block_tokens", "i8"),
        ("hash_blocks", "i8"),  # engine blocks under one hash of the trace
        ("max_num_seqs", "i8"),
        ("max_num_batched_tokens", "i8"),
        ("long_prefill_threshold", "i8"),  # most prompt tokens of one request in a step
        ("window", "i8"),  # tokens a windowed layer attends to
        ("reserve", "f8"),  # share of what running requests have to generate that room is kept for; 0: admit regardless
        ("max_waiting", "i8"),  # longest queue of an engine
        ("max_outstanding", "i8"),  # most requests at an engine, running or queued
        ("drafts", "i8"),  # tokens drafted a decode step
        ("draft_s", "f8"),  # time that takes
        ("accepted", "f8", (DRAFTS_MAX + 1,)),  # chance that at most 0, 1, ... of them are
        ("seed", "u8"),  # of the drafts' luck
        ("max_loras", "i8"),  # different adapters in one batch; 0 for no limit
        ("adapter_s", "f8"),  # time to load one
        ("deadlines", "i8"),  # requests whose clients give up some time
        ("series_s", "f8"),  # width of a bin of the time series
        ("series_bins", "i8"),  # 0: not asked for
        ("ranks", "i8"),  # engines that step in lockstep: those of one replica
        ("clients", "i8"),  # each sends its next request when its last one ended; 0 in an open loop
        ("from_s", "f8"),  # steps that start in [from_s, to_s) are accounted for in the fleet's figures
        ("to_s", "f8"),
        ("chunked", "i1"),
        ("exclusive", "i1"),  # prompts are computed in steps of their own
        ("priority", "i1"),  # the queue and the choice of a victim go by priority
        ("resend", "i1"),  # requests of a replica that is gone go to another one
        ("caching", "i1"),
        ("loads_async", "i1"),  # a request waits for what it loads from a tier, and nobody else
        ("hands_over", "i1"),  # what ends here goes on elsewhere: its blocks are held until they are fetched
        ("fast", "i1"),  # collapse steps in which nothing but decoding can happen
    ],
    align=True,
)

# What all engines add up in.
TOTALS = np.dtype(
    [
        ("gaps", "i8", (GAP_OCTAVES * GAP_STEPS,)),
        ("usage_s", "f8", (USAGE_BINS + 1,)),  # seconds by share of KV blocks in use
        ("waits_s", "f8", (len(WAITS),)),  # seconds by what kept the head of a queue waiting
        ("series", "f8", (SERIES_BINS, SERIES_COLUMNS)),  # summed over engines
        ("sent_first", "i8"),  # closed loop: requests on their way to an engine, a list linked by `after`
        ("sent_last", "i8"),
        ("held_first", "i8"),  # requests without a replica: it is gone, or none was open; linked by `after`
        ("held_last", "i8"),
        ("opened", "i8"),  # engines that take requests
        ("turn", "i8"),  # engine that was routed to last
        ("tickets", "i8"),  # requests routed so far
        ("reported_s", "f8"),  # when the router last heard from the engines
    ],
    align=True,
)

OUTAGE = np.dtype([("at_s", "f8"), ("engine", "i8"), ("kind", "i8")], align=True)

# A hash of the trace in an engine's caches: the run that holds it on the device, and its place in the list of the
# host's tier (least recently used first). The last row of hashes is the remote tier's.
HASH = np.dtype([("run", "i4"), ("older", "i4"), ("newer", "i4")], align=True)

ADAPTER = np.dtype([("users", "i8"), ("step", "i8")], align=True)  # latest admission; NONE when not loaded

# A tier of the prefix cache beyond the device.
TIER = np.dtype(
    [
        ("hashes_max", "i8"),
        ("held", "i8"),
        ("oldest", "i8"),
        ("newest", "i8"),
        ("block_s", "f8"),  # to load one engine block
        ("lookup_s", "f8"),
    ],
    align=True,
)

# What an engine has on its way, in or out.
PORT = np.dtype(
    [
        ("loading", "i8"),  # requests that wait for their KV
        ("first", "i8"),  # those whose time is known, in order of it, linked by `before` and `after`
        ("last", "i8"),
        ("free_s", "f8", (2,)),  # when the way from the host's and from the remote tier is free
        ("out_first", "i8"),  # requests the loop has to see to, linked by `next`
        ("out_last", "i8"),
    ],
    align=True,
)

FINISH, CROSS = range(2)

ABSENT_HASH = -2


class Fleet(NamedTuple):
    """All that a replay reads and changes. First axis: requests, engines, or one entry for the whole fleet."""

    requests: Records
    engines: Records
    rules: Records
    totals: Records
    runs: Records
    hashes: Records
    """By engine and hash id; one row more, for the remote tier, where there are tiers."""
    ids: NDArray[np.int32]
    """Hash ids of all requests, one after the other."""
    phases: NDArray[np.int64]
    """Decoding requests by engine and base modulo block size: those of one phase open a block with the same step."""
    prefills: NDArray[np.int64]
    """By engine: running requests that still compute their prompt, in order of admission."""
    heaps: NDArray[np.int64]
    """By engine, a heap of (step, request) by when a request ends, and one by when its context reaches the window."""
    adapters: Records
    """By engine and adapter."""
    tiers: Records | None
    """The host tiers of all engines, then the remote tier."""
    ports: Records | None
    """By engine, where KV comes from elsewhere while steps go on, or goes elsewhere."""


def new_requests(n: int) -> Records:
    """Records of `n` requests that have not arrived."""
    requests = np.zeros(n, dtype=REQUEST)
    for name in ("queued_s", "admitted_s", "first_s", "last_s", "end_s"):
        requests[name] = np.nan
    for name in ("before", "after", "own_run", "engine", "adapter", "next"):
        requests[name] = NONE
    requests["deadline_s"] = np.inf
    return requests


def new_engines(n: int, kv_blocks: int) -> Records:
    """Records of `n` idle engines with `kv_blocks` empty blocks each."""
    engines = np.zeros(n, dtype=ENGINE)
    engines["end_s"] = np.inf
    engines["asleep"] = engines["open"] = 1
    for name in ("head", "tail", "wait_root", "oldest", "newest", "spare"):
        engines[name] = NONE
    engines["empty"] = kv_blocks
    return engines


def new_rules(**rules: ArrayLike) -> Records:
    """One RULES record; every field must be given."""
    record = np.zeros(1, dtype=RULES)
    if set(rules) != set(RULES.names or ()):
        raise TypeError(f"rules given: {sorted(rules)}; there are {sorted(RULES.names or ())}")
    for name, value in rules.items():
        if name == "accepted":
            record[name] = 1.0
            record[name][0, : np.size(value)] = value
        else:
            record[name] = value
    return record


def new_totals(engines: int) -> Records:
    """Nothing added up yet."""
    totals = np.zeros(1, dtype=TOTALS)
    for name in ("sent_first", "sent_last", "held_first", "held_last", "turn"):
        totals[name] = NONE
    totals["opened"] = engines
    totals["reported_s"] = -np.inf
    return totals


def new_ports(engines: int) -> Records:
    """Nothing on its way."""
    ports = np.zeros(engines, dtype=PORT)
    for name in ("first", "last", "out_first", "out_last"):
        ports[name] = NONE
    return ports


def gap_bin_upper_s(bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """Upper edges, in seconds, of bins of the gap histogram."""
    octave, step = np.divmod(bins, GAP_STEPS)
    edges: NDArray[np.float64] = np.ldexp(0.5 + (step + 1) / (2 * GAP_STEPS), octave + GAP_FLOOR_EXPONENT)
    return edges
