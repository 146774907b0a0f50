"""What an engine puts into its next step, as vLLM V1 does: running requests first, then the queue.

Belongs here: rules of the scheduler on budget, order, preemption and admission. Does not: a request's own moves
(`transitions`), KV blocks (`blocks`), or the step itself (`engine`).

With exclusive prefill (SGLang without --enable-mixed-chunk: `Scheduler.get_next_batch_to_run`, `PrefillAdder`) a step
holds prompts alone while there are any: the one half-way first, then the queue as far as the budget, sequences and
blocks go; decodes have a step when no prompt can be worked on. A request that lacks nothing but the token it is sampled
from is a decode whatever it was before. SGLang also keeps room for answers: `reserve` is its new_token_ratio where it
settles. That it starts higher after an idle moment and a retraction is not modelled, nor that it retracts whom has
least of its answer and sends them behind the queue.
"""

from __future__ import annotations

import math
from typing import Any

from estimator.replay.blocks import blocks_for, find, free_blocks, hold, publish, take
from estimator.replay.compiled import inner, spliced
from estimator.replay.loads import HAD, joins_landed, landed_blocks, starts_load
from estimator.replay.queues import wait_head, wait_pop, wait_push
from estimator.replay.state import (
    BY_ADAPTERS,
    BY_BLOCKS,
    BY_PREEMPTION,
    BY_SEQUENCES,
    BY_TOKENS,
    DECODE,
    NONE,
    PREFILL,
    RESERVED_TOKENS,
    UNLIMITED,
    Fleet,
)
from estimator.replay.tiers import find_beyond, load_s
from estimator.replay.transitions import join, pause, preempt, victim

_UNBOUNDED = 2**60


@inner
def continues(q: Any) -> bool:
    """Whether the next token is all that a request off the decode sums has to compute: it was paused, or drafts."""
    continuing: bool = q.generated > 0 and q.isl + q.generated - q.computed == 1
    return continuing


@inner
def _one_left(q: Any, computed: int) -> bool:
    """Whether a request with so much computed lacks the token alone that its next one is sampled from.

    It decodes: it has had a token, or another engine computed its prompt.
    """
    left: bool = q.isl + q.generated - computed == 1 and (q.generated > 0 or q.remote == HAD)
    return left


@inner
def _has_prompts(f: Fleet, e: int) -> bool:
    """Whether any running request still computes its prompt."""
    for j in range(f.engines[e].prefills):
        q = f.requests[f.prefills[e, j]]
        if not _one_left(q, q.computed):
            return True
    return False


@inner
def _budget(f: Fleet, e: int) -> int:
    """Tokens a step may hold: with exclusive prefill the limit is the prompts'."""
    rules = f.rules[0]
    budget: int = _UNBOUNDED if rules.exclusive and not f.engines[e].alone else rules.max_num_batched_tokens
    return budget


@inner
def _wanted(f: Fleet, q: Any) -> int:
    """Tokens a request with a prompt in work would compute: the rest of it, or the next token and drafts of more.

    No draft goes beyond the end of the answer.
    """
    rules = f.rules[0]
    if rules.drafts > 0 and continues(q):
        wanted: int = min(1 + rules.drafts, q.osl - q.generated)
    else:
        wanted = min(q.isl + q.generated - q.computed, rules.long_prefill_threshold)
    return wanted


