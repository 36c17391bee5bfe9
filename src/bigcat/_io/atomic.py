"""Atomic file replacement: files appear under their name only when complete and on disk."""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

#: Locks of files; Windows has none of this kind.
_LOCKS: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the place of `target`, as `replacing_path` does."""
    with replacing_path(target) as path, open(path, "wb") as file:
        yield file


@contextlib.contextmanager
def replacing_path(target: Path) -> Iterator[Path]:
    """Yield the path of an empty file that takes the place of `target` when the block ends.

    A failure in the block, or the death of the process, leaves `target` as it was.  The next
    writer of `target` removes what a killed process left.  The new file has the permissions of the
    one that it replaces; until then, only its owner can read it.
    """
    for orphan in target.parent.glob(f".{glob.escape(target.name)}.{'?' * 8}.tmp"):
        with contextlib.suppress(OSError), open(orphan / "lock", "ab") as left:
            if lock(left, wait=False):
                shutil.rmtree(orphan, ignore_errors=True)
    folder, held = _locked_folder(target)
    try:
        path = folder / "file"
        path.touch()
        mode = stat.S_IMODE((target if target.exists() else path).stat().st_mode)
        yield path
        with open(path, "r+b") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(PermissionError):  # raised by systems without permissions
            os.chmod(path, mode)
        os.replace(path, target)
    finally:
        held.close()
        shutil.rmtree(folder, ignore_errors=True)
    sync_folder(target.parent)


def _locked_folder(target: Path) -> tuple[Path, IO[bytes]]:
    """Make a private folder beside `target`; its lock tells other writers that it is in use."""
    while True:
        folder = Path(tempfile.mkdtemp(".tmp", f".{target.name}.", target.parent))
        try:
            held = open(folder / "lock", "wb")  # noqa: SIM115
        except OSError:
            if folder.exists():
                folder.rmdir()
                raise
            continue  # another writer took it for an orphan
        lock(held, wait=True)
        if folder.exists():
            return folder, held
        held.close()


def lock(file: IO[bytes], wait: bool) -> bool:
    """Return True if the file is locked by this process now, False without locks or if refused."""
    if _LOCKS is None:
        return False
    try:
        _LOCKS.flock(file, _LOCKS.LOCK_EX if wait else _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where the system lets folders be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
