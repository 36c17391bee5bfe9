"""The posterior of the weights: means, covariances, draws, intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from bigcat import probabilities
from bigcat.bayes._design import Design
from bigcat.bayes.covariance import ClassDiagonal, Covariance, Spectral
from bigcat.bayes.likelihoods import log_probabilities
from bigcat.bayes.links import LINKS
from bigcat.noise import Noise

#: Scores held at a time.
BLOCK = 1 << 21


class GaussianPosterior(ABC):
    """q(B) = prod_k N(mean_k, covariance_k): what posteriors of all methods have in common.

    Attributes
    ----------
    mean : array of shape (n_classes, M)
        M is n_features, or n_features + 1 with the intercept last.
    scale : array of shape (n_classes, M)
        Standard deviations.
    classes : array of shape (n_classes,)
    """

    def __init__(
        self, mean: np.ndarray, covariance: Covariance, *, intercept: bool, classes: np.ndarray
    ) -> None:
        self.mean = mean
        self.intercept = intercept
        self.classes = classes
        self._covariance = covariance

    @property
    def n_classes(self) -> int:
        return len(self.mean)

    @property
    def covariance(self) -> np.ndarray:
        """In its smallest form.

        Full: (M, M) where all classes share it (probit), (n_classes, M, M) else.  Diagonal: the
        variances, (M,) or (n_classes, M).  With a scale a class (`HierarchicalPrior(per="class")`)
        classes share eigenvectors; this property then makes all the matrices, `covariance_of` one.
        """
        return self._covariance.array()

    def covariance_of(self, k: int) -> np.ndarray:
        """The (M, M) covariance matrix of class number `k`."""
        covariance = self._covariance
        if isinstance(covariance, Spectral):
            return (covariance.basis * covariance.spectra[k]) @ covariance.basis.T
        array = covariance.array()
        own = array if covariance.shared else array[k]
        return np.diag(own) if covariance.diagonal else own

    def variances(self) -> np.ndarray:
        """Variances of the weights, (n_classes, M), or (1, M) where all classes share them."""
        return self._covariance.variances(slice(0, self.n_classes))

    @property
    def scale(self) -> np.ndarray:
        return np.broadcast_to(np.sqrt(self.variances()), self.mean.shape)

    def sample(
        self, n: int = 1, random_state: int | np.random.RandomState | None = None
    ) -> np.ndarray:
        """Draws of all weights, (n, n_classes, M)."""
        rng = _rng(random_state)
        noise = rng.standard_normal((n, *self.mean.shape))
        return self.mean + self._covariance.colour(noise, slice(0, self.n_classes))

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        n_draws: int = 200,
        random_state: int | np.random.RandomState | None = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Equal-tailed credible intervals of the class probabilities, each (n, n_classes).

        A probability depends on a row's scores only, which q makes independent Gaussians, so scores
        are drawn and not weights.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        level : float, default=0.9
            Posterior probability inside the interval.
        n_draws : int, default=200
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} must lie between 0 and 1")
        rng = _rng(random_state)
        low = np.empty((X.shape[0], self.n_classes))
        high = np.empty_like(low)
        tails = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
        for rows, eta, variance in self.score_blocks(X, variances=True, width=n_draws):
            noise = rng.standard_normal((n_draws, *eta.shape))
            draws = np.exp(self.log_probabilities(eta + np.sqrt(variance) * noise))
            low[rows], high[rows] = np.quantile(draws, tails, axis=0)
        return low, high

    def to_arviz(
        self, n_draws: int = 1000, random_state: int | np.random.RandomState | None = 0
    ) -> Any:
        """Draws of the weights as ArviZ's InferenceData; needs the extra ``bayes``."""
        try:
            import arviz
        except ImportError as error:
            raise ImportError(
                "to_arviz needs ArviZ: pip install 'bigcat[bayes]' (or 'arviz<1')"
            ) from error
        draws = self.sample(n_draws, random_state)[None]  # one chain
        features = [str(m) for m in range(draws.shape[-1] - self.intercept)]
        features += ["intercept"] if self.intercept else []
        return arviz.from_dict(
            {"weights": draws},
            coords={"class": self.classes, "feature": features},
            dims={"weights": ["class", "feature"]},
        )

    # Scores

    def score_blocks(
        self, X: Any, variances: bool = False, width: int = 1
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """(rows, scores x.mu_k, their variances or nothing) in blocks of rows, all classes."""
        step = max(1, BLOCK // (self.n_classes * width))
        # Products for several blocks at once: each needs the weights in another order.
        outer = step * max(1, BLOCK // (self.n_classes * step))
        everyone = slice(0, self.n_classes)
        weights = np.ascontiguousarray(self.mean.T, np.float64)
        for start in range(0, X.shape[0], outer):
            design = Design(X[start : start + outer], self.intercept)
            eta = design.product(weights)
            spread = np.empty((design.n, 0))
            if variances:
                spread = self._covariance.row_variances(design, everyone)
            for first in range(0, design.n, step):
                part = slice(first, min(first + step, design.n))
                rows = slice(start + part.start, start + part.stop)
                yield rows, eta[part], spread[part]

    @abstractmethod
    def margin_blocks(self, X: Any, posterior: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, margins), where margins are in the order of the class probabilities."""

    @abstractmethod
    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Log-probabilities of all classes at given scores, (..., n_classes)."""

    def of_margins(self, margins: np.ndarray, posterior: str) -> np.ndarray:
        """Log-probabilities of what `margin_blocks` yields."""
        return self.log_probabilities(margins)


class Posterior(GaussianPosterior):
    """Posterior of independent binary regressions.

    Attributes
    ----------
    mean, scale, classes : as in `GaussianPosterior`
    link, likelihood : str
    averaging_weight : float
        Weight of the conditioned likelihood.
    """

    def __init__(
        self,
        mean: np.ndarray,
        covariance: Covariance,
        *,
        intercept: bool,
        link: str,
        likelihood: str,
        classes: np.ndarray,
        averaging_weight: float = 1.0,
    ) -> None:
        super().__init__(mean, covariance, intercept=intercept, classes=classes)
        self.link = link
        self.likelihood = likelihood
        self.averaging_weight = averaging_weight

    def margin_blocks(self, X: Any, posterior: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, margins): the scores of the mean, or such that H(margin) = E_q[H(score)]."""
        averaged = posterior == "averaged"
        for rows, eta, variance in self.score_blocks(X, variances=averaged):
            yield rows, LINKS[self.link].averaged(eta, variance) if averaged else eta

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        return log_probabilities(self.link, self.likelihood, margins, self.averaging_weight)


class NoisePosterior(GaussianPosterior):
    """Posterior of the weights of y = argmax_k w_k . x + b_k + noise_k, independent weights.

    Attributes
    ----------
    mean, scale, classes : as in `GaussianPosterior`
    noise : Noise
    n_draws : int
        Draws of scores for averaged probabilities.
    """

    def __init__(
        self,
        mean: np.ndarray,
        variances: np.ndarray,
        *,
        intercept: bool,
        noise: Noise,
        classes: np.ndarray,
        n_draws: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__(mean, ClassDiagonal(variances), intercept=intercept, classes=classes)
        self.noise = noise
        self.n_draws = n_draws
        self._seed = seed

    def margin_blocks(self, X: Any, posterior: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, scores of the mean), or (rows, log of the probabilities' mean over draws).

        All rows share one set of standard normal numbers, n_draws for each class, so a row's
        answer depends neither on the other rows nor on the blocks.
        """
        averaged = posterior == "averaged"
        for rows, eta, variance in self.score_blocks(X, variances=averaged):
            yield rows, self._averaged(eta, np.sqrt(variance)) if averaged else eta

    def _averaged(self, eta: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        rng = np.random.RandomState(self._seed)
        total = np.full(eta.shape, -np.inf)
        for _ in range(self.n_draws):
            draw = eta + deviations * rng.standard_normal(self.n_classes)
            np.logaddexp(total, self.log_probabilities(draw), out=total)
        return total - np.log(self.n_draws)

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        flat = margins.reshape(-1, self.n_classes)
        return probabilities.log_probabilities(self.noise, flat).reshape(margins.shape)

    def of_margins(self, margins: np.ndarray, posterior: str) -> np.ndarray:
        return margins if posterior == "averaged" else self.log_probabilities(margins)


def _rng(random_state: Any) -> np.random.RandomState:
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return np.random.RandomState(random_state)
