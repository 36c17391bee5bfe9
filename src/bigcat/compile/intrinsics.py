"""What numba lacks: bits of floats and of bytes, a maximum that vectorises, prefetching, calls by
address."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import overload

from bigcat.compile.decorators import INLINED, Function, emitted


def by_precision(single: Function, double: Function) -> Function:
    """A function of one number: `single` for float32, `double` for everything else."""

    def choose_and_call(x: Any) -> Any:
        return single(x) if isinstance(x, np.float32) else double(x)

    @overload(choose_and_call, jit_options=INLINED)
    def _choose(x):
        if x == types.float32:
            return lambda x: single(x)
        return lambda x: double(x)

    return choose_and_call


def like(value: float, x: Any) -> float | np.float32:
    """A number in the precision of `x`, a number or an array, which may be float32."""
    return np.float32(value) if getattr(x, "dtype", None) == np.float32 else float(value)


@overload(like, jit_options=INLINED)
def _overload_like(value, x):
    number = np.float32 if getattr(x, "dtype", x) == types.float32 else np.float64
    return lambda value, x: number(value)


def as_precise_as(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """A matrix in the precision of `other`: itself where it has that."""
    return array.astype(other.dtype, copy=False)


@overload(as_precise_as, jit_options=INLINED)
def _overload_as_precise_as(array, other):
    if array.dtype == other.dtype:
        return lambda array, other: array

    def copied(array, other):
        copy = np.empty(array.shape, other.dtype)
        for i in range(array.shape[0]):
            for j in range(array.shape[1]):
                copy[i, j] = array[i, j]
        return copy

    return copied


_SCALAR_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def call_address(address: int, x: float) -> float:
    """Call the C function double -> double that lives at `address`."""
    return _SCALAR_FUNCTION(address)(x)


@emitted
def _call_address(typingctx, address, x):
    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        pointer = builder.inttoptr(args[0], ir.FunctionType(double, [double]).as_pointer())
        return builder.call(pointer, [args[1]])

    return types.float64(types.int64, types.float64), codegen


@overload(call_address, jit_options=INLINED)
def _overload_call_address(address, x):
    return lambda address, x: _call_address(address, x)


def float_of_bits(bits: np.int32 | np.int64) -> np.float32 | np.float64:
    """The float32 or float64 whose bits are those of an int32 or int64."""
    return bits.view(np.float32) if bits.dtype == np.int32 else bits.view(np.float64)


@emitted
def _float_of_bits(typingctx, bits):
    result = types.float32 if bits == types.int32 else types.float64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return result(bits), codegen


@overload(float_of_bits, jit_options=INLINED)
def _overload_float_of_bits(bits):
    return lambda bits: _float_of_bits(bits)


def bits_of_float(x: np.float32 | np.float64) -> np.int32 | np.int64:
    """The int32 or int64 whose bits are those of a float32 or float64."""
    return x.view(np.int32) if x.dtype == np.float32 else x.view(np.int64)


@emitted
def _bits_of_float(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return (types.int32 if x == types.float32 else types.int64)(x), codegen


@overload(bits_of_float, jit_options=INLINED)
def _overload_bits_of_float(x):
    return lambda x: _bits_of_float(x)


def eight_bytes(array: np.ndarray, index: int) -> np.uint64:
    """Bytes `index` to ``index + 7`` of an array of bytes as one number, in the machine's order.

    All of them have to be inside the array: nothing looks whether they are.
    """
    return np.uint64(int.from_bytes(array[index : index + 8].tobytes(), sys.byteorder))


@emitted
def _eight_bytes(typingctx, array, index):
    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        number = ir.IntType(64)
        address = builder.bitcast(builder.gep(data, [args[1]]), number.as_pointer())
        return builder.load(address, align=1)

    return types.uint64(array, types.intp), codegen


@overload(eight_bytes, jit_options=INLINED)
def _overload_eight_bytes(array, index):
    return lambda array, index: _eight_bytes(array, index)


def trailing_zeros(bits: np.uint64) -> int:
    """Zeros below the lowest one of 64 bits; 64 if there is none."""
    number = int(bits)
    return (number & -number).bit_length() - 1 if number else 64


@emitted
def _trailing_zeros(typingctx, bits):
    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@overload(trailing_zeros, jit_options=INLINED)
def _overload_trailing_zeros(bits):
    return lambda bits: _trailing_zeros(bits)


def maximum(a: float, b: float) -> float:
    """The larger of two floats of one type, NaN if one of them is.

    Unlike a comparison that lets NaN go either way, a loop over it becomes vector instructions.
    """
    return np.maximum(a, b)


@emitted
def _maximum(typingctx, a, b):
    def codegen(context, builder, signature, args):
        number = context.get_value_type(signature.return_type)
        name = "llvm.maximum.f32" if a == types.float32 else "llvm.maximum.f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [number, number]), name
        )
        return builder.call(function, args, fastmath=("nsz",))

    return a(a, a), codegen


@overload(maximum, jit_options=INLINED)
def _overload_maximum(a, b):
    return lambda a, b: _maximum(a, b)


def prefetch(array: np.ndarray, index: int | np.int64) -> None:
    """Ask the processor to bring ``array.flat[index]`` near; no effect on results."""


@emitted
def _prefetch(typingctx, array, index):
    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t)
        int32 = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, int32, int32, int32]),
            "llvm.prefetch.p0",
        )
        # read, keep in all cache levels, data
        builder.call(function, [address, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@overload(prefetch, jit_options=INLINED)
def _overload_prefetch(array, index):
    return lambda array, index: _prefetch(array, index)
