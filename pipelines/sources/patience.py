"""Asking a hub again after it counted too many requests.

Belongs here: how often and how long. Does not: what the request is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")

TOO_MANY = 429
WAITS_S = (1.0, 2.0, 4.0)
"""Pauses before each further try; the hub's own Retry-After counts where it is shorter."""


class TooManyRequests(Exception):  # noqa: N818 - a signal between this module and a hub's reader
    """A hub answered 429; `retry_after_s` is what it asked for, None when it did not say."""

    def __init__(self, cause: Exception, retry_after_s: float | None) -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.retry_after_s = retry_after_s


def patiently(ask: Callable[[], Answer]) -> Answer:
    """The answer of `ask`, which raises TooManyRequests on a 429: asked again after each of WAITS_S, then given up.

    Raises the last TooManyRequests, and anything else `ask` raises.
    """
    for pause in WAITS_S:
        try:
            return ask()
        except TooManyRequests as busy:
            time.sleep(pause if busy.retry_after_s is None else min(pause, busy.retry_after_s))
    return ask()


def seconds(header: str | None) -> float | None:
    """A Retry-After header in seconds; None for a date or nothing."""
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
