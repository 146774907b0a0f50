"""A synthetic trace: joint input and output lengths, a daily curve with bursts, and prompts that share prefixes.

Belongs here: the sample's request generator; every figure in it is assumed, none measured. Does not: real traces
(`pipelines.sources`). Sessions arrive as a non-homogeneous Poisson process; a session's turns carry its whole history,
so that turn k + 1 begins with the blocks of turn k; sessions share system prompts, and some share a document.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Number = TypeVar("Number", np.int64, np.float64)

BLOCK_TOKENS = 64
DAY_S = 86_400
START_AT = datetime(2026, 1, 5)  # noqa: DTZ001  (UTC without a zone, as in the `request` table; a Monday)

_PEAK_HOUR = 14.0
_BURST_SHAPE = 25.0
"""Minute rates are multiplied by a Gamma of mean 1 and this shape: a deviation of a fifth from minute to minute."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of use. Lengths are lognormal, in tokens; `correlation` ties a turn's answer to its message.

    `share` is of the sessions, `turns` the mean number of turns (geometric), `pause_s` the mean pause between them.
    `documents` above 0 gives each session one of so many documents (popular ones more often) ahead of its message.
    """

    name: str
    share: float
    turns: float
    pause_s: float
    system_prompts: int
    system_tokens: int
    message_tokens: float
    answer_tokens: float
    answer_sigma: float = 0.7
    message_sigma: float = 0.9
    correlation: float = 0.4
    documents: int = 0
    document_tokens: float = 0.0


@dataclass(frozen=True, slots=True)
class Service:
    """A service's day: sessions a day, what they are, the longest context and answer it allows in tokens."""

    name: str
    sessions: int
    kinds: tuple[Kind, ...]
    max_context_tokens: int
    max_answer_tokens: int
    peak_over_mean: float = 2.2


CHAT = Service(
    "chat",
    sessions=40_000,
    kinds=(
        Kind("chat", 0.72, 2.1, 75, 6, 192, 110, 190),
        Kind("rag", 0.16, 1.4, 60, 2, 384, 60, 130, 0.6, documents=8_000, document_tokens=2_600),
        Kind("reasoning", 0.12, 1.0, 0, 1, 128, 260, 1_300, 0.8, correlation=0.5),
    ),
    max_context_tokens=8_192,
    max_answer_tokens=4_096,
)
ASSISTANT = Service(
    "assistant",
    sessions=8_500,
    kinds=(
        Kind("code", 0.5, 2.0, 90, 3, 768, 600, 260, 0.9, correlation=0.3),
        Kind("rag", 0.3, 1.5, 80, 2, 512, 80, 220, 0.6, documents=3_000, document_tokens=4_500),
        Kind("reasoning", 0.2, 1.0, 0, 1, 256, 320, 1_900, 0.7, correlation=0.5),
    ),
    max_context_tokens=16_384,
    max_answer_tokens=6_144,
)


def generate_trace(seed: int, service: Service = CHAT, start_at: datetime = START_AT) -> pl.DataFrame:
    """24 hours of a service's requests, by arrival; the same seed gives the same rows.

    Columns are those of capsheet's own trace layout. `prefix_hashes` holds the whole blocks of 64 input tokens.
    """
    rng = np.random.default_rng(seed)
    session_start_s = _arrivals(rng, service)
    kind_of = rng.choice(len(service.kinds), size=len(session_start_s), p=[kind.share for kind in service.kinds])
    parts = []
    next_session, next_block = 0, 0
    for index, kind in enumerate(service.kinds):
        part, next_block = _requests(rng, service, kind, session_start_s[kind_of == index], next_session, next_block)
        next_session += int((kind_of == index).sum())
        parts.append(part)
    start = pl.lit(start_at).cast(pl.Datetime("us"))
    rows = pl.concat(parts).filter(pl.col("arrival_us") < DAY_S * 1_000_000)
    rows = rows.sort("arrival_us", "session_id", "isl_tokens")
    return rows.select(
        (start + pl.duration(microseconds="arrival_us")).dt.replace_time_zone("UTC").alias("arrival_at"),
        "isl_tokens",
        "osl_tokens",
        "session_id",
        "tenant",
        pl.lit("ok").alias("outcome"),
        pl.lit(BLOCK_TOKENS, pl.Int32).alias("prefix_block_tokens"),
        "prefix_hashes",
    )


