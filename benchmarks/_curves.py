"""Held-out quality against seconds: watched fits and figures from their curves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Curve:
    """A watched fit.

    ``seconds`` are those since the call of `fit` without evaluations and compilation, so with
    set-up and the trials of the learning rate; ``values`` are held-out log-likelihoods, mean a
    row.  Both have an entry per epoch.
    """

    model: Any
    seconds: np.ndarray
    values: np.ndarray
    before: float  # seconds until the first epoch began

    @property
    def epoch_seconds(self) -> float:
        """Return the seconds of the fastest epoch."""
        return float(np.diff(self.seconds, prepend=self.before).min())


def watched_fit(model: Any, X: Any, y: Any, held_out: tuple, target: float = np.inf) -> Curve:
    """Fit `model`, looking at held-out rows after each epoch; stop once they reach `target`."""
    ends: list[float] = []

    def after_epoch(row: dict) -> bool:
        ends.append(time.perf_counter())
        return row["validation_log_likelihood"] >= target

    model.set_params(progress=[after_epoch])
    started = time.perf_counter()
    model.fit(X, y, X_val=held_out[0], y_val=held_out[1])
    evaluation = time.perf_counter()
    model.log_proba_of(*held_out)
    evaluation = time.perf_counter() - evaluation
    history = model.history_
    first, compilation = history[0]["seconds"], history[-1]["compile_seconds"]
    set_up = max(ends[0] - started - first - compilation - evaluation, 0.0)
    search = ((history.selection or {}).get("rate_search") or {}).get("seconds", 0.0)
    return Curve(
        model,
        history["seconds"] + set_up,
        history["validation_log_likelihood"],
        set_up + search,
    )


def seconds_to_reach(
    target: float, seconds: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray
) -> float | None:
    """Return the seconds to `target`, linear between points of the curve; None if never."""
    for i, value in enumerate(values):
        if value >= target:
            if i == 0:
                return float(seconds[0])
            part = (target - values[i - 1]) / (value - values[i - 1])
            return float(seconds[i - 1] + part * (seconds[i] - seconds[i - 1]))
    return None


def exponent(x: Sequence[float], y: Sequence[float | None]) -> float | None:
    """Fit the s of ``y = c x^s`` by least squares of logarithms; points need a `y`."""
    known = [(a, b) for a, b in zip(x, y) if b is not None]
    if len({a for a, _ in known}) < 2:
        return None
    logs_x, logs_y = np.log(np.array(known, float)).T
    return float(np.polyfit(logs_x, logs_y, 1)[0])
