"""How functions of the event loop are compiled.

Belongs here: the one set of compiler options they share, and what leaves a part out. Does not: anything that runs.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numba import njit, types
from numba.extending import overload

Function = TypeVar("Function", bound=Callable[..., Any])

_OPTIONS: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "error_model": "numpy", "_nrt": False}


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the garbage collector: the compiler makes millions of objects that live, and is a tenth faster for it."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def inner(function: Function) -> Function:
    """For functions that only compiled code calls and that allocate nothing: a third less to compile, and faster."""
    compiled: Function = njit(**_OPTIONS)(function)
    return compiled


def spliced(function: Function) -> Function:
    """`inner`, for functions called from one place: their code is part of their caller's, and compiled once with it."""
    compiled: Function = njit(inline="always", **_OPTIONS)(function)
    return compiled


def only_with(part: str, otherwise: object = None) -> Callable[[Function], Function]:
    """`inner`, for functions whose first argument is the fleet and that do nothing in one without `part`.

    Where that field of the fleet is None they return `otherwise`, and neither they nor what only they call is compiled:
    what a replay does not use costs it nothing.
    """

    def made(function: Function) -> Function:
        compiled = inner(function)

        # Numba compares these signatures with that of what they return, annotations included: they have none.
        def stub(f, *rest):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
            raise NotImplementedError("only compiled code calls this")

        def chosen(f, *rest):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN202
            if isinstance(f.types[f.fields.index(part)], types.NoneType):
                return lambda f, *rest: otherwise
            return lambda f, *rest: compiled(f, *rest)  # noqa: PLW0108

        overload(stub, jit_options=_OPTIONS)(chosen)
        return stub  # type: ignore[return-value]

    return made
