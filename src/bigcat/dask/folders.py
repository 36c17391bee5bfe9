"""Folders of rows by name: paths, globs, and addresses of whatever `fsspec` opens.

Rows are mapped to memory, which wants files.  So a worker copies a folder that is elsewhere to its
own disk when it first needs a row of it, and every fit after that finds it there.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
from distributed import get_worker

from bigcat.data.dataset import DataError
from bigcat.data.shards import INDEX, Index, Shards, open_shards

#: What makes a name a pattern.
_WILD = "*?["
#: Threads that need the same rows copy them once, and not every file system bears two readers.
_COPYING = threading.Lock()


class Folder(NamedTuple):
    """A folder of rows, wherever it is."""

    name: str  # a path, or an address
    fingerprint: str
    n_rows: int
    n_bytes: int

    @classmethod
    def of(cls, name: str, index: Index) -> Folder:
        return cls(name, index.fingerprint, index.n_rows, index.n_bytes)


def is_of_folders(X: Any) -> bool:
    """Is it one or several folders, opened or by name?"""
    some = X if isinstance(X, list | tuple) else [X]
    return bool(some) and all(isinstance(one, Shards | str | os.PathLike) for one in some)


def folders_of(X: Any) -> list[Folder]:
    """What was given as X, a folder each; patterns stand for all that they find, in order."""
    found: list[Folder] = []
    for one in X if isinstance(X, list | tuple) else [X]:
        if isinstance(one, Shards):
            found.append(Folder.of(str(one.folder.absolute()), one.index))
        else:
            found += [Folder.of(name, _index(name)) for name in _names(os.fspath(one))]
    return found


def is_address(name: str) -> bool:
    return "://" in name


def _names(given: str) -> list[str]:
    """Of the folders that a name stands for."""
    if not any(sign in given for sign in _WILD):
        return [given if is_address(given) else str(Path(given).absolute())]
    files, pattern = fsspec.core.url_to_fs(given)
    found = sorted(files.glob(f"{pattern.rstrip('/')}/{INDEX}"))
    if not found:
        raise DataError(f"{given}: no folder of rows has such a name; `bigcat convert` makes them")
    folders = [path[: -len(INDEX) - 1] for path in found]
    return [files.unstrip_protocol(path) if is_address(given) else path for path in folders]


def _index(name: str) -> Index:
    if not is_address(name):
        return Index.read(Path(name))
    with tempfile.TemporaryDirectory() as here:
        files, path = _files_of(name)
        try:
            files.get_file(f"{path}/{INDEX}", f"{here}/{INDEX}")
            return Index.read(Path(here))
        except (OSError, DataError) as error:
            raise DataError(
                f"{name}: {INDEX} cannot be read ({str(error).replace(here, name)})"
            ) from error


@functools.lru_cache(maxsize=8)
def opened(name: str, fingerprint: str) -> Shards:
    """A folder, once per process: to read what is known of many classes takes a while."""
    shards = open_shards(_copied(name, fingerprint) if is_address(name) else name)
    if shards.fingerprint != fingerprint:
        raise DataError(f"{name}: its rows are others than when the fit began; begin anew")
    return shards


def _copied(name: str, fingerprint: str) -> Path:
    """A copy on this machine, which appears whole or not at all."""
    with _COPYING:
        return _copy(name, fingerprint)


def _copy(name: str, fingerprint: str) -> Path:
    try:
        base = Path(get_worker().local_directory)
    except ValueError:  # nobody's worker
        base = Path(tempfile.gettempdir())
    key = hashlib.sha256(f"{name} {fingerprint}".encode()).hexdigest()[:16]
    target = base / f"bigcat-rows-{key}"
    if not target.is_dir():
        files, path = _files_of(name)
        base.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=base))
        try:
            files.get(path, str(temporary / "rows"), recursive=True)
            (temporary / "rows").rename(target)
        except OSError:
            if not target.is_dir():  # else another process was quicker
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return target


def _files_of(name: str) -> tuple[Any, str]:
    files, path = fsspec.core.url_to_fs(name)
    return files, path.rstrip("/")
