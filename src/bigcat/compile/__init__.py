"""The only package that talks to numba, which is imported when the first kernel is called.

``kernel``
    An entry point called from Python.  Compiled on first use, the GIL released, cached on disk
    under a key that covers the source of all that is compiled (`bigcat.compile.cache`).
``device``
    A scalar function for kernels, always inlined.  Called from Python it runs as it is written.
``device_in_order``
    The same, for arithmetic whose order matters.
``generic`` / ``implement``
    A function dispatched on the type of its first argument, a NamedTuple *tag* such as
    ``GaussianTag``.  Dispatch happens at compile time and costs nothing at run time.  Unlike
    jitclasses, closures and function arguments, the result can be cached.  See `bigcat.verbs`.

``pays``
    Return True if work is large enough to compile for; NumPy does the rest.
``watching`` and ``clock``
    Announce compilations, and count seconds without them.
``expect_kernels`` and ``kernels_left``
    Number of kernels that a fit may still need.

The rest are intrinsics that numba lacks.
"""

from bigcat.compile.decorators import (
    Kernel,
    compiling_always,
    device,
    device_in_order,
    kernel,
    pays,
)
from bigcat.compile.dispatch import generic, implement
from bigcat.compile.intrinsics import (
    as_precise_as,
    bits_of_float,
    by_precision,
    call_address,
    float_of_bits,
    like,
    maximum,
    prefetch,
    product,
)
from bigcat.compile.notices import clock, expect_kernels, kernels_left, watching
from bigcat.compile.sources import source_hash

__all__ = [
    "Kernel",
    "as_precise_as",
    "bits_of_float",
    "by_precision",
    "call_address",
    "clock",
    "compiling_always",
    "device",
    "device_in_order",
    "expect_kernels",
    "float_of_bits",
    "generic",
    "implement",
    "kernel",
    "kernels_left",
    "like",
    "maximum",
    "pays",
    "prefetch",
    "product",
    "source_hash",
    "watching",
]
