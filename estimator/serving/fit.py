"""Step coefficients from measured benchmarks: robust, bounded, shrunk from the particular towards the general.

Belongs here: the fit. Does not: reading measurements, writing the catalogue (`pipelines.planning.serving.fitting`).

A coefficient of a case is its engine's value times what its accelerator family, accelerator, precision, kind of model
and combinations of these add (multiplicative effects). The engine's value is shrunk towards a typical one, each effect
towards 1: new hardware starts from its datasheet, its family and its precision. The posterior mode under Student-t
errors of the logarithms (4 degrees of freedom) is found by Gauss-Newton steps with a line search; the basis is
linear in the coefficients but for the smooth maxima of `step_seconds`, whose derivatives are taken numerically.
Deterministic: one order of points gives one answer to the last bit on one machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.sparse import csr_array

from estimator.bounds import MeanLoad, concurrency_at
from estimator.serving.case import ServingCase
from estimator.serving.composition import COLUMNS, price
from estimator.serving.predict import closed_loop, parameters
from estimator.serving.separated import balance
from estimator.step_time import CLOSED, COEFFICIENT_UNITS, SHARPNESS, WINDOW_INDEX, gpu_family, model_kind

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Prior:
    """A typical value, and how far (standard deviation of the logarithm) engines and what is inside one depart from it.

    Typical values are read off public closed-loop measurements of several engines and the literature on kernels; they
    were set with such data in sight. Dense GEMMs run at 70 % of the datasheet in every engine, whose libraries they
    share: left free, short prompts put into FLOPs what overheads cost, and saturation comes out wrong.
    """

    typical: float
    engines: float
    inside: float


PRIORS: dict[str, Prior] = {
    "step_overhead_us": Prior(100, 0.7, 0.3),
    "layer_overhead_us": Prior(30, 0.5, 0.5),
    "moe_layer_overhead_us": Prior(25, 0.5, 0.5),
    "mla_layer_overhead_us": Prior(15, 0.8, 0.5),
    "linear_layer_overhead_us": Prior(15, 0.8, 0.5),
    "collective_us": Prior(12, 0.3, 0.3),
    "prefill_layer_host_us": Prior(250, 0.6, 0.5),
    "sequence_overhead_us": Prior(6, 0.4, 0.3),
    "sequence_layer_overhead_us": Prior(0.1, 0.8, 0.3),
    "dense_read_factor": Prior(1.15, 0.1, 0.12),
    "dense_flops_factor": Prior(1.4, 0.03, 0.03),
    "expert_read_factor": Prior(1.15, 0.12, 0.15),
    "expert_flops_factor": Prior(3, 0.2, 0.4),
    "collective_bytes_factor": Prior(1.7, 0.3, 0.4),
    "kv_read_factor": Prior(1.2, 0.15, 0.25),
    "attention_flops_factor": Prior(3.5, 0.4, 0.4),
    "request_seconds": Prior(0.02, 1.2, 1.0),
    "prompt_us_per_token": Prior(3, 1.0, 0.7),
    "client_overhead_ms": Prior(1.5, 1.2, 1.0),
    "first_token_steps": Prior(1.0, 1.0, 1.0),
}
"""What is fitted. The other coefficients (imbalance, PCIe latency) no benchmark at hand tells apart."""
NAMES = tuple(PRIORS)
_FACTOR = np.array([COEFFICIENT_UNITS[name] == "x" for name in NAMES])
_REQUEST, _PROMPT, _CLIENT, _LATER = (
    NAMES.index(n) for n in ("request_seconds", "prompt_us_per_token", "client_overhead_ms", "first_token_steps")
)
_BY_LOAD = frozenset(
    {"request_seconds", "prompt_us_per_token", "client_overhead_ms", "first_token_steps", "prefill_layer_host_us"}
)
"""What differs between an open loop and a benchmark's clients: what a request costs beside the accelerator's work."""
_FLOPS = frozenset({"dense_flops_factor", "expert_flops_factor", "attention_flops_factor"})
_CLOSED_FLOPS = 0.5
"""Standard deviation of what prompts' FLOPs cost beyond that in closed loops, where whole batches of prompts meet."""
_ERROR = (0.12, 0.06)
"""Standard deviation of log TTFT and log TPOT that the model is asked to reach."""
_FREEDOM = 4.0
_BALANCE = 0.3
"""A combination of n points weighs n ** (1 - this): long sweeps do not drown short ones."""


_RELEASE_PARTS = {"vllm": 2}
"""By engine, how many numbers of a version name a release with changes of its own; 3 elsewhere."""


def release(engine: str, version: str) -> tuple[str, str]:
    """The range of versions [from, before) that is one release with this version: ("0.15", "0.16")."""
    numbers = [int(n) for n in re.findall(r"\d+", version)[: _RELEASE_PARTS.get(engine, 3)]]
    after = [*numbers[:-1], numbers[-1] + 1]
    return ".".join(map(str, numbers)), ".".join(map(str, after))


