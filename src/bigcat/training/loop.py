"""The loop of every stochastic fit, of weights and of posteriors over them.

It owns time, chunks, finiteness and stopping; a `Process` trains, and a `Listener` observes.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from bigcat.compile import clock
from bigcat.solvers import DivergedError
from bigcat.training.snapshot import Place, Snapshot

#: Seconds of a kernel call: short enough for a progress bar and Ctrl-C.
CHUNK_SECONDS = 0.2


class Process(Protocol):
    """Anything that learns from rows ``first`` to ``last``."""

    n_rows: int
    #: Sum of the rows' weights.
    total_weight: float
    #: Epochs made, including those of earlier runs.
    epochs_made: int
    #: Set by a checkpointer that takes snapshots.
    remembers: bool

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Prepare an epoch, counted from 0, of at most `n_epochs`."""

    def chunk(self, first: int, seconds: float | None) -> int:
        """Return the end of the next call, after one that took `seconds`."""

    def train(self, first: int, last: int) -> float:
        """Learn from these rows in this epoch's order; return the sum of their values."""

    def end_epoch(self) -> None:
        """Finish the rows of an epoch, or an interrupted one."""

    def diverged(self, value: float) -> str:
        """Return the message for a value that is not finite."""

    def snapshot(self, ended: bool) -> Snapshot:
        """Return the state between two calls of `train`, or after the last epoch."""

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        """Take over a snapshot, in a run of at most `n_epochs`."""


class Listener(Protocol):
    """Observer of the loop."""

    def compiled(self, seconds: float) -> None:
        """Receive the seconds of compilation, before the first epoch."""

    def chunk_done(self, part: float, value: float) -> None:
        """Receive the part of the epoch that is done, and the mean value per row so far."""

    def epoch_done(self, value: float, seconds: float) -> bool:
        """Receive the mean value per row and the epoch's seconds; a true answer ends the fit."""

    def snapshot(self) -> Snapshot:
        """Return the memory of past epochs, by default none."""
        return Snapshot()

    def restore(self, kept: Snapshot) -> None:
        """Take over that memory."""
        return


class Checkpointer:
    """Hooks of the loop that make a run resumable; these keep nothing."""

    def begin(self, process: Process, listener: Listener, n_epochs: int) -> Place:
        """Restore both before the first epoch, and return where the run stands."""
        return Place()

    def chunk_done(self, place: Place) -> None:
        """Follow a call of `Process.train`."""

    def end(self, place: Place) -> None:
        """Follow the last epoch."""

    def complete(self) -> None:
        """Follow the last run."""


NO_CHECKPOINTS = Checkpointer()


def run_epochs(
    process: Process, n_epochs: int, listener: Listener, checkpointer: Checkpointer = NO_CHECKPOINTS
) -> None:
    """Run up to `n_epochs` epochs."""
    started = time.perf_counter()
    process.train(0, 0)  # compiles, trains on nothing
    listener.compiled(time.perf_counter() - started)
    seconds: float | None = None
    epoch, done, total, spent = checkpointer.begin(process, listener, n_epochs)
    while epoch < n_epochs:
        started = clock() - spent
        if not done:
            process.begin_epoch(epoch, n_epochs)
        try:
            while done < process.n_rows:
                chunk_started = clock()
                end = min(process.chunk(done, seconds), process.n_rows)
                value = process.train(done, end)
                if not np.isfinite(value):
                    raise DivergedError(process.diverged(value))
                total += value
                seconds = max(clock() - chunk_started, 1e-6)
                done = end
                mean = total / process.total_weight * process.n_rows / done
                listener.chunk_done(done / process.n_rows, mean)
                checkpointer.chunk_done(Place(epoch, done, total, clock() - started))
        finally:  # also after an interruption, so that the weights are complete
            process.end_epoch()
        process.epochs_made += 1
        if listener.epoch_done(total / process.total_weight, clock() - started):
            break
        epoch, done, total, spent = epoch + 1, 0, 0.0, 0.0
    checkpointer.end(Place(epoch=n_epochs))
