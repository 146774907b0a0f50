"""ServeGen: not a log but a generator of one, a pair of files for each client of a service.

https://github.com/alibaba/ServeGen (Apache-2.0). `chunk-N-trace.csv` has, for windows of 600 s, time s, rate 1/s,
coefficient of variation, pattern (Gamma, Weibull) and its parameters; `chunk-N-dataset.json` has the lengths of windows
of 21,600 s as Python dict literals inside JSON text. Idle windows are `0,0,,0,0`. As ServeGen does, gaps are drawn from
the pattern's shape and scaled so that the window has as many as its rate says; what is drawn is repeatable by seed.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from pipelines.sources.base import SourceError
from pipelines.sources.columns import MAX_TOKENS
from pipelines.sources.layout import TraceOptions

WINDOW_S = 600.0
_INPUTS = ("input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens")
_MEDIA = _INPUTS[2:]
_LONGEST_S = 400 * 86_400.0

Lengths = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Lengths in tokens and their probabilities."""


@dataclass(frozen=True, slots=True)
class Window:
    """Arrivals of one client in one stretch: from when, how many a second, how uneven."""

    start_s: float
    rate_rps: float
    pattern: str
    shape: float


@dataclass(slots=True)
class Client:
    """One client: its windows, its lengths by when they begin, and the lines of its files that were broken."""

    number: int
    windows: list[Window]
    lengths: dict[float, dict[str, Lengths]]
    broken: list[tuple[int, str, str]] = field(default_factory=list)


def chunk_traces(path: Path) -> list[Path]:
    """The chunks' trace files of a folder, or the one that is named; none where it is no such thing."""
    try:
        if path.is_file() and path.name.startswith("chunk-") and path.name.endswith("-trace.csv"):
            return [path]
        return sorted(path.glob("chunk-*-trace.csv"), key=lambda file: (len(file.name), file.name))
    except (OSError, ValueError):
        return []


def fingerprint_of(traces: Sequence[Path], name: str) -> tuple[str, int]:
    """SHA-256 over the chunks' names and bytes, and how many bytes they are together."""
    digest, size = hashlib.sha256(), 0
    for file in (pair for trace in traces for pair in (trace, _dataset(trace))):
        content = _read(file, name)
        digest.update(f"{file.name}\n{len(content)}\n".encode())
        digest.update(content)
        size += len(content)
    return digest.hexdigest(), size


def clients(traces: Sequence[Path], name: str) -> Iterator[Client]:
    """The clients of the chunks, in order.

    Raises:
        SourceError: a chunk lacks its dataset, or one that cannot be read.
    """
    for trace in traces:
        middle = trace.name.removeprefix("chunk-").removesuffix("-trace.csv")
        client = Client(int(middle) if middle.isdecimal() else 0, [], _lengths(trace, name))
        for line, raw in enumerate(_read(trace, name).decode("utf-8", "replace").splitlines(), 1):
            if raw.strip():
                window = _window(raw)
                if isinstance(window, Window):
                    client.windows.append(window)
                else:
                    client.broken.append((line, f"{trace.name}: {window}", raw.replace("\x00", "␀")))
        yield client


def requests(client: Client, options: TraceOptions, first: int) -> tuple[pl.DataFrame, list[tuple[int, str, str]]]:
    """A client's requests, numbered from `first`, and its broken windows; drawn from `options.seed` and its number."""
    random = np.random.default_rng([options.seed, client.number])
    until = options.duration_s or _LONGEST_S
    broken = list(client.broken)
    parts: list[pl.DataFrame] = []
    for place, window in enumerate(client.windows, 1):
        if window.rate_rps <= 0 or window.start_s >= until:
            continue
        at = _arrivals(window, options.rate_factor, random)
        at = at[at < until]
        held = _at(client.lengths, window.start_s)
        if held is None:
            broken.append((place, f"client {client.number} has no lengths for its requests", f"window {place}"))
            continue
        drawn = {name: random.choice(pmf[0], len(at), p=pmf[1]) for name, pmf in held.items()}
        isl = _together(drawn, _INPUTS, len(at))
        media = _together(drawn, _MEDIA, len(at))
        osl = drawn["output_tokens"]
        moment = np.round(at * 1e6).astype(np.int64) + options.start_us
        parts.append(pl.DataFrame({"at": moment, "isl_tokens": isl, "osl_tokens": osl, "multimodal": media > 0}))
    schema = {"at": pl.Int64, "isl_tokens": pl.Int64, "osl_tokens": pl.Int64, "multimodal": pl.Boolean}
    rows = pl.concat(parts) if parts else pl.DataFrame(schema=schema)
    return rows.select(
        pl.int_range(first, first + rows.height, dtype=pl.Int64).alias("line"),
        pl.col("at").cast(pl.Datetime("us")).alias("arrival_at"),
        "isl_tokens",
        "osl_tokens",
        "multimodal",
        pl.lit(f"client-{client.number}").alias("tenant"),
    ), broken


