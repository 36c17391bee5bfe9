"""Log-likelihood and seconds of the defaults for each noise, beside a long fit.

The defaults are fitted to all training rows, as a user would, and measured on test rows.  For the
comparison with a long fit both get the same nine training rows in ten and are watched on the
others.  The long fit has the defaults' parts but many more epochs, stops when the watched rows no
longer gain, and keeps the best epoch; of some rates, shares of the defaults' own, the best counts.
"Seconds to near" are those after which the defaults are within 2 % of that fit's log-likelihood, on
the watched rows.  A dash is a fit that diverged or a target that was not reached.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._curves import Curve, seconds_to_reach, watched_fit
from benchmarks._report import save, show
from benchmarks.peers import configuration, problems
from bigcat import LinearClassifier
from bigcat.data import DataError
from bigcat.solvers import AdaGrad, Damped, DivergedError

PROBLEMS = ("bibtex", "delicious", "wordnet20k")
NOISES = ("gumbel", "gaussian", "logistic")
SHARES = (1.0, 0.25, 0.0625)  # of the defaults' rate
RATE_INSTEAD = 1.0  # where the defaults diverge
EPOCHS = 300  # at most, of a long fit
WATCHED = 1_000  # rows, at most
WITHIN = 0.02
WARM_UP_ROWS = 3_000  # too many for the path of few rows


def noises(
    names: list[str],
    long_epochs: int = EPOCHS,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Print a table; `options` go to the estimator."""
    rows: list[dict] = []
    for name in names:
        try:
            folder = problems.folder_of(configuration.read().problems[name])
        except DataError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        data = _read(folder)
        mine = [{"problem": name, **_measure(data, n, long_epochs, options)} for n in NOISES]
        rows += with_ratios(mine)
        save("noises", rows)
    if rows:
        show(rows, as_json)


def with_ratios(rows: list[dict]) -> list[dict]:
    """Add seconds to near the long fit, relative to those of the softmax (first row)."""
    first = rows[0]["seconds to near"]
    ratios = [
        row["seconds to near"] / first if first and row["seconds to near"] else None for row in rows
    ]
    return [{**row, "of softmax's": ratio} for row, ratio in zip(rows, ratios)]


def near(log_likelihood: float, within: float = WITHIN) -> float:
    """Return the smallest log-likelihood within a relative distance of the given one."""
    return log_likelihood - within * abs(log_likelihood)


def _read(folder) -> dict[str, Any]:
    labels = dict(np.load(folder / "labels.npz"))
    X, X_test = (scipy.sparse.load_npz(folder / f"X_{part}.npz") for part in ("train", "test"))
    y, common, watched = labels["y_train"], labels["common_rows"], labels["is_validation"]
    chosen = np.flatnonzero(watched & np.isin(y, y[~watched]))[:WATCHED]
    return {
        "all": (X, y),
        "nine tenths": (X[~watched], y[~watched]),
        "watched": (X[chosen], y[chosen]),
        "test": (X_test[common], labels["y_test"][common]),
    }


def _test_log_likelihood(model, data) -> float:
    """Return the mean log-likelihood of test rows whose class the fit has seen."""
    X, y = data["test"]
    seen = np.isin(y, model.classes_)
    return float(model.log_proba_of(X[seen], y[seen]).mean())


def classifier(noise: str, **options: Any) -> LinearClassifier:
    """The defaults of a noise, on two threads."""
    return LinearClassifier(noise=noise, n_threads=2, progress=False, **options)


def long_fit(noise: str, rate: float, max_epochs: int, **options: Any) -> LinearClassifier:
    """Return the same parts at a given rate, stopped when held-out rows stop gaining."""
    solver = Damped(rate) if options.get("rank", "auto") is None else AdaGrad(rate, batch_size=128)
    return classifier(noise, early_stopping=True, solver=solver, max_epochs=max_epochs, **options)


def _measure(data: dict[str, Any], noise: str, long_epochs: int, options: dict) -> dict:
    (X, y), (X_fit, y_fit) = data["all"], data["nine tenths"]
    few = np.unique(np.linspace(0, len(y) - 1, WARM_UP_ROWS).astype(int))
    once = classifier(noise, **options | {"max_epochs": 1})
    _unless_diverged(lambda: once.fit(X[few], y[few]))  # compiles
    started = time.perf_counter()
    model = _unless_diverged(lambda: classifier(noise, **options).fit(X, y))
    seconds = time.perf_counter() - started

    def watched(model: LinearClassifier) -> Curve | None:
        return _unless_diverged(partial(watched_fit, model, X_fit, y_fit, data["watched"]))

    defaults = watched(classifier(noise, **options))
    found = (
        defaults.model.selection_.candidates[0].settings["learning_rate"]
        if defaults
        else RATE_INSTEAD
    )
    long_fits = {
        share * found: watched(long_fit(noise, share * found, long_epochs, **options))
        for share in SHARES
    }
    best = max(((c.values.max(), rate, c) for rate, c in long_fits.items() if c), default=None)
    row = {
        "noise": noise,
        "test log-likelihood": model and _test_log_likelihood(model, data),
        "seconds": model and seconds,
        "of nine tenths": defaults and _test_log_likelihood(defaults.model, data),
        "long fit": None,
        "its rate": None,
        "its best epoch": None,
        "its seconds": None,
        "seconds to near": None,
    }
    if best:
        value, rate, curve = best
        row |= {
            "long fit": _test_log_likelihood(curve.model, data),
            "its rate": rate,
            "its best epoch": int(curve.values.argmax()) + 1,
            "its seconds": float(curve.seconds[-1]),
        }
        if defaults:
            row["seconds to near"] = seconds_to_reach(
                near(float(value)), defaults.seconds, defaults.values
            )
    return row


def _unless_diverged(fit: Callable[[], Any]) -> Any:
    try:
        return fit()
    except DivergedError as error:
        print(error, file=sys.stderr)
        return None
