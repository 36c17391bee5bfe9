"""The posterior of the weights of a model with a noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp

from bigcat import probabilities
from bigcat.bayes._expected_softmax import N_NODES, log_expected_softmax, spread_normals
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.noise import Noise


class NoisePosterior(GaussianPosterior):
    """Posterior of the weights of y = argmax_k w_k . x + b_k + noise_k.

    Attributes
    ----------
    mean, scale, classes : as in `GaussianPosterior`
    noise : Noise
    n_draws : int
        Draws of scores for averaged probabilities; where a class's own score can be integrated
        (`_expected_softmax`), the number of evaluations.
    seed : int
        Seed of these draws.
    """

    kind: ClassVar[str] = "noise"
    noise: Noise

    def __init__(
        self,
        mean: np.ndarray,
        covariance: Covariance,
        *,
        intercept: bool,
        classes: np.ndarray,
        noise: Noise,
        n_draws: int = 100,
        seed: int = 0,
        columns: PosteriorColumns | None = None,
    ) -> None:
        super().__init__(mean, covariance, intercept=intercept, classes=classes, columns=columns)
        self.noise = noise
        self.n_draws = n_draws
        self.seed = seed

    def _model_in_words(self) -> list[str]:
        return [f"noise {self.noise.name}"]

    @property
    def odds_are_scores(self) -> bool:
        return self.noise.softmax

    def facts(self) -> dict[str, Any]:
        return {"n_draws": int(self.n_draws), "seed": int(self.seed)}

    def margin_blocks(self, X: Any, how: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, scores of the mean), or (rows, log of the probabilities' mean over draws).

        All rows share one set of standard normal numbers for each class, so a row's answer depends
        neither on the other rows nor on the blocks.
        """
        averaged = how == "averaged"
        if averaged and not self.scaled_covariance.independent_classes:
            n_draws = self.scaled_covariance.n_kept or self.n_draws
            for rows, scores in self.score_draws(X, n_draws, self.seed):
                logs = self.log_probabilities(np.ascontiguousarray(scores))
                yield rows, np.minimum(logsumexp(logs, axis=0) - np.log(n_draws), 0.0)
            return
        for rows, eta, variance in self.score_blocks(X, variances=averaged):
            yield rows, self._averaged(eta, np.sqrt(variance)) if averaged else eta

    def _averaged(self, eta: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        if not self.noise.softmax:
            return self._averaged_logs(eta, deviations)
        # As many evaluations as draws, most of them where they do most.
        n_others = -(-self.n_draws // N_NODES)
        rng = np.random.default_rng(self.seed)
        normals = spread_normals(n_others, self.n_classes, rng)
        return np.minimum(log_expected_softmax(eta, deviations, normals), 0.0)  # rounding

    def _averaged_logs(self, eta: np.ndarray, deviations: np.ndarray) -> np.ndarray:
        total = np.full(eta.shape, -np.inf)
        for draw in self._draws(eta, deviations):
            np.logaddexp(total, self.log_probabilities(draw), out=total)
        mean: np.ndarray = np.minimum(total - np.log(self.n_draws), 0.0)  # rounding
        return mean

    def _draws(self, eta: np.ndarray, deviations: np.ndarray) -> Iterator[np.ndarray]:
        """Scores of all rows, one draw after the other."""
        rng = np.random.RandomState(self.seed)
        for _ in range(self.n_draws):
            yield eta + deviations * rng.standard_normal(self.n_classes)

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        flat = margins.reshape(-1, self.n_classes)
        return probabilities.log_probabilities(self.noise, flat).reshape(margins.shape)

    def of_margins(self, margins: np.ndarray, how: str) -> np.ndarray:
        return margins if how == "averaged" else self.log_probabilities(margins)
