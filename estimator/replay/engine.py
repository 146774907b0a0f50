"""An engine steps as vLLM V1 does, or SGLang: schedule, run, complete.

Belongs here: a step from start to end, and its account. Does not: what is scheduled (`schedule`), a request's own moves
(`transitions`), which engine a request goes to (`routing`), or how long a step takes (`estimator.step_time`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estimator.replay.blocks import blocks_for, free_blocks, publish, take
from estimator.replay.compiled import inner, spliced
from estimator.replay.loads import collect, landing_s, reads_only
from estimator.replay.queues import gap_bin, heap_pop, heap_request, heap_step, stall_push
from estimator.replay.schedule import continues, fill
from estimator.replay.state import (
    BUSY,
    BY_SEQUENCES,
    CANCELLED,
    CROSS,
    DONE,
    FINISH,
    LIMIT_0,
    RUNNING,
    SERIES_COLUMNS,
    UNLIMITED,
    USAGE_BINS,
    USED,
    WAITED,
    WAITING,
    Fleet,
)
from estimator.replay.tiers import store
from estimator.replay.transitions import finish, give_up, is_current, next_finish, start_decode, stop_decode
from estimator.step_time import step_seconds

Step = NDArray[np.float64]


@inner
def _account(f: Fleet, g: Any, start_s: float, step_s: float) -> None:
    """Add a step that starts now to the fleet's figures."""
    rules = f.rules[0]
    if rules.from_s <= start_s < rules.to_s:
        g.busy_s += step_s
        g.running_s += step_s * g.running
        used = rules.kv_blocks - g.empty - g.idle
        f.totals[0].usage_s[math.ceil(used * (USAGE_BINS / rules.kv_blocks) - 1e-9)] += step_s
        f.totals[0].waits_s[g.limit] += step_s
    if rules.series_bins > 0:
        _add_to_series(f, g, start_s, step_s)


@inner
def _add_to_series(f: Fleet, g: Any, start_s: float, step_s: float) -> None:
    """Spread a step over the bins of the time series. When it ends beyond the last one, bins are joined in pairs."""
    rules = f.rules[0]
    bins = rules.series_bins
    series = f.totals[0].series
    while start_s + step_s > bins * rules.series_s:
        for i in range(bins):
            for c in range(SERIES_COLUMNS):
                pair = series[2 * i, c] + series[2 * i + 1, c] if 2 * i < bins else 0.0
                series[i, c] = pair
        rules.series_s *= 2.0
    end_s = start_s + step_s
    used = float(rules.kv_blocks - g.empty - g.idle)
    i = int(start_s / rules.series_s)
    while start_s < end_s and i < bins:
        until_s = min(end_s, (i + 1) * rules.series_s)
        share_s = max(0.0, until_s - start_s)
        series[i, BUSY] += share_s
        series[i, RUNNING] += share_s * g.running
        series[i, WAITED] += share_s * g.waiting
        series[i, USED] += share_s * used
        series[i, LIMIT_0 + g.limit] += share_s
        start_s = until_s
        i += 1


@spliced
def _tokens_advance(f: Fleet, e: int, counts: bool) -> None:
    """Every decoding request has one token more, unless the step was for prompts alone."""
    g = f.engines[e]
    gap_s = g.held_s + g.step_s
    if g.decoding > 0 and not g.alone:
        g.kv_full += g.decoding
        g.kv_window += g.below_window
        if counts:
            f.totals[0].gaps[gap_bin(gap_s)] += g.decoding
        stall_push(g, g.steps, gap_s)
    g.held_s = gap_s if g.alone else 0.0
    prefill_tokens = 0
    for j in range(g.prefills):
        prefill_tokens += f.requests[f.prefills[e, j]].computed + f.requests[f.prefills[e, j]].chunk
    g.tokens_max = max(g.tokens_max, g.kv_full + prefill_tokens)