def _arrivals(rng: np.random.Generator, service: Service) -> Floats:
    """Session starts in seconds: Poisson counts a minute around a daily curve, uniform within the minute."""
    hours = (np.arange(DAY_S // 60) + 0.5) / 60
    # A raised cosine to the power that gives the wanted peak: flat nights, one broad peak in the afternoon.
    shape = (0.5 + 0.5 * np.cos((hours - _PEAK_HOUR) / 24 * 2 * np.pi)) ** 1.5
    floor = (shape.max() - service.peak_over_mean * shape.mean()) / (service.peak_over_mean - 1)
    curve = shape + max(floor, 0.0)
    bursts = rng.gamma(_BURST_SHAPE, 1 / _BURST_SHAPE, size=len(curve))
    counts = rng.poisson(service.sessions * curve / curve.sum() * bursts)
    return np.sort((np.repeat(np.arange(len(curve)), counts) + rng.random(int(counts.sum()))) * 60.0)


def _requests(
    rng: np.random.Generator, service: Service, kind: Kind, start_s: Floats, first_session: int, first_block: int
) -> tuple[pl.DataFrame, int]:
    """The turns of one kind's sessions, and the first block id that is still free."""
    sessions = len(start_s)
    turns = rng.geometric(1 / kind.turns, size=sessions)
    session = np.repeat(np.arange(sessions), turns)
    turn = np.arange(len(session)) - np.repeat(np.cumsum(turns) - turns, turns)
    message, answer = _lengths(rng, kind, len(session), service.max_answer_tokens)
    system = rng.integers(kind.system_prompts, size=sessions)
    document, document_tokens = _documents(rng, kind, sessions)
    pause_s = np.where(turn == 0, 0.0, rng.exponential(kind.pause_s or 1.0, size=len(session)) + answer * 0.02)

    history = _running(message + answer, session) - answer
    isl = kind.system_tokens + document_tokens[session] + history
    arrival_us = np.rint((start_s[session] + _running(pause_s, session)) * 1e6).astype(np.int64)
    fits = isl + answer <= service.max_context_tokens

    hashes, free = _chains(isl[fits], session[fits], kind, system, document, document_tokens, first_block)
    frame = pl.DataFrame(
        {
            "arrival_us": arrival_us[fits],
            "isl_tokens": isl[fits],
            "osl_tokens": answer[fits],
            "session_id": session[fits] + first_session,
            "prefix_hashes": hashes,
        }
    )
    tagged = pl.format("{}-{}", pl.lit(service.name), pl.col("session_id").cast(pl.String).str.zfill(6))
    return frame.with_columns(tagged.alias("session_id"), pl.lit(kind.name).alias("tenant")), free


def _lengths(rng: np.random.Generator, kind: Kind, count: int, max_answer: int) -> tuple[Ints, Ints]:
    """Joint message and answer lengths in tokens: a lognormal pair with the kind's correlation."""
    first, second = rng.standard_normal((2, count))
    tied = kind.correlation * first + np.sqrt(1 - kind.correlation**2) * second
    message = np.rint(kind.message_tokens * np.exp(kind.message_sigma * first)).astype(np.int64)
    answer = np.rint(kind.answer_tokens * np.exp(kind.answer_sigma * tied)).astype(np.int64)
    return np.maximum(message, 4), np.clip(answer, 1, max_answer)


def _documents(rng: np.random.Generator, kind: Kind, sessions: int) -> tuple[Ints, Ints]:
    """Each session's document (by number) and its length in tokens; popularity falls as 1 / rank."""
    if not kind.documents:
        return np.zeros(sessions, dtype=np.int64), np.zeros(sessions, dtype=np.int64)
    weight = 1 / np.arange(1, kind.documents + 1)
    chosen = rng.choice(kind.documents, size=sessions, p=weight / weight.sum()).astype(np.int64)
    tokens = np.rint(kind.document_tokens * np.exp(0.45 * rng.standard_normal(kind.documents))).astype(np.int64)
    return chosen, tokens[chosen]


def _running(values: NDArray[Number], session: Ints) -> NDArray[Number]:
    """Running sums that start anew with each session; rows of a session stand together."""
    total: NDArray[Number] = np.cumsum(values, dtype=values.dtype)
    first = np.flatnonzero(np.diff(session, prepend=-1))
    before = total[first] - values[first]
    running: NDArray[Number] = total - np.repeat(before, np.diff(np.append(first, len(session))))
    return running


def _chains(
    isl: Ints, session: Ints, kind: Kind, system: Ints, document: Ints, document_tokens: Ints, first_block: int
) -> tuple[pl.Series, int]:
    """Ids of each request's whole input blocks, as lists: equal ids only where everything before them is equal too.

    Ids come in runs: one a system prompt, one a (system prompt, document), one a session.
    """
    blocks = isl // BLOCK_TOKENS
    longest = np.zeros(len(system), dtype=np.int64)
    np.maximum.at(longest, session, blocks)
    in_system = kind.system_tokens // BLOCK_TOKENS
    in_document = (kind.system_tokens + document_tokens) // BLOCK_TOKENS
    pair = system * max(kind.documents, 1) + document
    widest = int(in_document.max(initial=0)) + 1
    system_from = first_block + system * (in_system + 1)
    pair_from = first_block + kind.system_prompts * (in_system + 1) + pair * widest
    pairs = kind.system_prompts * max(kind.documents, 1)
    sessions_from = first_block + kind.system_prompts * (in_system + 1) + pairs * widest
    session_from = sessions_from + np.cumsum(longest) - longest
    at = np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    of = np.repeat(session, blocks)
    ids = np.where(at < in_document[of], pair_from[of] + at, session_from[of] + at)
    ids = np.where(at < in_system, system_from[of] + at, ids)
    offsets = np.concatenate(([0], np.cumsum(blocks)))
    lists = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
    return pl.Series("prefix_hashes", pl.from_arrow(lists)), int(sessions_from + longest.sum())
