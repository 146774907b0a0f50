"""Opening what is named: whole lines at a time, and one clear message when a file is not what it seems.

Belongs here: existence, compression, encoding, and pages saved under a data file's name. Does not: what a line means.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
import polars as pl
import pyarrow as pa

from pipelines.progress import report
from pipelines.sources.base import SourceError, shown

BLOCK_BYTES = 8 * 2**20
"""Few enough to stay in a processor's cache from one step to the next; larger blocks are read more slowly."""
LINE_BYTES = 2**20
"""No format has rows near this long; a longer one is rejected, not parsed."""

Packing = Literal["", "gzip", "zstd"]

_HEAD_BYTES = 64 * 2**10
_LONGEST_HEAD_BYTES = 64 * 2**20
"""Of a file whose first line is longer than a head: what detection needs is on that line, all of it."""
_NEVER = b"\x1f"
"""A separator that no line holds: with it, a line is one cell."""
_ARCHIVES = {b"PK\x03\x04": "a zip archive or a workbook", b"BZh": "bzip2"}
_ARCHIVES |= {b"\xfd7zXZ": "xz", b"%PDF": "a PDF", b"SQLite format 3": "an SQLite database"}
_PACKED: dict[bytes, Packing] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_WIDE = ((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"))


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that can be read: its size, the SHA-256 of its bytes, what it holds, and its first line."""

    path: Path
    name: str
    size_bytes: int
    sha256: str
    kind: Literal["text", "parquet"]
    packing: Packing
    first_lines: tuple[str, ...]
    """The first lines that are not blank, as far as 64 KiB reach, or the first alone where it is longer (up to 64 MiB).

    The first of all is known to be UTF-8.
    """


@dataclass(frozen=True)
class Block:
    """Consecutive whole lines: their bytes, the number of the first, and how long one may be."""

    content: bytes
    first: int
    line_bytes: int = LINE_BYTES

    @property
    def rows(self) -> pl.DataFrame:
        """A frame of `line` (its number) and `raw` (its text)."""
        return self._lines[0]

    @property
    def broken(self) -> list[tuple[int, str, str]]:
        """Lines that cannot be read, as (line, reason, raw)."""
        return self._lines[1]

    @property
    def is_plain(self) -> bool:
        """Every line is a row, just as it stands."""
        return self._lines[2]

    @cached_property
    def ends(self) -> int:
        """How many lines there are, blank ones too."""
        return self.count(b"\n") + (not self.content.endswith(b"\n"))

    def count(self, byte: bytes) -> int:
        """How often a byte occurs."""
        return int(np.count_nonzero(np.frombuffer(self.content, np.uint8) == byte[0]))

    @property
    def is_simple(self) -> bool:
        """All of it is ASCII without quotes, NUL bytes and carriage returns, and no line is too long."""
        if not self.content.isascii() or any(byte in self.content for byte in (b'"', b"\x00", b"\r")):
            return False
        # A line too long would span one of these stretches whole.
        reach = self.line_bytes // 2
        starts = range(0, len(self.content) - reach, reach)
        return all(self.content.find(b"\n", start, start + reach) >= 0 for start in starts)

    def without_header(self) -> Block:
        """What follows the first line that is not blank."""
        body = self.content.lstrip()
        above = self.content[: len(self.content) - len(body)].count(b"\n")
        return replace(self, content=body.partition(b"\n")[2], first=self.first + above + 1)

    @cached_property
    def _lines(self) -> tuple[pl.DataFrame, list[tuple[int, str, str]], bool]:
        rows = _plain(self.content, self.first, self.ends, self.line_bytes)
        if rows is not None:
            return rows, [], True
        numbers, texts, broken = [], [], []
        for number, line in enumerate(self.content.split(b"\n"), self.first):
            reason, text = _complaint(line, self.line_bytes)
            if reason:
                broken.append((number, reason, text))
            else:
                numbers.append(number)
                texts.append(text)
        return _rows(numbers, texts), broken, False


def open_source(path: Path, name: str) -> Opened:
    """Look at a file before reading it.

    Raises:
        SourceError: it is missing, a folder, empty, unreadable, binary, an archive, not UTF-8, or a web page.
    """
    try:
        if path.is_dir():
            raise SourceError(f"{name} is a folder. Name the file in it.")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"{name} is a pipe or a device. Save it to a file and name that.")
        size = status.st_size
        with path.open("rb") as raw:
            sha256 = hashlib.file_digest(raw, "sha256").hexdigest()
            raw.seek(0)
            magic = raw.read(16)
    except FileNotFoundError:
        raise SourceError(f"{name} is not there (looked for {path}). Mend the path, or put the file there.") from None
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise SourceError(f"{name} cannot be read: {what}. Make it a readable file.") from None
    if magic.startswith(b"PAR1"):
        return Opened(path, name, size, sha256, "parquet", "", ())
    for mark, what in _ARCHIVES.items():
        if magic.startswith(mark):
            raise SourceError(f"{name} is {what}, not text. Unpack or export it as CSV, JSONL, gzip, zstd or Parquet.")
    packing: Packing = next((how for mark, how in _PACKED.items() if magic.startswith(mark)), "")
    head, cut = _head(path, name, packing)
    return Opened(path, name, size, sha256, "text", packing, _first_lines(head, name, cut=cut))


def _stream(path: Path, packing: Packing) -> IO[bytes]:
    match packing:
        case "gzip":
            return cast(IO[bytes], gzip.open(path, "rb"))
        case "zstd":
            return cast(IO[bytes], pa.input_stream(str(path), compression="zstd"))
        case _:
            return path.open("rb")


def _head(path: Path, name: str, packing: Packing) -> tuple[bytes, bool]:
    """The beginning of a text file, at least its first line where that is not absurdly long; and whether it is cut."""
    try:
        with _stream(path, packing) as stream:
            head = stream.read(_HEAD_BYTES)
            if len(head) < _HEAD_BYTES:
                return head, False
            parts = [head]
            # A list is a document, whose lines say nothing.
            if b"\n" not in head.lstrip() and not head.lstrip().startswith(b"["):
                while (more := stream.read(2**20)) and len(parts) < _LONGEST_HEAD_BYTES >> 20:
                    parts.append(more)
                    if b"\n" in more:
                        break
                else:
                    return b"".join(parts), bool(more)
            return b"".join(parts), True
    except (EOFError, zlib.error, OSError) as error:
        raise _damaged(name, error) from None


def _damaged(name: str, error: Exception) -> SourceError:
    if isinstance(error, EOFError) or "Truncated" in str(error):
        return SourceError(f"{name} is cut short: its compressed stream has no end. Download or copy it again.")
    return SourceError(f"{name} cannot be unpacked: {error}. Download or copy it again.")


def _first_lines(head: bytes, name: str, *, cut: bool) -> tuple[str, ...]:
    first = _first_line(head, name, cut=cut)
    others = head.decode("utf-8", errors="replace").lstrip("\ufeff").lstrip().split("\n")[1:]
    whole = others[:-1] if cut else others
    return (first, *(line for line in whole if line.strip()))


def _first_line(head: bytes, name: str, *, cut: bool) -> str:
    for mark, encoding in _WIDE:
        if head.startswith(mark):
            raise SourceError(f"{name} is {encoding}, not UTF-8. Save it as UTF-8.")
    if not head.strip():
        raise SourceError(f"{name} is empty. Name the file that holds the rows.")
    line = head.removeprefix(codecs.BOM_UTF8).lstrip().split(b"\n", 1)[0].rstrip(b"\r")
    if b"\x00" in line:
        what = "UTF-16 without a mark, or binary" if line.count(b"\x00") * 3 > len(line) else "binary"
        raise SourceError(f"{name}, line 1 holds NUL bytes: the file is {what}, not UTF-8 text. Save it as UTF-8.")
    text = line.decode("utf-8", errors="replace")
    if text[:200].lower().startswith(("<!doctype", "<html", "<?xml", "<head", "<body")):
        raise SourceError(
            f"{name}, line 1 is a web page, not data: {shown(text)}. The download saved an HTML page (a log-in, a "
            "redirect or an error) under this name; download the file itself again."
        )
    if text.startswith("version https://git-lfs"):
        raise SourceError(f"{name} is a Git LFS pointer, not the data. Run `git lfs pull` and copy the file itself.")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        # A head that ends inside a character is cut, not wrong.
        if error.start >= len(line) - 4 and cut:
            return line[: error.start].decode("utf-8")
        raise SourceError(
            f"{name}, line 1 is not UTF-8 (byte {error.start + 1}): {shown(text)}. Save the file as UTF-8."
        ) from None


def read_all(opened: Opened) -> bytes:
    """Every byte of a text file, unpacked: for formats that are one document.

    Raises:
        SourceError: a compressed stream is cut short or damaged.
    """
    try:
        with _stream(opened.path, opened.packing) as stream:
            return stream.read()
    except (EOFError, zlib.error, OSError) as error:
        raise _damaged(opened.name, error) from None


def blocks(opened: Opened, block_bytes: int = BLOCK_BYTES, *, line_bytes: int = LINE_BYTES) -> Iterator[Block]:
    """The lines of a text file, in blocks, without their line ends; blank lines are left out, numbers stay true.

    Lines that are not UTF-8, hold NUL bytes or are longer than `line_bytes` come as broken, cut.

    Raises:
        SourceError: a compressed stream is cut short or damaged.
    """
    number = 1
    rest, seen_mib, total_mib = b"", 0.0, opened.size_bytes >> 20
    try:
        with _stream(opened.path, opened.packing) as stream:
            while data := stream.read(block_bytes):
                cut = data.rfind(b"\n")
                if cut < 0:
                    rest += data
                    continue
                block = _block(b"".join((rest, memoryview(data)[: cut + 1])), number, line_bytes)
                rest = data[cut + 1 :]
                seen_mib += len(data) / 2**20
                yield block
                number += block.count(b"\n")
                if opened.size_bytes > BLOCK_BYTES:
                    report(f"reading {opened.name} (MiB)", min(round(seen_mib), total_mib), total_mib)
    except (EOFError, zlib.error, OSError) as error:
        raise _damaged(opened.name, error) from None
    if rest:
        yield _block(rest, number, line_bytes)


def _block(chunk: bytes, first: int, line_bytes: int) -> Block:
    return Block(chunk.removeprefix(codecs.BOM_UTF8) if first == 1 else chunk, first, line_bytes)


def _plain(chunk: bytes, first: int, ends: int, line_bytes: int) -> pl.DataFrame | None:
    """Lines that need no care (UTF-8, no NUL, none blank, none too long), all at once; None where any does."""
    if b"\x00" in chunk or _NEVER in chunk:
        return None
    schema = {"raw": pl.String}
    try:
        raw = pl.read_csv(chunk, has_header=False, separator=_NEVER.decode(), quote_char=None, schema=schema)["raw"]
    except (pl.exceptions.PolarsError, OSError):  # OSError: lines that begin like a packed file
        return None
    blank = len(raw) != ends or raw.null_count() or raw.str.contains(r"[ \t\r]$").any()
    if blank or cast(int, raw.str.len_bytes().max()) > line_bytes:
        return None
    return pl.DataFrame([pl.int_range(first, first + len(raw), dtype=pl.Int64, eager=True).alias("line"), raw])


def _rows(numbers: Sequence[int], lines: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"line": numbers, "raw": lines}, schema={"line": pl.Int64, "raw": pl.String})
    return frame.with_columns(pl.col("raw").str.strip_chars_end("\r ")).filter(pl.col("raw").str.strip_chars() != "")


def _complaint(line: bytes, line_bytes: int) -> tuple[str, str]:
    """What is wrong with a line (nothing: an empty string), and its text as far as it can be shown."""
    text = line[:line_bytes].decode("utf-8", errors="replace").replace("\x00", "␀")
    if len(line) > line_bytes:
        return f"a line of {len(line):,} bytes; the longest read is {line_bytes:,}", text
    if b"\x00" in line:
        return "holds NUL bytes", text
    try:
        return "", line.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start + 1})", text
