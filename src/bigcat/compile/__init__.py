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
    ``GaussianTag``.  Dispatch happens while compiling and costs nothing at run time, and unlike
    jitclasses, closures or function arguments the result can be cached.  `bigcat.verbs` lists all.

``watching``
    Tells whoever waits when kernels are compiled.

The rest are intrinsics: what kernels need and numba does not have.
"""

from bigcat.compile.decorators import COMPILE_ABOVE, Kernel, device, device_in_order, kernel
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
from bigcat.compile.notices import watching
from bigcat.compile.sources import source_hash

__all__ = [
    "COMPILE_ABOVE",
    "Kernel",
    "as_precise_as",
    "bits_of_float",
    "by_precision",
    "call_address",
    "device",
    "device_in_order",
    "float_of_bits",
    "generic",
    "implement",
    "kernel",
    "like",
    "maximum",
    "prefetch",
    "product",
    "source_hash",
    "watching",
]
