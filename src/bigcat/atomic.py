"""Files that appear under their name when they are complete and on the disk, or not at all."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

#: Locks of files; there are none on Windows.
_LOCKS: Any = importlib.import_module("fcntl") if os.name == "posix" else None


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of `target` when the block ends.

    A failure in the block, or a process that is killed, leaves what was there before.  What a
    killed process leaves beside it, the next one to write the same file removes.  The new file
    has the permissions of the one that it replaces.
    """
    _remove_orphans(target)
    temporary, file = _new_file(target)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if _LOCKS is not None:  # while nobody can take it for an orphan
                os.replace(temporary, target)
        if _LOCKS is None:  # Windows does not rename a file that is open
            os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def _new_file(target: Path) -> tuple[Path, IO[bytes]]:
    """A file of a name of its own, locked for as long as it is open."""
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        # Nobody else may read what may be meant to be private, not for a moment.
        private = target.exists()
        descriptor = os.open(
            temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666
        )
        file = os.fdopen(descriptor, "r+b")
        try:
            if private:
                with contextlib.suppress(PermissionError):  # of systems that have no permissions
                    os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            if lock(file, wait=True) and not _is_there(temporary, file):
                file.close()  # somebody took it for an orphan before it was locked
                continue
        except BaseException:
            file.close()
            temporary.unlink(missing_ok=True)
            raise
        return temporary, file


def _remove_orphans(target: Path) -> None:
    """Remove files of writers of `target` that are gone: nobody holds their locks."""
    for orphan in target.parent.glob(f".{_escaped(target.name)}.{'[0-9a-f]' * 8}.tmp"):
        with contextlib.suppress(OSError), open(orphan, "r+b") as file:
            if lock(file, wait=False):
                orphan.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def lock(file: IO[bytes], wait: bool) -> bool:
    """Is the file locked by us now?  Not where the system has no locks, or somebody else has it."""
    if _LOCKS is None:
        return False
    try:
        _LOCKS.flock(file, _LOCKS.LOCK_EX if wait else _LOCKS.LOCK_EX | _LOCKS.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(path: Path, file: IO[bytes]) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system lets folders be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the file itself is on the disk already
        pass
    finally:
        os.close(descriptor)