@inner
def _in_order(f: Fleet, e: int, now_s: float) -> tuple[bool, int]:
    """Running requests in the order of their list, one by one. Returns whether any was preempted, and the budget left.

    Needed where order tells: several prompts may be half-way (long-prefill threshold) and the budget does not do for
    all, or a victim may stand before the request it makes room for (priority). A decoding request that gets no token
    is paused; when a request has to preempt itself, those behind it get none in this step.
    """
    rules = f.rules[0]
    g = f.engines[e]
    budget = _budget(f, e)
    preempted = False
    ended = False
    r = g.head
    while r != NONE:
        f.requests[r].chunk = 0
        r = f.requests[r].after
    r = g.head
    while r != NONE:
        q = f.requests[r]
        decodes = q.place == DECODE
        computed = g.steps - q.base if decodes else q.computed
        tokens = min(1 if decodes else _wanted(f, q), budget)
        if ended or (g.alone and (decodes or _one_left(q, q.computed))):
            tokens = 0
        need = blocks_for(computed + tokens, rules.block_tokens) - blocks_for(computed, rules.block_tokens)
        before = q.before
        gone = False
        while need > free_blocks(g):
            v = victim(f, e)
            budget += f.requests[v].chunk
            before = q.before
            preempt(f, e, v, f.requests[v].chunk, now_s)
            preempted = True
            if v == r:
                gone = True
                ended = True
                break
        if gone:
            r = g.head if before == NONE else f.requests[before].after
            continue
        take(f, e, need)
        budget -= tokens
        q.chunk = tokens
        if decodes and tokens == 0 and not g.alone:
            pause(f, e, r, now_s)
        r = q.after
    g.prefills = 0
    r = g.head
    while r != NONE:
        if f.requests[r].place == PREFILL:
            f.prefills[e, g.prefills] = r
            g.prefills += 1
        r = f.requests[r].after
    return preempted, budget


@inner
def schedule_running(f: Fleet, e: int, now_s: float) -> tuple[bool, int]:
    """Give running requests their tokens and blocks. Returns whether any was preempted, and the budget left.

    Every decoding request gets its token before prompts share what is left of the budget: where all fit that is what
    any order gives, and without a long-prefill threshold only the tail of the list can be half-way through a prompt.
    """
    rules = f.rules[0]
    g = f.engines[e]
    budget = _budget(f, e)
    phase = g.steps % rules.block_tokens
    needed = 0
    if not g.alone:
        budget -= g.decoding
        needed = f.phases[e, phase]
    short = budget < 0
    sharing = 0
    for j in range(g.prefills):
        q = f.requests[f.prefills[e, j]]
        if g.alone and _one_left(q, q.computed):
            continue
        sharing += 1
        wanted = _wanted(f, q)
        q.chunk = max(0, min(wanted, budget))
        short |= wanted > budget
        budget -= q.chunk
        needed += blocks_for(q.computed + q.chunk, rules.block_tokens) - blocks_for(q.computed, rules.block_tokens)
    if (short and sharing > 1) or (rules.priority and needed > free_blocks(g)):
        return _in_order(f, e, now_s)
    preempted = False
    while needed > free_blocks(g):
        # From the tail: each victim takes its own need away and gives its blocks back.
        q = f.requests[g.tail]
        if q.place == PREFILL:
            needed -= blocks_for(q.computed + q.chunk, rules.block_tokens) - blocks_for(q.computed, rules.block_tokens)
            budget += q.chunk
        elif not g.alone:
            if q.base % rules.block_tokens == phase:
                needed -= 1
            budget += 1
        preempt(f, e, g.tail, 0, now_s)
        preempted = True
    take(f, e, needed)
    return preempted, budget


@inner
def _adapter_in_the_way(f: Fleet, e: int, a: int) -> bool:
    """Whether adapter `a` would be one too many for the batch."""
    most = f.rules[0].max_loras
    in_the_way: bool = most > 0 and a != NONE and f.adapters[e, a].users == 0 and f.engines[e].adapters >= most
    return in_the_way


@inner
def _kept_free(f: Fleet, e: int) -> float:
    """Tokens that room is kept for: a share of what running requests have still to generate."""
    g = f.engines[e]
    tokens = 0
    r = g.head
    while r != NONE:
        q = f.requests[r]
        left = q.finish_step - g.steps if q.place == DECODE else q.osl - q.generated
        tokens += min(left, RESERVED_TOKENS)
        r = q.after
    kept: float = f.rules[0].reserve * tokens
    return kept


