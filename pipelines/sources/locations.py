"""Where a trace lies: a file, a pattern, a folder (hive or not), or an address such as s3://bucket/traces/**.

Belongs here: from what the workspace names to files, what their paths say (hive keys, the day), and a local copy of a
remote one while it is read. Does not: what is in them. Remote places are opened through fsspec, with the credentials
and the endpoint of that file system's own environment variables; none are taken from the address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from pipelines.progress import report
from pipelines.sources.base import SourceError, expanded, shown

_GLOB = re.compile(r"[*?\[]")
_DAY_KEYS = ("date", "dt", "day", "ds")
_DAY = re.compile(r"(?<!\d)(\d{4})-?(\d{2})-?(\d{2})(?!\d)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_CHUNK_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a source: the name its rows carry, where it is, and the hive keys (`date=...`) on its path."""

    name: str
    place: str
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def day(self) -> date | None:
        """The day it was delivered for: a hive key (date, dt, day, ds, or year/month/day), else a date in its path."""
        parts = [self.keys.get(name, "") for name in ("year", "month", "day")]
        said = next((self.keys[name] for name in _DAY_KEYS if _DAY.search(self.keys.get(name, ""))), "")
        if not said and all(parts):
            said = "{}-{:0>2}-{:0>2}".format(*parts)
        match = _DAY.search(said or self.name)
        try:
            return date(*map(int, match.groups())) if match else None
        except ValueError:
            return None

    @contextmanager
    def local(self) -> Iterator[Path]:
        """A path to read it from; a remote file is copied to a temporary one, gone afterwards.

        Raises:
            SourceError: it cannot be fetched.
        """
        if not is_remote(self.place):
            yield Path(self.place)
            return
        with TemporaryDirectory(prefix="capsheet-") as folder:
            copy = Path(folder) / "trace"
            _fetch(self, copy)
            yield copy


def is_remote(source: str) -> bool:
    """Whether a source is an address, not a path."""
    return "://" in source


def find(source: str, folder: Path) -> list[Found]:
    """The files that a source of the workspace in `folder` names, by name: one for a file, all that fit for the others.

    A file that stands there by that very name is itself, whatever signs its name holds. In folders, names that begin
    with a dot or an underscore are left out. A folder of ServeGen chunks is one trace.

    Raises:
        SourceError: a pattern or folder that holds no file, or an address that cannot be read.
    """
    if is_remote(source):
        return _find_remote(source)
    path = folder / expanded(source)
    if path.is_dir() and not any(path.glob("chunk-*-trace.csv")):
        return _several(source, path, path.rglob("*"), folder)
    if _GLOB.search(source) and not path.exists():
        root = Path(path.anchor)
        return _several(source, path, root.glob(str(path.relative_to(root))), folder)
    return [Found(source, str(path))]


def _several(source: str, path: Path, candidates: Iterator[Path], folder: Path) -> list[Found]:
    found = []
    for file in sorted(candidates):
        try:
            inside = file.relative_to(folder)
        except ValueError:
            inside = file
        if file.is_file() and not any(part.startswith((".", "_")) for part in inside.parts):
            found.append(Found(inside.as_posix(), str(file), _keys(inside.as_posix())))
    if not found:
        raise SourceError(f"{source} holds no file (looked for {path}). Mend the path, or put the files there.")
    return found


def _keys(path: str) -> dict[str, str]:
    """Hive keys of a path: `date=2026-01-05/tenant=a/part-0.parquet` has two."""
    pairs = (part.split("=", 1) for part in PurePosixPath(path).parts[:-1] if "=" in part)
    return {key.lower(): unquote(value) for key, value in pairs if key and value != _NO_VALUE}


def _find_remote(source: str) -> list[Found]:
    parts = urlsplit(source)
    if "@" in parts.netloc or parts.query:
        raise SourceError(
            f"{shown(parts.scheme + '://…')} carries credentials or a signature. Name the plain address; credentials "
            "belong in the environment."
        )
    system, path = _system(source)
    try:
        whole = system.find if system.isdir(path) else lambda one: [one]
        places = system.glob(path) if _GLOB.search(path) else whole(path)
    except Exception as error:  # each file system raises its own kinds
        raise _unreachable(source, error) from None
    found = [
        Found(name, name, _keys(name))
        for name in (system.unstrip_protocol(place) for place in sorted(map(str, places)))
        if not PurePosixPath(name).name.startswith((".", "_"))
    ]
    if not found:
        raise SourceError(f"{source} holds no file. Mend the address, or put the files there.")
    return found


def _system(source: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    from fsspec.core import url_to_fs

    try:
        system, path = url_to_fs(source)
    except ImportError as error:
        need = "capsheet[s3]" if source.startswith("s3") else str(error)
        raise SourceError(
            f"{source} needs a package that is not installed: {need}. Install it, or copy the file here."
        ) from None
    except ValueError as error:
        raise SourceError(f"{source}: {error}. Use a path, or an address such as s3://bucket/key.") from None
    return system, path


def _fetch(found: Found, copy: Path) -> None:
    system, path = _system(found.place)
    try:
        with system.open(path, "rb") as remote, copy.open("wb") as local:
            total_mib = max(1, (remote.size or 0) // 2**20)
            while data := remote.read(_CHUNK_BYTES):
                local.write(data)
                report(f"fetching {found.name} (MiB)", min(local.tell() // 2**20, total_mib), total_mib)
    except Exception as error:  # each file system raises its own kinds
        raise _unreachable(found.name, error) from None


def _unreachable(source: str, error: Exception) -> SourceError:
    first = (str(error).splitlines() or [""])[0][:160] or type(error).__name__
    return SourceError(f"{source} cannot be read: {first}. Check the address, the credentials and the endpoint.")
