"""How functions of the event loop are compiled.

Belongs here: the one set of compiler options they share. Does not: anything that runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def inner(function: Function) -> Function:
    """For functions that only compiled code calls and that allocate nothing: a third less to compile, and faster."""
    compiled: Function = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", _nrt=False)(function)  # type: ignore[call-overload]
    return compiled
