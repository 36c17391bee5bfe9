"""Decorators that compile; numba is imported when the first kernel is called."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

#: Multiplications of a prediction or an epoch above which kernels are compiled.  NumPy takes one or
#: two seconds for these and a kernel half of that, so compilation takes about as long as it saves.
COMPILE_ABOVE = 1 << 32
#: The same for steps of a kernel in plain Python, which take a tenth of a second.
COMPILE_ABOVE_STEPS = 1 << 15

#: Kernels take their types from their arguments.
Function = Callable[..., Any]

# No "nnan", "ninf" or "arcp": checks for NaN must survive, and rounding stays IEEE.
_FAST = {"reassoc", "contract", "nsz"}
OPTIONS: Any = {"error_model": "numpy", "fastmath": _FAST}

# Options of inlined functions. Wrappers for callers from Python and C would add a seventh to the
# time of compilation.
_INLINED: Any = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
INLINED: Any = {**_INLINED, **OPTIONS}

_lock = threading.RLock()
_eager = 0  # blocks of `compiling_always` that some thread is in


def pays(work: float) -> bool:
    """Return True if `work`, in multiplications, is worth a compilation."""
    return _eager > 0 or work > COMPILE_ABOVE


@contextlib.contextmanager
def compiling_always() -> Iterator[None]:
    """Use compiled kernels in this block, however small the work is."""
    global _eager
    with _lock:
        _eager += 1
    try:
        yield
    finally:
        with _lock:
            _eager -= 1


_waiting: list[Callable[[], object]] = []


def when_compiling(register: Callable[[], object]) -> None:
    """Call `register`, which passes a function to numba, before the next kernel is compiled."""
    with _lock:
        _waiting.append(register)


def prepare_numba() -> None:
    """Import numba and register all functions that kernels may call."""
    with _lock:
        for name in ("emitted", "notices"):
            import_module(f"bigcat.compile.{name}").register()
        while _waiting:
            _waiting.pop(0)()


class Kernel:
    """Function that is compiled on its first call with arguments of given types."""

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self._ready: dict[Any, bool] = {}

    def __call__(self, *args: Any) -> Any:
        if _waiting:
            prepare_numba()
        return self.dispatcher(*args)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's dispatcher of the kernel; cached on disk where some folder is writable."""
        prepare_numba()
        from numba import njit

        from bigcat.compile.cache import PackageCache

        dispatcher: Any = njit(nogil=True, **OPTIONS)(self.py_func)
        if hasattr(dispatcher, "py_func"):  # not with NUMBA_DISABLE_JIT=1
            with contextlib.suppress(RuntimeError):  # no folder is writable
                dispatcher._cache = PackageCache(self.py_func)
            dispatcher.compile = _without_collections(dispatcher.compile)
        return dispatcher

    def for_steps(self, n_steps: float) -> Function:
        """Return the kernel, or for few steps its Python function, which needs no compilation."""
        return self if _eager or n_steps > COMPILE_ABOVE_STEPS else self.plain

    def plain(self, *args: Any) -> Any:
        """Run the Python function, with the floating-point rules of kernels."""
        with np.errstate(all="ignore"):
            return self.py_func(*args)

    def is_ready(self, *args: Any) -> bool:
        """Return True if machine code for such arguments is in memory or can be loaded."""
        if "numba" not in sys.modules:
            return False
        dispatcher = self.dispatcher
        if not hasattr(dispatcher, "py_func"):
            return False
        types = tuple(dispatcher.typeof_pyval(argument) for argument in args)
        if types not in dispatcher.overloads and types not in self._ready:
            find = getattr(dispatcher._cache, "find", None)  # None without a cache on disk
            found = find and find(types, dispatcher.targetctx)
            if found is not None:
                dispatcher.add_overload(found)
            self._ready[types] = found is not None
        return types in dispatcher.overloads


def kernel(function: Function) -> Kernel:
    """Compile an entry point on its first call."""
    return Kernel(function)


def _without_collections(compile: Function) -> Function:
    """Suspend garbage collection, an eighth of the time of compilation; the cache collects once."""

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
    """Compile a scalar function that kernels inline; Python callers run it as it is."""
    overloaded(function, lambda *args: function, INLINED)
    return function


def device_in_order(function: Function) -> Function:
    """Compile like `device`, keeping the order of arithmetic as written.

    Multiplications and additions may be fused, which saves a rounding.
    """
    options = {**_INLINED, "error_model": "numpy", "fastmath": {"contract"}}
    overloaded(function, lambda *args: function, options)
    return function


def overloaded(function: Function, choose: Function, options: Any) -> None:
    """Let kernels call `function`: they inline what `choose` returns for numba's types."""

    def register() -> None:
        from numba.extending import overload

        overload(function, strict=False, jit_options=options)(choose)

    when_compiling(register)
