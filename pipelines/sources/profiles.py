"""Measured step times of one configuration: which format a source has, and its points as rows of `step_profile`.

Belongs here: files, folders and patterns, detection, the table format of our own, tolerance. Does not: any outside
format (`dynamo_profile`, `vllm_bench_profile`, `vllm_latency`, `aiconfigurator`), or what the times are used for
(`estimator.step_time.profiles`).
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from pipelines.sources import aiconfigurator, dynamo_profile, vllm_bench_profile, vllm_latency
from pipelines.sources.base import SourceError, SourceRead, expanded, fingerprint, refuse_broken, rejected_rows, shown
from pipelines.sources.files import open_source, read_all
from pipelines.sources.profile_points import DOCUMENT_BYTES, PASSED_OVER, Found, Read, number
from warehouse.contracts import violations
from warehouse.frames import polars_schema
from warehouse.registry import table

FORMATS = ("auto", "dynamo", "vllm-bench", "vllm-latency", "csv", aiconfigurator.NAME)
CONFIGURATION = ("model_id", "gpu_id", "engine", "engine_version", "tp", "dp", "ep", "precision")
"""Columns of `step_profile` that say what was measured."""
_TABLE = table("step_profile")
_SIZES = ("sequences", "context_tokens", "prompt_tokens")


def read_profile(
    folder: Path,
    source: str,
    of: Mapping[str, Any],
    *,
    format: str = "auto",
    label: str = "measured",
    options: Mapping[str, object] | None = None,
    config: Mapping[str, Any] | None = None,
    longest: int = 32_768,
    max_rejected_share: float = 0.05,
) -> list[SourceRead]:
    """The points of a file, folder or pattern in `folder`, one read a file; or of `aiconfigurator`, asked for them.

    `of` is the configuration they were measured on (CONFIGURATION); `options` what the files do not say of their runs.
    `config` is the model's and `longest` its longest context, for AIConfigurator alone.

    Raises:
        SourceError: nothing is there, it is no profile, too much of it is broken, or it holds no usable point.
    """
    if format not in FORMATS:
        raise SourceError(f"{source}: no profile format is called {shown(format)}. Use {', '.join(FORMATS)}.")
    declared = dict(options or {})
    if format == aiconfigurator.NAME or (format == "auto" and source == aiconfigurator.NAME):
        return [_asked(source, of, config, longest)]
    files, kind = _files(folder, source, format)
    tp = int(of["tp"])
    if kind == "vllm-latency":
        reads = vllm_latency.read(files, declared, tp)
    elif kind == "dynamo":
        reads = [dynamo_profile.read(found, int(of["dp"])) for found in files]
    elif kind == "vllm-bench":
        reads = [vllm_bench_profile.read(found, tp) for found in files]
    else:
        reads = [_csv(found) for found in files]
    whole = sum(len(read.rows) for read in reads)
    made = []
    for found, read in zip(files, reads, strict=True):
        content = hashlib.sha256(found.path.read_bytes()).hexdigest()
        known = {"label": label, "source": found.name}
        sha256 = fingerprint(content, kind, {**declared, **{name: of[name] for name in CONFIGURATION}, "label": label})
        size = found.path.stat().st_size
        made.append(
            _source_read(found.name, source, kind, read, {**of, **known}, sha256, size, whole, max_rejected_share)
        )
    return made


def _source_read(
    name: str,
    profile: str,
    kind: str,
    read: Read,
    known: Mapping[str, Any],
    sha256: str,
    size_bytes: int,
    whole: int,
    max_rejected_share: float,
) -> SourceRead:
    blank = {column.name: None for column in _TABLE.columns}
    rows = [{**blank, **known, **row, "source_file": name, "profile": profile} for row in read.rows]
    typed = pl.DataFrame(rows, schema=polars_schema(_TABLE), orient="row")
    frame, refused = violations(_TABLE, typed)
    broken = read.broken + [
        (int(line), str(reason), "") for line, reason in refused.select("line", "reason").iter_rows()
    ]
    rejected = rejected_rows(name, sorted(broken))
    worse = rejected.filter(~pl.col("reason").str.starts_with(PASSED_OVER))
    first = (worse if worse.height else rejected).head(3)
    rows_read = frame.height + rejected.height
    refuse_broken(name, rows_read, worse.height, whole, first, max_rejected_share)
    return SourceRead(name, kind, frame, rejected, rows_read, sha256, size_bytes, "; ".join(read.notes))


def _asked(source: str, of: Mapping[str, Any], config: Mapping[str, Any] | None, longest: int) -> SourceRead:
    """AIConfigurator's estimates as a source of their own."""
    aiconfigurator.installed()
    if config is None:
        raise SourceError(f"{source}: AIConfigurator needs the model's config. Name a model that was read.")
    read, told = aiconfigurator.read(of, config, longest)
    ranks = f"TP{of['tp']} DP{of['dp']} EP{of['ep']}"
    on = f"{of['gpu_id']} / {ranks} / {of['precision']} / {of['engine']}@{of['engine_version']}"
    name = f"{source}: {of['model_id']} on {on}"
    text = json.dumps(dict(config), sort_keys=True)
    sha256 = fingerprint(hashlib.sha256(text.encode()).hexdigest(), told, {key: of[key] for key in CONFIGURATION})
    known = {**of, "label": "cited", "source": told}
    return _source_read(name, source, aiconfigurator.NAME, read, known, sha256, 0, len(read.rows), 0.0)


