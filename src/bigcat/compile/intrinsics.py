"""Intrinsics that numba lacks: bits of floats, a maximum that vectorises, prefetching, BLAS.

In Python they are the plain functions here; what kernels get is in `bigcat.compile.emitted`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from bigcat.compile.decorators import INLINED, Function, overloaded


def by_precision(single: Function, double: Function) -> Function:
    """A function of one number: `single` for float32, `double` for everything else."""

    def choose_and_call(x: Any) -> Any:
        return single(x) if isinstance(x, np.float32) else double(x)

    def choose(x: Any) -> Function:
        if str(x) == "float32":
            return lambda x: single(x)
        return lambda x: double(x)

    overloaded(choose_and_call, choose, INLINED)
    return choose_and_call


def like(value: float, x: Any) -> float | np.float32:
    """A number in the precision of `x`, a number or an array, which may be float32."""
    return np.float32(value) if getattr(x, "dtype", None) == np.float32 else float(value)


def as_precise_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A matrix in the precision of `other`: itself where it has that."""
    return array.astype(other.dtype, copy=False)


_SCALAR_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def call_address(address: int, x: float) -> float:
    """Call the C function double -> double that lives at `address`."""
    return _SCALAR_FUNCTION(address)(x)


def float_of_bits(bits: np.int32 | np.int64) -> np.float32 | np.float64:
    """The float32 or float64 whose bits are those of an int32 or int64."""
    return bits.view(np.float32) if bits.dtype == np.int32 else bits.view(np.float64)


def bits_of_float(x: np.float32 | np.float64) -> np.int32 | np.int64:
    """The int32 or int64 whose bits are those of a float32 or float64."""
    return x.view(np.int32) if x.dtype == np.float32 else x.view(np.int64)


def maximum(a: float, b: float) -> float:
    """The larger of two floats of one type, NaN if one of them is.

    Unlike a comparison that lets NaN go either way, a loop over it becomes vector instructions.
    """
    return np.maximum(a, b)


def prefetch(array: np.ndarray, index: int | np.int64) -> None:
    """Ask the processor to bring ``array.flat[index]`` near; no effect on results."""


def product(
    a: np.ndarray, transpose_a: bool, b: np.ndarray, transpose_b: bool, out: np.ndarray
) -> None:
    """``out = a b``, either of them transposed where its flag is True; all contiguous."""
    arrays = (a, b, out)
    if any(not array.flags.c_contiguous or array.dtype != out.dtype for array in arrays):
        kinds = ", ".join(f"{array.dtype} with strides {array.strides}" for array in arrays)
        raise TypeError(f"product() of arrays {kinds}: contiguous ones of one type")
    out[...] = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
