"""What a fitted posterior predicts, for labels as people have them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bigcat.bayes.posterior import HOW, GaussianPosterior
from bigcat.estimators import inputs
from bigcat.linear.labels import encode


class PosteriorPredictions:
    """Predictions of an estimator with a `posterior_`, at its mean or averaged over it."""

    posterior_: GaussianPosterior
    classes_: np.ndarray

    def predict(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """The most probable class of each row, averaged over the posterior or at its mean."""
        X = self._check_for_prediction(X, posterior)
        labels: np.ndarray = self.classes_[self.posterior_.best(X, posterior)]
        return labels

    def predict_log_proba(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """Log-probabilities of all classes, (n, n_classes)."""
        X = self._check_for_prediction(X, posterior)
        return self.posterior_.log_proba(X, posterior)

    def predict_proba(self, X: Any, posterior: str = "averaged") -> np.ndarray:
        """Probabilities of all classes, (n, n_classes); rows add up to one.

        Parameters
        ----------
        posterior : {"averaged", "plug-in"}, default="averaged"
            Averaged over the posterior, which is what the model says of a new row, and more
            cautious far from the data; the method says how.  Or at the posterior mean, which costs
            no variances and no draws.
        """
        log_probabilities = self.predict_log_proba(X, posterior)
        np.exp(log_probabilities, out=log_probabilities)
        return log_probabilities

    def predict_top_k(
        self, X: Any, k: int = 5, posterior: str = "averaged"
    ) -> tuple[np.ndarray, np.ndarray]:
        """The `k` most probable classes of each row, best first, without an (n, K) array.

        Returns
        -------
        classes : array of shape (n, k)
        log_probabilities : array of shape (n, k)
        """
        X = self._check_for_prediction(X, posterior)
        columns, log_probabilities = self.posterior_.top_k(X, k, posterior)
        return self.classes_[columns], log_probabilities

    def log_proba_of(self, X: Any, y: ArrayLike, posterior: str = "averaged") -> np.ndarray:
        """Log-probability of one class per row, (n,)."""
        X = self._check_for_prediction(X, posterior)
        labels = encode(y, self.classes_)
        if len(labels) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y {len(labels)}; they must agree")
        return self.posterior_.log_proba_of(X, labels, posterior)

    def _check_for_prediction(self, X: Any, posterior: str) -> Any:
        if posterior not in HOW:
            raise ValueError(
                f"posterior={posterior!r} is not known; choose 'averaged' or 'plug-in'"
            )
        return inputs.check_for_prediction(self, X)
