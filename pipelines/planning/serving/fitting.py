"""`make fit`: the catalogue's step coefficients, made anew from files of serving measurements.

Belongs here: which points teach, what the catalogue then holds, and how far points left out lie from it. Does not: the
fit itself (`estimator.serving.fit`), reading rows (`rows`).

Rules for points, besides those of `predictions.points`:

- Attention ranks inside an aggregated worker (DP attention) do not teach: several files spell the layout in ways that
  cannot be told apart. Separated pools teach TPOT, at a small weight: many speculate, and no column says which. Their
  TTFT hangs on routers and transfers that no column records.
- An open loop with a mean TTFT above 0.3 s teaches nothing: its prompts take a tenth of that, the rest is a queue.
- Of files of other results only stages of an open loop teach; offline throughput is a saturated server's.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from estimator.serving import ServingCase, predict
from estimator.serving.fit import NAMES, Design, Fit, Measured, Problem, Scope, leave_out
from estimator.serving.intervals import SPREAD, Spreads, load_kind
from estimator.step_time import ADJUSTMENT, CLOSED, COEFFICIENT_UNITS, OPEN, coefficients_for, model_kind
from pipelines.planning.catalog import shipped
from pipelines.planning.measurements import read_measurements
from pipelines.planning.serving.correction import correct
from pipelines.planning.serving.predictions import METRICS, Point, Predicted, Value, points, shape, values_of
from pipelines.planning.serving.rows import ServingRow, read_cases
from pipelines.progress import report
from pipelines.sources.model_names import ModelFolders
from warehouse.catalog import catalog_path

FILES = ("serving_measured_closed_loop.csv", "serving_measured_open_loop.csv", "serving_measured_other.csv")
SOURCE = (
    "fit of public measurements (ai-dynamo/aiconfigurator silicon samples, inference-sim validation runs, "
    "kubernetes-sigs/inference-perf stages), shrunk to typical values"
)
SEPARATED_WEIGHT = 0.15
QUEUE_MS = 300.0
CORRECTED = 0.3
"""Of each combination's points, in the second half of the table of errors."""
_NOTHING = dict.fromkeys(METRICS, float("inf"))
_DIGITS = 4
_LEAST_EFFECT = 0.005
_WIDER = 1.3
_ENOUGH = 8
"""Points a spread rests on at least; engines with fewer take that of all engines together."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """The catalogue's new rows, the points, and each predicted from the others' combinations alone, by metric."""

    rows: list[dict[str, str]]
    points: tuple[Point, ...]
    left_out: tuple[Mapping[str, float], ...]


def teaches(row: ServingRow) -> bool:
    """Whether a row is one that the fit learns from (see the rules above)."""
    case = row.case
    if case is None or case.layout.pp > 1 or (case.prefill is not None and case.prefill.pp > 1):
        return False
    if case.prefill is None and case.layout.dp > 1:
        return False
    if case.protocol.concurrency is None and row.measured.get("ttft", 0.0) > QUEUE_MS:
        return False
    kind = row.cells.get("source_kind", "")
    return not kind or "stage" in kind


def fit_catalogue(
    folder: Path, models: Path | None, old: Sequence[Mapping[str, str]], engines: Collection[str] = ()
) -> Fitted:
    """Fit all FILES of `folder`; `old` rows give what is not fitted, and each coefficient's meaning and usual range.

    With `engines`, only points of these are fitted, and rows made, as no point of one engine moves another's.

    Raises SourceError or CapsheetError for files that cannot be read.
    """
    catalog = shipped()
    found: list[Point] = []
    for name in FILES:
        rows = read_cases(read_measurements(folder / name).rows, ModelFolders(models), catalog)
        # Which points teach must not hang on today's coefficients, or no two fits were the same.
        found += points([Predicted(row, dict.fromkeys(row.counted, Value(1.0))) for row in rows if teaches(row)])[0]
    found = [point for point in found if not engines or point.case.engine in engines]
    old = [row for row in old if not engines or row["engine"] in engines]
    values = {row["parameter"]: float(row["value"]) for row in old if row["parameter"] in COEFFICIENT_UNITS}
    others = {name: value for name, value in values.items() if name not in NAMES}
    design = Design([_measured(point) for point in found], others)
    combinations = [(shape(point.case), point.case.accelerator.gpu_id, point.case.engine) for point in found]
    problem = Problem(design, combinations)
    effects = problem.solve(np.ones(len(found), dtype=np.bool_))
    logs, used = leave_out(problem, combinations, effects, lambda i, n: report("combinations left out", i, n))
    left_out = [
        _left_out(point, log, {**others, **dict(zip(NAMES, values, strict=True))})
        for point, log, values in zip(found, np.exp(logs).tolist(), np.exp(used).tolist(), strict=True)
    ]
    fit = problem.result(effects)
    base, adjustments = _base(fit, old), _effects(fit)
    usual = _usual([*base, *adjustments], [point.case for point in found])
    for row in base:
        if row["parameter"] in NAMES:
            row["usual_low"], row["usual_high"] = usual[row["parameter"]]
    return Fitted([*base, *adjustments, *_spreads(found, left_out)], tuple(found), tuple(left_out))


def _left_out(point: Point, fitted_ms: Sequence[float], coefficients: Mapping[str, float]) -> dict[str, float]:
    """A point predicted with coefficients of the others' combinations, by metric, as `capsheet accuracy` does it.

    `fitted_ms`, the fit's TTFT and TPOT, are those of a closed loop; an open loop is replayed and has no figures
    where those coefficients find it saturated.
    """
    case = point.case
    if load_kind(case) == "closed":
        ttft, tpot = fitted_ms
        return {"ttft": ttft, "tpot": tpot, "e2e": ttft + (_osl(case) - 1) * tpot}
    try:
        found = values_of(case, predict(case, coefficients), Spreads({}, frozenset()))
    except ValueError:
        return {}
    return {metric: value.value for metric, value in found.items()}


def _osl(case: ServingCase) -> float:
    return case.osl_tokens * (case.protocol.shortest_ratio + 1) / 2


def _measured(point: Point) -> Measured:
    separated = point.case.prefill is not None
    return Measured(
        point.case,
        None if separated else point.measured.get("ttft"),
        point.measured.get("tpot"),
        SEPARATED_WEIGHT if separated else 1.0,
    )


def _usual(rows: Sequence[Mapping[str, str]], cases: Iterable[ServingCase]) -> dict[str, tuple[str, str]]:
    """The range that each coefficient takes over the cases in either kind of load, a little wider; factors from 1."""
    keys = {
        (c.engine, c.engine_version, c.accelerator.gpu_id, c.precision, model_kind(c.architecture), load)
        for c in cases
        for load in (OPEN, CLOSED)
    }
    values = np.array([[chosen[name] for name in NAMES] for chosen in (coefficients_for(rows, *key) for key in keys)])
    found = {}
    for name, low, high in zip(NAMES, values.min(axis=0), values.max(axis=0), strict=True):
        floor = 1.0 if COEFFICIENT_UNITS[name] == "x" else 0.0
        found[name] = f"{max(floor, low / _WIDER):.2g}", f"{high * _WIDER:.2g}"
    return found


def _base(fit: Fit, old: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """One row an engine and coefficient: fitted, or as it was where no measurement tells."""
    made = []
    for row in old:
        name = row["parameter"]
        if name not in COEFFICIENT_UNITS or row["gpu_scope"] != "*" or row["version_before"]:
            continue
        kept = dict(row) | {"version_from": "0.0"}
        if name in NAMES:
            value = fit.engines[row["engine"]][name]
            kept |= {"value": _short(value), "label": "estimated"}
            kept["source"] = f"{SOURCE}; {fit.points[Scope(row['engine'])]} points"
        made.append(kept)
    return made


def _effects(fit: Fit) -> list[dict[str, str]]:
    made = []
    for scope, values in sorted(fit.effects.items(), key=lambda item: str(item[0])):
        within = "+".join(filter(None, (scope.precision, scope.kind, scope.load)))
        for name in NAMES:
            if abs(np.log(values[name])) < _LEAST_EFFECT:
                continue
            made.append(
                {
                    "engine": scope.engine,
                    "version_from": scope.version_from,
                    "version_before": scope.version_before,
                    "gpu_scope": scope.gpu_scope,
                    "parameter": f"{ADJUSTMENT}{name}" + (f"@{within}" if within else ""),
                    "value": _short(values[name]),
                    "unit": "x of the engine's",
                    "usual_low": "",
                    "usual_high": "",
                    "label": "estimated",
                    "source": f"{SOURCE}; {fit.points[scope]} points",
                    "meaning": f"what {name} is multiplied with here",
                }
            )
    return made


def _spreads(found: Sequence[Point], left_out: Sequence[Mapping[str, float]]) -> list[dict[str, str]]:
    """P10 and P90 of measured over predicted, of points whose combination was left out, by engine, metric and load."""
    logs: dict[tuple[str, str], dict[str, list[float]]] = {}
    for point, predicted in zip(found, left_out, strict=True):
        measured = dict(point.measured)
        if "ttft" in measured and "tpot" in measured:
            measured.setdefault("e2e", measured["ttft"] + (_osl(point.case) - 1) * measured["tpot"])
        for metric, value in measured.items():
            if metric in predicted:
                by_engine = logs.setdefault((metric, load_kind(point.case)), {})
                by_engine.setdefault(point.case.engine, []).append(float(np.log(value / predicted[metric])))
    made = []
    for (metric, load), by_engine in sorted(logs.items()):
        every = [log for some in by_engine.values() for log in some]
        for engine in sorted({point.case.engine for point in found}):
            mine = by_engine.get(engine, [])
            own = len(mine) >= _ENOUGH
            rests_on = f"{SOURCE}; {len(mine if own else every)} points, each with its combination left out"
            where = "separated pools" if load == "separated" else f"{load} loop"
            for end, share in (("p10", 0.1), ("p90", 0.9)):
                made.append(
                    {
                        "engine": engine,
                        "version_from": "0.0",
                        "version_before": "",
                        "gpu_scope": "*",
                        "parameter": f"{SPREAD}_{end}:{metric}@{load}",
                        "value": _short(float(np.exp(np.quantile(mine if own else every, share)))),
                        "unit": "x of predicted",
                        "usual_low": "",
                        "usual_high": "",
                        "label": "estimated",
                        "source": rests_on + ("" if own else "; of all engines"),
                        "meaning": f"{end.upper()} of measured over predicted {metric}, {where}",
                    }
                )
    return made


def _short(value: float) -> str:
    return f"{value:.{_DIGITS}g}"


def errors_table(fitted: Fitted, share: float = CORRECTED) -> list[dict[str, object]]:
    """Median and P90 of the absolute error in percent, each point predicted from the other combinations alone.

    Then those of the points that are left when each combination is corrected on `share` of its own points. A point that
    the others find saturated has no figure; that is an error without bound, not a point fewer.
    """
    known = [
        replace(point, predicted={metric: Value(value) for metric, value in (predicted or _NOTHING).items()})
        for point, predicted in zip(fitted.points, fitted.left_out, strict=True)
    ]
    alone, corrected = _errors(known), _errors(correct(known, share).scored)
    table: list[dict[str, object]] = []
    for key, errors in sorted(alone.items()):
        row: dict[str, object] = {**dict(zip(("load", "engine", "metric"), key, strict=True)), "n": len(errors)}
        for when, some in (("", errors), (f" with {share:.0%}", corrected.get(key, []))):
            for name, quantile in (("median %", 0.5), ("P90 %", 0.9)):
                row[name + when] = round(float(np.quantile(some, quantile)) * 100, 1) if some else ""
        table.append(row)
    return table


def _errors(found: Sequence[Point]) -> dict[tuple[str, str, str], list[float]]:
    """Absolute relative errors by load, engine (and all of them) and metric."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for point in found:
        for metric in METRICS:
            if metric in point.measured and metric in point.predicted:
                error = abs(point.predicted[metric].value / point.measured[metric] - 1)
                for engine in ("all", point.case.engine):
                    groups.setdefault((load_kind(point.case), engine, metric), []).append(error)
    return groups


def main() -> None:
    """Write the catalogue's coefficients anew from the measurements in a folder, and print the left-out errors."""
    from pipelines.commands.show import as_table

    parser = argparse.ArgumentParser(prog="python -m pipelines.planning.serving.fitting", description=main.__doc__)
    parser.add_argument("cases", type=Path, help="folder of serving_measured_*.csv")
    parser.add_argument("--models", type=Path, default=None, help="folder of org--name.json configs")
    asked = parser.parse_args()
    path = catalog_path("coefficients")
    with path.open(newline="", encoding="utf-8") as lines:
        old = list(csv.DictReader(lines))
    fitted = fit_catalogue(asked.cases, asked.models, old)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(old[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(fitted.rows)
    path.write_text(text.getvalue(), encoding="utf-8")
    as_table(errors_table(fitted), f"{len(fitted.points)} points, each predicted with its combination left out")


if __name__ == "__main__":
    main()
