"""Measured step times of one configuration, carried behind the parameters of its step.

Belongs here: what a measured point is, and how points become the grid that `kernel` interpolates. Does not: the
interpolation itself (`kernel`), reading measurements (`pipelines.sources`), which configuration they are of
(`pipelines.planning.profiles`).

Decode points are read in rows of one context. Inside a row time is interpolated between its batches; a place of the
grid that its row does not reach takes physics, cut to what smaller and larger batches measured. A row was measured
while its contexts grew by `span_tokens`, so the lowest row reaches down and the highest up by half of that, by what
physics adds on the way. Repeated points are averaged. Where noise lets a larger batch be the faster, neighbours that
contradict each other take their median; a profile in order is carried exactly as it was measured. A prompt longer than
a step's budget was measured in several steps: its last chunk gets what the measurement leaves for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from estimator.step_time.kernel import KNOTS, STEP_FIELDS, WINDOW_INDEX, step_seconds

Parameters = NDArray[np.float64]

ROW_WIDTH = 1.05
"""Contexts within this ratio of a row's lowest are one row: runs of random lengths differ in their means."""
LEAST_RATIO, MOST_RATIO = 0.2, 20.0
"""Measured over physical time, median: outside of this the unit, the model or the accelerator is another."""
MOST_PLACES = 250_000
"""Largest grid of batches x contexts: every replay carries it."""
_FIELDS = len(STEP_FIELDS)


