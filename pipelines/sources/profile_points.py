"""What every reader of measured step times hands over: decode and prompt points, and what it left out and why.

Belongs here: the point, its plausible sizes, reading a number out of outside data. Does not: any one format.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PASSED_OVER = "not a step"
"""Reasons that begin so are sound runs that say nothing of a step's time: a failed run, an open loop."""
LEAST_DECODE_MS, MOST_DECODE_MS = 0.1, 10_000.0
LEAST_PROMPT_MS, MOST_PROMPT_MS = 0.1, 3_600_000.0
MOST_TOKENS = 100_000_000.0
DOCUMENT_BYTES = 64 * 2**20
"""Largest file read as one document: profiles are small."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a profile: the name it goes by and where it lies."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Read:
    """What a reader found in one file: rows of `step_profile` as far as the file goes, and rows left out with reasons.

    Each row has `line` (the run's or point's number in the file), `phase`, sizes, `time_ms` and `seen_from`.
    """

    rows: list[dict[str, object]] = field(default_factory=list)
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def decode(self, line: int, raw: str, *, sequences: float, context: float, span: float, ms: float) -> None:
        """Add a decode step of `sequences` with `context` tokens each, grown by `span` while it was measured."""
        reason = _unlike(ms, "a decode step", LEAST_DECODE_MS, MOST_DECODE_MS) or _no_size(
            ("sequences", sequences), ("context", context)
        )
        if reason:
            self.broken.append((line, reason, raw))
            return
        sizes = {"sequences": sequences, "context_tokens": context, "span_tokens": max(0.0, span)}
        self.rows.append({"line": line, "phase": "decode", **sizes, "time_ms": ms, "seen_from": "client"})

    def prompt(self, line: int, raw: str, *, tokens: float, ms: float, seen_from: str = "client") -> None:
        """Add a prompt of `tokens` alone, up to its first token."""
        reason = _unlike(ms, "a prompt", LEAST_PROMPT_MS, MOST_PROMPT_MS) or _no_size(("prompt tokens", tokens))
        if reason:
            self.broken.append((line, reason, raw))
            return
        self.rows.append(
            {"line": line, "phase": "prefill", "prompt_tokens": tokens, "time_ms": ms, "seen_from": seen_from}
        )

    def pass_over(self, line: int, why: str, raw: str) -> None:
        """Leave out a sound run that says nothing of a step's time."""
        self.broken.append((line, f"{PASSED_OVER}: {why}", raw))


def number(row: Mapping[str, object], *names: str) -> float | None:
    """The first of these fields that holds a finite number, as a number or as text; None where none does."""
    for name in names:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            continue
        try:
            found = float(value)
        except (ValueError, OverflowError):
            continue
        if math.isfinite(found):
            return found
    return None


def _unlike(ms: float, what: str, least: float, most: float) -> str:
    if not math.isfinite(ms) or ms <= 0:
        return f"{ms:g} ms is no time of {what}"
    if ms < least:
        return f"{ms:g} ms is too short for {what}: is it in seconds?"
    return f"{ms:g} ms is too long for {what}: is it in microseconds?" if ms > most else ""


def _no_size(*sizes: tuple[str, float]) -> str:
    for name, size in sizes:
        if not math.isfinite(size) or not 1 <= size <= MOST_TOKENS:
            return f"{name} {size:g} is not a number from 1 on"
    return ""
