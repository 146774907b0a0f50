"""Reading one value of a config.json: names, types, ranges, and the one clear line when a value is wrong.

Belongs here: `Fields`, `UnsupportedConfig`. Does not: what a value means for an architecture (the sibling modules).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import overload

LIMIT = 10**8
"""No dimension of a model reaches this; a larger figure is damage, and would only overflow later."""
MAX_LAYERS = 10_000
_REQUIRED = -(10**9)


class UnsupportedConfig(ValueError):  # noqa: N818 - reads as a sentence where it is caught
    """A config capsheet cannot size. The message is one line: which field, what is wrong with it, what to do."""


def shown(value: object) -> str:
    """A value as it appears in a message: one line, cut at 40 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 40 else text[:37] + "..."


class Fields:
    """One mapping of a config with typed look-ups. A missing or null value gives the default; without one it raises."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self.values = values
        self.where = where

    def fail(self, name: str, problem: str, remedy: str) -> UnsupportedConfig:
        """The error to raise about `name`."""
        return UnsupportedConfig(f"{self.where}: {name} {problem}; {remedy}")

    def first(self, names: Sequence[str]) -> tuple[str, object]:
        """The first of `names` that is present and not null, with its value; the first name and None otherwise."""
        for name in names:
            value = self.values.get(name)
            if value is not None:
                return name, value
        return names[0], None

    def has(self, *names: str) -> bool:
        """Whether any of `names` is present and not null."""
        return self.first(names)[1] is not None

    @overload
    def integer(self, *names: str, minimum: int = ..., maximum: int = ...) -> int: ...
    @overload
    def integer(self, *names: str, default: int, minimum: int = ..., maximum: int = ...) -> int: ...
    @overload
    def integer(self, *names: str, default: None, minimum: int = ..., maximum: int = ...) -> int | None: ...

    def integer(
        self, *names: str, default: int | None = _REQUIRED, minimum: int = 1, maximum: int = LIMIT
    ) -> int | None:
        """A whole number between `minimum` and `maximum`, under the first name that is there."""
        name, value = self.first(names)
        if value is None:
            if default == _REQUIRED:
                also = f" (also read: {', '.join(names[1:])})" if len(names) > 1 else ""
                raise self.fail(name, "is missing" + also, "take the whole config.json of the model")
            return default
        whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
        if isinstance(value, bool) or not (isinstance(value, int) or whole):
            raise self.fail(name, f"is {shown(value)}, not a whole number", "correct it in config.json")
        number = int(value)  # type: ignore[call-overload]
        if not minimum <= number <= maximum:
            raise self.fail(name, f"is {shown(value)}, outside {minimum} to {maximum}", "correct it in config.json")
        return int(number)

    def number(self, *names: str, default: float, minimum: float = 0.0, maximum: float = 1e9) -> float:
        """A finite number in a range."""
        name, value = self.first(names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.fail(name, f"is {shown(value)}, not a number", "correct it in config.json")
        if not minimum <= value <= maximum:
            raise self.fail(name, f"is {shown(value)}, outside {minimum:g} to {maximum:g}", "correct it in config.json")
        return float(value)

    def boolean(self, *names: str, default: bool) -> bool:
        """True or false."""
        name, value = self.first(names)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fail(name, f"is {shown(value)}, not true or false", "correct it in config.json")
        return value

    def text(self, *names: str, default: str = "") -> str:
        """A string."""
        name, value = self.first(names)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fail(name, f"is {shown(value)}, not a text", "correct it in config.json")
        return value

    def mapping(self, *names: str) -> Fields | None:
        """A nested object, None when absent."""
        name, value = self.first(names)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.fail(name, f"is {shown(value)}, not an object", "correct it in config.json")
        return Fields(value, f"{self.where}: {name}")

    def sequence(self, *names: str) -> list[object] | None:
        """A list of at most MAX_LAYERS entries, None when absent."""
        name, value = self.first(names)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.fail(name, f"is {shown(value)}, not a list", "correct it in config.json")
        if len(value) > MAX_LAYERS:
            raise self.fail(name, f"has {len(value)} entries", f"a list of at most {MAX_LAYERS} is read")
        return list(value)

    def texts(self, *names: str) -> list[str] | None:
        """A list of strings, None when absent."""
        values = self.sequence(*names)
        if values is None:
            return None
        bad = next((value for value in values if not isinstance(value, str)), None)
        if bad is not None or any(value is None for value in values):
            raise self.fail(names[0], f"holds {shown(bad)}, not a text", "correct it in config.json")
        return [str(value) for value in values]

    def integers(self, *names: str, minimum: int = 0) -> list[int] | None:
        """A list of whole numbers, None when absent."""
        values = self.sequence(*names)
        if values is None:
            return None
        out: list[int] = []
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= LIMIT:
                raise self.fail(names[0], f"holds {shown(value)}, not a whole number", "correct it in config.json")
            out.append(value)
        return out
