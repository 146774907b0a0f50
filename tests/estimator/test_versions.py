"""Versions: what precedes what, and which catalogue ranges one lies in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.versions import before, in_range, version_key

KEYS = st.lists(st.integers(0, 40), max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("0.15.1.post1", (0, 15, 1)),
        ("v0.19.0", (0, 19, 0)),
        ("0.20.1rc1", (0, 20, 1)),
        (">=0.21", (0, 21)),
        ("nightly", ()),
        ("", ()),
    ],
)
def test_a_version_is_read_without_its_suffixes(text: str, key: tuple[int, ...]) -> None:
    assert version_key(text) == key


@pytest.mark.parametrize(
    ("version", "since", "until", "holds"),
    [
        ("0.9.2", "0.9.2", "", True),
        ("0.9", "0.9.0", "0.9.1", True),
        ("0.10.0", "0.9", "0.11", True),
        ("0.9.1", "0.9.2", "", False),
        ("0.21.0", "0.0", "0.21", False),
        ("", "0.21", "", True),
        ("", "0.0", "0.21", False),
    ],
)
def test_a_range_holds_its_start_and_not_its_end(version: str, since: str, until: str, holds: bool) -> None:
    assert in_range(version, since, until) is holds


@given(KEYS, KEYS, KEYS)
def test_precedence_is_a_strict_weak_order(
    first: tuple[int, ...], second: tuple[int, ...], third: tuple[int, ...]
) -> None:
    assert not before(first, first)
    assert not (before(first, second) and before(second, first))
    if before(first, second) and before(second, third):
        assert before(first, third)


@given(KEYS.filter(bool), st.integers(0, 4))
def test_trailing_zeros_are_the_same_version(key: tuple[int, ...], zeros: int) -> None:
    assert not before(key, key + (0,) * zeros)
    assert not before(key + (0,) * zeros, key)