def _together(drawn: Mapping[str, NDArray[np.int64]], names: Sequence[str], count: int) -> NDArray[np.int64]:
    total = np.zeros(count, dtype=np.int64)
    for name in names:
        if name in drawn:
            total += drawn[name]
    return total


def _arrivals(window: Window, factor: float, random: np.random.Generator) -> NDArray[np.float64]:
    """As many arrivals as the rate makes in a window (its fraction drawn), gaps of the pattern scaled to fit it."""
    count = int(window.rate_rps * factor * WINDOW_S + random.random() * (1 - 1e-9))
    if window.pattern == "Gamma":
        gaps = random.gamma(window.shape, 1.0, count + 1)
    elif window.pattern == "Weibull":
        gaps = random.weibull(window.shape, count + 1)
    else:
        gaps = random.exponential(1.0, count + 1)
    ends = np.cumsum(gaps)
    return window.start_s + ends[:-1] * (WINDOW_S / ends[-1] if ends[-1] > 0 else 0.0)


def _at(lengths: Mapping[float, dict[str, Lengths]], start_s: float) -> dict[str, Lengths] | None:
    """The lengths of the window that holds a moment; where it has none, those of the nearest that has."""
    if not lengths:
        return None
    before = [start for start in lengths if start <= start_s]
    return lengths[max(before) if before else min(lengths)]


def _window(raw: str) -> Window | str:
    """A line of a chunk's trace, or what is wrong with it."""
    cells = [cell.strip() for cell in raw.split(",")]
    if len(cells) != 6:
        return f"{len(cells)} fields, a window has 6"
    try:
        start, rate, variation, shape = (float(cells[at] or 0) for at in (0, 1, 2, 4))
    except ValueError:
        return "not a window of numbers"
    if not all(map(math.isfinite, (start, rate, variation, shape))) or not 0 <= start <= _LONGEST_S:
        return "not a window of numbers in range"
    if not 0 <= rate <= 1e6 or rate * variation < 0:
        return f"rate {cells[1][:20]} is not between 0 and 1,000,000 a second"
    pattern = cells[3]
    if rate > 0 and pattern not in ("Gamma", "Weibull", "Poisson", "Exponential", ""):
        return f"pattern {pattern[:20]!r} is none of Gamma, Weibull, Poisson"
    if rate > 0 and pattern in ("Gamma", "Weibull") and not 1e-3 <= shape <= 1e6:
        if variation <= 0 or pattern == "Weibull":
            return f"{pattern} needs a shape above 0"
        shape = 1 / variation**2
    return Window(start, rate, pattern, shape)


def _lengths(trace: Path, name: str) -> dict[float, dict[str, Lengths]]:
    """The lengths of a client by the second their window begins; windows without any are left out."""
    file = _dataset(trace)
    try:
        held = json.loads(_read(file, name).decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise SourceError(f"{name}: {file.name} is not JSON. Copy it again.") from None
    found: dict[float, dict[str, Lengths]] = {}
    for start, fields in held.items() if isinstance(held, dict) else ():
        pmfs = {
            str(key): pmf for key, text in (fields.items() if isinstance(fields, dict) else ()) if (pmf := _pmf(text))
        }
        if pmfs.keys() & {*_INPUTS} and "output_tokens" in pmfs:
            try:
                found[float(start)] = pmfs
            except ValueError:
                continue
    return found


def _pmf(text: object) -> Lengths | None:
    """A PMF written as a Python dict literal; None for one that is empty or none."""
    try:
        held = ast.literal_eval(text) if isinstance(text, str) else text
        if not isinstance(held, dict):
            return None
        pairs = sorted((int(length), float(share)) for length, share in held.items())
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError, OverflowError):
        return None
    pairs = [(length, share) for length, share in pairs if 0 <= length <= MAX_TOKENS and 0 < share < math.inf]
    if not pairs:
        return None
    shares = np.asarray([share for _, share in pairs])
    return np.asarray([length for length, _ in pairs], dtype=np.int64), shares / shares.sum()


def _dataset(trace: Path) -> Path:
    return trace.with_name(trace.name.removesuffix("-trace.csv") + "-dataset.json")


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SourceError(f"{name}: {file.name} cannot be read: {error.strerror}. A chunk is two files.") from None
