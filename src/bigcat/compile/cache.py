"""Compiled kernels on the disk, under a key that covers the source of all that is compiled.

Stock numba keys on the file of the entry point alone, and runs old code after a callee in another
file was edited.  What is compiled lies in the packages of `COMPILED`, which import nothing else of
bigcat: so an edit of an estimator, a reader or the command line compiles nothing anew.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import types
from numba.core import caching

#: Where compiled code lies.  A test holds every kernel, and all that kernels call, to it.
COMPILED = (
    "compile",
    "numerics",
    "verbs.py",
    "part.py",
    "rows",
    "noise",
    "probabilities.py",
    "samplers",
    "bounds",
    "solvers",
    "kernels",
)


def compiled_sources() -> Iterator[tuple[str, Path]]:
    """Every file of `COMPILED`, with its name inside the package."""
    root = Path(__file__).parents[1]
    for name in COMPILED:
        place = root / name
        files = [place] if place.suffix else sorted(place.rglob("*.py"))
        for path in files:
            yield path.relative_to(root).as_posix(), path


@functools.cache
def source_hash() -> str:
    """Hash of the source of all compiled code: its version."""
    digest = hashlib.sha256()
    for name, path in compiled_sources():
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


# numba offers no public way to change what its cache is keyed on.  These are its own locators
# (folder from NUMBA_CACHE_DIR, beside the source, in the user's cache folder: the first that is
# writable) with that hash as their stamp.  A test starts a second process and asserts
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

    def _load_index(self) -> dict[Any, str]:
        # One of another version may name tags that are gone, which pickle finds before anybody
        # could compare stamps.
        try:
            overloads: dict[Any, str] = super()._load_index()
            return overloads
        except (AttributeError, ImportError):
            return {}

    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        if not overloads:  # new, or of another version
            for old in Path(self._cache_path).glob(self._index_name.replace(".nbi", ".*.nbc")):
                old.unlink(missing_ok=True)
        overloads[key] = self._data_name(uuid.uuid4().int)
        self._save_data(overloads[key], data)
        self._save_index(overloads)


class PackageCache(caching.FunctionCache):
    """Numba's cache, but for kernels with a part from outside the package.

    The hash does not cover such a part's source, so old code would run after it was edited; and
    the cache's index would name the part's module, which other processes may not have.
    """

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return None if _has_outside_part(sig) else super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
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
