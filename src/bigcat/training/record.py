"""Record of a fit: history, clock, forecast, best epoch, and stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bigcat.training.history import History
from bigcat.training.snapshot import Snapshot
from bigcat.training.stopping import EarlyStopping

#: Seconds of training before the forecast; the first ones do not count, since memory that is
#: touched for the first time is slow.
FORECAST_AFTER, WARMING_UP = 4.0, 2.0


class Stage(NamedTuple):
    """Position of a fit in a larger one."""

    stage: str = "fit"  # or "validation" (without validation rows) or "refit" (to all rows)
    candidate: str = ""  # empty where there is only one

    def label(self, bound: str) -> str:
        """Return what a progress bar shows."""
        words = (self.stage if self.stage == "refit" else "", self.candidate or bound)
        return " ".join(word for word in words if word)


@dataclass
class Best:
    """Epoch with the highest watched value, and what was kept of it."""

    value: float = -np.inf
    epoch: int = 0
    kept: Any = None


class Record:
    """Collects the events of the loop, and stops by a rule."""

    def __init__(
        self,
        rule: EarlyStopping | None,
        report: Callable[[float, float], None],
        n_epochs: int,
        before: History | None = None,
        stage: Stage | None = None,
    ) -> None:
        self.rule, self.report, self.n_epochs = rule, report, n_epochs
        last = before[-1] if before else {"seconds": 0.0, "compile_seconds": 0.0}
        self.seconds_before, self.compiled_before = last["seconds"], last["compile_seconds"]
        self.stage = stage
        self.history = History()
        self.watched: list[float] = []
        self.best = Best()
        self.compile_seconds = 0.0
        self._since = 0.0
        self._warm_at = (0.0, 0.0)  # seconds and part of the first epoch

    @property
    def seconds(self) -> float:
        """Seconds of this run, without compilation."""
        return self.history[-1]["seconds"] - self.seconds_before if self.history else 0.0

    def compiled(self, seconds: float) -> None:
        """Add the seconds of compilation to those of earlier runs."""
        self.compile_seconds = self.compiled_before + seconds
        self._since = time.perf_counter()

    def chunk_done(self, part: float, value: float) -> None:
        """Report the value of an unfinished epoch, and forecast the fit."""
        self.report(len(self.history) + part, value)
        self._forecast(part)

    def add(
        self,
        seconds: float,
        columns: Mapping[str, float],
        watched: float,
        keep: Callable[[], Any] | None = None,
    ) -> bool:
        """Add an epoch with its seconds and figures; return True if the fit should stop.

        `keep` returns what is kept of the best epoch so far.
        """
        so_far = self.history[-1]["seconds"] if self.history else self.seconds_before
        row = {
            **({} if self.stage is None else self.stage._asdict()),
            "epoch": len(self.history) + 1,
            "seconds": so_far + seconds,
            "compile_seconds": self.compile_seconds,
            **columns,
        }
        self.history.append(row)
        self.watched.append(float(watched))
        if watched > self.best.value:
            self.best = Best(watched, len(self.history))  # lets go of what was kept before
            self.best.kept = keep() if keep else None
        return self.rule is not None and self.rule.is_over(self.watched)

    def snapshot(self) -> Snapshot:
        """Return everything except what was kept of the best epoch."""
        forecast = self.history.forecast_seconds
        return Snapshot({"rows": list(self.history), "watched": self.watched, "forecast": forecast})

    def restore(self, kept: Snapshot, of_best: Any) -> None:
        """Take in the epochs of a snapshot, with what was kept of the best one."""
        self.history[:] = kept.numbers["rows"]
        self.history.forecast_seconds = kept.numbers["forecast"]
        self.watched = kept.numbers["watched"]
        for epoch, watched in enumerate(self.watched, start=1):
            if watched > self.best.value:
                self.best = Best(watched, epoch, of_best)

    def _forecast(self, part: float) -> None:
        """Forecast once, from the first part of the first epoch."""
        if self.history.forecast_seconds is not None:
            return
        seconds = time.perf_counter() - self._since
        if seconds < WARMING_UP:
            self._warm_at = (seconds, part)
        if seconds >= FORECAST_AFTER or part == 1.0:
            begun, done = self._warm_at if seconds >= FORECAST_AFTER else (0.0, 0.0)
            an_epoch = (seconds - begun) / (part - done)
            left = (self.n_epochs - part) * an_epoch
            self.history.forecast_seconds = self.seconds_before + seconds + left
