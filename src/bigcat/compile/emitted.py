"""Machine code of `bigcat.compile.intrinsics` for numba, imported with the first kernel.

`product` calls the same BLAS as ``np.dot`` at the same speed, but compiles faster: ``np.dot`` would
add 1.5 seconds to the first low-rank fit.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import get_cython_function_address, intrinsic, overload

from bigcat.compile.decorators import INLINED
from bigcat.compile.intrinsics import (
    as_precise_as,
    bits_of_float,
    call_address,
    float_of_bits,
    like,
    maximum,
    prefetch,
    product,
)

emitted: Any = intrinsic  # its stub requires a typing context, which callers do not pass


def register() -> None:
    """Register by importing this module."""


_NAMES = {types.float32: "sgemm", types.float64: "dgemm"}


def _symbol(name: str) -> str:
    return f"bigcat_{name}"


# Compiled code refers to names, since addresses differ between processes.
for _name in _NAMES.values():
    llvm.add_symbol(_symbol(_name), get_cython_function_address("scipy.linalg.cython_blas", _name))


@overload(like, jit_options=INLINED)
def _overload_like(value, x):
    number = np.float32 if getattr(x, "dtype", x) == types.float32 else np.float64
    return lambda value, x: number(value)


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


@emitted
def _float_of_bits(typingctx, bits):
    result = types.float32 if bits == types.int32 else types.float64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return result(bits), codegen


@overload(float_of_bits, jit_options=INLINED)
def _overload_float_of_bits(bits):
    return lambda bits: _float_of_bits(bits)


@emitted
def _bits_of_float(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return (types.int32 if x == types.float32 else types.int64)(x), codegen


@overload(bits_of_float, jit_options=INLINED)
def _overload_bits_of_float(x):
    return lambda x: _bits_of_float(x)


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


@emitted
def _product(typingctx, a, transpose_a, b, transpose_b, out):
    if any(array.layout != "C" or array.dtype != out.dtype for array in (a, b, out)):
        raise errors.TypingError(
            f"product() of arrays {a}, {b}, {out}: contiguous ones of one type"
        )

    def codegen(context, builder, signature, args):
        a_type, _, b_type, _, out_type = signature.args
        left, right, result = (
            context.make_array(kind)(context, builder, value)
            for kind, value in zip((a_type, b_type, out_type), args[::2], strict=True)
        )
        number = context.get_value_type(out_type.dtype)
        character, integer = ir.IntType(8), ir.IntType(32)

        def at(value):
            """Return the address of a value: BLAS takes all arguments by address."""
            place = cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
            return place

        def flag(transposed):
            return at(builder.select(transposed, character(ord("T")), character(ord("N"))))

        def length(array, axis):
            return builder.extract_value(array.shape, axis)

        def row_length(array, kind):
            size = ir.IntType(64)(kind.dtype.bitwidth // 8)
            apart = builder.sdiv(builder.extract_value(array.strides, 0), size)
            # A single row may have any stride.
            single = builder.icmp_signed("<", apart, length(array, 1))
            return builder.select(single, length(array, 1), apart)

        def integer_at(value):
            return at(builder.trunc(value, integer))

        inner = builder.select(args[1], length(left, 0), length(left, 1))
        # BLAS is column-major, so it computes out' = b' a'.
        blas_args = [
            flag(args[3]),
            flag(args[1]),
            integer_at(length(result, 1)),
            integer_at(length(result, 0)),
            integer_at(inner),
            at(number(1.0)),
            right.data,
            integer_at(row_length(right, b_type)),
            left.data,
            integer_at(row_length(left, a_type)),
            at(number(0.0)),
            result.data,
            integer_at(row_length(result, out_type)),
        ]
        function_type = ir.FunctionType(ir.VoidType(), [value.type for value in blas_args])
        name = _symbol(_NAMES[out_type.dtype])
        function = cgutils.get_or_insert_function(builder.module, function_type, name)
        builder.call(function, blas_args)
        return context.get_dummy_value()

    return types.void(a, transpose_a, b, transpose_b, out), codegen


@overload(product, jit_options={"forceinline": True})
def _overload_product(a, transpose_a, b, transpose_b, out):
    return lambda a, transpose_a, b, transpose_b, out: _product(a, transpose_a, b, transpose_b, out)