@inner
def _prompt_advances(f: Fleet, e: int, r: int, counts: bool) -> bool:
    """Request `r` has computed its chunk, and sampled a token if that was the last. Returns whether it was."""
    rules = f.rules[0]
    g = f.engines[e]
    q = f.requests[r]
    before = min(q.computed // rules.block_tokens, q.hashed)
    drafts = continues(q)
    held = blocks_for(q.computed + q.chunk, rules.block_tokens)
    new = _emitted(f, r) if drafts else 1
    q.computed += new if drafts else q.chunk
    q.chunk = 0
    after = min(q.computed // rules.block_tokens, q.hashed)
    if rules.caching and after > before:
        publish(f, e, r, before, after)
        g.shut = 0
        store(f, e, r, before, after)
    if not drafts and q.computed < q.isl + q.generated:
        return False
    if q.generated == 0:
        q.first_s = g.end_s
    else:
        # Preempted, paused or with drafts: its client has waited since the last token, and gets the new ones at once.
        gap_s = g.end_s - q.last_s
        q.stall_s = max(q.stall_s, gap_s)
        if counts:
            f.totals[0].gaps[gap_bin(gap_s)] += 1
            f.totals[0].gaps[0] += new - 1
    if drafts:
        g.empty += held - blocks_for(q.computed, rules.block_tokens)
    q.last_s = g.end_s
    q.generated += new
    return True


@inner
def _emitted(f: Fleet, r: int) -> int:
    """Tokens request `r` gets out of a step: one, and the drafts accepted before the first that was not.

    The luck of a draft depends on the seed, the request and the place in its answer, not on when the step is.
    """
    q = f.requests[r]
    if q.chunk == 1:
        return 1
    # SplitMix64 (Steele et al., 2014).
    z = f.rules[0].seed + np.uint64(r * 1_048_583 + q.generated + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    luck = float((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
    accepted: int = 0
    while accepted < q.chunk - 1 and luck >= f.rules[0].accepted[accepted]:
        accepted += 1
    return 1 + accepted


@spliced
def complete(f: Fleet, e: int) -> int:
    """The step in flight ends: tokens appear, requests end, full blocks become hashable. Returns how many ended."""
    g = f.engines[e]
    if g.alone:
        g.prompt_steps += 1
    else:
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
        if f.requests[r].chunk == 0 or not _prompt_advances(f, e, r, counts):
            f.prefills[e, kept] = r
            kept += 1
        elif f.requests[r].generated == f.requests[r].osl:
            finish(f, e, r)
            ended += 1
        elif f.rules[0].drafts > 0 or g.alone:
            # Its first wait for a token is not that of those who decode already: it joins their sums with the next one.
            f.prefills[e, kept] = r
            kept += 1
        else:
            start_decode(f, e, r)
    g.prefills = kept
    if f.rules[0].reserve > 0.0:
        # Answers got on, so that less room is kept for them.
        g.shut = 0
    return ended


@spliced
def _give_ups(f: Fleet, e: int, now_s: float) -> None:
    """Requests whose clients gave up by now leave; the next such moment is noted."""
    g = f.engines[e]
    g.deadline_s = np.inf
    while g.deadline_at < f.rules[0].deadlines:
        r = f.requests[g.deadline_at].by_deadline
        q = f.requests[r]
        if q.deadline_s > now_s:
            g.deadline_s = q.deadline_s
            break
        if q.engine == e and WAITING <= q.place < DONE:
            give_up(f, e, r)
            q.outcome = CANCELLED
        g.deadline_at += 1


@inner
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
        g.limit = BY_SEQUENCES if g.running >= rules.max_num_seqs else g.shut
    now_s = g.end_s
    longest_s = 0.0
    stop_s = min(g.deadline_s, landing_s(f, e))
    flying = False
    decoding = float(g.decoding)
    while g.steps + 1 < last:
        needed = f.phases[e, g.steps % rules.block_tokens]
        if needed > free_blocks(g) or now_s >= stop_s:
            break
        take(f, e, needed)
        step_s = step_seconds(p, decoding, decoding, float(g.kv_full), float(g.kv_window), 0.0, 0.0, decoding)
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


@spliced
def rests(f: Fleet, e: int) -> None:
    """Engine `e`, which is between two steps, has nothing to run until a load lands or a request reaches it."""
    g = f.engines[e]
    g.asleep = 1
    g.end_s = max(g.end_s, landing_s(f, e))


@spliced
def looks_up(f: Fleet, e: int, now_s: float) -> None:
    """Between two steps: clients that gave up leave, loads land."""
    if f.engines[e].deadline_s <= now_s:
        _give_ups(f, e, now_s)
    collect(f, e, now_s)


@spliced
def put_together(f: Fleet, e: int, now_s: float) -> None:
    """Choose what the step of engine `e` that starts now holds."""
    f.engines[e].load_s = 0.0
    fill(f, e, now_s)


@spliced
def tokens_of(f: Fleet, e: int) -> int:
    """Tokens of the step of engine `e` that was put together."""
    g = f.engines[e]
    tokens: int = 0 if g.alone else g.decoding
    for j in range(g.prefills):
        tokens += f.requests[f.prefills[e, j]].chunk
    return tokens


@spliced
def lasts_s(f: Fleet, e: int, p: Step, expert_tokens: float) -> float:
    """How long the step of engine `e` that was put together takes by itself; `expert_tokens` as in `step_seconds`."""
    rules = f.rules[0]
    g = f.engines[e]
    tokens = sequences = kv_full = kv_window = 0
    if not g.alone:
        tokens = sequences = g.decoding
        kv_full = g.kv_full
        kv_window = g.kv_window
    pairs = 0.0
    prompt_tokens = 0
    for j in range(g.prefills):
        q = f.requests[f.prefills[e, j]]
        if q.chunk > 0:
            tokens += q.chunk
            sequences += 1
            if continues(q) or reads_only(f, f.prefills[e, j]):
                kv_full += q.computed
                kv_window += min(q.computed, rules.window)
            else:
                pairs += float(q.chunk) * (q.computed + 0.5 * q.chunk)
                prompt_tokens += q.chunk
    if rules.drafts > 0 and prompt_tokens < tokens:
        g.load_s += rules.draft_s
    step_s: float = step_seconds(
        p, float(tokens), float(sequences), float(kv_full), float(kv_window), pairs, float(prompt_tokens), expert_tokens
    )
    step_s += g.load_s
    return step_s


@spliced
def fly(f: Fleet, e: int, start_s: float, step_s: float) -> None:
    """A step of engine `e` starts; it takes `step_s`."""
    g = f.engines[e]
    g.asleep = 0
    g.step_s = step_s
    g.start_s = start_s
    g.end_s = start_s + step_s
    _account(f, g, start_s, step_s)


@inner
def advance(f: Fleet, e: int, p: Step, until_s: float) -> int:
    """Run engine `e` until its step in flight ends at `until_s` or later. Returns how many requests ended.

    In a closed loop it returns after the first step with which a request ended, before the next step starts.
    """
    rules = f.rules[0]
    g = f.engines[e]
    while g.end_s < until_s:
        if not g.asleep:
            ended = complete(f, e)
            g.asleep = 1
            idle = g.running == 0 and g.waiting == 0
            if idle:
                rests(f, e)
            if rules.clients > 0 and ended > 0:
                return ended
            if idle:
                continue
        looks_up(f, e, g.end_s)
        if g.running == 0 and g.waiting == 0:
            rests(f, e)
            continue
        g.asleep = 0
        quiet = g.prefills == 0 and g.decoding > 0 and g.held_s == 0.0 and rules.fast
        if quiet and (g.waiting == 0 or g.shut or g.running >= rules.max_num_seqs):
            if _fast_forward(f, e, p, until_s):
                return 0
            if min(g.deadline_s, landing_s(f, e)) <= g.end_s:
                g.asleep = 1
                continue
        put_together(f, e, g.end_s)
        step_s = lasts_s(f, e, p, -1.0)
        if g.running == 0:
            rests(f, e)
            continue
        fly(f, e, g.end_s, step_s)
    return 0