@dataclass(frozen=True, slots=True)
class Scope:
    """Where an effect holds, in the words of the catalogue; empty or '*' is anywhere."""

    engine: str
    version_from: str = "0.0"
    version_before: str = ""
    gpu_scope: str = "*"
    precision: str = ""
    kind: str = ""
    load: str = ""


def _scopes(case: ServingCase) -> tuple[tuple[Scope, float], ...]:
    """The scopes a case falls under below its engine, each with its share of a coefficient's freedom `inside`."""
    gpu, kind = case.accelerator.gpu_id, model_kind(case.architecture)
    engine, precision = case.engine, case.precision
    found = [
        (Scope(engine, gpu_scope=gpu_family(gpu) or gpu), 0.7),
        (Scope(engine, gpu_scope=gpu), 0.5),
        (Scope(engine, precision=precision), 0.7),
        (Scope(engine, gpu_scope=gpu, precision=precision), 0.5),
        (Scope(engine, kind=kind), 0.5),
        (Scope(engine, load=case.protocol.load), 2.0),
    ]
    if case.engine_version:
        first, before = release(engine, case.engine_version)
        found.append((Scope(engine, version_from=first, version_before=before), 0.5))
    return tuple(found)


def _spread(scope: Scope, share: float | None) -> list[float]:
    """Standard deviations of the logarithm of each of NAMES in a scope; of engines where there is no share."""
    if share is None:
        return [PRIORS[n].engines for n in NAMES]
    if not scope.load:
        return [PRIORS[n].inside * share for n in NAMES]
    flops = _CLOSED_FLOPS if scope.load == CLOSED else 0.0
    return [PRIORS[n].inside * share if n in _BY_LOAD else flops if n in _FLOPS else 0.0 for n in NAMES]


@dataclass(frozen=True, slots=True)
class Measured:
    """A case and what was measured of it, in milliseconds; None where it was not, or not to be trusted.

    `weight` is what it counts beside others: below 1 where the file leaves open what else was different.
    """

    case: ServingCase
    ttft_ms: float | None
    tpot_ms: float | None
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The fitted values: `engines` by engine and name; `effects` by scope and name (multipliers); points by scope."""

    engines: Mapping[str, Mapping[str, float]]
    effects: Mapping[Scope, Mapping[str, float]]
    points: Mapping[Scope, int]


class Design:
    """Measured cases prepared for fitting: what their steps hold, linear in the coefficients."""

    def __init__(self, measured: Sequence[Measured], others: Mapping[str, float]) -> None:
        """Prepare; `others` are the coefficients that are not fitted. Raises ValueError for a case of no prediction."""
        self.measured = tuple(measured)
        self.others = dict(others)
        n = len(self.measured)
        self.log = np.full((n, 2), np.nan)
        for i, one in enumerate(self.measured):
            for m, value in enumerate((one.ttft_ms, one.tpot_ms)):
                if value is not None:
                    self.log[i, m] = np.log(value)
        bases = [_basis(one.case, self.others) for one in self.measured]
        self.constant = np.array([constant for constant, _ in bases])
        self.basis = np.array([basis for _, basis in bases])
        self.clients = np.array([one.case.protocol.concurrency or 0.0 for one in self.measured])
        self.isl = np.array([one.case.isl_tokens for one in self.measured])
        self.wait_steps = np.array([one.case.admission_wait_steps for one in self.measured])
        self.moves = [bool(one.case.prefill or not one.case.protocol.concurrency) for one in self.measured]
        nothing = np.zeros((0, len(COLUMNS)))
        self.held = [
            nothing if moves else closed_loop(one.case).steps
            for one, moves in zip(self.measured, self.moves, strict=True)
        ]
        self.steps, self.row = nothing, np.zeros(0, dtype=np.int64)

    def settle(self, log_coefficients: Floats, of: Bools | None = None) -> None:
        """Find what depends on step times (open loops, separated pools) anew with these coefficients, `of` some."""
        values = np.exp(log_coefficients)
        for i, one in enumerate(self.measured):
            if self.moves[i] and (of is None or of[i]):
                self.held[i] = _moving_steps(one.case, {**self.others, **dict(zip(NAMES, values[i], strict=True))})
        self.row = np.repeat(np.arange(len(self.held)), [len(some) for some in self.held])
        self.steps = np.concatenate(self.held)

    def predict(self, log_coefficients: Floats) -> Floats:
        """Log TTFT and log TPOT in milliseconds, (points, 2), from log coefficients, (points, len(NAMES))."""
        c = np.exp(log_coefficients)
        p = self.constant + np.einsum("nfk,nk->nf", self.basis, c)
        seconds = np.zeros((len(p), 2))
        price(p, self.steps, self.row, seconds)
        outside_s = c[:, _REQUEST] + self.isl * c[:, _PROMPT] * 1e-6 + self.clients * c[:, _CLIENT] * 1e-3
        seconds[:, 0] += outside_s + (self.wait_steps + c[:, _LATER]) * seconds[:, 1]
        logs: Floats = np.log(seconds * 1e3)
        return logs


def _basis(case: ServingCase, others: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Step parameters as constant + basis @ coefficients; linear, so differences of whole units are exact."""
    ones = {**others, **dict.fromkeys(NAMES, 1.0)}
    at_one = np.nan_to_num(parameters(case, ones), posinf=0.0)
    basis = np.stack([np.nan_to_num(parameters(case, {**ones, n: 2.0}), posinf=0.0) - at_one for n in NAMES], axis=1)
    constant = at_one - basis.sum(axis=1)
    constant[WINDOW_INDEX] = parameters(case, ones)[WINDOW_INDEX]
    basis[WINDOW_INDEX] = 0.0
    return constant, basis