def _files(folder: Path, source: str, format: str) -> tuple[list[Found], str]:
    """The files that a source names, and what they are; all of one format."""
    path = folder / expanded(source)
    if glob.has_magic(source) and not path.exists():
        fixed = next(index for index, part in enumerate(path.parts) if glob.has_magic(part))
        root, pattern = Path(*path.parts[:fixed]), str(PurePosixPath(*path.parts[fixed:]))
        found = [
            Found(str(file.relative_to(folder)) if file.is_relative_to(folder) else str(file), file)
            for file in sorted(root.glob(pattern))
            if file.is_file()
        ]
        if not found:
            raise SourceError(f"{source} matches no file (looked in {root}). Mend the pattern, or put the files there.")
    elif path.is_dir():
        place = Found(source, path)
        dynamo = dynamo_profile.files_in(place) if format in ("auto", "dynamo") else []
        found = dynamo or ([] if format == "dynamo" else _in_folder(place, format))
        if not found:
            raise SourceError(
                f"{source} holds no profile: neither a Dynamo profiler's raw_data.npz nor results of vllm bench. Name "
                "the folder or the file that does."
            )
    elif path.is_file():
        found = [Found(source, path)]
    else:
        raise SourceError(f"{source} is not there (looked for {path}). Mend the path, or put the file there.")
    kinds = {_kind(one) for one in found} if format == "auto" else {format}
    if len(kinds) > 1:
        raise SourceError(
            f"{source} holds {' and '.join(sorted(kinds))} files. Name each kind in a profile of its own."
        )
    return found, kinds.pop()


def _in_folder(place: Found, format: str) -> list[Found]:
    """A folder's benchmark results; a table of our own is named itself."""
    found = vllm_bench_profile.files_in(place)
    return [one for one in found if _kind(one) == "vllm-latency"] if format == "vllm-latency" else found


def _kind(found: Found) -> str:
    if dynamo_profile.is_profile(found):
        return "dynamo"
    opened = open_source(found.path, found.name)
    text = "".join(opened.first_lines)[:DOCUMENT_BYTES]
    if opened.kind != "text":
        raise SourceError(f"{found.name} is Parquet, and no profile is. Name JSON, CSV or npz.")
    if vllm_bench_profile.looks_like(text):
        return "vllm-bench"
    if vllm_latency.looks_like(text):
        return "vllm-latency"
    if text.lstrip()[:1] in ("{", "["):
        raise SourceError(
            f"{found.name} is JSON of no known profile. Name a result of `vllm bench serve`, `vllm bench latency` or a "
            "Dynamo profiler, or say which with format."
        )
    return "csv"


def _csv(found: Found) -> Read:
    """A table with a column `phase` (decode or prefill), sizes and `time_ms`, as `step_profile` names them."""
    opened = open_source(found.path, found.name)
    if opened.kind != "text" or opened.size_bytes > DOCUMENT_BYTES:
        raise SourceError(f"{found.name} is no CSV of step times. Name one of at most {DOCUMENT_BYTES >> 20} MiB.")
    try:
        rows = csv.reader(io.StringIO(read_all(opened).decode("utf-8-sig")), strict=True)
        header = [cell.strip() for cell in next(rows, [])]
        if not {"phase", "time_ms"} <= set(header):
            raise SourceError(
                f"{found.name}, line 1: a table of step times has phase and time_ms, and {', '.join(_SIZES)}; found "
                f"{shown(', '.join(header), 120)}."
            )
        result = Read(notes=["columns carry their units"])
        for cells in rows:
            if cells:
                _csv_row(rows.line_num, dict(zip(header, cells, strict=False)), ",".join(cells), result)
    except UnicodeDecodeError as error:
        raise SourceError(f"{found.name} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except csv.Error as error:
        raise SourceError(f"{found.name}, line {rows.line_num}: {error}. Mend that line.") from None
    return result


def _csv_row(line: int, row: Mapping[str, str], raw: str, result: Read) -> None:
    phase, ms = row["phase"].strip().lower(), number(row, "time_ms")
    seen_from = (row.get("seen_from") or "client").strip().lower()
    if phase not in ("decode", "prefill") or ms is None or seen_from not in ("client", "engine"):
        result.broken.append((line, "phase is decode or prefill, time_ms a number, seen_from client or engine", raw))
    elif phase == "decode":
        sizes = [number(row, name) for name in ("sequences", "context_tokens")]
        batch, context = (float("nan") if size is None else size for size in sizes)
        span = number(row, "span_tokens") or 0.0
        result.decode(line, raw, sequences=batch, context=context, span=span, ms=ms)
    else:
        tokens = number(row, "prompt_tokens")
        size = float("nan") if tokens is None else tokens
        result.prompt(line, raw, tokens=size, ms=ms, seen_from=seen_from)
