"""Intrinsics that numba lacks: bits of floats, a maximum that vectorises, prefetching, BLAS.

Python callers get the plain functions here, kernels the machine code of `bigcat.compile.emitted`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bigcat.compile.decorators import INLINED, Function, overloaded


def by_precision(single: Function, double: Function) -> Function:
    """Return a function of one number: `single` for float32, `double` for all others."""

    def choose_and_call(x: Any) -> Any:
        return single(x) if isinstance(x, np.float32) else double(x)

    def choose(x: Any) -> Function:
        if str(x) == "float32":
            return lambda x: single(x)
        return lambda x: double(x)

    overloaded(choose_and_call, choose, INLINED)
    return choose_and_call


def like(value: float, x: Any) -> float | np.float32:
    """Return `value` in the precision of `x`, a number or an array."""
    return np.float32(value) if getattr(x, "dtype", None) == np.float32 else float(value)


def as_precise_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a matrix in the precision of `other`, without a copy if it has that precision."""
    return array.astype(other.dtype, copy=False)


_SCALAR_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def call_address(address: int, x: float) -> float:
    """Call the C function double -> double that lives at `address`."""
    return _SCALAR_FUNCTION(address)(x)


def float_of_bits(bits: np.int32 | np.int64) -> np.float32 | np.float64:
    """Return the float32 or float64 with the bits of an int32 or int64."""
    return bits.view(np.float32) if bits.dtype == np.int32 else bits.view(np.float64)


def bits_of_float(x: np.float32 | np.float64) -> np.int32 | np.int64:
    """Return the int32 or int64 with the bits of a float32 or float64."""
    return x.view(np.int32) if x.dtype == np.float32 else x.view(np.int64)


def maximum(a: float, b: float) -> float:
    """Return the larger of two floats of one type, NaN if either is NaN.

    Loops over it become vector instructions, unlike those over a comparison.
    """
    return np.maximum(a, b)


def prefetch(array: np.ndarray, index: int | np.int64) -> None:
    """Prefetch ``array.flat[index]`` into the cache; no effect on results."""


def product(
    a: np.ndarray, transpose_a: bool, b: np.ndarray, transpose_b: bool, out: np.ndarray
) -> None:
    """Compute ``out = a b`` of contiguous arrays; flags transpose `a` and `b`."""
    arrays = (a, b, out)
    if any(not array.flags.c_contiguous or array.dtype != out.dtype for array in arrays):
        kinds = ", ".join(f"{array.dtype} with strides {array.strides}" for array in arrays)
        raise TypeError(f"product() of arrays {kinds}: contiguous ones of one type")
    out[...] = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