@dataclass(frozen=True, slots=True)
class DecodePoint:
    """A decode step of `sequences` that hold `context_tokens` each took `seconds`, prompts aside.

    The context grew by `span_tokens` while it was measured; `context_tokens` is its middle.
    """

    sequences: float
    context_tokens: float
    seconds: float
    span_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class PrefillPoint:
    """A prompt of `tokens` alone took `seconds` to its first token; seen by a client, that holds more than the engine's
    steps (`estimator.step_time.outside_s`)."""

    tokens: float
    seconds: float
    at_client: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured of one configuration, how sure it is, and where it came from."""

    decode: tuple[DecodePoint, ...]
    prefill: tuple[PrefillPoint, ...]
    label: str
    source: str


@dataclass(frozen=True, slots=True)
class Carried:
    """Where the measurements that parameters carry hold: least and most of each, None where nothing was measured."""

    sequences: tuple[float, float] | None
    context_tokens: tuple[float, float] | None
    prompt_tokens: tuple[float, float] | None

    def decodes(self, sequences: float, context_tokens: float) -> bool:
        """Whether a decode step is inside."""
        return _within(self.sequences, sequences) and _within(self.context_tokens, context_tokens)

    def prompts(self, tokens: float) -> bool:
        """Whether a prompt is inside."""
        return _within(self.prompt_tokens, tokens)

    def __str__(self) -> str:
        """The ranges, for people."""
        parts = []
        if self.sequences and self.context_tokens:
            parts.append(f"decode {_range(self.sequences)} sequences x {_range(self.context_tokens)} tokens of context")
        if self.prompt_tokens:
            parts.append(f"prompts of {_range(self.prompt_tokens)} tokens")
        return ", ".join(parts)


def carried(p: Parameters) -> Carried | None:
    """Where the measurements that `p` carries hold; None where it is physics alone."""
    if len(p) == _FIELDS:
        return None
    n, m, k = (int(count) for count in p[_FIELDS:KNOTS])
    prompts = KNOTS + n + m + n * m
    ends = ((KNOTS, n), (KNOTS + n, m), (prompts, k))
    found = [(float(p[at]), float(p[at + count - 1])) if count else None for at, count in ends]
    return Carried(*found)


def is_whole(p: Parameters) -> bool:
    """Whether an array is laid out as STEP_FIELDS, and what it carries behind them is as long as its counts say."""
    if p.ndim != 1 or len(p) < _FIELDS:
        return False
    if len(p) == _FIELDS:
        return True
    if len(p) < KNOTS or not all(float(count).is_integer() and count >= 0 for count in p[_FIELDS:KNOTS]):
        return False
    n, m, k = (int(count) for count in p[_FIELDS:KNOTS])
    return len(p) == KNOTS + n + m + n * m + 2 * k and (n == 0) == (m == 0)


def with_profile(
    p: Parameters,
    profile: Profile,
    *,
    max_num_batched_tokens: int,
    outside_s: Callable[[float, float], float] | None = None,
) -> Parameters:
    """The parameters of a step with a profile behind them, so that every use of them takes measured time first.

    `max_num_batched_tokens` is the step's budget, in whose chunks a longer prompt is computed. `outside_s` gives the
    seconds a request of so many prompt tokens spends outside the engine, given a decode step's seconds: what is taken
    off a prompt's time where a client saw it, since it is added back to every request.

    Raises ValueError for points that cannot be, or that another configuration must have made.
    """
    physics = p[:_FIELDS]
    if not profile.decode and not profile.prefill:
        raise ValueError(f"{profile.source} holds no point")
    sizes = [(x.sequences, x.context_tokens, x.seconds) for x in profile.decode]
    sizes += [(1.0, x.tokens, x.seconds) for x in profile.prefill]
    for batch, tokens, seconds in sizes:
        if not (1 <= batch < np.inf and 1 <= tokens < np.inf and 0 < seconds < np.inf):
            raise ValueError(f"{profile.source}: {seconds:g} s of {batch:g} x {tokens:g} tokens is no measurement")
    axes, contexts, times = _decode_grid(physics, profile)
    counts = [float(len(axes)), float(len(contexts)), 0.0]
    decode = np.concatenate([physics, counts, axes, contexts, times.ravel()])
    prompts, times_s = _prompt_times(decode, profile.prefill, float(max_num_batched_tokens), outside_s)
    measured = [x.seconds / _decode_s(physics, x.sequences, x.context_tokens) for x in profile.decode]
    measured += [s / _prompt_s(physics, n) for n, s in zip(prompts, times_s, strict=True)]
    ratio = median(measured) if measured else 1.0
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        raise ValueError(
            f"{profile.source}: its times are {ratio:.3g} x what this configuration takes by its datasheet and the "
            "fit: its unit, model or accelerator is another"
        )
    decode[_FIELDS + 2] = len(prompts)
    return np.concatenate([decode, prompts, times_s])


def _within(ends: tuple[float, float] | None, value: float) -> bool:
    return ends is not None and ends[0] <= value <= ends[1]


def _range(ends: tuple[float, float]) -> str:
    low, high = (f"{end:,.0f}" for end in ends)
    return low if low == high else f"{low}-{high}"


def _decode_s(p: Parameters, sequences: float, context: float) -> float:
    window = min(context, float(p[WINDOW_INDEX]))
    return float(step_seconds(p, sequences, sequences, sequences * context, sequences * window, 0.0, 0.0))


def _prompt_s(physics: Parameters, tokens: float, done: float = 0.0) -> float:
    """A step that computes `tokens` of one prompt behind `done` of them."""
    return float(step_seconds(physics, tokens, 1.0, 0.0, 0.0, tokens * (done + tokens / 2), tokens))


def _decode_grid(physics: Parameters, profile: Profile) -> tuple[Parameters, Parameters, Parameters]:
    """Sequences, contexts and the seconds of a decode step at every pair of them."""
    points = profile.decode
    if not points:
        return np.zeros(0), np.zeros(0), np.zeros((0, 0))
    rows: list[list[DecodePoint]] = []
    for point in sorted(points, key=lambda x: x.context_tokens):
        if not rows or point.context_tokens > rows[-1][0].context_tokens * ROW_WIDTH:
            rows.append([])
        rows[-1].append(point)
    middles = [float(np.mean([x.context_tokens for x in row])) for row in rows]
    axis = np.unique([x.sequences for x in points])
    if len(axis) * len(rows) > MOST_PLACES:
        raise ValueError(
            f"{profile.source}: {len(axis):,} batches x {len(rows):,} contexts are too fine a grid: thin them out"
        )
    columns = [_row(physics, row, middle, axis) for row, middle in zip(rows, middles, strict=True)]
    reach = [max(x.span_tokens for x in row) / 2 for row in rows]
    ends = ((0, 0, middles[0] - reach[0]), (len(rows), -1, middles[-1] + reach[-1]))
    for place, of, context in reversed(ends):
        if reach[of] > 0 and context >= 0:
            columns.insert(place, _moved(physics, columns[of], axis, middles[of], context))
            middles.insert(place, context)
    contexts = np.array(middles)
    times = _in_order(np.array(columns).T)
    base = np.array([[_decode_s(physics, s, c) for c in contexts] for s in axis])
    low, high = _bounds(times)
    return axis, contexts, np.where(np.isnan(times), np.maximum(low, np.minimum(high, base)), times)


def _row(physics: Parameters, points: Sequence[DecodePoint], middle: float, axis: Parameters) -> Parameters:
    """Seconds at each batch of the axis that a row's points span, as if all had its middle context; NaN beyond."""
    at: dict[float, list[float]] = {}
    for point in points:
        shift = _decode_s(physics, point.sequences, middle) - _decode_s(physics, point.sequences, point.context_tokens)
        at.setdefault(point.sequences, []).append(max(point.seconds + shift, 0.5 * point.seconds))
    batches = sorted(at)
    return np.interp(axis, batches, [float(np.mean(at[s])) for s in batches], left=np.nan, right=np.nan)


