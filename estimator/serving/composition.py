"""What the steps of a closed-loop benchmark hold: found once, then priced with any coefficients.

Belongs here: stepping an engine under clients with no think time, and summing steps that are alike. Does not: how long
a step takes (`estimator.step_time`), open loops (`estimator.replay`).

With zero think time arrivals are completions, so what each step holds does not depend on how long steps take. Mean TTFT
and mean TPOT are therefore weighted sums of step times: a request waits for its first token through some steps, and
between its tokens through others. The steps are those of `estimator.replay` (a test holds the two against each other).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from estimator.step_time import WINDOW_INDEX, step_seconds

Floats = NDArray[np.float64]

COLUMNS = (
    "tokens",
    "sequences",
    "kv_tokens",
    "attention_pairs",
    "prefill_tokens",
    "expert_tokens",
    "ttft_weight",
    "tpot_weight",
)
"""Columns of `Composition.steps`. The weights are steps per request: of waiting for its first token, and per token."""
_WEIGHTS = COLUMNS.index("ttft_weight")
"""Where the weights begin, behind what a step holds."""
_KINDS = 24
"""Kinds of step, of decode steps and of steps with prompts each, that steps are summed to."""
_SEED = 20_250_601
"""Of the lengths drawn; any other gives means within the spread of repeated benchmarks."""


@dataclass(frozen=True, slots=True)
class Load:
    """A closed loop as an engine meets it. Lengths are drawn evenly from [shortest, longest], in tokens.

    `exclusive_prefill`: prompts are computed in steps of their own, decodes wait (SGLang's default), instead of
    beside the decodes (vLLM, TensorRT-LLM).
    """

    clients: int
    requests: int
    isl: tuple[int, int]
    osl: tuple[int, int]
    max_num_batched_tokens: int
    max_num_seqs: int
    exclusive_prefill: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Composition:
    """Steps of a benchmark, one row a kind of step, columns as COLUMNS."""

    steps: Floats

    def seconds(self, p: Floats) -> tuple[float, float]:
        """Mean TTFT inside the engine and mean TPOT, in seconds, with step parameters `p` (STEP_FIELDS)."""
        seconds = np.zeros((1, 2))
        price(p[None, :], self.steps, np.zeros(len(self.steps), dtype=np.int64), seconds)
        return float(seconds[0, 0]), float(seconds[0, 1])


@njit(cache=False)
def price(p: Floats, steps: Floats, row: NDArray[np.int64], seconds: Floats) -> None:
    """Add every kind of step to the mean TTFT and TPOT, `seconds` (cases, 2), of the case it belongs to.

    `p` are step parameters, (cases, STEP_FIELDS); `row` names the case of each of `steps` (columns as COLUMNS).
    Not kept on disk: Numba would not see that `step_seconds` changed, and price with yesterday's.
    """
    for k in range(len(steps)):
        i = row[k]
        s = steps[k]
        windowed = min(s[2], s[1] * p[i, WINDOW_INDEX])
        t = step_seconds(p[i], s[0], s[1], s[2], windowed, s[3], s[4], s[5])
        seconds[i, 0] += s[6] * t
        seconds[i, 1] += s[7] * t


@lru_cache(maxsize=16_384)
def composition(load: Load, kinds: int = _KINDS) -> Composition:
    """The steps of a closed loop that serves `load`, summed to at most 2 x `kinds` rows.

    Raises ValueError for a load no engine can serve.
    """
    if load.clients < 1 or load.requests < load.clients or load.max_num_batched_tokens < 1 or load.max_num_seqs < 1:
        raise ValueError(f"{load}: at least one client, a request each, and limits of at least 1")
    if min(load.isl) < 1 or min(load.osl) < 1 or load.isl[0] > load.isl[1] or load.osl[0] > load.osl[1]:
        raise ValueError(f"{load}: lengths are at least 1 token, the shortest first")
    rng = np.random.default_rng(_SEED)
    isl = rng.integers(load.isl[0], load.isl[1], load.requests, endpoint=True).astype(np.float64)
    osl = rng.integers(load.osl[0], load.osl[1], load.requests, endpoint=True).astype(np.float64)
    return Composition(_alike(_steps(load, isl, osl), kinds))


def per_rank(whole: Composition, ranks: int, padded: bool = False) -> Composition:
    """The steps as one of `ranks` attention ranks sees them: its share of the decodes, its own prompts.

    All ranks step together, so each waits for whichever computes a prompt: a step that holds prompts lasts as long as
    on the rank that has the most of them. Experts are spread over all ranks and run an even share of all tokens;
    `padded`, of as many as if every rank had the most.
    """
    if ranks == 1:
        return whole
    steps = whole.steps.copy()
    decodes = steps[:, 0] - steps[:, 4]
    prompts = np.maximum(steps[:, 1] - decodes, 0.0)
    share = np.ceil(prompts / ranks) / np.maximum(prompts, 1.0)
    share[steps[:, 4] == 0.0] = 0.0
    steps[:, 4] *= np.minimum(1.0, share)
    steps[:, 3] *= np.minimum(1.0, share)
    steps[:, 0] = decodes / ranks + steps[:, 4]
    steps[:, 1] = decodes / ranks + prompts * share
    steps[:, 2] /= ranks
    steps[:, 5] = steps[:, 0] if padded else steps[:, 5] / ranks
    return Composition(steps)


def _steps(load: Load, isl: Floats, osl: Floats) -> Floats:
    """Every step, runs of decode steps in one row, columns as COLUMNS."""
    most = int(4 * load.requests + 2 * isl.sum() / load.max_num_batched_tokens + 16)
    out = np.zeros((most, len(COLUMNS)))
    n = _run(load.clients, isl, osl, float(load.max_num_batched_tokens), load.max_num_seqs, load.exclusive_prefill, out)
    steps = out[:n]
    steps[:, _WEIGHTS:] /= load.requests
    return steps


@njit(cache=True)
def _run(  # noqa: PLR0912, PLR0915
    clients: int, isl: Floats, osl: Floats, budget: float, most_sequences: int, exclusive: bool, out: Floats
) -> int:
    """Fill `out` with the steps of the loop; returns how many rows. Weights are sums over requests.

    Running prompts go on first, then the queue, first come first served, while the token budget and the sequences last.
    """
    requests = len(isl)
    decoding = np.zeros(clients, np.bool_)
    request = np.zeros(clients, np.int64)
    computed = np.zeros(clients)
    chunk = np.zeros(clients)
    context = np.zeros(clients)
    left = np.zeros(clients)
    queue = np.zeros(requests + 1, np.int64)
    prompts = np.zeros(clients, np.int64)
    answered = np.zeros(clients, np.int64)
    head, sent, ended, rows = 0, clients, 0, 0
    for c in range(clients):
        request[c] = c
        queue[c] = c
    tail, first_tokens_due, running, decodes, halfway = clients, clients, 0, 0, 0
    kv = 0.0
    per_token = 0.0
    while ended < requests:
        room = budget if exclusive else budget - decodes
        tokens = 0.0
        pairs = 0.0
        scheduled = 0
        for j in range(halfway):
            c = prompts[j]
            chunk[c] = max(0.0, min(isl[request[c]] - computed[c], room - tokens))
            if chunk[c] > 0.0:
                pairs += chunk[c] * (computed[c] + chunk[c] / 2)
                tokens += chunk[c]
                scheduled += 1
        while head < tail and running < most_sequences and tokens < room:
            c = queue[head]
            head += 1
            computed[c] = 0.0
            chunk[c] = min(isl[request[c]], room - tokens)
            prompts[halfway] = c
            halfway += 1
            running += 1
            pairs += chunk[c] * chunk[c] / 2
            tokens += chunk[c]
            scheduled += 1
        row = out[rows]
        rows += 1
        steps = 1.0
        if tokens == 0.0:
            # Nothing but decodes, until the first of them ends.
            steps = np.inf
            for c in range(clients):
                if decoding[c]:
                    steps = min(steps, left[c])
        decodes_too = tokens == 0.0 or not exclusive
        gone = 0
        row[0] = tokens + decodes if decodes_too else tokens
        row[1] = scheduled + decodes if decodes_too else scheduled
        row[2] = kv + decodes * (steps - 1) / 2 if decodes_too else 0.0
        row[3] = pairs
        row[4] = tokens
        row[5] = row[0]
        row[6] = steps * first_tokens_due
        row[7] = steps * per_token
        if decodes_too:
            kv += decodes * steps
            for c in range(clients):
                if decoding[c]:
                    left[c] -= steps
                    context[c] += steps
                    if left[c] <= 0.0:
                        decoding[c] = False
                        decodes -= 1
                        kv -= context[c]
                        per_token -= 1.0 / (osl[request[c]] - 1.0)
                        answered[gone] = c
                        gone += 1
        kept = 0
        for j in range(halfway):
            c = prompts[j]
            r = request[c]
            computed[c] += chunk[c]
            if computed[c] < isl[r]:
                prompts[kept] = c
                kept += 1
                continue
            first_tokens_due -= 1
            if osl[r] > 1.0:
                decoding[c] = True
                context[c] = isl[r]
                left[c] = osl[r] - 1.0
                decodes += 1
                kv += isl[r]
                per_token += 1.0 / (osl[r] - 1.0)
            else:
                answered[gone] = c
                gone += 1
        halfway = kept
        running -= gone
        ended += gone
        for c in answered[: min(gone, requests - sent)]:
            request[c] = sent
            queue[tail] = c
            sent += 1
            tail += 1
            first_tokens_due += 1
    return rows


def _alike(steps: Floats, kinds: int) -> Floats:
    """Steps with and without prompts each sorted by their tokens and summed to rows of equal weight."""
    total = np.maximum(steps[:, _WEIGHTS:].sum(axis=0), 1e-12)
    weight = (steps[:, _WEIGHTS:] / total).sum(axis=1)
    summed = []
    for mine in (steps[:, 4] == 0.0, steps[:, 4] > 0.0):
        some, w = steps[mine], weight[mine]
        if w.sum() <= 0.0:
            continue
        order = np.argsort(some[:, 0], kind="stable")
        some, w = some[order], w[order]
        place = np.minimum((np.cumsum(w) / w.sum() * kinds).astype(np.int64), kinds - 1)
        for kind in np.unique(place):
            alike = some[place == kind]
            share = w[place == kind, None]
            if share.sum() > 0.0:
                mean = (alike[:, :_WEIGHTS] * share).sum(axis=0) / share.sum()
                summed.append(np.concatenate((mean, alike[:, _WEIGHTS:].sum(axis=0))))
    return np.array(summed)