def _moving_steps(case: ServingCase, coefficients: Mapping[str, float]) -> Floats:
    """Steps of a case whose composition depends on step times, in mean field, columns as COLUMNS."""
    p = parameters(case, coefficients)
    if case.prefill is not None:
        decoding, context = balance(case, coefficients)
        return np.array([[decoding, decoding, decoding * context, 0.0, 0.0, decoding, 1.0, 1.0]])
    protocol = case.protocol
    assert protocol.rate_rps is not None
    isl, osl = max(1.0, case.isl_tokens - protocol.shared_prefix_tokens), max(2.0, case.osl_tokens)
    load = MeanLoad(isl, osl, case.max_num_batched_tokens, case.max_num_seqs, exclusive_prefill=case.exclusive_prefill)
    rate = protocol.rate_rps / case.layout.workers
    among = min(concurrency_at(p, load, rate, float(case.max_num_seqs)), float(case.max_num_seqs))
    others = max(0.0, among - 1.0)
    context = case.isl_tokens + osl / 2
    share = min(1.0, others / osl)
    chunk = min(isl, float(case.max_num_batched_tokens))
    pairs = chunk * (case.isl_tokens - chunk / 2)
    plain = [among, among, among * context, 0.0, 0.0, among, min(among, 1.0) / 2, 1.0 - share]
    mixed = [others + chunk, others + 1.0, others * context, pairs, chunk, others + chunk, isl / chunk, share]
    return np.array([plain, mixed])


