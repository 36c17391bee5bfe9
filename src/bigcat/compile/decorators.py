"""The decorators that compile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from numba import njit
from numba.extending import intrinsic

from bigcat.compile.cache import PackageCache

#: Kernels take their types from their arguments.
Function = Callable[..., Any]

# No "nnan", "ninf" or "arcp": checks for NaN must survive, and rounding stays IEEE.
_FAST = {"reassoc", "contract", "nsz"}
OPTIONS: Any = {"error_model": "numpy", "fastmath": _FAST}


def kernel(function: Function) -> Function:
    """Compile an entry point; cached on disk where some folder is writable, in memory elsewhere."""
    dispatcher: Any = njit(nogil=True, **OPTIONS)(function)
    if hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT=1
        with contextlib.suppress(RuntimeError):  # numba's way to say that no folder is writable
            dispatcher._cache = PackageCache(function)
    compiled: Function = dispatcher
    return compiled


def device(function: Function) -> Function:
    """Compile a scalar function that kernels inline."""
    dispatcher: Function = njit(forceinline=True, **OPTIONS)(function)
    return dispatcher


def device_in_order(function: Function) -> Function:
    """`device` for arithmetic that must be done in the order in which it is written.

    Multiplications and additions are still fused, which only ever saves a rounding.
    """
    return njit(forceinline=True, error_model="numpy", fastmath={"contract"})(function)


def emitted(function: Function) -> Function:
    """numba's `intrinsic`: calls give no typing context, whatever the stub of it says."""
    return intrinsic(function)
