"""A fleet in one order of time, step by step: ranks in lockstep, and prefill and decode on different replicas.

Belongs here: the loop for fleets whose engines cannot run ahead of each other, and its cached entry. Does not: an
engine's step (`engine`), where a request goes (`routing`), the links between pools (`links`).

At one moment, in this order: replicas come and go, requests arrive, transfers end, steps end, steps begin. With one
rank a replica and one pool this is `kernel.run_open` and `run_closed`, to the last bit, without their shortcuts.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import numpy as np
from numba import njit

from estimator.replay import links as links_module
from estimator.replay.blocks import release
from estimator.replay.compiled import inner
from estimator.replay.engine import Step, complete, fly, lasts_s, looks_up, put_together, rests, tokens_of
from estimator.replay.kernel import COMPILED, fingerprint
from estimator.replay.links import BY_DECODE, BY_PREFILL, FROM_DECODE, FROM_PREFILL, WITH_KV, arrive, next_link, post
from estimator.replay.links import posted as link_posted
from estimator.replay.loads import land, let_go
from estimator.replay.routing import ROUND_ROBIN, choose_rank, enqueue, keep, outage
from estimator.replay.state import CANCELLED, DONE, LOADING, LOST, NONE, REFUSED, REJECTED, Fleet, Records
from estimator.replay.transitions import send


@inner
def _end_step(f: Fleet, c: int, now_s: float) -> None:
    """The step of replica `c` ends, on all its ranks."""
    ranks = f.rules[0].ranks
    busy = False
    for e in range(c * ranks, (c + 1) * ranks):
        g = f.engines[e]
        complete(f, e)
        g.asleep = 1
        busy |= g.running > 0 or g.waiting > 0
    if not busy:
        for e in range(c * ranks, (c + 1) * ranks):
            rests(f, e)


@inner
def _begin_step(f: Fleet, c: int, p: Step, now_s: float) -> None:
    """Replica `c` begins a step if it has something to run: it lasts as long as that of its slowest rank.

    The experts of every rank run an even share of the tokens of all.
    """
    ranks = f.rules[0].ranks
    longest_s = 0.0
    tokens = 0
    for e in range(c * ranks, (c + 1) * ranks):
        f.engines[e].end_s = now_s
        looks_up(f, e, now_s)
        put_together(f, e, now_s)
        tokens += tokens_of(f, e)
    for e in range(c * ranks, (c + 1) * ranks):
        step_s = lasts_s(f, e, p, tokens / ranks)
        if f.engines[e].running > 0:
            longest_s = max(longest_s, step_s)
    for e in range(c * ranks, (c + 1) * ranks):
        if longest_s > 0.0:
            fly(f, e, now_s, longest_s)
        else:
            rests(f, e)


@inner
def _next_step(f: Fleet) -> tuple[float, int]:
    """When a step next ends or begins, and on which replica; ends come first."""
    first = 0
    for e in range(1, len(f.engines)):
        g = f.engines[e]
        least = f.engines[first]
        if g.end_s < least.end_s or (g.end_s == least.end_s and g.asleep < least.asleep):
            first = e
    if len(f.engines) == 0:
        return np.inf, 0
    at_s: float = f.engines[first].end_s
    return at_s, first


@inner
def _reports(f: Fleet, stale_s: float, now_s: float) -> None:
    """The router hears from the engines, as of the last time they reported; called before anything happens now."""
    report_s = math.floor(now_s / stale_s) * stale_s
    if report_s > f.totals[0].reported_s:
        f.totals[0].reported_s = report_s
        for e in range(len(f.engines)):
            f.engines[e].seen = f.engines[e].outstanding


@inner
def _route(f: Fleet, r: int, router: int, stale_s: float, now_s: float) -> None:
    """Request `r` goes to an engine."""
    if router != ROUND_ROBIN and stale_s == 0.0:
        for e in range(len(f.engines)):
            f.engines[e].seen = f.engines[e].outstanding
    enqueue(f, choose_rank(f, r, router), r, now_s)


@inner
def _ends_there(b: Fleet, r: int, now_s: float) -> None:
    """The whole answer of request `r` is with its client: it needs no step of the decode pool."""
    q = b.requests[r]
    q.place = DONE
    q.generated = 1
    q.first_s = now_s
    q.last_s = now_s
    q.end_s = now_s
    if b.rules[0].clients > 0:
        send(b, r + b.rules[0].clients, now_s)


@inner
def _hand_over(
    a: Fleet, b: Fleet, r: int, moves: Records, way: Records, router: int, stale_s: float, now_s: float
) -> None:
    """Request `r` has its prompt computed and a token sampled by the prefill pool: the decode pool goes on."""
    first_token = way[0].first_token
    q = b.requests[r]
    moves[r].handed_s = now_s
    if first_token == FROM_PREFILL and q.osl == 1:
        _ends_there(b, r, now_s)
    elif q.deadline_s <= now_s:
        q.place = DONE
        q.outcome = CANCELLED
    else:
        q.queued_s = now_s
        q.remote = q.isl
        if first_token == FROM_DECODE:
            q.remote = q.isl - 1
        elif q.osl > 1:
            q.generated = 1
        if first_token == FROM_PREFILL:
            q.first_s = now_s
            q.last_s = now_s
        _route(b, r, router, stale_s, now_s)
    if q.place == DONE or q.outcome == REFUSED or q.remote == 0:
        let_go(a, a.requests[r].engine, r, now_s)


@inner
def _hand_over_all(
    a: Fleet, b: Fleet, e: int, moves: Records, way: Records, router: int, stale_s: float, now_s: float
) -> None:
    """Whatever prefill engine `e` has done goes over."""
    assert a.ports is not None
    r = a.ports[e].out_first
    a.ports[e].out_first = NONE
    while r != NONE:
        after = a.requests[r].next
        _hand_over(a, b, r, moves, way, router, stale_s, now_s)
        r = after


@inner
def _lands(b: Fleet, r: int, first_token: int, now_s: float) -> None:
    """The KV of request `r` is where it is decoded."""
    q = b.requests[r]
    if q.place != LOADING:
        return
    e = q.engine
    if first_token == WITH_KV and q.osl == 1:
        assert b.ports is not None
        g = b.engines[e]
        b.ports[e].loading -= 1
        release(b, e, r, q.isl - q.computed, False)
        g.outstanding -= 1
        g.shut = 0
        if g.asleep and g.waiting > 0 and g.end_s > now_s:
            g.end_s = now_s
        _ends_there(b, r, now_s)
        return
    if first_token == WITH_KV:
        q.first_s = now_s
        q.last_s = now_s
    land(b, e, r, now_s)


@inner
def _sees_to(a: Fleet, b: Fleet, e: int, moves: Records, way: Records, now_s: float) -> None:
    """Requests of decode engine `e` that got blocks want their KV; those given up need none held for them."""
    assert b.ports is not None
    r = b.ports[e].out_first
    while r != NONE:
        if b.requests[r].place == DONE:
            let_go(a, a.requests[r].engine, r, now_s)
        else:
            link = 0
            if way[0].by == BY_PREFILL:
                link = a.requests[r].engine // a.rules[0].ranks
            elif way[0].by == BY_DECODE:
                link = e // b.rules[0].ranks
            post(moves, way, r, link, b.requests[r].chunk, now_s)
        r = b.requests[r].next
    b.ports[e].out_first = NONE


def _entry(source: int) -> Callable[..., int]:  # noqa: PLR0915
    """The loop, compiled on first use and kept on disk under `source`, as `kernel` does."""

    @njit(cache=True)
    def stepwise(  # noqa: PLR0912, PLR0915
        a: Fleet,
        b: Fleet,
        pa: Step,
        pb: Step,
        outages: Records,
        moves: Records,
        links: Records,
        way: Records,
        routers: tuple[int, int],
        stale_s: float,
        request_s: float,
    ) -> int:
        """Requests reach fleet `a`; where `b` has engines, `a` computes their prompts and `b` goes on from there."""
        separated = len(b.engines) > 0
        front = b if separated else a
        totals = a.totals[0]
        clients = front.rules[0].clients
        for c in range(clients):
            send(front, c, 0.0)
        coming = 0
        past = 0
        now_s = 0.0
        while True:
            if totals.held_first != NONE and totals.opened > 0:
                r = totals.held_first
                totals.held_first = a.requests[r].after
                if a.requests[r].deadline_s <= now_s:
                    a.requests[r].outcome = CANCELLED
                    a.requests[r].place = DONE
                else:
                    _route(a, r, routers[0], stale_s, now_s)
                continue
            arrival_s = np.inf
            if clients > 0:
                r = front.totals[0].sent_first
                if r != NONE:
                    arrival_s = front.requests[r].sent_s + request_s
            else:
                while coming < len(a.requests) and a.requests[coming].outcome == REJECTED:
                    coming += 1
                r = coming
                if coming < len(a.requests):
                    arrival_s = a.requests[coming].sent_s
            outage_s = outages[past].at_s if past < len(outages) else np.inf
            link_s, on = next_link(moves, links, way)
            step_s, e = _next_step(a)
            other_s, other = _next_step(b)
            in_b = other_s < step_s or (
                separated and other_s == step_s and b.engines[other].asleep < a.engines[e].asleep
            )
            now_s = min(arrival_s, outage_s, link_s, step_s, other_s)
            if now_s == np.inf:
                break
            if stale_s > 0.0:
                _reports(a, stale_s, now_s)
                _reports(b, stale_s, now_s)
            if outage_s == now_s:
                ranks = a.rules[0].ranks
                for k in range(outages[past].engine * ranks, (outages[past].engine + 1) * ranks):
                    outage(a, k, outages[past].kind)
                past += 1
            elif arrival_s == now_s:
                if clients > 0:
                    front.totals[0].sent_first = front.requests[r].after
                    a.requests[r].sent_s = front.requests[r].sent_s
                else:
                    coming += 1
                a.requests[r].queued_s = now_s
                if totals.opened == 0:
                    keep(a, r)
                    continue
                _route(a, r, routers[0], stale_s, now_s)
                if separated and clients > 0 and a.requests[r].outcome == REFUSED:
                    send(b, r + clients, now_s)
            elif link_s == now_s:
                if on == NONE:
                    link_posted(moves, links, way, now_s)
                else:
                    r = arrive(moves, links, way, on, now_s)
                    let_go(a, a.requests[r].engine, r, now_s)
                    _lands(b, r, way[0].first_token, now_s)
            else:
                f = b if in_b else a
                e = other if in_b else e
                ranks = f.rules[0].ranks
                if not f.engines[e].asleep:
                    _end_step(f, e // ranks, now_s)
                    if separated and not in_b:
                        for k in range(e // ranks * ranks, (e // ranks + 1) * ranks):
                            _hand_over_all(a, b, k, moves, way, routers[1], stale_s, now_s)
                else:
                    _begin_step(f, e // ranks, pb if in_b else pa, now_s)
                    if in_b:
                        for k in range(e // ranks * ranks, (e // ranks + 1) * ranks):
                            _sees_to(a, b, k, moves, way, now_s)
        while totals.held_first != NONE:
            a.requests[totals.held_first].outcome = LOST
            totals.held_first = a.requests[totals.held_first].after
        return source

    return stepwise


run_stepwise = _entry(fingerprint(inspect.getmodule(_entry), links_module, *COMPILED))
