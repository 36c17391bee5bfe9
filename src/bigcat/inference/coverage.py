"""Coverage of intervals, by simulation on the user's own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bigcat.inference.protocol import BLOCK, Floats, Posterior
from bigcat.inference.table import tails_of

#: Distributions of true weights.
TRUTHS = ("posterior", "prior")
#: Levels of the plot.
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Maximal and minimal rows whose intervals are counted, and maximal number of intervals.
MAX_ROWS, MIN_ROWS, MAX_SCORES = 300, 10, 1 << 18


@dataclass(frozen=True, repr=False)
class CoverageCheck:
    """Coverage of intervals of refitted models.

    Parameters
    ----------
    level : float
    levels : array of shape (L,)
        Those of `coverages`, `level` among them.
    coverages : array of shape (n_replicates, L)
        Share of the true class probabilities inside the intervals.
    widths : array of shape (n_replicates,)
        Mean width of the intervals of `level`.
    weights : {"posterior", "prior"}
        Where true weights came from.
    n_rows : int
        Rows of each replicate.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.inference.coverage import CoverageCheck
    >>> shares = np.array([[0.86], [0.90], [0.88]])
    >>> check = CoverageCheck(0.9, np.array([0.9]), shares, np.full(3, 0.2), "posterior", 150)
    >>> check
    90 % intervals hold 88.0 % of the true probabilities, standard error 1.2 %
    3 replicates of 150 rows, weights from the posterior; mean width 0.2
    """

    level: float
    levels: Floats
    coverages: Floats
    widths: Floats
    weights: str
    n_rows: int

    @property
    def per_replicate(self) -> Floats:
        """Coverage at `level` of each replicate, (n_replicates,)."""
        values: Floats = self.coverages[:, int(np.argmin(np.abs(self.levels - self.level)))]
        return values

    @property
    def coverage(self) -> float:
        """Share of the true probabilities inside intervals of `level`."""
        return float(self.per_replicate.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of `coverage`, over replicates; NaN for a single one."""
        return float(_standard_errors(self.per_replicate[:, None])[0])

    def __repr__(self) -> str:
        n = len(self.coverages)
        return (
            f"{_percent(self.level)} intervals hold {100 * self.coverage:.1f} % of the true "
            f"probabilities, standard error {100 * self.standard_error:.1f} %\n"
            f"{n} replicate{'s' if n > 1 else ''} of {self.n_rows:,} rows, weights from the "
            f"{self.weights}; mean width {self.widths.mean():.3g}"
        )

    def plot(self, ax: Any = None) -> Any:
        """Coverage against level, with two standard errors; needs the extra ``plot``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; else new ones.

        Returns
        -------
        matplotlib.axes.Axes
        """
        if ax is None:
            try:
                from matplotlib.figure import Figure
            except ImportError as error:
                raise ImportError(
                    'drawing needs matplotlib, which is not installed; pip install "bigcat[plot]"'
                ) from error
            ax = Figure(figsize=(5, 5), layout="constrained").subplots()
        errors = 2.0 * np.nan_to_num(_standard_errors(self.coverages))
        ax.plot([0, 1], [0, 1], color="#6b6b6b", linestyle=(0, (5, 3)), label="as they should")
        ax.errorbar(
            self.levels,
            self.coverages.mean(axis=0),
            yerr=errors,
            color="#1f5fa8",
            marker="o",
            markersize=4,
            capsize=3,
            label="intervals, two standard errors",
        )
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        ax.set_xlabel("level of the intervals")
        ax.set_ylabel("share of true probabilities inside")
        ax.legend(frameon=False, loc="lower right")
        ax.spines[["top", "right"]].set_visible(False)
        return ax


def _standard_errors(values: Floats) -> Floats:
    """Return standard errors of the means of columns."""
    n = len(values)
    if n < 2:
        return np.full(values.shape[1], np.nan)
    errors: Floats = values.std(axis=0, ddof=1) / np.sqrt(n)
    return errors


def _percent(level: float) -> str:
    return f"{100 * level:.3g} %"


# One replicate


@dataclass(frozen=True)
class Simulation:
    """Settings that all replicates have in common.

    Parameters
    ----------
    posterior : Posterior
        Whose model makes labels.
    X : array or CSR matrix of shape (n, n_features)
    draw : function of a RandomState
        Gives true weights, (n_classes, M).
    refit : function of labels and a seed
        Gives the posterior of a model that was fitted to labels, which are class numbers.
    level : float
    """

    posterior: Posterior
    X: Any
    draw: Callable[[np.random.RandomState], Floats]
    refit: Callable[[np.ndarray, int], Posterior]
    level: float

    def levels(self) -> Floats:
        """Return the levels of the plot, with `level`."""
        return np.array(sorted({*LEVELS, float(self.level)}))

    def replicate(self, rng: np.random.RandomState) -> tuple[Floats, float]:
        """Return coverage at all levels, (L,), and the mean width of intervals of `level`."""
        truth = self.draw(rng)
        labels = draw_labels(self.posterior, self.X, truth, rng)
        fitted = self.refit(labels, int(rng.randint(np.iinfo(np.int32).max)))
        n, n_classes = self.X.shape[0], self.posterior.n_classes
        n_scored = min(n, int(np.clip(MAX_SCORES // n_classes, MIN_ROWS, MAX_ROWS)))
        some = self.X[np.sort(rng.choice(n, n_scored, replace=False))]
        return self._count_covered(fitted, some, truth)

    def _count_covered(self, fitted: Posterior, X: Any, truth: Floats) -> tuple[Floats, float]:
        levels = self.levels()
        tails = np.concatenate([tails_of(level) for level in levels])
        mine = int(np.argmin(np.abs(levels - self.level)))
        held, width, count = np.zeros(len(levels)), 0.0, 0
        for rows, found in fitted.probability_quantiles(X, tails):
            p = np.exp(_log_probabilities(self.posterior, X[rows], truth))
            low, high = found[0::2], found[1::2]
            held += ((low <= p) & (p <= high)).sum(axis=(1, 2))
            width += float((high[mine] - low[mine]).sum())
            count += p.size
        return held / count, width / count


def draw_labels(
    posterior: Posterior, X: Any, weights: Floats, rng: np.random.RandomState
) -> np.ndarray:
    """Return class numbers from the posterior's model with these weights, (n,)."""
    labels = np.empty(X.shape[0], np.int64)
    step = max(1, BLOCK // posterior.n_classes)
    for start in range(0, X.shape[0], step):
        logs = _log_probabilities(posterior, X[start : start + step], weights)
        labels[start : start + step] = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
    return labels


def _log_probabilities(posterior: Posterior, X: Any, weights: Floats) -> Floats:
    n_features = X.shape[1]
    scores = X @ weights[:, :n_features].T + weights[:, n_features:].sum(axis=1)
    return posterior.log_probabilities(np.asarray(scores))
