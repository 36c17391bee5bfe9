"""The method of Laplace: the posterior around the mode of the model itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import DTypeLike
from sklearn.exceptions import ConvergenceWarning

from bigcat import noise as noises
from bigcat._warnings import warn_caller
from bigcat.auto.parameters import check_rank
from bigcat.bayes._arrays import Floats
from bigcat.bayes._design import Design
from bigcat.bayes.columns import PosteriorColumns
from bigcat.bayes.covariance import Covariance, Drawn
from bigcat.bayes.laplace import forms as _forms
from bigcat.bayes.laplace.batches import Known
from bigcat.bayes.laplace.chains import ChainDraws, Chains
from bigcat.bayes.laplace.evidence import Evidence, log_evidence
from bigcat.bayes.laplace.forms import GRADIENTS_TO_MODE, Plan, Shape
from bigcat.bayes.laplace.last_layer import fit_embedding
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.mode import find_mode
from bigcat.bayes.laplace.scale_search import MAX_STEPS, ScaleSearch
from bigcat.bayes.laplace.variational import ClosestGaussian
from bigcat.bayes.laplace.whitening import ClassWhitening, Whitening, make_whitening
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.priors import LearnedScale, Prior, WeightPrior
from bigcat.bayes.priors.chains import PriorChain
from bigcat.checks import check_choice, check_whole
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.training import progress
from bigcat.training.history import History

#: Columns of the history with what is learned of the prior.
LEARNT = ("log_precision", "log_intercept_precision")
#: Draws, chains with few and with many weights, iterations between two draws, and with bad mixing.
MAX_FLOAT64_WEIGHTS, CHAINS, CHAINS_OF_MANY, EVERY, MAX_EVERY = 2_000, 8, 4, 4, 32
#: Gradients that chains may take: small problems take several iterations per draw.
PRODUCTS_OF_CHAINS, PRODUCTS_IF_BAD = 1e11, 6e11
GRADIENTS_PER_ITERATION = 7
#: Multiplications on the way to a mode that are worth a warning: ten minutes.
LONG_PRODUCTS = 5e12


@dataclass(frozen=True, repr=False)
class Laplace(PosteriorMethod):
    """Posterior of ``y = argmax_k w_k . x + b_k + noise_k``: draws, or a Gaussian around the mode.

    With up to 20,000 weights chains start from the Laplace approximation and turn it into draws of
    the posterior itself, together with the prior's scales, so that intervals hold their level with
    few rows, too.  With more weights the posterior is a Gaussian and the scales maximise its
    evidence.  Of the softmax with a matrix per class it is the closest such Gaussian.

    Parameters
    ----------
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        The softmax, the multinomial probit, the multinomial logistic model.
    covariance : {"auto", "draws", "full", "class"}, default="auto"
        Draws of chains, or a Gaussian with the covariance of all weights together or of the weights
        of each class.  "auto" decides by the number of weights (docs/bayesian.md has the table).
    n_draws : int, default=400
        Draws that are kept, or made for averaged probabilities and intervals.
    rank : int, "auto" or None, default="auto"
        A number asks for the last layer of a low-rank model: `LinearClassifier` with that rank is
        fitted first, and the posterior is that of the vectors of the classes, given those of the
        features.  None asks for the posterior of all weights.  "auto" is None as long as the
        covariance matrices of all classes fit; otherwise 32.  Only the softmax has ranks.

    Notes
    -----
    Columns of `history_`: ``iteration``, ``seconds``, ``gradients`` and the logarithms of the
    learned precisions, ``log_precision`` and ``log_intercept_precision``.
    ``history_.selection`` has the form with its reason.  For draws it also has diagnostics of the
    chains, with the names of ArviZ: ``acceptance``, and ``r_hat`` and ``ess_bulk`` of the prior's
    scales (of the energy where the scales are known).

    Examples
    --------
    >>> from bigcat.bayes import Laplace
    >>> Laplace(covariance="class")
    Laplace(covariance='class')
    """

    name: ClassVar[str] = "laplace"
    posterior: ClassVar[type[GaussianPosterior]] = NoisePosterior
    usual_prior: ClassVar[Prior] = LearnedScale()

    noise: str | Noise = "gumbel"
    covariance: str = "auto"
    n_draws: int = 400
    rank: int | str | None = "auto"

    def __post_init__(self) -> None:
        noises.resolve(self.noise)
        check_choice("covariance", self.covariance, ("auto", *_forms.FORMS))
        check_rank(self.rank)
        if self._has_rank and not noises.resolve(self.noise).softmax:
            raise ValueError(
                f"rank={self.rank!r} is for the softmax, noise='gumbel', not for {self.noise!r}; "
                "set rank=None"
            )
        check_whole("n_draws", self.n_draws)

    @property
    def _has_rank(self) -> bool:
        return self.rank is not None and self.rank != "auto"

    # Fitting

    def fit(self, task: Task) -> FittedPosterior:
        noise, embedding = noises.resolve(self.noise), None
        shape = Shape.of(Sizes.of(task.sample.X, task.n_classes), task.fit_intercept, noise)
        rank = _forms.resolve_rank(self.rank, self.covariance, shape, task.fit_intercept)
        if rank is not None:
            embedding = fit_embedding(task, noise, rank)
            shape = shape.last_layer(rank, task.fit_intercept)
        plan = Plan.of(self.covariance, shape)
        warn_of_long_fit(shape)
        fit = _Fit(self, task, plan, embedding, rank)
        posterior = fit.run()
        seen = Seen(float(task.sample.row_weights.sum()), 1)
        return FittedPosterior(
            posterior,
            fit.evidence.value,
            fit.history,
            seen,
            bounds_evidence=False,
            why_no_evidence=fit.evidence.reason,
        )

    def why_no_batches(self, prior: Prior) -> str | None:
        if self.covariance != "draws" and not self._has_rank:
            return None
        return (
            "partial_fit keeps a Gaussian, which is the prior of the next rows, and not "
            f"covariance={self.covariance!r} with rank={self.rank!r}; set covariance='auto', "
            "'full' or 'class' and rank=None, or use fit"
        )

    def fit_more(self, task: Task, last: FittedPosterior | None) -> FittedPosterior:
        """Return the posterior with more rows; the posterior before them is the prior.

        Columns and the scale of the prior are those of the first rows.
        """
        noise = noises.resolve(self.noise)
        if last is None:
            shape = Shape.of(Sizes.of(task.sample.X, task.n_classes), task.fit_intercept, noise)
            form = shape.finest if self.covariance == "auto" else self.covariance
            return replace(self, covariance=form, rank=None).fit(task)
        q = last.posterior
        if not isinstance(q, NoisePosterior) or q.noise != noise:
            raise ValueError(
                "the last fit was by another method or noise, which partial_fit cannot "
                "continue; start with a new estimator, sklearn.base.clone(model)"
            )
        began = time.perf_counter()
        likelihood = _likelihood(task, noise, q.columns)
        gaussian = Known.of(q).updated(likelihood)
        posterior = self._posterior_of(
            task, gaussian.mode, gaussian.covariance(), q.columns, q.seed
        )
        posterior.prior = q.prior
        history = History(last.history, selection=last.history.selection)
        seconds = history[-1]["seconds"] + time.perf_counter() - began
        history.append(_row(len(history) + 1, seconds, likelihood.n_gradients))
        seen = Seen(last.seen.rows + likelihood.design.total_weight, last.seen.steps + 1)
        return FittedPosterior(
            posterior,
            np.nan,
            history,
            seen,
            bounds_evidence=False,
            why_no_evidence="batches have no common mode; fit all rows together",
        )

    def _posterior_of(
        self,
        task: Task,
        mean: Floats,
        covariance: Covariance,
        columns: PosteriorColumns | None,
        seed: int,
    ) -> NoisePosterior:
        """Return a posterior with this method's noise and draws."""
        return NoisePosterior(
            mean,
            covariance,
            intercept=task.fit_intercept,
            classes=task.classes,
            noise=noises.resolve(self.noise),
            n_draws=int(self.n_draws),
            seed=seed,
            columns=columns,
        )

    # Memory

    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        shape = Shape.of(sizes, fit_intercept, noises.resolve(self.noise))
        rank = _forms.resolve_rank(self.rank, self.covariance, shape, fit_intercept)
        if rank is None:
            return _forms.memory(Plan.of(self.covariance, shape), shape, int(self.n_draws))
        of_model = 24 * rank * (sizes.n_features + sizes.n_classes) + 12 * sizes.n_values
        layer = shape.last_layer(rank, fit_intercept)
        needed = _forms.memory(Plan.of(self.covariance, layer), layer, int(self.n_draws))
        return of_model + needed

    def memory_remedy(self, prior: Prior) -> str:
        return "set rank of the method to a small number, or fit fewer classes or features"