def _moved(physics: Parameters, column: Parameters, axis: Parameters, context: float, to: float) -> Parameters:
    """A column at another context: what physics adds on the way, at most halving a time."""
    shift = [_decode_s(physics, s, to) - _decode_s(physics, s, context) for s in axis]
    return np.maximum(column + shift, 0.5 * column)


def _bounds(times: Parameters) -> tuple[Parameters, Parameters]:
    """At each place the slowest measured at or below it, and the fastest at or above it, over both axes."""
    low = np.where(np.isnan(times), -np.inf, times)
    high = np.where(np.isnan(times), np.inf, times)
    for axis in (0, 1):
        low = np.maximum.accumulate(low, axis=axis)
        high = np.flip(np.minimum.accumulate(np.flip(high, axis), axis=axis), axis)
    return low, high


def _in_order(times: Parameters) -> Parameters:
    """Times near those given that never fall along an axis, and are those given where they do not; NaN stays."""
    found = times.copy()
    for view in (found.T, found):
        for line in view:
            held = ~np.isnan(line)
            line[held] = _pooled(line[held])
    low, high = _bounds(found)
    return np.where(np.isnan(found), np.nan, np.where(low == high, found, (low + high) / 2))


def _pooled(times: Parameters) -> list[float]:
    """Neighbours that contradict the order take their median, so that one bad point moves few others.

    Isotonic regression in least absolute deviations by pooling adjacent violators (Barlow et al., 1972).
    """
    blocks: list[list[float]] = []
    for time in times:
        blocks.append([float(time)])
        while len(blocks) > 1 and median(blocks[-2]) > median(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [value for block in blocks for value in [median(block)] * len(block)]


def _prompt_times(
    decode: Parameters,
    points: Sequence[PrefillPoint],
    budget: float,
    outside_s: Callable[[float, float], float] | None,
) -> tuple[Parameters, Parameters]:
    """Prompt lengths and the seconds of a step that is one whole prompt of each, such that a prompt's chunks add up."""
    physics = decode[:_FIELDS]
    at: dict[float, list[float]] = {}
    for point in points:
        outside = 0.0
        if point.at_client and outside_s is not None:
            outside = outside_s(point.tokens, _decode_s(decode, 1.0, point.tokens))
        # A first token that takes hardly longer than what is outside says nothing of the step.
        if point.seconds > 1.1 * outside:
            at.setdefault(point.tokens, []).append(point.seconds - outside)
    lengths = np.array(sorted(at))
    times = _in_order(np.array([[float(np.mean(at[n])) for n in lengths]]).reshape(1, -1))[0]
    for i, n in enumerate(lengths):
        if n > budget:
            times[i] = _last_chunk(physics, lengths[: i + 1], times[: i + 1], budget)
    return lengths, times


def _last_chunk(physics: Parameters, lengths: Parameters, times: Parameters, budget: float) -> float:
    """Whole-prompt time of the last length such that its prompt, in chunks of the budget, takes the last time."""
    n, total = float(lengths[-1]), float(times[-1])
    ends = np.append(np.arange(budget, n, budget), n)
    starts = np.append(0.0, ends[:-1])
    chunks = zip(starts, ends, strict=True)
    base = np.array([_prompt_s(physics, end) for end in ends])
    share = np.array([_prompt_s(physics, end - start, start) for start, end in chunks]) / base
    plain = total / float(share @ base) * float(base[-1])
    # A chunk that ends between the last two lengths is read off both, so the unknown stands in its time too.
    known, unknown = base.copy(), np.zeros(len(ends))
    known[-1], unknown[-1] = 0.0, 1.0
    if len(lengths) > 1:
        before = lengths[-2]
        u = np.clip((ends - before) / (n - before), 0.0, 1.0)
        read = np.interp(ends, lengths[:-1], times[:-1])
        known = np.where(ends < lengths[0], np.minimum(base, times[0]), (1.0 - u) * read)
        unknown = u
    last = (total - float(share @ known)) / float(share @ unknown)
    # A sliver of a last chunk, or noise, can leave it next to nothing or too much: then all chunks share alike.
    sound = 0.5 * plain <= last <= 2.0 * plain and (len(lengths) == 1 or last >= times[-2])
    return last if sound else plain
