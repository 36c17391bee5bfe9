"""Cache of compiled kernels on disk; its key covers the source of all compiled code.

Numba keys on the file of the entry point alone, and runs old code after a callee in another file
was edited.  Compiled code lies in the packages of `COMPILED`, which import nothing else of bigcat
but `_warnings.py`.  So edits of estimators, readers or the command line recompile nothing.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import os
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import binding
from numba import types
from numba.core import caching

from bigcat._warnings import warn_caller
from bigcat.compile.sources import source_hash

#: Machine code in wheels, a folder per module; hatch_build.py writes it.
SHIPPED = Path(__file__).parents[1] / "_kernels"


# Numba's cache key cannot be changed through public names. These are numba's locators (the first
# writable folder of NUMBA_CACHE_DIR, beside the source, the user's cache folder) with the hash as
# their stamp. A test asserts cache hits in a second process, so a change inside numba is noticed.
class _PackageStamp:
    def get_source_stamp(self) -> str:
        return source_hash()

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        # Numba encodes the path in UTF-8, which fails for bytes that the locale cannot decode.
        known = os.fsencode(py_file).decode(errors="backslashreplace")
        found: str = super().get_suitable_cache_subpath(known)  # type: ignore[misc]
        return found


class _FromEnvironment(_PackageStamp, caching.UserProvidedCacheLocator):
    pass


class _BesideSource(_PackageStamp, caching.InTreeCacheLocator):
    pass


class _UserWide(_PackageStamp, caching.UserWideCacheLocator):
    def ensure_cache_path(self) -> None:
        # Without a home, the folder would be "~" in the working directory.
        if not os.path.isabs(self.get_cache_path()):
            raise OSError("there is no home folder")
        super().ensure_cache_path()


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes: Any = [_FromEnvironment, _BesideSource, _UserWide]  # noqa: RUF012


class _CacheFiles(caching.IndexDataCacheFile):
    """Numba's cache files, safe for concurrent processes and damaged files.

    Numba numbers data files by the index, so two processes can give one number to two kernels, and
    a third process runs the wrong code.  Here each name is unique and the index names files that
    are already written; the worst case is a kernel that is compiled twice.

    Each file begins with a digest of the rest.  Files that are empty, cut or altered are ignored.
    """

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        return None if name is None else self._read(self._data_path(name))

    def save(self, key: Any, data: Any) -> None:
        overloads = self._load_index()
        if not overloads:  # new, or of another version
            for old in Path(self._cache_path).glob(self._index_name.replace(".nbi", ".*.nbc")):
                old.unlink(missing_ok=True)
        overloads[key] = self._data_name(uuid.uuid4().int)
        self._write(self._data_path(overloads[key]), data)
        self._save_index(overloads)

    def _load_index(self) -> dict[Any, str]:
        found = self._read(self._index_path)
        if found is None or found[0] != (self._version, self._source_stamp):
            return {}
        overloads: dict[Any, str] = found[1]
        return overloads

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._write(self._index_path, ((self._version, self._source_stamp), overloads))

    def _read(self, path: str) -> Any:
        """Return the value that `_write` stored; None if the file is missing or damaged."""
        try:
            content = Path(path).read_bytes()
        except OSError:
            return None
        digest, rest = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if digest != _digest(rest):
            return None
        # An index of another version may name tags that are gone or changed: pickle raises various
        # errors before the stamps can be compared.
        try:
            return pickle.loads(rest)
        except Exception:
            return None

    def _write(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(_digest(content) + content)


_DIGEST_BYTES = hashlib.sha256().digest_size


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class PackageCache(caching.FunctionCache):
    """Numba's cache, except for kernels with a part from outside the package.

    The hash does not cover the source of such a part, so old code would run after an edit; and the
    index would name the part's module, which other processes may lack.
    """

    _impl_class = _CacheImpl

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return cached machine code; numba compiles if there is none."""
        return self.find(sig, target_context)

    def find(self, sig: Any, target_context: Any) -> Any:
        """Return cached machine code, or None; never compiles."""
        if _has_outside_part(sig):
            return None
        found = super().load_overload(sig, target_context)
        return found if found is not None else self._load_shipped(sig, target_context)

    def _load_shipped(self, sig: Any, target_context: Any) -> Any:
        """Return machine code of the wheel if this processor supports it."""
        codegen = target_context.codegen()
        target = shipped_target(codegen.magic_tuple()[0])
        if target is None:
            return None
        key = (sig, target, *self._index_key(sig, codegen)[2:])
        folder = SHIPPED / self._py_func.__module__
        files = _CacheFiles(str(folder), self._impl.filename_base, source_hash())
        data = files.load(key)
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write machine code to the disk; warn once if that fails."""
        if not _has_outside_part(sig):
            try:
                super().save_overload(sig, data)
            except OSError as error:  # a full disk, a folder that is gone
                _warn_once(error.strerror or str(error))
        # Caught errors of the compiler hold its arguments, perhaps gigabytes of weights, in cycles.
        gc.collect()


@functools.cache
def shipped_target(triple: str) -> tuple[str, ...] | None:
    """Return the target of the wheel's machine code; None if this processor does not support it."""
    try:
        made_for: tuple[str, ...] = tuple(json.loads((SHIPPED / "target.json").read_text()))
    except (OSError, ValueError):
        return None
    has = binding.get_host_cpu_features()
    needs = [feature.removeprefix("+") for feature in made_for[2].split(",")]
    runs = made_for[0] == triple and all(has.get(feature) for feature in needs)
    return made_for if runs else None


def cache_folder() -> str | None:
    """Return the folder of compiled code, or the parent of several; None without one."""
    locators = _CacheImpl._locator_classes
    found = (locator.from_function(source_hash.__wrapped__, __file__) for locator in locators)
    first = next((locator for locator in found if locator is not None), None)
    if first is None:
        return None
    named: str = os.environ.get("NUMBA_CACHE_DIR", "") or first.get_cache_path()
    return named


@functools.cache
def _warn_once(cause: str) -> None:
    warn_caller(
        f"compiled code could not be kept on the disk ({cause}), so the next process compiles it "
        "again; make room, or name another folder in NUMBA_CACHE_DIR"
    )


def _has_outside_part(sig: Any) -> bool:
    """Return True if a signature holds a tag from outside the package, at any depth."""
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
