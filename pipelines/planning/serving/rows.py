"""Every row of a file of serving measurements as a case, or with the reason why there is none.

Belongs here: which kind a file is, by its columns, and the rows. Does not: a kind's columns (`closed_loop`,
`open_loop`, `mixed`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from estimator.serving import ServingCase
from pipelines.planning.catalog import Catalog
from pipelines.planning.serving import closed_loop, mixed, open_loop
from pipelines.planning.serving.building import Built, Lookups
from pipelines.planning.serving.cells import Cells
from pipelines.planning.serving.models import Models
from pipelines.sources.model_names import ModelFolders

Kind = Literal["closed loop", "open loop", "mixed"]


@dataclass(frozen=True, slots=True)
class _Format:
    columns: tuple[str, ...]
    measured: Mapping[str, str]
    read: Callable[[Cells, Models, Lookups], Built]
    figures: Callable[[Mapping[str, str]], dict[str, float]]


KINDS: Mapping[Kind, _Format] = {
    "closed loop": _Format(closed_loop.COLUMNS, closed_loop.MEASURED, closed_loop.read, closed_loop.measured_of),
    "open loop": _Format(open_loop.COLUMNS, open_loop.MEASURED, open_loop.read, open_loop.measured_of),
    "mixed": _Format(mixed.COLUMNS, mixed.MEASURED, mixed.read, mixed.measured_of),
}
"""Kinds of files by the columns that tell them: closed-loop sweeps, open-loop runs, collections of both."""


@dataclass(frozen=True, slots=True)
class ServingRow:
    """One row: a case with what was measured, or the reason why it is none.

    `line` counts the header as 1. `measured` holds milliseconds by metric (tpot, ttft, e2e, ttft_p99), or tokens a
    second (throughput), and never reaches the case. `model_kind` is dense, MoE or MLA. `uncounted` names metrics whose
    measured value is no truth about the configuration, with the reason.
    """

    line: int
    cells: Mapping[str, str]
    case: ServingCase | None = None
    measured: Mapping[str, float] = field(default_factory=dict)
    model_kind: str = ""
    assumed: tuple[str, ...] = ()
    uncounted: Mapping[str, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def counted(self) -> dict[str, float]:
        """What was measured and counts."""
        return {metric: value for metric, value in self.measured.items() if metric not in self.uncounted}

    @property
    def mode(self) -> str:
        """aggregated or separated; empty without a case."""
        return "" if self.case is None else "separated" if self.case.prefill is not None else "aggregated"


def kind_of(columns: Iterable[str]) -> Kind | None:
    """The kind of serving measurements a header holds, None for none."""
    present = set(columns)
    for kind, known in KINDS.items():
        if set(known.columns) <= present and present & set(known.measured.values()):
            return kind
    return None


def read_cases(
    rows: Sequence[Mapping[str, str]], folders: ModelFolders, catalog: Catalog, kind: Kind | None = None
) -> list[ServingRow]:
    """Every row read from its configuration columns alone; the file's header is line 1.

    `kind` is that of the first row's columns where it is not given. Raises ValueError for rows of no kind.
    """
    wanted = kind or (kind_of(rows[0]) if rows else "closed loop")
    if wanted is None:
        raise ValueError("the columns are not those of serving measurements")
    known, models, lookups = KINDS[wanted], Models(folders), Lookups(catalog)
    return [_row(line, cells, known, models, lookups) for line, cells in enumerate(rows, start=2)]


def _row(line: int, cells: Mapping[str, str], known: _Format, models: Models, lookups: Lookups) -> ServingRow:
    figures = known.figures(cells)
    try:
        built = known.read(Cells(cells), models, lookups)
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        return ServingRow(line, cells, measured=figures, skipped=" ".join(str(error).split())[:300])
    return ServingRow(line, cells, built.case, figures, built.served.kind, built.assumed, built.uncounted)
