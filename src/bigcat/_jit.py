"""The one place that talks to numba: kernels, the seam for parts, and a few intrinsics.

The decorators:

``kernel``
    An entry point called from Python.  Compiled on first use, the GIL released, cached on disk
    under a key that covers the source of the *whole* package: stock numba keys on the file of
    the entry point alone and runs old code after a callee in another file was edited.
``device``
    A scalar function called from kernels only, always inlined.
``device_in_order``
    The same, for arithmetic whose order matters.
``generic`` / ``implement``
    A function dispatched on the type of its first argument, a NamedTuple *tag* such as
    ``GaussianTag``.  Dispatch happens while compiling and costs nothing at run time, and unlike
    jitclasses, closures or function arguments the result can be cached.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import caching, cgutils, errors
from numba.extending import intrinsic, overload

# No "nnan", "ninf" or "arcp": checks for NaN must survive, and rounding stays IEEE.
_FAST = {"reassoc", "contract", "nsz"}
_OPTIONS: Any = {"error_model": "numpy", "fastmath": _FAST}


@functools.cache
def source_hash() -> str:
    """Hash of every source file of the package: the version of all compiled code."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


# numba offers no public way to change what its cache is keyed on.  These are its own locators
# (folder from NUMBA_CACHE_DIR, beside the source, in the user's cache folder: the first that is
# writable) with the package's hash as their stamp.  A test starts a second process and asserts
# cache hits, so that a change inside numba is seen.
class _PackageStamp:
    def get_source_stamp(self) -> str:
        return source_hash()


class _FromEnvironment(_PackageStamp, caching.UserProvidedCacheLocator):
    pass


class _BesideSource(_PackageStamp, caching.InTreeCacheLocator):
    pass


class _UserWide(_PackageStamp, caching.UserWideCacheLocator):
    pass


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes: Any = [_FromEnvironment, _BesideSource, _UserWide]  # noqa: RUF012


class _CacheFiles(caching.IndexDataCacheFile):
    """Numba's files, but safe where several processes compile at once.

    Numba numbers its data files by a look at the index, so that two processes can take one number
    for two kernels, and a third one runs the wrong code.  Here a name is used once, and the index
    names what is written already; the worst that can happen is a kernel that is compiled again.
    """

    def _load_index(self):
        # One of another version may name tags that are gone, which pickle finds before anybody
        # could compare stamps.
        try:
            return super()._load_index()
        except (AttributeError, ImportError):
            return {}

    def save(self, key, data):
        overloads = self._load_index()
        if not overloads:  # new, or of another version of the package
            for old in Path(self._cache_path).glob(self._index_name.replace(".nbi", ".*.nbc")):
                old.unlink(missing_ok=True)
        overloads[key] = self._data_name(uuid.uuid4().int)
        self._save_data(overloads[key], data)
        self._save_index(overloads)


class _PackageCache(caching.FunctionCache):
    """Numba's cache, but for kernels with a part from outside the package.

    The hash does not cover such a part's source, so old code would run after it was edited; and
    the cache's index would name the part's module, which other processes may not have.
    """

    _impl_class = _CacheImpl

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig, target_context):
        return None if _has_outside_part(sig) else super().load_overload(sig, target_context)

    def save_overload(self, sig, data):
        if not _has_outside_part(sig):
            super().save_overload(sig, data)
        # Errors that the compiler met and overcame hold, in a circle, the arguments it was called
        # with; and those may be gigabytes of weights.
        gc.collect()


def _has_outside_part(sig: Any) -> bool:
    """Does a signature hold, at any depth, a tag that was defined outside the package?"""
    package = __name__.partition(".")[0]
    pending = list(getattr(sig, "args", sig))
    while pending:
        numba_type: Any = pending.pop()
        if isinstance(numba_type, types.BaseTuple):
            pending.extend(numba_type)  # type: ignore[arg-type]
        tag = getattr(numba_type, "instance_class", None)
        if tag is not None and tag.__module__.partition(".")[0] != package:
            return True
    return False


def kernel(function: Callable) -> Callable:
    """Compile an entry point; cached on disk where some folder is writable, in memory elsewhere."""
    dispatcher = njit(nogil=True, **_OPTIONS)(function)
    if hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT=1
        with contextlib.suppress(RuntimeError):  # numba's way to say that no folder is writable
            dispatcher._cache = _PackageCache(function)
    return dispatcher


def device(function: Callable) -> Callable:
    """Compile a scalar function that kernels inline."""
    return njit(forceinline=True, **_OPTIONS)(function)


def device_in_order(function: Callable) -> Callable:
    """`device` for arithmetic that must be done in the order in which it is written.

    Multiplications and additions are still fused, which only ever saves a rounding.
    """
    return njit(forceinline=True, error_model="numpy", fastmath={"contract"})(function)


