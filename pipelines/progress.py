"""How long work says where it is. Whoever listens (the terminal) is told; with nobody listening it costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]
"""Called with a stage's name, what is done of it and what there is to do."""

_listener: ContextVar[Listener | None] = ContextVar("progress_listener", default=None)


def report(stage: str, done: int, total: int) -> None:
    """Say that `done` of `total` pieces of a stage are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(stage, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send reports to `listener` inside the block."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
