"""The method of Laplace: the posterior around the mode of the model itself."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from sklearn.exceptions import ConvergenceWarning

from bigcat import noise as noises
from bigcat.bayes import _laplace_plan
from bigcat.bayes._arrays import Floats
from bigcat.bayes._chains import Chains
from bigcat.bayes._chains import Drawn as ChainDraws
from bigcat.bayes._column_sizes import ColumnSizes, column_means
from bigcat.bayes._design import Design
from bigcat.bayes._frames import Frame, make_frame
from bigcat.bayes._laplace_batches import Known
from bigcat.bayes._laplace_plan import Plan, Work
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._mixing import Mixing
from bigcat.bayes._mode import find_mode, mean_of_gaussian
from bigcat.bayes._scale_chain import ScaleChain
from bigcat.bayes._uncentred import uncentred, uncentred_covariance
from bigcat.bayes.covariance import Covariance, Drawn
from bigcat.bayes.learned_scale import LearnedScale
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.prior_chains import PriorChain
from bigcat.bayes.priors import Prior
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.training import progress
from bigcat.training.checks import check_choice, check_whole
from bigcat.training.history import History

AnyChains = TypeVar("AnyChains", bound=Chains)
#: Columns of the history with what is learnt of the prior.
LEARNT = ("log_precision", "log_intercept_precision")


@dataclass(frozen=True, repr=False)
class Laplace(PosteriorMethod):
    """Posterior of ``y = argmax_k w_k . x + b_k + noise_k`` around its mode.

    The mode is that of the penalised likelihood itself, the covariance the inverse of its
    curvature there.  Where that is affordable, chains start from this approximation and turn it
    into draws of the posterior itself, together with the prior's scales, so that intervals hold
    what they say with few rows, too.

    Parameters
    ----------
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        The softmax, the multinomial probit, the multinomial logistic model.
    covariance : {"auto", "draws", "full", "class", "diagonal"}, default="auto"
        What is kept of the posterior: draws of chains, or a Gaussian whose covariance is that of
        all weights together, of the weights of each class, or none.  "auto" takes the first of
        draws, class, diagonal that time and memory allow, and says in ``history_.choice`` what it
        took.
    n_draws : int, default=400
        Draws that are kept, or made for averaged probabilities and intervals.
    centre : {"mean", "mode"}, default="mean"
        Of a Gaussian: the posterior's mean, which predicts better, or its mode, which with a flat
        prior is the maximum-likelihood estimate of other programs.  Draws have a mean of their own.

    Notes
    -----
    Columns of `history_`: ``iteration``, ``seconds``, ``gradients`` and the logarithms of the
    learnt precisions, ``log_precision`` and ``log_intercept_precision``.  ``history_.choice`` has,
    beside what was chosen, how chains have mixed: ``acceptance``, ``r_hat`` and ``ess_bulk`` of the
    prior's scales (of the energy where these are known), as ArviZ names them.

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
    centre: str = "mean"

    def __post_init__(self) -> None:
        noises.resolve(self.noise)
        check_choice("covariance", self.covariance, ("auto", *_laplace_plan.FORMS))
        check_whole("n_draws", self.n_draws)
        check_choice("centre", self.centre, ("mean", "mode"))

    # Fitting

    def fit(self, task: Task) -> FittedPosterior:
        sizes = Sizes.of(task.sample.X, task.n_classes)
        warning = Work.of(sizes, task.fit_intercept, noises.resolve(self.noise)).warning()
        if warning is not None:
            warnings.warn(warning, UserWarning, stacklevel=3)
        fit = _Fit(self, task)
        found = fit.run()
        seen = Seen(float(task.sample.row_weights.sum()), 1)
        return FittedPosterior(found, fit.evidence, fit.history, seen, bounds_evidence=False)

    def why_no_batches(self, prior: Prior) -> str | None:
        if self.covariance != "draws":
            return None
        return (
            "partial_fit keeps a Gaussian, which is the prior of the next rows, and not "
            "covariance='draws'; name 'auto', 'full', 'class' or 'diagonal', or use fit"
        )

    def fit_more(self, task: Task, last: FittedPosterior | None) -> FittedPosterior:
        """The posterior with more rows, what was known before them being the prior.

        The scale of the prior is learnt from the first rows; `evidence` is that of all of them.
        """
        if last is None:
            return replace(self, covariance=self._form_of_batches(task)).fit(task)
        noise = noises.resolve(self.noise)
        q = last.posterior
        if not isinstance(q, NoisePosterior) or q.noise != noise:
            raise ValueError(
                "the last fit was by another method or noise, which partial_fit cannot go on "
                "from; start with a new estimator, sklearn.base.clone(model)"
            )
        began = time.perf_counter()
        X, labels, row_weights = task.sample
        design = Design(X, task.fit_intercept, row_weights)
        likelihood = Likelihood(design, labels, noise, task.n_classes, task.n_threads)
        mean, frame, evidence = Known.of(q).updated(likelihood, self.centre, task.random_state)
        posterior = NoisePosterior(
            mean,
            uncentred_covariance(frame, None),
            intercept=q.intercept,
            classes=q.classes,
            noise=noise,
            n_draws=int(self.n_draws),
            seed=q.seed,
        )
        posterior.prior = q.prior
        history = History(last.history, choice=last.history.choice)
        seconds = history[-1]["seconds"] + time.perf_counter() - began
        history.append(_row(len(history) + 1, seconds, likelihood.n_gradients))
        seen = Seen(last.seen.rows + design.total_weight, last.seen.steps + 1)
        evidence += last.evidence
        return FittedPosterior(posterior, evidence, history, seen, bounds_evidence=False)

    def _form_of_batches(self, task: Task) -> str:
        """The Gaussian of a first batch: the finest that can be had."""
        if self.covariance != "auto":
            return self.covariance
        work = Work.of(
            Sizes.of(task.sample.X, task.n_classes), task.fit_intercept, noises.resolve(self.noise)
        )
        return _laplace_plan.finest(work)

    # Memory

    def plan(self, work: Work, prior: Prior) -> Plan:
        """What is kept, and why."""
        return _laplace_plan.plan(self.covariance, work, prior, int(self.n_draws))

    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        work = Work.of(sizes, fit_intercept, noises.resolve(self.noise))
        return _laplace_plan.memory(self.plan(work, prior), work, int(self.n_draws), n_threads)

    def memory_remedy(self, prior: Prior) -> str:
        return "set covariance='diagonal' of the method, or fit fewer classes or features"


