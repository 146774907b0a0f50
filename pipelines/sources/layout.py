"""What a trace format is to capsheet: the columns it is known by, and how each becomes a canonical one.

Belongs here: `Layout`, and the options that a workspace may set on a trace. Does not: any one format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import polars as pl

from pipelines.sources.base import SourceError, shown
from pipelines.sources.columns import Reading


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """What a workspace declares about a trace; nothing here is guessed.

    `spread` says what becomes of arrivals on a coarse grid, `seed` makes it (and what a generator draws) repeatable.
    `timezone` is the zone of times without one. `start_at` is the moment that relative times count from. `time_unit`
    and `block_tokens` are for files that do not say theirs. `columns` names a mapped file's columns, canonical name
    first. `rate_rps` gives prompts without times Poisson arrivals. `characters_per_token` estimates the length of
    prompts of which only the text is there; `output_tokens` is the length of answers of which nothing is said.
    `duration_s` and `rate_factor` are a generator's.
    """

    spread: Literal["none", "uniform"] = "none"
    seed: int = 0
    timezone: str = "UTC"
    start_at: str = "1970-01-01T00:00:00Z"
    time_unit: Literal["", "s", "ms", "us", "ns"] = ""
    block_tokens: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    rate_rps: float = 0.0
    characters_per_token: float = 0.0
    output_tokens: int = 0
    duration_s: float = 0.0
    rate_factor: float = 1.0

    @classmethod
    def read(cls, source_file: str, options: Mapping[str, object]) -> TraceOptions:
        """The options of a trace.

        Raises:
            SourceError: an unknown option, or a value it cannot take.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise SourceError(
                f"{source_file}: no trace option is called {shown(unknown[0])}. Use {', '.join(sorted(known))}."
            )
        return cls(**options)._checked(source_file)  # type: ignore[arg-type]

    def _checked(self, source_file: str) -> TraceOptions:
        def wrong(name: str, asked: str) -> SourceError:
            value = shown(str(getattr(self, name)))
            return SourceError(f"{source_file}: option {name} is {value}. Set it to {asked}.")

        if self.spread not in ("none", "uniform"):
            raise wrong("spread", "none or uniform")
        if self.time_unit not in ("", "s", "ms", "us", "ns"):
            raise wrong("time_unit", "s, ms, us or ns")
        for name in ("seed", "block_tokens", "output_tokens"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
                raise wrong(name, "a whole number from 0")
        for name in ("rate_rps", "characters_per_token", "duration_s", "rate_factor"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e9:
                raise wrong(name, "a number from 0")
        if not isinstance(self.columns, Mapping) or not all(
            isinstance(name, str) and isinstance(column, str) and column for name, column in self.columns.items()
        ):
            raise wrong("columns", "a mapping such as arrival_at: ts")
        try:
            ZoneInfo(self.timezone)
        except (ValueError, OSError, KeyError, TypeError):
            raise wrong("timezone", "a zone's name, such as UTC or Asia/Shanghai") from None
        try:
            self.start_us  # noqa: B018
        except (ValueError, TypeError, OverflowError):
            raise wrong("start_at", "a time such as 2026-01-05T00:00:00Z") from None
        return self

    @property
    def start_us(self) -> int:
        """`start_at` in microseconds since 1970, UTC; without a zone it is UTC."""
        moment = datetime.fromisoformat(self.start_at)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1_000_000)


Cells = Mapping[str, pl.DataType]
"""The cells a source has, by the layout's own spelling, with their types: text from CSV, typed from Parquet or JSON."""


Records = Iterable[Mapping[str, object] | str]
"""What one JSON value of a source holds: records, flat, or for one that is none the reason."""
Prepare = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True, slots=True)
class Layout:
    """A format: the columns that mark it, those it may have, and how they are read.

    `one_of` asks for at least one of its columns. `readings` takes the cells present, the options and the first lines
    (for what only the data can tell, such as a block size) and returns the readings and notes on what was decided.
    """

    name: str
    title: str
    required: tuple[str, ...]
    readings: Callable[[str, Cells, TraceOptions, Sequence[str]], tuple[list[Reading], list[str]]]
    heeds: tuple[str, ...] = ()
    """Options it heeds beside spread and seed, which all do; another one is refused, not ignored."""
    one_of: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    containers: tuple[Literal["csv", "json", "parquet"], ...] = ("csv", "parquet")
    cell_types: Mapping[str, pl.DataType] = field(default_factory=dict)
    """Types of JSON cells that are not text: numbers and lists."""
    loose: tuple[str, ...] = ()
    """Columns that Parquet may hold as flags, or nested, which is then read as JSON."""
    records: Callable[[Mapping[str, object]], Records] | None = None
    """For nested JSON: the flat records of one object, with the layout's columns as keys. It binds every column."""
    recognises: Callable[[Sequence[Mapping[str, object]]], bool] | None = None
    """For JSON: whether a file that begins with these objects is of this format; without it, `bind` decides."""
    numbered: bool = False
    """An object holds several records: `line` is a record's number, not a line of the file."""
    prepare: Callable[[TraceOptions], Prepare] | None = None
    """Makes a function on the cells of each block in turn, for what one row cannot tell: whose turn it continues."""
    private: bool = False
    """Other columns may hold prompts or keys: a rejected row is kept as the cells that were read of it, not whole."""
    by_name: bool = False
    """Read only where the workspace names it: its columns are another format's too, or none of its own."""

    def bind(self, header: Sequence[str]) -> dict[str, str] | None:
        """Which of the file's columns (values) stands for which of the layout's (keys); None when one is lacking.

        Spelling is compared without regard to case; a name that occurs twice binds nothing.
        """
        found: dict[str, str] = {}
        for column in header:
            key = column.strip().lower()
            found[key] = "" if key in found else column
        bound = {name: found[name.lower()] for name in self.columns if found.get(name.lower())}
        lacks = not set(self.required) <= set(bound) or (self.one_of and not set(self.one_of) & set(bound))
        return None if lacks else bound

    def mapped(
        self, source_file: str, there: Collection[str], columns: Mapping[str, str], *, nested: bool
    ) -> dict[str, str]:
        """The binding a workspace declares, canonical name to the file's column; a `nested` one may be a path of keys.

        Raises:
            SourceError: nothing is declared, a name is not canonical, a column is not in the file, or one is lacking.
        """
        known = ", ".join(self.columns)
        if not columns:
            raise SourceError(
                f"{source_file}: no column is named. Set the option columns, such as isl_tokens: tokens_in."
            )
        wrong = [name for name in columns if name not in self.columns]
        if wrong:
            raise SourceError(f"{source_file}: columns names {shown(wrong[0])}, which is none of {known}.")

        def found_in(column: str) -> bool:
            return column in there or (nested and column.split(".", maxsplit=1)[0] in there)

        gone = [column for column in columns.values() if not found_in(column)]
        twice = sorted({column for column in columns.values() if list(columns.values()).count(column) > 1})
        if twice:
            raise SourceError(f"{source_file}: columns names {shown(twice[0])} for two things. Name it for one.")
        if gone:
            found = shown(", ".join(sorted(there)), 160)
            raise SourceError(f"{source_file} has no column {shown(gone[0])}. It has {found}: mend the option columns.")
        lacking = [name for name in self.required if name not in columns]
        if lacking or not set(self.one_of) & set(columns):
            asked = lacking[0] if lacking else " or ".join(self.one_of)
            raise SourceError(f"{source_file}: columns does not name {asked}. Add the file's column for it.")
        return dict(columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column the layout can read."""
        return (*self.one_of, *self.required, *self.optional)

    @property
    def expected(self) -> str:
        """The columns that mark it, for messages; nested JSON is marked by what it is."""
        if self.records is not None:
            return f"{self.name} ({self.title})"
        names = [*self.required]
        if self.one_of:
            names.insert(0, " or ".join(self.one_of))
        return f"{self.name} ({', '.join(names)})"