def warn_of_long_fit(shape: Shape) -> None:
    """Say before a fit how long its mode alone will take, where that is long."""
    products = GRADIENTS_TO_MODE * shape.products_of_gradient
    if products > LONG_PRODUCTS:
        warn_caller(
            f"the mode of {shape.n_classes:,} classes and {shape.n_columns:,} columns visits all "
            f"classes of {shape.n_rows:,} rows some {GRADIENTS_TO_MODE} times, {products:.0e} "
            "multiplications; method='augment-reduce' looks at a few classes per row, or fit fewer "
            "classes or rows"
        )


def _likelihood(task: Task, noise: Noise, columns: PosteriorColumns | None) -> Likelihood:
    """Return the likelihood of a task's rows in scaled columns."""
    X, labels, row_weights = task.sample[:3]
    rows = X if columns is None else columns.apply(X)
    design = Design(rows, task.fit_intercept, row_weights)
    return Likelihood(design, labels, noise, task.n_classes, task.n_threads)


class _Fit:
    """One fit: its rows, likelihood and prior, and the posterior made from them."""

    def __init__(
        self, method: Laplace, task: Task, plan: Plan, embedding: Floats | None, rank: int | None
    ) -> None:
        self.method, self.task, self.plan = method, task, plan
        self.noise = noises.resolve(method.noise)
        self.columns: PosteriorColumns | None = None  # the prior belongs to columns as given
        if task.prior.in_units_of_columns or embedding is not None:
            X, _, row_weights = task.sample[:3]
            self.columns = PosteriorColumns.of(X, row_weights, task.fit_intercept, embedding)
        self.likelihood = _likelihood(task, self.noise, self.columns)
        selection: dict[str, Any] = {"covariance": plan.form, "reason": plan.reason}
        self.history = History(selection=selection if rank is None else {**selection, "rank": rank})
        self.evidence = Evidence.none("the fit has not ended")
        self.began = time.perf_counter()

    def run(self) -> NoisePosterior:
        prior = self._prior(1)
        if self.plan.form == "draws":
            drawn = self._draws()
            mean, near, precision = drawn.stack.mean(axis=0), drawn.whitening.mode, drawn.precisions
            covariance: Covariance = Drawn((drawn.stack - mean).astype(np.float32))
        else:
            gaussian, precision = self._gaussian(prior)
            mean, covariance, near = gaussian.mode, gaussian.covariance(), gaussian.mode
        random_state = self.task.random_state
        self.evidence = log_evidence(self.likelihood, precision, prior.mean, near, random_state)
        return self._posterior(mean, covariance, precision)

    def _prior(self, n_chains: int) -> PriorChain:
        task, columns = self.task, self.columns
        n_features = self.likelihood.shape[1] - task.fit_intercept
        length = 1.0 if columns is None else columns.squared_length
        if not task.prior.in_units_of_columns:
            length = 1.0
        return task.prior.chain(n_chains, task.n_classes, n_features, task.fit_intercept, length)

    # A Gaussian

    def _gaussian(self, prior: PriorChain) -> tuple[Whitening, Floats]:
        """Return the Gaussian and the precisions of the prior, which maximise its evidence."""
        search, near = ScaleSearch(prior), cast(Floats, np.zeros(self.likelihood.shape))
        closest: ClosestGaussian | None = None
        everyone = slice(0, self.likelihood.n_classes)
        with self._progress(MAX_STEPS) as tell:
            for step in range(MAX_STEPS):
                precision = prior.precision[0]
                if closest is None:
                    gaussian = self._at_mode(self.plan.form, precision, prior.mean, near)
                    near = gaussian.mode
                    begins = search.near or not prior.learns or step == MAX_STEPS // 3
                    suits = ClosestGaussian.suits(self.likelihood)
                    if begins and suits and isinstance(gaussian, ClassWhitening):
                        closest = ClosestGaussian(self.likelihood, gaussian, self.task.random_state)
                        search = ScaleSearch(prior)
                if closest is not None:
                    closest.improve(precision, prior.mean)
                    gaussian = closest.whitening
                tell(prior)
                if search.settled or (not prior.learns and (closest is None or step == 2)):
                    break
                if prior.learns:
                    variances = gaussian.covariance().variances(everyone)
                    prior = search.update(gaussian.mode, variances)
            else:
                warn_caller(
                    f"the scale of the prior has not settled in {MAX_STEPS} steps, so predictions "
                    "may be less sharp than they could be; set a scale that validation rows "
                    "prefer, such as prior=GaussianPrior(scale=0.5)",
                    ConvergenceWarning,
                )
        return gaussian, precision

    def _at_mode(self, form: str, precision: Floats, prior: Floats, near: Floats) -> Whitening:
        mode, _ = find_mode(self.likelihood, precision, prior[None], near)
        return make_whitening(form, self.likelihood, mode, precision)

    # Chains

    def _draws(self) -> ChainDraws:
        n_weights = self.likelihood.n_classes * self.likelihood.shape[1]
        few = n_weights < MAX_FLOAT64_WEIGHTS and self.noise.softmax
        n_chains = CHAINS if few else CHAINS_OF_MANY
        prior = self._prior(n_chains)
        n_kept = -(-int(self.method.n_draws) // n_chains)
        every, most_every = self._iterations_per_draw(n_chains * n_kept)

        def whiten_at(precision: Floats, near: Floats) -> Whitening:
            return self._at_mode(self.plan.whitening, precision, prior.mean, near)

        start = np.zeros(self.likelihood.shape)
        chains = Chains(self.likelihood, prior, whiten_at, start, self.task.random_state)
        with self._progress(128 + n_kept * most_every) as tell:
            drawn = chains.run(n_kept, every, most_every, lambda: tell(chains.prior))
        assert self.history.selection is not None
        self.history.selection |= {"chains": n_chains, **drawn.mixing.as_dict()}
        warning = drawn.mixing.warning()
        if warning is not None:
            warn_caller(warning, ConvergenceWarning)
        return drawn

    def _iterations_per_draw(self, n_draws: int) -> tuple[int, int]:
        """Return the iterations per draw, usual and maximal: more in small problems."""
        design = self.likelihood.design
        n_classes, softmax = self.likelihood.n_classes, self.noise.softmax
        shape = Shape(design.n, design.n_columns, n_classes, design.n_columns, softmax)
        products = n_draws * GRADIENTS_PER_ITERATION * shape.products_of_gradient
        every = int(np.clip(PRODUCTS_OF_CHAINS / products, 1, EVERY))
        return every, int(np.clip(PRODUCTS_IF_BAD / products, every, MAX_EVERY))

    @contextmanager
    def _progress(self, total: int) -> Iterator[Callable[[PriorChain], None]]:
        """Yield a function to call after each iteration."""
        label = f"laplace, {self.noise.name}"
        with progress.reporter(self.task.progress, total, label, "log precision") as report:

            def tell(prior: PriorChain) -> None:
                seconds = time.perf_counter() - self.began
                row = _row(len(self.history) + 1, seconds, self.likelihood.n_gradients)
                values = prior.summary().mean(axis=0) if prior.learns else []
                row |= dict(zip(LEARNT, map(float, values)))
                self.history.append(row)
                report(len(self.history), row["log_precision"])

            yield tell

    # Results

    def _posterior(self, mean: Floats, covariance: Covariance, precision: Floats) -> NoisePosterior:
        seed = self.task.random_state.randint(np.iinfo(np.int32).max)
        found = self.method._posterior_of(self.task, mean, covariance, self.columns, seed)
        found.prior = WeightPrior(self._prior(1).mean, precision)
        return found


def _row(iteration: int, seconds: float, gradients: int) -> dict[str, Any]:
    """Return a row of the history, without learned precisions."""
    row = {"iteration": iteration, "seconds": seconds, "gradients": gradients}
    return row | dict.fromkeys(LEARNT, np.nan)