class Problem:
    """One fit: points, scopes, priors. `known` leaves points out without building anything anew."""

    def __init__(self, design: Design, combinations: Sequence[object]) -> None:
        """Prepare; `combinations` names the combination of each point, for its weight."""
        self.design = design
        cases = [one.case for one in design.measured]
        k = len(NAMES)
        self.scopes: list[Scope] = []
        spreads: list[list[float]] = []
        places: dict[Scope, int] = {}

        def place(scope: Scope, share: float | None) -> int:
            if scope not in places:
                places[scope] = len(self.scopes)
                self.scopes.append(scope)
                spreads.append(_spread(scope, share))
            return places[scope]

        # What all points of an engine share tells nothing apart: it is the engine's own.
        below = [_scopes(c) for c in cases]
        held = Counter(scope for some in below for scope, _ in some)
        of = Counter(c.engine for c in cases)
        found = [
            [
                place(Scope(c.engine), None),
                *(place(s, share) for s, share in some if not s.load or held[s] < of[c.engine]),
            ]
            for c, some in zip(cases, below, strict=True)
        ]
        self.width = max(len(some) for some in found)
        empty = place(Scope(""), 0.0)
        self.at = np.array([some + [empty] * (self.width - len(some)) for some in found])
        self.spread = np.maximum(np.array(spreads), 1e-9)
        self.typical = np.log([PRIORS[n].typical for n in NAMES])
        # Factors are 1 + ...: a soft floor, so that the typical value stays itself.
        self.typical[_FACTOR] = np.log(np.expm1(SHARPNESS * self.typical[_FACTOR])) / SHARPNESS
        counts = Counter(combinations)
        weight = np.array(
            [one.weight * counts[c] ** -_BALANCE for one, c in zip(design.measured, combinations, strict=True)]
        )
        self.weight = weight / weight.mean()
        self.columns = (self.at[:, :, None] * k + np.arange(k)).reshape(len(cases), -1)

    def coefficients(self, effects: Floats) -> tuple[Floats, Floats]:
        """Log coefficients of every point and their derivative by the sum of effects."""
        x = self.typical + effects[self.at].sum(axis=1)
        logs, slope = x.copy(), np.ones_like(x)
        z = SHARPNESS * x[:, _FACTOR]
        logs[:, _FACTOR] = np.logaddexp(0.0, z) / SHARPNESS
        slope[:, _FACTOR] = 1.0 / (1.0 + np.exp(-z))
        return logs, slope

    def solve(self, known: Bools, start: Floats | None = None, rounds: int = 25, settle_every: int = 3) -> Floats:
        """The effects, (scopes, len(NAMES)), from the `known` points."""
        effects = np.zeros_like(self.spread) if start is None else start.copy()
        for turn in range(rounds):
            logs, slope = self.coefficients(effects)
            if settle_every and turn % settle_every == 0:
                self.design.settle(logs)
            before = self._cost(effects, known)
            step = self._step(effects, logs, slope, known)
            size, improved = 1.0, False
            for _ in range(5):
                tried = effects + size * np.clip(step, -1.0, 1.0)
                after = self._cost(tried, known)
                if after < before:
                    effects, improved = tried, True
                    break
                size /= 3.0
            if (not improved or before - after < 1e-4 * before) and turn > 2:
                break
        return effects

    def _errors(self, logs: Floats) -> Floats:
        errors: Floats = np.nan_to_num((self.design.predict(logs) - self.design.log) / _ERROR)
        return errors

    def _cost(self, effects: Floats, known: Bools) -> float:
        e = self._errors(self.coefficients(effects)[0])[known]
        loss = (self.weight[known, None] * np.log1p(e**2 / _FREEDOM)).sum() * (_FREEDOM + 1) / 2
        return float(loss + ((effects / self.spread) ** 2).sum() / 2)

    def _step(self, effects: Floats, logs: Floats, slope: Floats, known: Bools) -> Floats:
        k, size = len(NAMES), effects.size
        at_logs = self.design.predict(logs)
        gradient = np.zeros((len(logs), k, 2))
        for i in range(k):
            moved = logs.copy()
            moved[:, i] += 1e-4
            gradient[:, i] = (self.design.predict(moved) - at_logs) * (slope[:, i, None] / 1e-4)
        gradient = np.nan_to_num(gradient / np.array(_ERROR))
        e = self._errors(logs)
        heavy = self.weight[:, None] * (_FREEDOM + 1) / (_FREEDOM + e**2)
        # In units of the priors' spread: the solution is then well conditioned.
        unit = self.spread.ravel()
        hessian = np.eye(size)
        down = -(effects / self.spread).ravel()
        columns = self.columns[known]
        for m in range(2):
            g = np.tile(gradient[known, :, m], (1, self.width)) * unit[columns]
            w = heavy[known, m]
            np.add.at(down, columns, -g * (w * e[known, m])[:, None])
            starts = np.arange(len(g) + 1) * g.shape[1]
            rows = csr_array(((g * np.sqrt(w)[:, None]).ravel(), columns.ravel(), starts), shape=(len(g), size))
            hessian += (rows.T @ rows).toarray()
        step: Floats = solve(hessian, down, assume_a="pos", overwrite_a=True).reshape(effects.shape) * self.spread
        return step

    def result(self, effects: Floats) -> Fit:
        """The fit in words: engines' values, and effects as multipliers."""
        engines: dict[str, dict[str, float]] = {}
        multipliers: dict[Scope, dict[str, float]] = {}
        for scope, row in zip(self.scopes, effects, strict=True):
            if not scope.engine:
                continue
            if scope == Scope(scope.engine):
                x = self.typical + row
                x[_FACTOR] = np.logaddexp(0.0, SHARPNESS * x[_FACTOR]) / SHARPNESS
                engines[scope.engine] = dict(zip(NAMES, np.exp(x).tolist(), strict=True))
            else:
                multipliers[scope] = dict(zip(NAMES, np.exp(row).tolist(), strict=True))
        counts = Counter(self.scopes[i] for some in self.at for i in some if self.scopes[i].engine)
        return Fit(engines, multipliers, dict(counts))


def leave_out(
    problem: Problem, groups: Sequence[object], start: Floats, report: Callable[[int, int], None] = lambda *_: None
) -> tuple[Floats, Floats]:
    """Every point from the others' groups alone, each group left out in turn.

    Returns log predictions, (points, 2), and the log coefficients behind them, (points, len(NAMES)).
    """
    names = list(dict.fromkeys(groups))
    found = np.full((len(groups), 2), np.nan)
    used = np.full((len(groups), len(NAMES)), np.nan)
    for i, name in enumerate(names):
        mine = np.array([group == name for group in groups])
        effects = problem.solve(~mine, start, rounds=6, settle_every=0)
        logs, _ = problem.coefficients(effects)
        problem.design.settle(logs, mine)
        found[mine] = problem.design.predict(logs)[mine]
        used[mine] = logs[mine]
        report(i + 1, len(names))
    return found, used