@inner
def admit(f: Fleet, e: int, now_s: float, budget: int) -> None:  # noqa: PLR0912, PLR0915
    """Requests move from the queue to the running list while budget, sequences and blocks last; no look-past.

    Except past requests whose adapter would be one too many for the batch: those keep their place in the queue.
    """
    rules = f.rules[0]
    g = f.engines[e]
    g.limit = UNLIMITED
    kept_free = 0.0
    if rules.reserve > 0.0 and g.waiting > 0 and g.shut == 0:
        kept_free = _kept_free(f, e)
    answers = 0
    passed = NONE
    while g.waiting > 0 and g.limit == UNLIMITED:
        if g.running >= rules.max_num_seqs:
            g.limit = BY_SEQUENCES
            break
        if g.shut != 0:
            g.limit = g.shut
            break
        if budget <= 0:
            g.limit = BY_TOKENS
            break
        r = wait_head(g, f.requests)
        q = f.requests[r]
        if _adapter_in_the_way(f, e, q.adapter):
            wait_pop(g, f.requests)
            q.after = passed
            passed = r
            continue
        known = q.isl + q.generated
        held = landed_blocks(f, r)
        hits = 0
        idle = 0
        from_host = 0
        from_remote = 0
        if rules.caching and held == 0:
            # The last token is always computed: it is what the next one is sampled from.
            most = (known - 1) // rules.block_tokens
            hits, idle = find(f, e, r, most)
            from_host, from_remote = find_beyond(f, e, r, hits, most)
        loaded = from_host + from_remote
        computed = q.computed if held > 0 else (hits + loaded) * rules.block_tokens
        chunk = min(known - computed, rules.long_prefill_threshold)
        if rules.exclusive and _one_left(q, computed):
            chunk = 0
        if chunk > budget:
            if not rules.chunked:
                g.limit = BY_TOKENS
                break
            chunk = budget
        need = blocks_for(known, rules.block_tokens) - hits + idle
        short = need > free_blocks(g)
        if rules.reserve > 0.0:
            # Answers of those admitted in this step have room whole.
            answers += min(q.osl - q.generated, RESERVED_TOKENS)
            room = (free_blocks(g) - need) * rules.block_tokens - answers
            short |= g.running > 0 and room < kept_free
        if held == 0 and short:
            g.limit = BY_BLOCKS
            g.shut = BY_BLOCKS
            break
        wait_pop(g, f.requests)
        if held > 0:
            joins_landed(f, r)
        else:
            if rules.caching:
                hold(f, e, r, hits)
            if starts_load(f, e, r, hits, from_host, from_remote, now_s):
                continue
        # A load that landed holds blocks for all that is known; those of later chunks are given back.
        take(f, e, blocks_for(computed + chunk, rules.block_tokens) - hits - held)
        if math.isnan(q.admitted_s):
            q.cached = computed
        if loaded > 0:
            host_s, remote_s = load_s(f, e, r, hits, from_host, from_remote)
            g.load_s += host_s + remote_s
            publish(f, e, r, hits, hits + loaded)
        q.computed = computed
        join(f, e, r, chunk, now_s)
        budget -= chunk
    if passed != NONE and g.limit == UNLIMITED:
        g.limit = BY_ADAPTERS
        g.shut = BY_ADAPTERS
    while passed != NONE:
        r = passed
        passed = f.requests[r].after
        wait_push(g, f.requests, r)


@spliced
def fill(f: Fleet, e: int, now_s: float) -> None:
    """Choose what the next step of engine `e` holds."""
    rules = f.rules[0]
    g = f.engines[e]
    g.alone = rules.exclusive != 0 and _has_prompts(f, e)
    preempted, budget = False, rules.max_num_batched_tokens
    if g.alone or not rules.exclusive:
        preempted, budget = schedule_running(f, e, now_s)
    if preempted and g.running > 0:
        g.limit = BY_PREEMPTION
    else:
        admit(f, e, now_s, budget)
    if rules.exclusive:
        g.alone = _has_prompts(f, e)
        while not g.alone:
            preempted, budget = schedule_running(f, e, now_s)
            if preempted and g.limit == UNLIMITED:
                g.limit = BY_PREEMPTION
            if g.running > 0 or g.waiting == 0 or landed_blocks(f, wait_head(g, f.requests)) == 0:
                break
            # All had to make room, and one whose KV is there can run: nothing else would wake the engine.
            admit(f, e, now_s, rules.max_num_batched_tokens)
            g.alone = _has_prompts(f, e)
