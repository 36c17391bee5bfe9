"""Calibration of averaged predictions beside those of the plug-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bigcat import metrics
from bigcat.inference.protocol import Posterior
from bigcat.inference.table import ResultsTable
from bigcat.linear.labels import encode


@dataclass(frozen=True, repr=False)
class CalibrationCheck:
    """Measures of held-out rows, of averaged and of plug-in predictions.

    Parameters
    ----------
    averaged, plug_in : dict
        Those of :func:`bigcat.metrics.calibration`, ``ece`` among them, which
        :func:`bigcat.plots.predictions.draw_reliability` draws; and ``log_likelihood`` (mean per
        row, nats).
    n_rows, n_dropped : int
        Rows that were measured, and rows of classes that the model does not know.
    """

    averaged: dict[str, Any]
    plug_in: dict[str, Any]
    n_rows: int
    n_dropped: int

    def __repr__(self) -> str:
        rows = []
        for name, found in (("averaged", self.averaged), ("plug-in", self.plug_in)):
            confidence = found["count"] @ np.nan_to_num(found["confidence"]) / self.n_rows
            right = found["count"] @ np.nan_to_num(found["accuracy"]) / self.n_rows
            rows.append(
                {
                    "predictions": name,
                    "log-likelihood": float(found["log_likelihood"]),
                    "accuracy": float(right),
                    "mean confidence": float(confidence),
                    "calibration error": float(found["ece"]),
                }
            )
        dropped = f", {self.n_dropped:,} of unknown classes left out" if self.n_dropped else ""
        table = ResultsTable({name: [row[name] for row in rows] for name in rows[0]})
        return f"{table!r}\n{self.n_rows:,} rows{dropped}"


class _View:
    """A posterior with one way to predict, as metrics want a model."""

    def __init__(self, posterior: Posterior, how: str) -> None:
        self.posterior, self.how = posterior, how
        self.classes_ = posterior.classes

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        columns, log_probabilities = self.posterior.top_k(X, k, self.how)
        return self.classes_[columns], log_probabilities

    def log_proba_of(self, X: Any, y: ArrayLike) -> np.ndarray:
        return self.posterior.log_proba_of(X, encode(y, self.classes_), self.how)


def check_calibration(
    posterior: Posterior, X: Any, y: ArrayLike, n_bins: int = 10
) -> CalibrationCheck:
    """Measure both ways to predict on held-out rows."""
    found = {}
    for how in ("averaged", "plug-in"):
        view = _View(posterior, how)
        whole = metrics.evaluate(view, X, y, k=1)
        found[how] = metrics.calibration(view, X, y, n_bins)
        found[how]["log_likelihood"] = whole["log_likelihood"]
    n_rows, n_dropped = int(whole["rows"]), int(whole["rows_dropped_unseen"])
    return CalibrationCheck(found["averaged"], found["plug-in"], n_rows, n_dropped)
