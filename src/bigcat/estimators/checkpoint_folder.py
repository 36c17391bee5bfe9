"""Checkpoints: a folder with the state of an unfinished fit.

A fit is a chain of runs of the one loop (`training/loop.py`), and of steps between them that depend
on data, parameters and random numbers only. So a fit is resumed by repeating it: finished runs are
read from the folder, the interrupted run restarts from its last state, and the steps between are
computed again. On one thread the result has the same bits as without the interruption.

A file appears under its name when it is complete and on the disk, and holds a digest of its
content. The folder keeps the last two files of each run, so that a damaged one costs an interval
and not the fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bigcat._io.atomic import replacing
from bigcat._io.tensors import BrokenFileError, open_tensors, seal, unseal, write_tensors
from bigcat._warnings import warn_caller
from bigcat.checks import is_number
from bigcat.part import Part
from bigcat.training.loop import Checkpointer, Listener, Process
from bigcat.training.snapshot import Place, Snapshot, as_random_state, of_random_state, position

#: File that identifies the fit of the folder.
FIT_FILE = "fit.json"
#: Files of a run that are kept.
KEPT = 2
#: Names of all files that a checkpointer makes, complete or not.
_NAMES = r"fit\.json|run-\d{4,}-\d{6,}\.safetensors"
_OURS = re.compile(rf"{_NAMES}|\.({_NAMES})\..{{8}}\.tmp")


@dataclass(frozen=True, repr=False)
class Checkpoint(Part):
    """Folder of the checkpoints of a stochastic fit.

    Parameters
    ----------
    folder : path
        Made if missing; yours to delete after the fit.
    every_seconds : float, default=60
        Seconds between two checkpoints: the most that is lost.

    Examples
    --------
    >>> from bigcat import Checkpoint
    >>> Checkpoint("my-fit", every_seconds=10)
    Checkpoint(folder='my-fit', every_seconds=10)
    """

    folder: str | os.PathLike[str]
    every_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not isinstance(self.folder, str | os.PathLike):
            raise ValueError(f"checkpoint={self.folder!r} must be the name of a folder, or None")
        every = self.every_seconds
        if not (is_number(every) and 0.0 <= every < math.inf):
            raise ValueError(f"every_seconds={every!r} must be a number of seconds")


class CheckpointError(ValueError):
    """Folder from which a fit cannot resume."""


#: Parameters and data that decide a fit: of each, names and values or digests.
Identity = dict[str, dict[str, str]]


def differences(then: Identity, now: Identity) -> list[str]:
    """Return the differences of two identities as text."""
    before, after = then["parameters"], now["parameters"]
    changed = sorted(n for n in before | after if before.get(n) != after.get(n))
    found = [f"{n} was {before.get(n)} and is {after.get(n)}" for n in changed]
    before, after = then["data"], now["data"]
    changed = sorted(n for n in before | after if before.get(n) != after.get(n))
    return found + [f"{name} holds other values" for name in changed]


class FolderCheckpointer(Checkpointer):
    """Checkpointer that keeps the runs of one fit in a folder.

    With `resume`, `random_state` is put back to where the fit of the folder began; without such a
    fit this one begins.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: Identity,
        random_state: np.random.RandomState,
        *,
        resume: bool,
    ) -> None:
        self.folder, self.every = Path(checkpoint.folder), float(checkpoint.every_seconds)
        self.random_state = random_state
        self.n_runs = 0
        self.process: Process | None = None
        self.listener: Listener | None = None
        self.last = time.monotonic()
        found = self._fit_of_folder()
        if found is None or (found["complete"] and not resume):
            self._begin(identity)
        elif not resume:
            raise CheckpointError(
                f"{self.folder} holds a checkpoint of an unfinished fit; continue it with "
                "resume=True, or delete the folder"
            )
        else:
            self._go_on(identity, found)

    # Calls of the loop

    def begin(self, process: Process, listener: Listener, n_epochs: int) -> Place:
        self.n_runs += 1
        process.remembers = True
        self.process, self.listener, self.last = process, listener, time.monotonic()
        for path in reversed(self._files(self.n_runs)):
            kept = _read(path, self.fit)
            if kept is None:
                warn_caller(
                    f"the checkpoint {path} is damaged or belongs to another fit and is not used; "
                    "the fit continues from the one before"
                )
                continue
            place = Place(*kept.numbers["place"])
            process.restore(kept.part("process"), place, n_epochs)
            listener.restore(kept.part("listener"))
            return place
        return Place()

    def chunk_done(self, place: Place) -> None:
        if time.monotonic() - self.last >= self.every:
            self._write(place, ended=False)

    def end(self, place: Place) -> None:
        self._write(place, ended=True)
        self.process = self.listener = None

    def complete(self) -> None:
        try:
            _write_json(self.folder / FIT_FILE, {**self.content, "complete": True})
        except OSError as error:
            warn_caller(
                f"could not mark the fit in {self.folder} as complete: {error}; the model is "
                "fitted, and you can delete the folder"
            )

    # The folder

    @property
    def fit(self) -> str:
        """Digest of data, parameters and first random state, which is in each file of the fit."""
        parts = {name: self.content[name] for name in ("identity", "random_state")}
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _fit_of_folder(self) -> dict[str, Any] | None:
        path = self.folder / FIT_FILE
        if not path.exists():
            return None
        found = _read_json(path)
        if found is None:
            raise CheckpointError(
                f"{path} is damaged, so its fit is unknown; delete {self.folder} and fit again"
            )
        return found

    def _begin(self, identity: Identity) -> None:
        start = of_random_state(position(self.random_state))
        self.content = {
            "identity": identity,
            "random_state": {**start.numbers, "keys": start.arrays["keys"].tolist()},
            "complete": False,
        }
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            others = [p for p in self.folder.iterdir() if not _is_ours(p)]
            if others:
                raise CheckpointError(
                    f"{self.folder} holds other files, such as {others[0].name}; give checkpoint a "
                    "folder of its own"
                )
            remove(self.folder, keep_folder=True)
            _write_json(self.folder / FIT_FILE, self.content)
        except OSError as error:
            raise CheckpointError(
                f"could not begin a checkpoint in {self.folder}: {error}; choose another folder, "
                "or fit without a checkpoint"
            ) from error

    def _go_on(self, identity: Identity, found: dict[str, Any]) -> None:
        changes = differences(found["identity"], identity)
        if changes:
            if found["complete"]:
                self._begin(identity)
                return
            raise CheckpointError(
                f"the checkpoint in {self.folder} belongs to another fit: {'; '.join(changes)}; "
                "restore these, or delete the folder and fit again"
            )
        self.content = found
        kept = found["random_state"]
        keys = np.array(kept["keys"], np.uint32)
        start = Snapshot({"name": kept["name"], "rest": kept["rest"]}, {"keys": keys})
        self.random_state.set_state(as_random_state(start))

    def _files(self, run: int) -> list[Path]:
        """Return the files of a run, the oldest first."""
        return sorted(filter(_is_ours, self.folder.glob(f"run-{run:04d}-*.safetensors")))

    def _write(self, place: Place, ended: bool) -> None:
        assert self.process is not None
        assert self.listener is not None
        kept = Snapshot({"place": list(place)})
        kept.put("process", self.process.snapshot(ended))
        kept.put("listener", self.listener.snapshot())
        self._put(kept)

    def _put(self, kept: Snapshot) -> None:
        """Write a file of the current run; a fit does not end because a disk is full."""
        before = self._files(self.n_runs)
        number = 1 + (int(before[-1].stem.split("-")[2]) if before else 0)
        self.last = time.monotonic()
        try:
            _write(self.folder, f"run-{self.n_runs:04d}-{number:06d}", self.fit, kept)
            for path in before[: max(0, len(before) + 1 - KEPT)]:
                path.unlink(missing_ok=True)
        except OSError as error:
            warn_caller(
                f"could not write a checkpoint to {self.folder}: {error}; the fit continues and "
                f"tries again after {self.every:g} s"
            )


