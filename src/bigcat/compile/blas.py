"""Products of matrices inside kernels, by SciPy's BLAS.

``np.dot`` calls the same BLAS at the same speed, but its forms take numba longer to compile: with
them the first fit of low rank takes about a second and a half more.
"""

from __future__ import annotations

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, errors
from numba.extending import get_cython_function_address, overload

from bigcat.compile.decorators import emitted

_NAMES = {types.float32: "sgemm", types.float64: "dgemm"}


def _symbol(name: str) -> str:
    return f"bigcat_{name}"


# Compiled code refers to a name, not to an address, so that other processes can load it.
for _name in _NAMES.values():
    llvm.add_symbol(_symbol(_name), get_cython_function_address("scipy.linalg.cython_blas", _name))


def product(
    a: np.ndarray, transpose_a: bool, b: np.ndarray, transpose_b: bool, out: np.ndarray
) -> None:
    """``out = a b``, either of them transposed where its flag is True; all contiguous."""
    arrays = (a, b, out)
    if any(not array.flags.c_contiguous or array.dtype != out.dtype for array in arrays):
        kinds = ", ".join(f"{array.dtype} with strides {array.strides}" for array in arrays)
        raise TypeError(f"product() of arrays {kinds}: contiguous ones of one type")
    out[...] = (a.T if transpose_a else a) @ (b.T if transpose_b else b)


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
            """BLAS takes all its arguments by address."""
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
            # The stride of a single row may be anything.
            single = builder.icmp_signed("<", apart, length(array, 1))
            return builder.select(single, length(array, 1), apart)

        def integer_at(value):
            return at(builder.trunc(value, integer))

        inner = builder.select(args[1], length(left, 0), length(left, 1))
        # To BLAS, which goes by columns, these are all transposed: out' = b' a'.
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
