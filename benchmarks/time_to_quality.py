"""Seconds until a fit is within 1 % of the exact softmax's best, looked at eight times an epoch.

The defaults, full rank with drawn classes, and the exact softmax of full rank at the rates of the
peers' campaign, all on two threads.  A fit is stopped eight times an epoch, and test rows, the same
for all, are evaluated at the weights of then; seconds are those of training, from the first step
on, without looks and compilation.  The best of some runs counts, the exact one's too.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse

from benchmarks._curves import seconds_to_reach
from benchmarks._report import save, show
from benchmarks.peers import configuration, problems
from bigcat import LinearClassifier
from bigcat._factors import as_public
from bigcat.estimators import _training
from bigcat.estimators._fit import Fit, mean_log_likelihood
from bigcat.solvers import Damped

#: Rates of the exact softmax, found by hand, and epochs.
EXACT = {"ptb2": (1.0, 8), "yso100k": (6.0, 6), "wordnet": (8.0, 8)}
WITHIN = 0.01


class Looks:
    """In the place of an average of the weights, which is told of them eight times an epoch."""

    def __init__(self, fit: Fit, state: Any, test: tuple, curve: list) -> None:
        self.fit, self.state, self.test, self.curve = fit, state, test, curve
        self.started, self.lost = time.perf_counter(), 0.0

    def add(self, weights: np.ndarray, intercepts: np.ndarray) -> None:
        looked = time.perf_counter()
        if not self.curve:  # compilation is over when the first step is
            self.started += self.fit.compile_seconds
        X, y = self.test
        order = np.argsort(self.fit.classes, kind="stable")
        labels = order[np.searchsorted(self.fit.classes[order], y)]
        public = as_public(weights, self.fit.problem)
        sample = (X, labels, np.ones(len(y)))
        value = mean_log_likelihood(self.fit.parts.noise, sample, public, intercepts)
        self.curve.append((looked - self.started - self.lost, value))
        self.lost += time.perf_counter() - looked

    @property
    def weights(self) -> np.ndarray:
        return self.state.weights

    @property
    def intercepts(self) -> np.ndarray:
        return self.state.intercepts


def looked_at(model: LinearClassifier, X: Any, y: np.ndarray, test: tuple) -> np.ndarray:
    """Seconds and test log-likelihoods of a fit, (n, 2)."""
    curve: list[tuple[float, float]] = []

    class LookingFit(Fit):
        def _state(self, *args: Any) -> Any:
            state = super()._state(*args)
            state.average = Looks(self, state, test, curve)
            return state

    with mock.patch.object(_training, "Fit", LookingFit):
        model.fit(X, y)
    return np.array(curve)


def time_to_quality(names: list[str], runs: int = 2, as_json: bool = False) -> None:
    rows = []
    for name in names:
        folder = problems.folder_of(configuration.read().problems[name])
        labels = np.load(folder / "labels.npz")
        X, X_test = (scipy.sparse.load_npz(folder / f"X_{part}.npz") for part in ("train", "test"))
        y, common = labels["y_train"], labels["common_rows"]
        y_test = labels["y_test"][common]
        test = (X_test.tocsr()[common], y_test)
        rate, epochs = EXACT[name]
        fits = {
            "all classes": {
                "method": "exact",
                "rank": None,
                "solver": Damped(rate),
                "batch_size": 1,
                "max_epochs": epochs,
            },
            "defaults": {},
            # Given, so that the curve begins with the first step and not with trials of rates.
            "full rank": {"rank": None, "learning_rate": 0.5 * rate},
        }
        curves: dict[str, list[np.ndarray]] = {what: [] for what in fits}
        for what, parameters in fits.items():
            for _ in range(runs):
                model = LinearClassifier(n_threads=2, progress=False, **parameters)
                curves[what].append(looked_at(model, X.tocsr(), y, test))
        best = max(float(c[:, 1].max()) for c in curves["all classes"])
        target = best - WITHIN * abs(best)
        reached = {
            what: [seconds_to_reach(target, c[:, 0], c[:, 1]) for c in of_fit]
            for what, of_fit in curves.items()
        }
        quickest = {
            w: min((s for s in r if s is not None), default=None) for w, r in reached.items()
        }
        exact = quickest["all classes"]
        for what, seconds in quickest.items():
            rows.append(
                {
                    "problem": name,
                    "fit": what,
                    "best": max(float(c[:, 1].max()) for c in curves[what]),
                    "within 1 % of exact's best after, s": seconds,
                    "times sooner": exact / seconds if exact and seconds else None,
                }
            )
        save("time_to_quality", rows)
    show(rows, as_json)
