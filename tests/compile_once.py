"""Compile each kernel once per run, whichever process needs it first.

Compiling is most of what the tests take.  Two workers that meet a new kernel at the same time would
both compile it; here the second waits for the first, and reads what that one wrote to the cache.
Nobody waits for ever: after `PATIENCE` seconds a kernel is compiled anyway.

Import it before the first kernel is called, in any process that should take part.
"""

import contextlib
import functools
import gc
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bigcat.compile import cache

try:
    import fcntl
except ImportError:  # a system without such locks: everybody compiles for himself
    fcntl = None  # type: ignore[assignment]

PATIENCE = 100.0
_held: set[int] = set()
_load, _save = cache.PackageCache.load_overload, cache.PackageCache.save_overload


@functools.cache
def _file():
    """One file for all locks, each of them a byte of it; the system gives up those of a process
    that ends."""
    name = f"bigcat-compiling-{os.getuid()}.lock"
    return os.open(Path(tempfile.gettempdir()) / name, os.O_RDWR | os.O_CREAT)


def _place(kernel, sig):
    whole = f"{kernel._cache_path} {kernel._impl.filename_base} {cache.source_hash()} {sig}"
    return int.from_bytes(hashlib.sha256(whole.encode()).digest()[:7])


def _take(place):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError, PermissionError):
            fcntl.lockf(_file(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            _held.add(place)
            return
        time.sleep(0.02)


def _release(place):
    if place in _held:
        _held.discard(place)
        fcntl.lockf(_file(), fcntl.LOCK_UN, 1, place)


def keep_what_there_is():
    """Let the collector of garbage pass over all that is there now, in the rest of the run.

    It looks for garbage after every kernel, and a worker holds thousands of tests and all that
    numba remembers: without this, that is half a second of each kernel.  So call it where garbage
    was just collected.
    """
    gc.freeze()


def release_all():
    """Release a kernel that did not compile, so that no other process waits for it."""
    for place in list(_held):
        _release(place)


def _load_overload(self, sig, target_context):
    found = _load(self, sig, target_context)
    place = _place(self, sig)
    if found is not None or place in _held or cache._has_outside_part(sig):
        return found
    _take(place)
    found = _load(self, sig, target_context)
    if found is not None:
        _release(place)
    return found


def _save_overload(self, sig, data):
    index = _place(self, "index")  # is read, changed and written: by one process at a time
    _take(index)
    try:
        _save(self, sig, data)
    finally:
        _release(index)
        _release(_place(self, sig))
    keep_what_there_is()


if fcntl is not None:
    kind: Any = cache.PackageCache
    kind.load_overload, kind.save_overload = _load_overload, _save_overload