class _Fit:
    """One fit: its rows, likelihood and prior, and what becomes of them."""

    def __init__(self, method: Laplace, task: Task) -> None:
        self.method, self.task = method, task
        X, labels, row_weights = task.sample
        self.noise = noises.resolve(method.noise)
        sizes = Sizes.of(X, task.n_classes)
        self.plan = method.plan(Work.of(sizes, task.fit_intercept, self.noise), task.prior)
        # Independent weights of centred columns would not be independent of the intercept.
        centres = task.prior.in_units_of_columns and task.fit_intercept
        centres = centres and self.plan.form != "diagonal"
        self.means = column_means(X, row_weights) if centres else None
        centred = X if self.means is None else np.asarray(X, np.float64) - self.means
        self.design = Design(centred, task.fit_intercept, row_weights)
        self.likelihood = Likelihood(
            self.design, labels, self.noise, task.n_classes, task.n_threads
        )
        self.columns = ColumnSizes.of(self.design)
        self.history = History(choice=self.plan.told())
        self.evidence = np.nan
        self.began = time.perf_counter()

    def run(self) -> NoisePosterior:
        start = np.zeros(self.likelihood.shape)
        if self.plan.form == "draws":
            drawn = self._draws(start)
            self._weigh(drawn.frame, drawn.precisions)
            stack = uncentred(drawn.stack, self.means)
            mean = stack.mean(axis=0)
            return self._posterior(mean, Drawn((stack - mean).astype(np.float32)))
        prior, near = self._precisions(start)
        mode = self._mode(prior, near)
        frame = make_frame(self.plan.form, self.likelihood, mode, prior)
        self._weigh(frame, prior)
        mean = self._mean(prior, frame)
        covariance = uncentred_covariance(frame, self.means)
        return self._posterior(uncentred(mean[None], self.means)[0], covariance)

    def _mode(self, precision: Floats, start: Floats) -> Floats:
        return find_mode(self.likelihood, precision, self._prior(1).mean[None], start)[0]

    def _mean(self, precision: Floats, frame: Frame) -> Floats:
        if self.method.centre == "mode":
            return frame.mode
        prior_mean = self._prior(1).mean

        def slopes(stack: Floats) -> Floats:
            return precision * (prior_mean - stack)

        return mean_of_gaussian(self.likelihood, slopes, frame, self.task.random_state)

    def _prior(self, n_chains: int) -> PriorChain:
        task = self.task
        return task.prior.chain(n_chains, task.n_classes, self.columns, task.fit_intercept)

    # Chains

    def _chains(self, kind: type[AnyChains], likelihood: Likelihood, start: Floats) -> AnyChains:
        plan = self.plan
        prior = self._prior(plan.n_chains)
        mean = prior.mean[None]

        def reframe(precision: Floats, near: Floats) -> Frame:
            mode, _ = find_mode(likelihood, precision, mean, near)
            frame: Frame = make_frame(plan.frame, likelihood, mode, precision)
            return frame

        return kind(likelihood, prior, reframe, start, self.task.random_state)

    def _draws(self, start: Floats) -> ChainDraws:
        chains = self._chains(Chains, self.likelihood, start)
        with self._told(chains) as tell:
            drawn = chains.run(self.plan.n_kept, self.plan.every, tell)
        self._judge(drawn.mixing)
        return drawn

    def _judge(self, mixing: Mixing) -> None:
        """Keep what is known of the chains, and warn where their draws are the posterior."""
        assert self.history.choice is not None
        self.history.choice.update(mixing.told())
        warning = mixing.warning()
        if warning is not None and self.plan.form == "draws":
            warnings.warn(warning, ConvergenceWarning, stacklevel=6)

    @contextmanager
    def _told(self, chains: Chains) -> Iterator[Callable[[], None]]:
        """What to call after each iteration."""
        label, total = f"laplace, {self.noise.name}", self.plan.most_iterations
        with progress.reporter(self.task.progress, total, label, "log precision") as report:
            yield lambda: self._tell(chains, report)

    def _tell(self, chains: Chains, report: Callable[[float, float], None]) -> None:
        seconds = time.perf_counter() - self.began
        row = _row(len(self.history) + 1, seconds, chains.likelihood.n_gradients)
        values = chains.prior.summary().mean(axis=0) if chains.prior.learns else []
        row |= dict(zip(LEARNT, map(float, values)))
        self.history.append(row)
        report(len(self.history), row["log_precision"])

    def _precisions(self, start: Floats) -> tuple[Floats, Floats]:
        """Of the prior, as they are or learnt, (K or 1, M); and weights near the mode."""
        prior = self._prior(1)
        if not prior.learns:
            return prior.typical(), start
        if not self.plan.one_chain:
            drawn = self._draws(start)
            return drawn.precisions, drawn.frame.mode
        likelihood, rng = self.likelihood, self.task.random_state
        if self.plan.n_rows is not None:
            n = likelihood.design.n
            likelihood = likelihood.of_rows(np.sort(rng.choice(n, self.plan.n_rows, replace=False)))
        chain = self._chains(ScaleChain, likelihood, start)
        with self._told(chain) as tell:
            precisions, mixing = chain.learn(self.plan.n_kept, tell)
        self._judge(mixing)
        return precisions, chain.frame.mode

    # What comes out

    def _weigh(self, frame: Frame, precision: Floats) -> None:
        """The Laplace approximation of the log-evidence: log p(y, W) at the mode, and the volume.

        The 2 pi of prior and volume cancel.
        """
        self.precisions = precision
        prior = np.broadcast_to(precision, frame.mode.shape)
        away = frame.mode - self._prior(1).mean
        value = float(self.likelihood.values(frame.mode[None])[0])
        value += 0.5 * float(np.log(prior).sum() - (prior * away * away).sum())
        self.evidence = value - 0.5 * frame.log_determinant()

    def _posterior(self, mean: Floats, covariance: Covariance) -> NoisePosterior:
        task = self.task
        if not self.history:
            seconds = time.perf_counter() - self.began
            self.history.append(_row(1, seconds, self.likelihood.n_gradients))
        found = NoisePosterior(
            mean,
            covariance,
            intercept=task.fit_intercept,
            classes=task.classes,
            noise=self.noise,
            n_draws=int(self.method.n_draws),
            seed=task.random_state.randint(np.iinfo(np.int32).max),
        )
        found.prior = WeightPrior(self._prior(1).mean, self.precisions, self.means)
        return found


def _row(iteration: int, seconds: float, gradients: int) -> dict[str, Any]:
    """Of the history, with nothing learnt of the prior."""
    row = {"iteration": iteration, "seconds": seconds, "gradients": gradients}
    return row | dict.fromkeys(LEARNT, np.nan)
