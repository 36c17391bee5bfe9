"""The decorators that compile."""

from __future__ import annotations

import contextlib
import functools
import gc
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import intrinsic, overload

from bigcat.compile.cache import PackageCache

#: Kernels take their types from their arguments.
Function = Callable[..., Any]

# No "nnan", "ninf" or "arcp": checks for NaN must survive, and rounding stays IEEE.
_FAST = {"reassoc", "contract", "nsz"}
OPTIONS: Any = {"error_model": "numpy", "fastmath": _FAST}

# Of what kernels inline.  Without the two wrappers that numba makes for callers from Python and C,
# which would be a seventh of the time that a kernel takes to compile.
_INLINED: Any = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINED: Any = {**_INLINED, **OPTIONS}


def kernel(function: Function) -> Function:
    """Compile an entry point; cached on disk where some folder is writable, in memory elsewhere."""
    dispatcher: Any = njit(nogil=True, **OPTIONS)(function)
    if hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT=1
        with contextlib.suppress(RuntimeError):  # numba's way to say that no folder is writable
            dispatcher._cache = PackageCache(function)
        dispatcher.compile = _without_collections(dispatcher.compile)
    compiled: Function = dispatcher
    return compiled


def _without_collections(compile: Function) -> Function:
    """A compiler makes many objects and drops few: looking for garbage among them, again and again,
    is an eighth of its time.  Once in the end is enough (`bigcat.compile.cache`)."""

    @functools.wraps(compile)
    def compile_at_once(types: Any) -> Any:
        collects = gc.isenabled()
        gc.disable()
        try:
            return compile(types)
        finally:
            if collects:
                gc.enable()

    return compile_at_once


def device(function: Function) -> Function:
    """Compile a scalar function that kernels inline; in Python it is what it was."""
    return _inlined(function, INLINED)


def device_in_order(function: Function) -> Function:
    """`device` for arithmetic that must be done in the order in which it is written.

    Multiplications and additions are still fused, which only ever saves a rounding.
    """
    return _inlined(function, {**_INLINED, "error_model": "numpy", "fastmath": {"contract"}})


def _inlined(function: Function, options: Any) -> Function:
    overload(function, strict=False, jit_options=options)(lambda *args: function)
    return function


def emitted(function: Function) -> Function:
    """numba's `intrinsic`: calls give no typing context, whatever the stub of it says."""
    return intrinsic(function)
