"""The one loop of every stochastic fit, of weights and of posteriors over them.

It owns time, chunks, finiteness and stopping; what an epoch does is a `Process`, and what is told
of it goes to a `Listener`.
"""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from bigcat.compile import clock
from bigcat.solvers import DivergedError
from bigcat.training.snapshot import Place, Snapshot

#: Seconds of work that a kernel call is given: short enough for a progress bar and Ctrl-C.
CHUNK_SECONDS = 0.2


class Process(Protocol):
    """What the loop drives: something that learns from rows ``first`` to ``last``."""

    n_rows: int
    #: Sum of the rows' weights.
    total_weight: float
    #: Epochs made, in runs before this one too.
    epochs_made: int
    #: Will snapshots be asked for?  A keeper that does says so when it begins.
    remembers: bool

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Before the rows of an epoch, counted from 0, of so many at most."""

    def chunk(self, first: int, seconds: float | None) -> int:
        """Where the next call should end, after one that took so long.  No weight depends on it."""

    def train(self, first: int, last: int) -> float:
        """Learn from these rows in this epoch's order; the sum of their values."""

    def end_epoch(self) -> None:
        """After the rows of an epoch, or after an interruption."""

    def diverged(self, value: float) -> str:
        """What to say of a value that is not finite."""

    def snapshot(self, ended: bool) -> Snapshot:
        """All that decides the rest, between two calls of `train` or after the last epoch."""

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        """Become what a snapshot was taken of, in a run of so many epochs at most."""


class Listener(Protocol):
    """Who is told how a fit goes."""

    def compiled(self, seconds: float) -> None:
        """Once, before the first epoch."""

    def chunk_done(self, part: float, value: float) -> None:
        """With the part of the epoch that is done, and the mean value per row so far."""

    def epoch_done(self, value: float, seconds: float) -> bool:
        """With the mean value per row, and the epoch's seconds; a true answer ends the fit."""

    def snapshot(self) -> Snapshot:
        """What it remembers of the epochs so far."""

    def restore(self, kept: Snapshot) -> None:
        """Remember that instead."""


class Forgetful:
    """A listener, or the part of one, that remembers nothing of the epochs so far."""

    def snapshot(self) -> Snapshot:
        return Snapshot()

    def restore(self, kept: Snapshot) -> None:
        pass


class Keeper(Protocol):
    """Who writes down how far a run has come, for another process to go on."""

    def begin(self, process: Process, listener: Listener, n_epochs: int) -> Place:
        """Before the first epoch: put both back to where they were, and say where that is."""

    def chunk_done(self, place: Place) -> None:
        """Between two calls of `Process.train`."""

    def end(self, place: Place) -> None:
        """After the last epoch."""

    def complete(self) -> None:
        """After the last run."""


class _KeepsNothing:
    def begin(self, process: Process, listener: Listener, n_epochs: int) -> Place:
        return Place()

    def chunk_done(self, place: Place) -> None:
        pass

    def end(self, place: Place) -> None:
        pass

    def complete(self) -> None:
        pass


KEEPS_NOTHING = _KeepsNothing()


def run_epochs(
    process: Process, n_epochs: int, listener: Listener, keeper: Keeper = KEEPS_NOTHING
) -> None:
    """Run up to `n_epochs` epochs."""
    started = time.perf_counter()
    process.train(0, 0)  # compiles, trains on nothing
    listener.compiled(time.perf_counter() - started)
    seconds: float | None = None
    epoch, done, total, spent = keeper.begin(process, listener, n_epochs)
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
                keeper.chunk_done(Place(epoch, done, total, clock() - started))
        finally:  # whoever looks now, if only after an interruption, sees the weights themselves
            process.end_epoch()
        process.epochs_made += 1
        if listener.epoch_done(total / process.total_weight, clock() - started):
            break
        epoch, done, total, spent = epoch + 1, 0, 0.0, 0.0
    keeper.end(Place(epoch=n_epochs))
