"""Checks of a fitted model: coverage of intervals, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.priors import WeightPrior
from bigcat.checks import check_choice, check_whole
from bigcat.estimators import inputs
from bigcat.inference.calibration import CalibrationCheck, check_calibration
from bigcat.inference.coverage import TRUTHS, CoverageCheck, Simulation
from bigcat.inference.table import tails_of
from bigcat.training import progress


class PosteriorChecks:
    """Checks of an estimator with a `posterior_`."""

    posterior_: GaussianPosterior
    classes_: np.ndarray
    progress: bool | str

    def check_coverage(
        self,
        X: Any,
        n_replicates: int = 20,
        level: float = 0.9,
        weights: str = "posterior",
        random_state: int | np.random.RandomState | None = None,
    ) -> CoverageCheck:
        """Simulate how much of the truth intervals hold, with rows such as these.

        Each replicate draws weights that are then true, draws a label for every row of X from
        them, fits a clone to these labels, and counts how many of the true class probabilities lie
        in the clone's `predict_interval`: of up to 300 rows, all classes.  So it takes as long as
        `n_replicates` fits.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
            The rows of the training data, best: what intervals hold depends on how many there are.
        n_replicates : int, default=20
        level : float, default=0.9
            Of the intervals; the result has others, too, for its plot.
        weights : {"posterior", "prior"}, default="posterior"
            Where true weights come from: they are like those that were fitted, or come from the
            prior with the scales that were learned.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        bigcat.inference.coverage.CoverageCheck
            ``coverage`` with its ``standard_error``, ``widths``, ``plot()``.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier("independent-binary", random_state=0).fit(X, y)
        >>> check = model.check_coverage(X, n_replicates=2, random_state=0)
        >>> check.coverages.shape, 0.0 < check.coverage < 1.0
        ((2, 10), True)
        """
        X = inputs.check_for_prediction(self, X)
        check_whole("n_replicates", n_replicates)
        check_choice("weights", weights, TRUTHS)
        tails_of(level)
        rng = check_random_state(random_state)
        q = self.posterior_
        prior = self._weight_prior() if weights == "prior" else None

        def draw(rng: np.random.RandomState) -> np.ndarray:
            if prior is None:
                first: np.ndarray = q.sample(1, rng)[0]
                return first
            found: np.ndarray = prior.draw(q.n_classes, rng)
            if q.columns is not None:
                found = q.columns.restore(found, q.intercept)
            return found

        def refit(labels: np.ndarray, seed: int) -> GaussianPosterior:
            model = clone(self).set_params(random_state=seed, progress=False)
            fitted: GaussianPosterior = model.fit(
                X, self.classes_[labels], classes=self.classes_
            ).posterior_
            return fitted

        simulation = Simulation(q, X, draw, refit, level)
        coverages, widths = [], []
        label = f"coverage of {level:g}"
        with progress.reporter(
            self.progress, n_replicates, label, "coverage", unit="replicate"
        ) as report:
            for _ in range(n_replicates):
                found, width = simulation.replicate(rng)
                coverages.append(found)
                widths.append(width)
                check = CoverageCheck(
                    float(level),
                    simulation.levels(),
                    np.array(coverages),
                    np.array(widths),
                    weights,
                    X.shape[0],
                )
                report(len(coverages), check.coverage)
        return check

    def check_calibration(self, X: Any, y: ArrayLike, n_bins: int = 10) -> CalibrationCheck:
        """Compare predicted probabilities with the accuracy on held-out rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n, n_features)
        y : array of shape (n,)
            Rows of classes that were absent in training are left out and counted.
        n_bins : int, default=10
            Bins of the probability of the predicted class.

        Returns
        -------
        bigcat.inference.calibration.CalibrationCheck
            ``averaged`` and ``plug_in``: dicts with the expected calibration error ``ece``, the
            mean ``log_likelihood``, and what `bigcat.plots.predictions.draw_reliability` draws.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from bigcat import BayesianClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = BayesianClassifier("independent-binary", random_state=0).fit(X[::2], y[::2])
        >>> check = model.check_calibration(X[1::2], y[1::2])
        >>> check.n_rows, 0.0 < check.averaged["ece"] < 0.2
        (75, True)
        """
        X = inputs.check_for_prediction(self, X)
        return check_calibration(self.posterior_, X, y, n_bins)

    def _weight_prior(self) -> WeightPrior:
        if self.posterior_.prior is None:
            raise ValueError(
                "weights='prior' needs the prior of the fit, and this model has none; take "
                "weights='posterior', or fit the model again"
            )
        return self.posterior_.prior
