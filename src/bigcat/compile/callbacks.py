"""A user's Python function of one number as machine code that kernels call by its address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


class NotCompilableError(ValueError):
    """A Python function that numba cannot compile."""


def callback(function: Callable[[float], float]) -> Any:
    """Return an object with the `address` of a C function double -> double; keep it alive."""
    import numba
    from numba.core import errors

    if getattr(numba.config, "DISABLE_JIT", False):  # the Python function itself, behind an address
        found: Any = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(function)
        found.address = ctypes.cast(found, ctypes.c_void_p).value
        return found
    try:
        return numba.cfunc("float64(float64)", error_model="numpy")(function)
    except (errors.NumbaError, errors.UnsupportedBytecodeError) as error:
        raise NotCompilableError(str(error)) from error
