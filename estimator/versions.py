"""Engine versions as comparable numbers, and whether one lies in a catalogue row's range.

Belongs here: comparing versions. Does not: which catalogue row wins (`engines`, `step_time.coefficients`).
"""

from __future__ import annotations

import re
from functools import lru_cache

Version = tuple[int, ...]


@lru_cache(maxsize=4096)
def version_key(version: str) -> Version:
    """A version as comparable numbers, suffixes dropped; empty when it holds no number (the newest).

    >>> version_key("v0.15.1.post1"), version_key("0.15.1rc2"), version_key("")
    ((0, 15, 1), (0, 15, 1), ())
    """
    match = re.match(r"\D*(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def before(left: Version, right: Version) -> bool:
    """Whether one version precedes another; parts left out count as 0, so 0.9 and 0.9.0 are one version."""
    width = max(len(left), len(right))
    return left + (0,) * (width - len(left)) < right + (0,) * (width - len(right))


def in_range(version: str, version_from: str, version_before: str) -> bool:
    """Whether a row holds at `version`: from `version_from` on, and before `version_before` where there is one.

    An empty `version` is the newest: it is in the ranges that have no end.
    """
    wanted, until = version_key(version), version_key(version_before)
    if not wanted:
        return not until
    return not before(wanted, version_key(version_from)) and (not until or before(wanted, until))
