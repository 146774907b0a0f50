"""Cases predicted, and the distinct points their errors are counted on.

Belongs here: asking `estimator.serving` for each row, and which rows make one point. Does not: reading rows (`rows`),
sums of errors (`errors`), corrections (`correction`).

Rules for points, none of which can move a prediction:

- Rows of one configuration are one point: its measured value is the median of the distinct values measured. Two models
  of one shape are one model there (exports name one measurement DeepSeek-R1 and DeepSeek-V3).
- A mean TTFT above 10 s says that clients waited for a slot: such rows are predicted and left out of the errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from estimator.serving import ServingCase, predict
from estimator.serving.intervals import Spreads, interval
from estimator.serving.residuals import Factor
from estimator.step_time import Coefficients, coefficients_for, model_kind
from pipelines.planning.catalog import Rows
from pipelines.planning.serving.rows import ServingRow

METRICS = {
    "tpot": "tpot_mean_ms",
    "ttft": "ttft_mean_ms",
    "e2e": "e2e_mean_ms",
    "ttft_p99": "ttft_p99_ms",
    "throughput": "output_tok_s",
}
"""What errors are counted of, and its name in the answer of `estimator.serving.predict` (throughput is worked out)."""
SATURATED_MS = 10_000.0
SATURATED = "mean TTFT above 10 s: clients wait for a slot"
REPEATED = "repeats a configuration: the median of its measurements counts once"
UNMEASURED = "nothing measured to hold the prediction against"

Shape = tuple[int, int, int]
Combination = tuple[Shape, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Value:
    """A predicted figure, in milliseconds or tokens a second, and its P10 and P90 where the model gives them."""

    value: float
    low: float | None = None
    high: float | None = None

    def corrected(self, factor: Factor) -> Value:
        """The figure times a factor, with the interval that leaves; without one, its own interval times the factor."""
        low, high = (
            self.value * end if end is not None else None if own is None else own * factor.value
            for end, own in ((factor.low, self.low), (factor.high, self.high))
        )
        return Value(self.value * factor.value, low, high)


@dataclass(frozen=True, slots=True)
class Predicted:
    """A row with its predicted values by metric, or the reason why there are none."""

    row: ServingRow
    values: Mapping[str, Value] = field(default_factory=dict)
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """One configuration: what is predicted, and the median of what was measured, in milliseconds by metric."""

    row: ServingRow
    case: ServingCase
    predicted: Mapping[str, Value]
    measured: Mapping[str, float]
    lines: tuple[int, ...]

    @property
    def combination(self) -> Combination:
        """Rows that a user would measure together: model, GPU, engine, precision, and whether pools are separated."""
        case = self.case
        return shape(case), case.accelerator.gpu_id, case.engine, case.precision, self.row.mode

    @property
    def name(self) -> str:
        """The combination for people."""
        case = self.case
        model = case.architecture.model_id.rpartition("/")[2]
        return " · ".join((model, case.accelerator.gpu_id, case.engine, case.precision, self.row.mode))


def shape(case: ServingCase) -> Shape:
    """What makes two models one for time: parameters, width and depth."""
    architecture = case.architecture
    return architecture.parameters_total, architecture.hidden_size, len(architecture.layers)


def predict_rows(rows: Iterable[ServingRow], profile: Rows) -> list[Predicted]:
    """Every row predicted with the catalogue's coefficients, or with the reason why not."""
    chosen: dict[tuple[str, ...], Coefficients] = {}
    spreads = Spreads.of(profile)
    return [_predict(row, profile, chosen, spreads) for row in rows]


def _predict(
    row: ServingRow, profile: Rows, chosen: dict[tuple[str, ...], Coefficients], spreads: Spreads
) -> Predicted:
    case = row.case
    if case is None:
        return Predicted(row, skipped=row.skipped)
    kind = model_kind(case.architecture)
    key = (case.engine, case.engine_version, case.accelerator.gpu_id, case.precision, kind, case.protocol.load)
    try:
        if key not in chosen:
            chosen[key] = coefficients_for(profile, *key)
        return Predicted(row, values_of(case, predict(case, chosen[key]), spreads))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return Predicted(row, skipped=" ".join(str(error).split())[:300])


def values_of(case: ServingCase, answer: Mapping[str, float | None], spreads: Spreads) -> dict[str, Value]:
    """The answer of `estimator.serving.predict` by metric; figures it has none of are left out.

    In a closed loop each client has one request under way, so output tokens a second are clients x mean output length /
    mean end-to-end time (Little's law).
    """
    found = {}
    for metric, name in METRICS.items():
        value = answer.get(name)
        if value is not None:
            found[metric] = Value(value, *(interval(case, metric, value, spreads) or (None, None)))
    clients, whole = case.protocol.concurrency, found.get("e2e")
    if clients is not None and whole is not None:
        osl = case.osl_tokens * (1 + case.protocol.shortest_ratio) / 2
        slow, fast = whole.high, whole.low
        found["throughput"] = Value(
            clients * osl / whole.value * 1e3,
            clients * osl / slow * 1e3 if slow else None,
            clients * osl / fast * 1e3 if fast else None,
        )
    return found


def points(predicted: Sequence[Predicted]) -> tuple[list[Point], dict[int, str]]:
    """The distinct points to count errors on, and by line why a predicted row is no point of its own."""
    left_out: dict[int, str] = {}
    grouped: dict[object, list[Predicted]] = {}
    for one in predicted:
        case = one.row.case
        if case is None or one.skipped:
            continue
        if one.row.measured.get("ttft", 0.0) > SATURATED_MS:
            left_out[one.row.line] = SATURATED
        elif not set(one.row.measured) & set(one.values):
            left_out[one.row.line] = UNMEASURED
        else:
            grouped.setdefault(_configuration(case), []).append(one)
    found = []
    for group in grouped.values():
        first, *others = group
        left_out |= {other.row.line: REPEATED for other in others}
        assert first.row.case is not None
        lines = tuple(one.row.line for one in group)
        found.append(Point(first.row, first.row.case, first.values, _medians(group), lines))
    return found, left_out


def _configuration(case: ServingCase) -> object:
    """What makes two rows one configuration: everything but the models' names."""
    return (
        shape(case),
        case.weights.total_bytes,
        case.accelerator.gpu_id,
        case.engine,
        case.engine_version,
        case.precision,
        case.layout,
        case.prefill,
        case.protocol,
        case.isl_tokens,
        case.osl_tokens,
        case.max_num_batched_tokens,
        case.max_num_seqs,
        case.kv_cache_bytes,
        case.admission_wait_steps,
    )


def _medians(group: Sequence[Predicted]) -> dict[str, float]:
    metrics = [metric for metric in METRICS if any(metric in one.row.counted for one in group)]
    return {
        metric: median({one.row.counted[metric] for one in group if metric in one.row.counted}) for metric in metrics
    }
