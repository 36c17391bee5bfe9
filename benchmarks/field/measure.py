"""One problem: select from the grid on validation rows, then measure on common test rows."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._report import clock
from benchmarks.field.grid import MAX_SECONDS, Frequencies, Setting, Shape, affordable, grid
from benchmarks.field.problem import Data, Problem
from bigcat import LinearClassifier

#: Gains over class frequencies that regret is at least relative to: in nats, and as a part of the
#: entropy of the class frequencies.
MIN_GAIN, MIN_PART_OF_ENTROPY = 0.05, 0.02
#: A default that raises has lost all that there was to gain.
REGRET_OF_ERROR = 1.0
#: Fits that compiled, or loaded kernels, for longer are timed again.
COMPILED_SECONDS = 0.1

Record = dict[str, Any]


class Mean(NamedTuple):
    """A mean over test rows and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, rows: np.ndarray) -> Mean:
        spread = float(np.std(rows, ddof=1)) if len(rows) > 1 else 0.0
        return cls(float(np.mean(rows)), spread / math.sqrt(len(rows)))


def regret(difference: float, gain: Mean, entropy: float) -> float:
    """Return the part of the best setting's gain over class frequencies that the default misses.

    Parameters
    ----------
    difference : float
        Log-likelihood of the best setting less that of the default, mean per row.
    gain : Mean
        Gain of the best setting over class frequencies. If it is small, or within two standard
        errors of zero, regret is relative to a larger number.
    entropy : float
        Entropy of the class frequencies, in nats per row.
    """
    floor = max(MIN_GAIN, MIN_PART_OF_ENTROPY * entropy, 2.0 * gain.error)
    return difference / max(gain.value, floor)


def default(n_threads: int) -> LinearClassifier:
    """Return the measured default."""
    return LinearClassifier(n_threads=n_threads, random_state=0, progress=False)


