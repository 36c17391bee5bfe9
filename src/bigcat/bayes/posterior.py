"""The posterior of the weights: means, covariances, draws, intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bigcat._warnings import warn_caller
from bigcat.bayes._design import Design
from bigcat.bayes._quantiles import quantiles_of
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.covariance import Covariance, Drawn, Turned
from bigcat.bayes.priors import WeightPrior
from bigcat.inference.table import tails_of
from bigcat.linear.top_k import check_k, top_k
from bigcat.noise import Noise
from bigcat.printing import html_table

#: Scores held at a time, and numbers of centred rows.
BLOCK, CENTRED_BLOCK = 1 << 21, 1 << 24
#: Draws for intervals where none are kept, at the least.
USUAL_DRAWS = 200
#: Probabilities averaged over the posterior, or at its mean.
HOW = ("averaged", "plug-in")


class GaussianPosterior(ABC):
    """q(B) = prod_k N(mean_k, covariance_k): what posteriors of all methods have in common.

    Predictions use the weights of scaled columns, which offsets and units of X do not touch; what
    is shown belongs to the columns as given.

    Parameters
    ----------
    mean : array of shape (n_classes, M)
    covariance : Covariance
        Both of weights for scaled columns.
    intercept : bool
    classes : array of shape (n_classes,)
    columns : PosteriorColumns or None
        None where columns are taken as given.

    Attributes
    ----------
    mean : array of shape (n_classes, M)
        M is n_features, or n_features + 1 with the intercept last.
    scale : array of shape (n_classes, M)
        Standard deviations.
    classes : array of shape (n_classes,)
    covariance_form : Covariance
        Covariances in the form that holds them; `covariance` gives the array.
    noise : Noise or None
        Of the scores, where the model has one.
    averaging_weight : float or None
        Weight of the conditioned likelihood, where there are two.
    prior : WeightPrior or None
        With the scales that were learned; None for a posterior made by hand.
    """

    #: Name in model files.
    kind: ClassVar[str]
    noise: Noise | None = None
    averaging_weight: float | None = None
    prior: WeightPrior | None = None
    n_draws: int = 0  # for averaged probabilities, where these are means over draws

    def __init__(
        self,
        mean: np.ndarray,
        covariance: Covariance,
        *,
        intercept: bool,
        classes: np.ndarray,
        columns: PosteriorColumns | None = None,
    ) -> None:
        self.scaled_mean = mean
        self.scaled_covariance = covariance
        self.intercept = intercept
        self.classes = classes
        self.columns = columns

    @cached_property
    def mean(self) -> np.ndarray:
        """Means of the weights for columns as given, (n_classes, M)."""
        if self.columns is None:
            return self.scaled_mean
        return self.columns.restore(self.scaled_mean, self.intercept)

    @cached_property
    def covariance_form(self) -> Covariance:
        """Covariances for columns as given."""
        scaled = self.scaled_covariance
        if self.columns is None:
            return scaled
        if isinstance(scaled, Drawn):
            return Drawn(self.columns.restore(scaled.deviations, self.intercept))
        return Turned(scaled, self.columns.turn(self.intercept))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the scaled weights give."""
        shown = ("mean", "covariance_form")
        return {name: value for name, value in vars(self).items() if name not in shown}

    def _most_rows(self, numbers_per_row: int) -> int:
        """Rows of a block, in which centred rows are dense."""
        centred = self.columns is not None and self.columns.centres is not None
        width = self.scaled_mean.shape[1] if centred else 1
        return max(1, min(BLOCK // numbers_per_row, CENTRED_BLOCK // width))

    def design(self, X: Any) -> Design:
        """Return the rows in scaled columns."""
        return Design(X if self.columns is None else self.columns.apply(X), self.intercept)

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return plain values that the constructor takes beside arrays, labels and the noise."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {', '.join(self._in_words())}>"

    def _repr_html_(self) -> str:
        return html_table([type(self).__name__], [[fact] for fact in self._in_words()])

    def _in_words(self) -> list[str]:
        kept = self.scaled_covariance.n_kept
        return [
            f"{self.n_classes:,} classes",
            f"{self.scaled_mean.shape[1]:,} weights each",
            *self._model_in_words(),
            f"{'' if kept is None else f'{kept} '}{self.scaled_covariance.in_words}",
        ]

    @abstractmethod
    def _model_in_words(self) -> list[str]:
        """Return the description of the model for the repr."""

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.scaled_mean)

    @property
    def covariance(self) -> np.ndarray:
        """Covariance in its smallest form.

        Full: (M, M) where all classes share it (probit), (n_classes, M, M) otherwise.  Diagonal:
        the variances, (M,) or (n_classes, M).
        """
        return self.covariance_form.array()

    def covariance_of(self, k: int) -> np.ndarray:
        """Return the (M, M) covariance matrix of class number `k`."""
        return self.covariance_form.matrix_of(k)

    def variances(self) -> np.ndarray:
        """Variances of the weights, (n_classes, M), or (1, M) where all classes share them."""
        return self.covariance_form.variances(slice(0, self.n_classes))

    @property
    def scale(self) -> np.ndarray:
        """Standard deviations of the weights, (n_classes, M)."""
        return np.broadcast_to(np.sqrt(self.variances()), self.mean.shape)

    def sample(
        self, n: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Draws of all weights, (n, n_classes, M).

        Where draws are kept, they are those, in their order if `n` is their number.
        """
        kept = self.scaled_covariance.n_kept
        if kept is not None and n > kept:
            warn_caller(
                f"{n:,} draws of a posterior that keeps {kept:,} distinct ones repeat them; ask "
                f"for at most {kept:,}, or raise n_draws of the method"
            )
        found = self._scaled_sample(n, _rng(random_state))
        return found if self.columns is None else self.columns.restore(found, self.intercept)

    def _scaled_sample(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        n_classes, n_columns = self.scaled_mean.shape
        return self.scaled_mean + self.scaled_covariance.draws(n, (n_classes, n_columns), rng)

    # Intervals

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Equal-tailed credible intervals of the class probabilities, each (n, n_classes).

        A probability depends on a row's scores only: where classes are independent, scores are
        drawn and not weights.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        level : float, default=0.9
            Posterior probability inside the interval.
        n_draws : int or None, default=None
            None is all draws that are kept; where there are none, 200 or as many as probabilities
            are averaged over, whichever is more.
        """
        low = np.empty((X.shape[0], self.n_classes))
        high = np.empty_like(low)
        tails = tails_of(level)
        for rows, found in self.probability_quantiles(X, tails, n_draws, random_state):
            low[rows], high[rows] = found
        return low, high

    def probability_quantiles(
        self,
        X: Any,
        tails: np.ndarray,
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, quantiles of their class probabilities (T, n, n_classes)) in blocks of rows."""
        for rows, scores in self.score_draws(X, n_draws, random_state):
            draws = np.exp(self.log_probabilities(np.ascontiguousarray(scores)))
            yield rows, quantiles_of(draws, tails)

    def log_odds_interval(
        self,
        X: Any,
        first: int,
        second: int,
        level: float = 0.9,
        n_draws: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Equal-tailed intervals of log p(first | x) - log p(second | x), each (n,).

        The log-odds of a softmax are a difference of two scores, whose quantiles are known: those
        of a Gaussian, or of all draws that are kept.  For other models scores are drawn.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        first, second : int
            Numbers of two classes.
        level : float, default=0.9
        n_draws, random_state :
            As in `predict_interval`, where scores are drawn.
        """
        tails, out = tails_of(level), np.empty((2, X.shape[0]))
        if self.odds_are_scores:
            design, mean = self.design(X), self.scaled_mean
            middle = design.product((mean[first] - mean[second])[:, None])[:, 0]
            out[:] = middle + self.scaled_covariance.row_quantiles(tails, design, first, second)
        else:
            for rows, scores in self.score_draws(X, n_draws, random_state):
                logs = self.log_probabilities(np.ascontiguousarray(scores))
                odds = logs[:, :, first] - logs[:, :, second]
                out[:, rows] = quantiles_of(odds, tails)
        return out[0], out[1]

    def weight_interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Equal-tailed intervals of all weights, each (n_classes, M), the intercept last."""
        tails, out = tails_of(level), np.empty((2, *self.mean.shape))
        step = max(1, BLOCK // (self.mean.shape[1] * (self.covariance_form.n_kept or 1)))
        for start in range(0, self.n_classes, step):
            some = slice(start, min(start + step, self.n_classes))
            out[:, some] = self.mean[some] + self.covariance_form.quantiles(tails, some)
        return out[0], out[1]

    @property
    def odds_are_scores(self) -> bool:
        """True if log-odds of two classes are the difference of their scores, as in the softmax."""
        return False

    def score_draws(
        self, X: Any, n_draws: int | None, random_state: int | np.random.RandomState | None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, draws of their scores (n_draws, n, n_classes)) in blocks of rows."""
        rng = _rng(random_state)
        n_draws = n_draws or self.scaled_covariance.n_kept or max(USUAL_DRAWS, self.n_draws)
        if self.scaled_covariance.independent_classes:
            for rows, eta, variance in self.score_blocks(X, variances=True, width=n_draws):
                noise = rng.standard_normal((n_draws, *eta.shape))
                yield rows, eta + np.sqrt(variance) * noise
            return
        weights = self._scaled_sample(n_draws, rng)
        flat = np.ascontiguousarray(weights.reshape(-1, weights.shape[2]).T)
        step = self._most_rows(flat.shape[1])
        for start in range(0, X.shape[0], step):
            design = self.design(X[start : start + step])
            scores = design.product(flat).reshape(design.n, n_draws, self.n_classes)
            yield slice(start, start + design.n), scores.transpose(1, 0, 2)

    # Predictions for checked rows, classes by number.  `how` is one of `HOW`.

    def best(self, X: Any, how: str) -> np.ndarray:
        """Return the most probable class of each row, (n,)."""
        found = [margins.argmax(axis=1) for _, margins in self.margin_blocks(X, how)]
        return np.concatenate(found)

    def log_proba(self, X: Any, how: str) -> np.ndarray:
        """Log-probabilities of all classes, (n, n_classes)."""
        return np.concatenate([self.of_margins(m, how) for _, m in self.margin_blocks(X, how)])

    def log_proba_of(self, X: Any, labels: np.ndarray, how: str) -> np.ndarray:
        """Log-probability of one class of each row, (n,)."""
        out = np.empty(len(labels))
        for rows, margins in self.margin_blocks(X, how):
            own = labels[rows]
            out[rows] = self.of_margins(margins, how)[np.arange(len(own)), own]
        return out

    def top_k(self, X: Any, k: int, how: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row, best first, and their logarithms."""
        check_k(k, self.n_classes)
        return top_k(self.margin_blocks(X, how), lambda m: self.of_margins(m, how), int(k))

    # Scores

    def score_blocks(
        self, X: Any, variances: bool = False, width: int = 1
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, scores x.mu_k, their variances or nothing) in blocks of rows, all classes."""
        step = self._most_rows(self.n_classes * width)
        # Products for several blocks at once: each needs the weights in another order.
        outer = step * max(1, self._most_rows(self.n_classes) // step)
        everyone = slice(0, self.n_classes)
        weights = np.ascontiguousarray(self.scaled_mean.T, np.float64)
        for start in range(0, X.shape[0], outer):
            design = self.design(X[start : start + outer])
            eta = design.product(weights)
            spread = np.empty((design.n, 0))
            if variances:
                spread = self.scaled_covariance.row_variances(design, everyone)
            for first in range(0, design.n, step):
                part = slice(first, min(first + step, design.n))
                rows = slice(start + part.start, start + part.stop)
                yield rows, eta[part], spread[part]

    @abstractmethod
    def margin_blocks(self, X: Any, how: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, margins), where margins are in the order of the class probabilities."""

    @abstractmethod
    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes at given scores, (..., n_classes)."""

    def of_margins(self, margins: np.ndarray, how: str) -> np.ndarray:
        """Return log-probabilities from the margins that `margin_blocks` yields."""
        return self.log_probabilities(margins)


def _rng(random_state: Any) -> np.random.RandomState:
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return np.random.RandomState(random_state)
