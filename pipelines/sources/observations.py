"""Measured serving: inference-perf's stage reports, or a CSV with the `observation` table's columns.

Belongs here: which format a file has, what the workspace declares for it, its rows into `observation` or rejected.
Does not: comparing them with a prediction (`estimator`).
"""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import polars as pl

from pipelines.sources import delimited, inference_perf
from pipelines.sources.base import SourceError, SourceRead, expanded, fingerprint, rejected_rows, shown
from pipelines.sources.files import Opened, open_source
from warehouse import registry
from warehouse.contracts import violations
from warehouse.frames import polars_schema

_TABLE = registry.table("observation")
_KNOWN = tuple(column.name for column in _TABLE.columns if column.name != "source_file")
_SUFFIX = "_lifecycle_metrics.json"


def read_observations(
    folder: Path, source: str, served: Mapping[str, object] | None = None, format: str = "auto"
) -> list[SourceRead]:
    """The observations of a file in `folder`, or of each file that a pattern (`*`, `?`, `**`) matches: one read a file.

    `served` gives what a file cannot say of itself, by the registry's column names; it fills columns the file does not
    have. `format` is `auto`, `inference-perf` or `csv`.

    Raises:
        SourceError: nothing matches, a file cannot be read, or something a comparison needs is said by nobody.
    """
    declared = dict(served or {})
    unknown = sorted(set(declared) - set(_KNOWN))
    if unknown:
        raise SourceError(
            f"{source}: `served` holds {shown(unknown[0])}, which is no column of an observation. Use "
            f"{', '.join(_KNOWN)}."
        )
    if format not in ("auto", "inference-perf", "csv"):
        raise SourceError(
            f"{source}: no observation format is called {shown(format)}. Use auto, inference-perf or csv."
        )
    return [_read(name, file, declared, format) for name, file in _matches(folder, source)]


def _read(name: str, file: Path, declared: dict[str, object], format: str) -> SourceRead:
    opened = open_source(file, name)
    is_stage = format == "inference-perf" or (format == "auto" and inference_perf.is_stage(opened))
    rows, broken, notes = _stage(opened, declared) if is_stage else _csv(opened, declared)
    rows_read = rows.height + len(broken)
    if not rows_read:
        raise SourceError(f"{name} has a header and no rows. Name the file that holds the rows.")
    frame, refused = violations(_TABLE, rows.drop("raw").with_columns(pl.lit(name).alias("source_file")))
    raw = dict(rows.select("line", "raw").iter_rows())
    broken += [(line, reason, raw[line]) for line, reason in refused.iter_rows()]
    kind = "inference-perf" if is_stage else "csv"
    return SourceRead(
        source_file=name,
        format=kind,
        frame=frame,
        rejected=rejected_rows(name, sorted(broken)),
        rows_read=rows_read,
        sha256=fingerprint(opened.sha256, kind, declared),
        size_bytes=opened.size_bytes,
        detail="; ".join(notes),
    )


def _matches(folder: Path, source: str) -> list[tuple[str, Path]]:
    """Files to read, with the names they go by: the source's own, its pattern filled in."""
    path = folder / expanded(source)
    if not glob.has_magic(source) or path.exists():
        return [(source, path)]
    fixed = next(index for index, part in enumerate(path.parts) if glob.has_magic(part))
    root, pattern = Path(*path.parts[:fixed]), str(PurePosixPath(*path.parts[fixed:]))
    prefix = PurePosixPath(*PurePosixPath(source).parts[: fixed - len(path.parts)])
    found = sorted(file for file in root.glob(pattern) if file.is_file())
    if not found:
        raise SourceError(f"{source} matches no file (looked in {root}). Mend the pattern, or put the files there.")
    return [(str(prefix / file.relative_to(root).as_posix()), file) for file in found]


def _stage(opened: Opened, declared: dict[str, object]) -> tuple[pl.DataFrame, delimited.Broken, list[str]]:
    unsaid = [name for name in inference_perf.UNSAID if name not in declared]
    if unsaid:
        raise SourceError(
            f"{opened.name}: a stage report does not say {', '.join(unsaid)}. Add them under `served` of this source."
        )
    notes = ["durations in s", "one row, the stage"]
    if "replicas" not in declared:
        notes.append("replicas 1 (assumed)")
    found = inference_perf.stage(opened)
    raw = "".join(opened.first_lines)
    if isinstance(found, str):
        nothing = pl.DataFrame(schema={"line": pl.Int64(), "raw": pl.String(), **polars_schema(_TABLE)})
        return nothing, [(1, found, raw)], notes
    fixed = {"replicas": 1, "label": "measured", "source": opened.name, **declared}
    identity = opened.name.removesuffix(_SUFFIX)
    row = {"line": 1, "raw": raw, "observation_id": identity, **found, **fixed}
    return pl.DataFrame([row], infer_schema_length=None), [], notes


def _csv(opened: Opened, declared: dict[str, object]) -> tuple[pl.DataFrame, delimited.Broken, list[str]]:
    if opened.kind != "text":
        raise SourceError(f"{opened.name} is Parquet; observations are read from CSV or stage reports. Save it as CSV.")
    header = delimited.header_of(opened.first_lines[0])
    fallback = {"label": "measured", "source": opened.name} | declared
    bound = {name: name for name in _KNOWN if header.count(name) == 1}
    lacking = [c.name for c in _TABLE.columns if not c.nullable and c.name not in (*bound, *fallback, "source_file")]
    if lacking:
        found = shown(", ".join(header) or opened.first_lines[0], 160)
        raise SourceError(
            f"{opened.name}, line 1: an observation needs {', '.join(lacking[:6])}{'…' if len(lacking) > 6 else ''}. "
            f"Found {found}. Name a stage report or a CSV with those columns, or declare them under `served`."
        )
    parts, broken = [], []
    for rows, unsplit, _ in delimited.cells(opened, bound):
        parts.append(rows.with_columns(pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in bound))
        broken += unsplit
    missing = {name: value for name, value in fallback.items() if name not in bound}
    frame = pl.concat(parts).with_columns(pl.lit(value).alias(name) for name, value in missing.items())
    ignored = [column for column in header if column not in _KNOWN]
    notes = ["columns carry their units"]
    notes += [f"declared: {', '.join(missing)}"] if missing else []
    notes += [f"columns not read: {', '.join(shown(c, 30) for c in ignored[:10])}"] if ignored else []
    return frame, broken, notes
