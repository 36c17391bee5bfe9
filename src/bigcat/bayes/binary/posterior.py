"""The posterior of independent binary regressions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from bigcat.bayes.binary.likelihoods import log_probabilities
from bigcat.bayes.binary.links import LINKS
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.posterior import GaussianPosterior


class BinaryPosterior(GaussianPosterior):
    """Posterior of independent binary regressions.

    Attributes
    ----------
    mean, scale, classes : as in `GaussianPosterior`
    link, likelihood : str
    averaging_weight : float
        Weight of the conditioned likelihood.
    """

    kind: ClassVar[str] = "binary"
    averaging_weight: float

    def __init__(
        self,
        mean: np.ndarray,
        covariance: Covariance,
        *,
        intercept: bool,
        classes: np.ndarray,
        link: str,
        likelihood: str,
        averaging_weight: float = 1.0,
        columns: PosteriorColumns | None = None,
    ) -> None:
        super().__init__(mean, covariance, intercept=intercept, classes=classes, columns=columns)
        self.link = link
        self.likelihood = likelihood
        self.averaging_weight = averaging_weight

    def _model_in_words(self) -> list[str]:
        return [f"{self.link} link", f"{self.likelihood} likelihood"]

    @property
    def odds_are_scores(self) -> bool:
        conditioned = self.likelihood == "conditioned"
        conditioned |= self.likelihood == "average" and self.averaging_weight == 1.0
        return self.link == "logit" and conditioned

    def facts(self) -> dict[str, Any]:
        return {
            "link": self.link,
            "likelihood": self.likelihood,
            "averaging_weight": float(self.averaging_weight),
        }

    def margin_blocks(self, X: Any, how: str) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, margins): the scores of the mean, or such that H(margin) = E_q[H(score)].

        All likelihoods order the classes as the margins do.
        """
        averaged = how == "averaged"
        for rows, eta, variance in self.score_blocks(X, variances=averaged):
            yield rows, LINKS[self.link].averaged(eta, variance) if averaged else eta

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        return log_probabilities(self.link, self.likelihood, margins, self.averaging_weight)
