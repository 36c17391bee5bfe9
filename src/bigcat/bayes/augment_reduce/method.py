"""The method of augment and reduce: a posterior from sampled rows and classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from bigcat import noise as noises
from bigcat.bayes.augment_reduce.passes import (
    ValidationScore,
    WeightPosterior,
    fit_weight_posterior,
)
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.priors import LearnedScale, Prior, WeightPrior
from bigcat.checks import check_whole, is_number
from bigcat.combinations import Parts, resolve
from bigcat.linear import FullRank, FullRankWeights, LinearModel
from bigcat.noise import Noise
from bigcat.rows import Problem, Sizes, as_rows
from bigcat.samplers import Uniform
from bigcat.solvers import AdaGrad
from bigcat.training.advice import warn_of_unscaled
from bigcat.training.data import TrainingData
from bigcat.training.stopping import EarlyStopping
from bigcat.training.validation import split


@dataclass(frozen=True, repr=False)
class AugmentReducePosterior(PosteriorMethod):
    """Posterior of ``y = argmax_k w_k . x + b_k + noise_k``, the model of `LinearClassifier`.

    Independent Gaussians, found by passes that look at a few classes per row (Ruiz et al., 2018,
    *Augment and Reduce*).  It takes a `GaussianPrior` with mean 0 and one scale, or learns that
    scale and the intercepts' (`LearnedScale`): after each pass over all weights they are what
    maximises the ELBO.

    Parameters
    ----------
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        The softmax, the multinomial probit, the multinomial logistic model.
    n_negatives : int, default=32
        Number of other classes that a step visits per row.  More of them lower the variance of the
        gradient and make a step slower.
    max_epochs : int, default=200
        Maximal number of passes over the data; `tol` ends most fits before.
    learning_rate : float, default=0.3
        Learning rate of AdaGrad for the means; in 50 epochs 0.3 comes closest to the best ELBO.
    tol : float, default=1e-4
        Stop when an epoch adds less than this many nats per row; 0 runs all epochs.
    n_iter_no_change : int, default=10
        The ELBO is noisy, so its mean over this many epochs is compared with that over the same
        number of epochs before; epochs without an ELBO (see `history_`) do not count.
    validation_fraction : float or None, default=None
        Share of held-out rows.  Their log-likelihood at the posterior means then replaces the
        ELBO as the stopping rule, and the best epoch's posterior is kept.
    n_draws : int, default=100
        Draws of scores for ``posterior="averaged"``: the mean of the probabilities, with the same
        random numbers for all rows and calls.

    Notes
    -----
    Columns of `history_`: ``epoch``, ``seconds``, ``compile_seconds``, and per row of data
    ``elbo``, ``expected_bound``, ``kl``, ``validation_log_likelihood``.  The ELBO and its KL are
    NaN in epochs without a pass over all weights, which are rare unless classes are very many.

    Examples
    --------
    >>> from bigcat.bayes import AugmentReducePosterior
    >>> AugmentReducePosterior(noise="gaussian", max_epochs=100)
    AugmentReducePosterior(noise='gaussian', max_epochs=100)
    """

    name: ClassVar[str] = "augment-reduce"
    posterior: ClassVar[type[GaussianPosterior]] = NoisePosterior
    keepable: ClassVar[bool] = True

    noise: str | Noise = "gumbel"
    n_negatives: int = 32
    max_epochs: int = 200
    learning_rate: float = 0.3
    tol: float = 1e-4
    n_iter_no_change: int = 10
    validation_fraction: float | None = None
    n_draws: int = 100

    def __post_init__(self) -> None:
        noises.resolve(self.noise)
        for name in ("n_negatives", "max_epochs", "n_iter_no_change", "n_draws"):
            check_whole(name, getattr(self, name))
        rate, tol, fraction = self.learning_rate, self.tol, self.validation_fraction
        if not (is_number(rate) and 0.0 < rate < math.inf):
            raise ValueError(f"learning_rate={rate!r} must be a finite number above 0")
        if not (is_number(tol) and 0.0 <= tol < math.inf):
            raise ValueError(f"tol={tol!r} must be a finite number of at least 0")
        if fraction is not None and not (is_number(fraction) and 0.0 < fraction < 1.0):
            raise ValueError(
                f"validation_fraction={fraction!r} must lie between 0 and 1, or be None"
            )

    def parts(self) -> Parts:
        """Return bound, noise, sampler and solver."""
        return resolve(
            "augment-reduce",
            noises.resolve(self.noise),
            solver=AdaGrad(float(self.learning_rate)),
            sampler=Uniform(int(self.n_negatives)),
        )

    # Fitting

    def check_prior(self, prior: Prior) -> None:
        self._scales(prior)

    def _scales(self, prior: Prior) -> tuple[float, float]:
        """Return standard deviations of weights and intercepts."""
        if _learns_one_scale(prior):
            return 1.0, 1.0  # to begin with
        if prior.learned:
            raise ValueError(
                f"prior={prior!r} learns several scales, and method='augment-reduce' one; take "
                "prior='learned', a GaussianPrior, or method='independent-binary'"
            )
        scales = prior.one_scale()
        if scales is None:
            raise ValueError(
                "method='augment-reduce' takes a GaussianPrior with mean 0 and one scale for all "
                "weights; scale the columns of X, or take method='independent-binary'"
            )
        return scales

    def fit(self, task: Task) -> FittedPosterior:
        scale, intercept_scale = self._scales(task.prior)
        sample, validation_score = task.sample, None
        parts, n_classes = self.parts(), task.n_classes
        warn_of_unscaled(sample, parts.solver)
        if self.validation_fraction is not None:
            folds = split(sample, task.random_state, self.validation_fraction)
            if not folds:
                raise ValueError(
                    "no validation row has a class that is left in the training rows; set "
                    "validation_fraction=None"
                )
            held_out = sample.take(folds[0].held_out)
            sample = sample.take(folds[0].kept)
            validation_score = _validation_score(parts.noise, held_out)
        X, labels, row_weights, _ = sample
        problem = Problem(
            as_rows(X, FullRank().working_dtype(X.dtype, X.shape[1], n_classes)),
            labels,
            row_weights,
            X.shape[1],
            n_classes,
            l2=0.0,
            fit_intercept=task.fit_intercept,
        )
        found = fit_weight_posterior(
            problem,
            parts,
            prior_scale=scale,
            intercept_scale=intercept_scale,
            learns_scales=_learns_one_scale(task.prior),
            max_epochs=int(self.max_epochs),
            random_state=task.random_state,
            stop=EarlyStopping(None, int(self.n_iter_no_change), float(self.tol)),
            validation_score=validation_score,
            progress=task.progress,
            checkpointer=task.checkpointer,
        )
        posterior = self._posterior(found, parts.noise, task)
        seen = Seen(float(task.sample.row_weights.sum()), 1)
        return FittedPosterior(posterior, found.elbo, found.history, seen)

    def _posterior(self, found: WeightPosterior, noise: Noise, task: Task) -> NoisePosterior:
        mean, variances = found.mean, np.square(found.scale, out=found.scale)
        if task.fit_intercept:
            spread = np.square(found.intercept_scale).astype(mean.dtype)
            mean = np.column_stack([mean, found.intercept_mean])
            variances = np.column_stack([variances, spread])
        posterior = NoisePosterior(
            mean,
            ClassDiagonal(variances),
            intercept=task.fit_intercept,
            classes=task.classes,
            noise=noise,
            n_draws=int(self.n_draws),
            seed=task.random_state.randint(np.iinfo(np.int32).max),
        )
        precision = np.full((1, mean.shape[1]), found.prior_scale**-2.0)
        if task.fit_intercept:
            precision[0, -1] = found.prior_intercept_scale**-2.0
        posterior.prior = WeightPrior(np.zeros(mean.shape[1]), precision)
        return posterior

    # Memory

    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        """Return the bytes at the end of a fit, when the posterior is made of its state."""
        kind = FullRank().working_dtype(np.dtype(dtype), sizes.n_features, sizes.n_classes)
        item = np.dtype(kind).itemsize
        weights = (sizes.n_features + 1) * sizes.n_classes
        # Means, information, the solver's state and stamps; scales, and what they are made of.
        per_weight = 5 * item + 4
        if self.validation_fraction is not None:  # the best epoch's posterior
            per_weight += 2 * item
        n_local = self.parts().bound.n_local
        rows = sizes.n_values * (item + 4) + 8 * sizes.n_rows * (n_local + 4)
        return weights * per_weight + rows

    def memory_remedy(self, prior: Prior) -> str:
        return "fit fewer classes or features, or give X in float32"


def _learns_one_scale(prior: Prior) -> bool:
    return isinstance(prior, LearnedScale) and prior.per == "all"


def _validation_score(noise: Noise, held_out: TrainingData) -> ValidationScore:
    """Return a function with the mean log-likelihood of held-out rows."""

    def validation_score(mean: np.ndarray, intercept: np.ndarray) -> float:
        model = LinearModel(FullRankWeights(mean), intercept, noise)
        return model.mean_log_likelihood(*held_out[:3])

    return validation_score