def remove(folder: str | os.PathLike[str], keep_folder: bool = False) -> None:
    """Delete what a checkpoint has written; the folder too, where nothing else is in it."""
    folder = Path(folder)
    if not folder.is_dir():
        return
    # The file that says which fit it is goes last: without it the others are of no fit.
    ours = sorted((p for p in folder.iterdir() if _is_ours(p)), key=lambda p: p.name == FIT_FILE)
    for path in ours:
        if path.is_dir():  # of a writer that was killed
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if not keep_folder:
        with contextlib.suppress(OSError):
            folder.rmdir()


# Files


def _is_ours(path: Path) -> bool:
    return _OURS.fullmatch(path.name) is not None


def _write(folder: Path, name: str, fit: str, kept: Snapshot) -> None:
    header = {"fit": fit, "numbers": kept.numbers}
    write_tensors(folder / f"{name}.safetensors", header, kept.arrays)


def _read(path: Path, fit: str) -> Snapshot | None:
    """Return the state in a file, or None if it is damaged or belongs to another fit.

    Arrays are read-only views of the file, since the weights need not fit into memory.
    """
    with contextlib.suppress(OSError, BrokenFileError), open_tensors(path) as file:
        if file.header.get("fit") != fit:
            return None
        arrays = {name: file.view(name, verify=True) for name in file.header["tensors"]}
        return Snapshot(file.header["numbers"], arrays)
    return None


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing(path) as file:
        file.write(seal(content).encode())


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        return unseal(path.read_text(errors="replace"))
    except BrokenFileError:
        return None