def by_precision(single: Callable, double: Callable) -> Callable:
    """A function of one number: `single` for float32, `double` for everything else."""

    def choose_and_call(x):
        return single(x) if isinstance(x, np.float32) else double(x)

    @overload(choose_and_call, jit_options={"forceinline": True, **_OPTIONS})
    def _choose(x):
        if x == types.float32:
            return lambda x: single(x)
        return lambda x: double(x)

    return choose_and_call


def like(value, x):
    """A number in the precision of `x`, a number or an array, which may be float32."""
    return np.float32(value) if getattr(x, "dtype", None) == np.float32 else float(value)


@overload(like, jit_options={"forceinline": True, **_OPTIONS})
def _overload_like(value, x):
    number = np.float32 if getattr(x, "dtype", x) == types.float32 else np.float64
    return lambda value, x: number(value)


def generic(template: Callable) -> Callable:
    """Make a function that is dispatched on the type of its first argument.

    Parameters
    ----------
    template : function
        Its name and docstring are kept; implementations take the same arguments.
    """
    implementations: dict[type | None, Callable] = {}

    @functools.wraps(template)
    def dispatch(tag, *args):
        found = implementations.get(type(tag), implementations.get(None))
        if found is None:
            raise TypeError(f"{type(tag).__name__} has no implementation of {template.__name__}()")
        return found(tag, *args)

    def choose(tag, *args):
        kind = getattr(tag, "instance_class", None)
        if kind is not None and kind not in implementations and None not in implementations:
            raise errors.TypingError(
                f"{kind.__name__} has no implementation of {template.__name__}(); "
                f"register one with bigcat._jit.implement({template.__name__}, {kind.__name__})"
            )
        if kind is None:
            return None
        return implementations.get(kind, implementations.get(None))

    overload(dispatch, strict=False, jit_options={"forceinline": True, **_OPTIONS})(choose)
    dispatch.implementations = implementations  # type: ignore[attr-defined]
    return dispatch


def implement(function: Callable, tag: type | None) -> Callable[[Callable], Callable]:
    """Register the implementation of a generic `function` for one `tag` type.

    ``None`` registers what every tag without an implementation of its own does.
    """

    def register(implementation: Callable) -> Callable:
        function.implementations[tag] = implementation  # type: ignore[attr-defined]
        return implementation

    return register


_SCALAR_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


def call_address(address, x):
    """Call the C function double -> double that lives at `address`."""
    return _SCALAR_FUNCTION(address)(x)


@intrinsic
def _call_address(typingctx, address, x):
    def codegen(context, builder, signature, args):
        double = ir.DoubleType()
        pointer = builder.inttoptr(args[0], ir.FunctionType(double, [double]).as_pointer())
        return builder.call(pointer, [args[1]])

    return types.float64(types.int64, types.float64), codegen


@overload(call_address, jit_options={"forceinline": True, **_OPTIONS})
def _overload_call_address(address, x):
    return lambda address, x: _call_address(address, x)


def float_of_bits(bits):
    """The float32 or float64 whose bits are those of an int32 or int64."""
    return bits.view(np.float32 if bits.dtype == np.int32 else np.float64)


@intrinsic
def _float_of_bits(typingctx, bits):
    result = types.float32 if bits == types.int32 else types.float64

    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return result(bits), codegen


@overload(float_of_bits, jit_options={"forceinline": True, **_OPTIONS})
def _overload_float_of_bits(bits):
    return lambda bits: _float_of_bits(bits)


def bits_of_float(x):
    """The int32 or int64 whose bits are those of a float32 or float64."""
    return x.view(np.int32 if x.dtype == np.float32 else np.int64)


@intrinsic
def _bits_of_float(typingctx, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(signature.return_type))

    return (types.int32 if x == types.float32 else types.int64)(x), codegen


@overload(bits_of_float, jit_options={"forceinline": True, **_OPTIONS})
def _overload_bits_of_float(x):
    return lambda x: _bits_of_float(x)


def maximum(a, b):
    """The larger of two floats of one type, NaN if one of them is.

    Unlike a comparison that lets NaN go either way, a loop over it becomes vector instructions.
    """
    return np.maximum(a, b)


@intrinsic
def _maximum(typingctx, a, b):
    def codegen(context, builder, signature, args):
        number = context.get_value_type(signature.return_type)
        name = "llvm.maximum.f32" if a == types.float32 else "llvm.maximum.f64"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(number, [number, number]), name
        )
        return builder.call(function, args, fastmath=("nsz",))

    return a(a, a), codegen


@overload(maximum, jit_options={"forceinline": True, **_OPTIONS})
def _overload_maximum(a, b):
    return lambda a, b: _maximum(a, b)


def prefetch(array, index):
    """Ask the processor to bring ``array.flat[index]`` near; no effect on results."""


@intrinsic
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


@overload(prefetch, jit_options={"forceinline": True, **_OPTIONS})
def _overload_prefetch(array, index):
    return lambda array, index: _prefetch(array, index)