def run(
    problem: Problem,
    n_threads: int = 1,
    chosen: str | None = None,
    max_seconds: float | None = None,
    pass_groups: bool = False,
) -> Record:
    """Measure a problem.

    Parameters
    ----------
    chosen : str, optional
        Name of the best setting of an earlier run; the grid is then not fitted again.
    max_seconds : float, optional
        Limit of the estimated seconds of the grid.
    pass_groups : bool
        Pass `groups` to the default, if the problem has them.
    """
    started = time.perf_counter()
    data = problem.data()
    with threadpool_limits(limits=n_threads, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tried, skipped = _tried(data, n_threads, max_seconds) if chosen is None else ({}, [])
        record = {
            "case": problem.name,
            "family": problem.family,
            **_facts(data),
            "n_threads": n_threads,
            "tried": tried,
            "skipped": skipped,
            **_comparison(
                data, ranking(tried) if chosen is None else [chosen], n_threads, pass_groups
            ),
        }
    return record | {"seconds": time.perf_counter() - started}


def _facts(data: Data) -> Record:
    shape = Shape.of(data.X, data.y)
    return {
        "rows": shape.n_rows,
        "features": shape.n_features,
        "classes": shape.n_classes,
        "values_per_row": shape.per_row,
        "sparse": shape.sparse,
        "validation_rows": int(data.is_validation.sum()),
        "test_rows": len(data.y_test),
        "test_rows_dropped": data.n_dropped,
    }


def _tried(data: Data, n_threads: int, max_seconds: float | None) -> tuple[Record, list[str]]:
    """Return results of settings on validation rows, and the settings that were left out."""
    (X, y), validation = data.train, data.validation
    settings, skipped = affordable(Shape.of(X, y), max_seconds or MAX_SECONDS)
    frequencies = Frequencies().fit(X, y).log_proba_of(*validation)
    tried: Record = {}
    for setting in settings:
        started = time.perf_counter()
        try:
            rows = setting.fit(X, y, n_threads).log_proba_of(*validation)
            gain = Mean.of(rows - frequencies)
            found: Record = {"gain": gain.value, "gain_error": gain.error}
        except Exception as error:  # it is then not the best
            found = {"gain": None, "error": f"{type(error).__name__}: {error}"}
        seconds = {"seconds": time.perf_counter() - started, "estimated": setting.seconds}
        tried[setting.name] = found | seconds
    return tried, skipped


def ranking(tried: Record) -> list[str]:
    """Return names of settings that beat class frequencies on validation rows, the best first.

    By two standard errors: the best of two dozen on a hundred rows is else often the luckiest.
    """
    gains = {
        name: row["gain"]
        for name, row in tried.items()
        if row["gain"] is not None and row["gain"] > 2.0 * row["gain_error"]
    }
    return sorted(gains, key=lambda name: -gains[name])


def _comparison(data: Data, names: list[str], n_threads: int, pass_groups: bool) -> Record:
    """Compare the default, the best setting and class frequencies, fitted to all training rows.

    The best setting is the first of `names`, unless it raises on all training rows, and class
    frequencies where there is none.
    """
    X, y, test = data.X, data.y, (data.X_test, data.y_test)
    frequencies = Frequencies().fit(X, y).log_proba_of(*test)
    settings = {setting.name: setting for setting in grid(Shape.of(*data.train))}
    for chosen in [*names, "frequencies"]:
        best_rows, best = _measured(settings[chosen], data, n_threads)
        if best_rows is not None:
            break
    assert best_rows is not None
    given = {"groups": data.groups} if pass_groups and data.groups is not None else {}
    default_rows, ours = _measured(Setting("default", 0.0, default), data, n_threads, **given)
    gain, entropy = Mean.of(best_rows - frequencies), -float(frequencies.mean())
    record: Record = {
        "setting": chosen,
        "best": best,
        "default": ours,
        "frequencies": -entropy,
        "gain": gain.value,
        "gain_error": gain.error,
    }
    if default_rows is None:
        return record | dict.fromkeys(COMPARED) | {"regret": REGRET_OF_ERROR}
    difference = Mean.of(default_rows - best_rows)
    over_frequencies = Mean.of(default_rows - frequencies)
    record |= dict(zip(COMPARED, (*difference, *over_frequencies)))
    return record | {"regret": regret(-difference.value, gain, entropy)}


#: The default less the best setting, and less class frequencies, paired by test row.
COMPARED = ("difference", "difference_error", "over_frequencies", "over_frequencies_error")


def _measured(
    setting: Setting, data: Data, n_threads: int, **given: Any
) -> tuple[np.ndarray | None, Record]:
    """Return log-probabilities of test rows, None if the fit raised, and facts about the fit."""
    try:
        with clock() as times:
            fitted = setting.fit(data.X, data.y, n_threads, **given)
        if _compile_seconds(fitted.model) > COMPILED_SECONDS:
            with clock() as times:
                fitted = setting.fit(data.X, data.y, n_threads, **given)
        rows = fitted.log_proba_of(data.X_test, data.y_test)
        if not np.isfinite(rows).all():
            raise ArithmeticError(f"{(~np.isfinite(rows)).sum()} log-probabilities are not finite")
        accuracy = float((fitted.predict(data.X_test) == data.y_test).mean())
    except Exception as error:  # a finding, not the end of the run
        last = traceback.extract_tb(error.__traceback__)[-1]
        cause = f"{type(error).__name__}: {error} ({last.name})"
        return None, {"error": cause, "log_likelihood": None, "accuracy": None, "cpu": None}
    found: Record = {"log_likelihood": float(rows.mean()), "accuracy": accuracy, **times}
    selection = getattr(fitted.model, "selection_", None)
    if selection is not None:
        found["reason"] = ", ".join(f"{c.weight:.2f} x {c.name}" for c in selection.candidates)
    return rows, found


def _compile_seconds(model: Any) -> float:
    history = getattr(model, "history_", None)
    return float(history[-1]["compile_seconds"]) if history else 0.0
