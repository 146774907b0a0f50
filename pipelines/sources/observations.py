"""Measured serving: inference-perf's stage reports, or a CSV with the `observation` table's columns.

Belongs here: which format a file has, what the workspace declares for it, its rows into `observation` or rejected.
Does not: comparing them with a prediction (`estimator`).
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import polars as pl

from pipelines.sources import delimited, inference_perf
from pipelines.sources.base import SourceError, SourceRead, fingerprint, rejected_rows, shown
from pipelines.sources.files import Opened, open_source
from warehouse import registry
from warehouse.contracts import violations

_TABLE = registry.table("observation")
_OURS = ("source_file",)
_SUFFIX = "_lifecycle_metrics.json"


def read_observations(
    path: Path, source_file: str, served: Mapping[str, object] | None = None, format: str = "auto"
) -> SourceRead:
    """Observations of a file, or of every file that a pattern (`*`, `?`, `**`) matches.

    `source_file` is the name that rows and messages carry. `served` gives what the files cannot say of themselves, by
    the registry's column names; it fills columns a file does not have. `format` is `auto`, `inference-perf` or `csv`.

    Raises:
        SourceError: nothing matches, a file cannot be read, or something a comparison needs is said by nobody.
    """
    declared = dict(served or {})
    unknown = sorted(set(declared) - {column.name for column in _TABLE.columns} | set(declared) & set(_OURS))
    if unknown:
        raise SourceError(
            f"{source_file}: `served` holds {shown(unknown[0])}, which is no column of an observation. Use "
            f"{', '.join(column.name for column in _TABLE.columns if column.name not in _OURS)}."
        )
    if format not in ("auto", "inference-perf", "csv"):
        raise SourceError(
            f"{source_file}: no observation format is called {shown(format)}. Use auto, inference-perf or csv."
        )
    opened = [(identity, open_source(file, identity)) for identity, file in _matches(path, source_file)]
    stages = format == "inference-perf" or (format == "auto" and inference_perf.is_stage(opened[0][1]))
    if not stages and len(opened) > 1:
        raise SourceError(f"{source_file} matches {len(opened)} CSV files. Name one a source.")
    rows, broken, notes = (
        _stages(source_file, opened, declared) if stages else _csv(source_file, opened[0][1], declared)
    )
    rows_read = rows.height + len(broken)
    if not rows_read:
        raise SourceError(f"{source_file} has a header and no rows. Name the file that holds the rows.")
    frame, refused = violations(_TABLE, rows.drop("raw"))
    raw = dict(rows.select("line", "raw").iter_rows())
    broken += [(line, reason, raw[line]) for line, reason in refused.iter_rows()]
    name = "inference-perf" if stages else "csv"
    content = hashlib.sha256("".join(one.sha256 for _, one in opened).encode()).hexdigest()
    return SourceRead(
        source_file=source_file,
        format=name,
        frame=frame,
        rejected=rejected_rows(source_file, sorted(broken)),
        rows_read=rows_read,
        sha256=fingerprint(content, name, declared),
        size_bytes=sum(one.size_bytes for _, one in opened),
        detail="; ".join(notes),
    )


def _matches(path: Path, source_file: str) -> list[tuple[str, Path]]:
    """Files to read with the names they go by: the pattern's own folder and what was found below it."""
    if path.exists() or not glob.has_magic(str(path)):
        return [(source_file, path)]
    fixed = next(index for index, part in enumerate(path.parts) if glob.has_magic(part))
    root = Path(*path.parts[:fixed])
    prefix = PurePosixPath(*PurePosixPath(source_file).parts[: fixed - len(path.parts)])
    found = sorted(file for file in root.glob(str(Path(*path.parts[fixed:]))) if file.is_file())
    if not found:
        raise SourceError(
            f"{source_file} matches no file (looked in {root}). Mend the pattern, or put the files there."
        )
    return [(str(prefix / file.relative_to(root).as_posix()), file) for file in found]


def _stages(
    source_file: str, opened: list[tuple[str, Opened]], declared: dict[str, object]
) -> tuple[pl.DataFrame, delimited.Broken, list[str]]:
    unsaid = [name for name in inference_perf.UNSAID if name not in declared]
    if unsaid:
        raise SourceError(
            f"{source_file}: stage reports do not say {', '.join(unsaid)}. Add them under `served` of this source."
        )
    notes = ["durations in s", "one row a stage report, `line` its place among the files in order of name"]
    if "replicas" not in declared:
        notes.append("replicas 1 (assumed)")
    rows, broken = [], []
    for line, (identity, one) in enumerate(opened, 1):
        found = inference_perf.stage(one)
        raw = "".join(one.first_lines)
        if isinstance(found, str):
            broken.append((line, f"{identity}: {found}", raw))
            continue
        fixed = {"replicas": 1, "label": "measured", "source": identity, **declared}
        rows.append({"line": line, "raw": raw, "observation_id": identity.removesuffix(_SUFFIX), **found, **fixed})
    frame = pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame(schema=_raw_schema())
    return frame.with_columns(pl.lit(source_file).alias("source_file")), broken, notes


def _raw_schema() -> pl.Schema:
    text = {column.name: pl.String() for column in _TABLE.columns if column.name not in _OURS}
    return pl.Schema({"line": pl.Int64(), "raw": pl.String(), **text})


def _csv(
    source_file: str, opened: Opened, declared: dict[str, object]
) -> tuple[pl.DataFrame, delimited.Broken, list[str]]:
    if opened.kind != "text":
        raise SourceError(f"{source_file} is Parquet; observations are read from CSV or stage reports. Save it as CSV.")
    header = delimited.header_of(opened.first_lines[0])
    known = [column.name for column in _TABLE.columns if column.name not in _OURS]
    fallback = {"label": "measured", "source": source_file} | declared
    bound = {name: name for name in known if header.count(name) == 1}
    lacking = [c.name for c in _TABLE.columns if not c.nullable and c.name not in (*bound, *fallback, *_OURS)]
    if lacking:
        found = shown(", ".join(header) or opened.first_lines[0], 160)
        raise SourceError(
            f"{source_file}, line 1: an observation needs {', '.join(lacking[:6])}{'…' if len(lacking) > 6 else ''}. "
            f"Found {found}. Name a stage report or a CSV with those columns, or declare them under `served`."
        )
    parts, broken = [], []
    for rows, unsplit in delimited.cells(opened, bound):
        parts.append(rows.with_columns(pl.when(pl.col(name) != "").then(pl.col(name)).alias(name) for name in bound))
        broken += unsplit
    missing = {name: value for name, value in fallback.items() if name not in bound}
    frame = pl.concat(parts).with_columns(
        pl.lit(source_file).alias("source_file"), *(pl.lit(value).alias(name) for name, value in missing.items())
    )
    ignored = [column for column in header if column not in known]
    notes = ["columns carry their units"]
    notes += [f"declared: {', '.join(missing)}"] if missing else []
    notes += [f"columns not read: {', '.join(shown(c, 30) for c in ignored[:10])}"] if ignored else []
    return frame, broken, notes
