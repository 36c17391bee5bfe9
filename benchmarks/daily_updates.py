"""Daily updates of a model file beside a refit of all rows on each day, with new classes."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bigcat
from benchmarks import second
from benchmarks._report import clock, save, show
from bigcat import LinearClassifier

SETS = ("kg_codex_s", "openflights_destination", "onet_task_statements")
#: Days of the stream, its growth of classes per day, and days of rows before the first update.
DAYS, GROWTH, HISTORY = 10, 1.05, 20


def days_of(y: np.ndarray, random_state: np.random.Generator) -> np.ndarray:
    """Return the day of each row; 0 is the first fit, -1 is before the class of the row exists.

    Classes come into being at random, 5 % more on each day, and their rows are spread evenly over
    all days.
    """
    classes, labels = np.unique(y, return_inverse=True)
    n_by_day = np.round(len(classes) * GROWTH ** (np.arange(DAYS + 1) - DAYS))
    birth = np.empty(len(classes), int)
    order = random_state.permutation(len(classes))
    birth[order] = np.searchsorted(n_by_day, np.arange(len(classes)), side="right")
    time = np.floor(random_state.random(len(y)) * (HISTORY + DAYS)) - HISTORY + 1
    day = np.maximum(time, 0).astype(int)
    day[day < birth[labels]] = -1
    return day


def daily_updates(
    names: Sequence[str] = SETS, rank: int | str = 256, days: Sequence[int] | None = None
) -> None:
    """Update a model file on each day, and refit on some days (all by default)."""
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for name in names or SETS:
        rows += _of_set(name, rank, days or range(1, DAYS + 1))
        show(rows[-len(days or range(DAYS)) :])
        save("daily_updates", rows)


def _of_set(name: str, rank: int | str, days: Sequence[int]) -> list[dict[str, Any]]:
    X, y, X_test, y_test = second.load(name)
    day = days_of(y, np.random.default_rng(0))
    X, y, day = X[np.flatnonzero(day >= 0)], y[day >= 0], day[day >= 0]

    def log_likelihood(model: Any) -> float:
        known = np.isin(y_test, model.classes_)
        return float(model.log_proba_of(X_test[np.flatnonzero(known)], y_test[known]).mean())

    def fitted(last: int) -> tuple[Any, float]:
        with clock() as times:
            some = np.flatnonzero(day <= last)
            model = LinearClassifier(rank=rank, random_state=0).fit(X[some], y[some])
        return model, times["cpu"]

    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        first, _ = fitted(0)
        bigcat.save_model(first, path)
        for number in range(1, DAYS + 1):
            some = np.flatnonzero(day == number)
            with clock() as times:  # as `bigcat update` does
                model = bigcat.load_model(path)
                before = len(model.classes_)
                model.partial_fit(X[some], y[some])
                bigcat.save_model(model, path)
            if number not in days:
                continue
            again, seconds = fitted(number)
            updated, best = log_likelihood(model), log_likelihood(again)
            row: dict[str, Any] = {"set": name, "rank": rank, "day": number, "rows": len(some)}
            row |= {"classes": before, "new": len(model.classes_) - before}
            row |= {"updated": updated, "refitted": best}
            row["change in %"] = 100 * (updated - best) / abs(best)
            row |= {"CPU s, update": times["cpu"], "CPU s, refit": seconds}
            row["refits per update"] = seconds / times["cpu"]
            found.append(row)
    return found
