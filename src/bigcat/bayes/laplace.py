"""The method of Laplace: the posterior around the mode of the model itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from sklearn.exceptions import ConvergenceWarning

from bigcat import noise as noises
from bigcat.auto import Parameters
from bigcat.auto.parameters import check_rank
from bigcat.bayes import _laplace_plan
from bigcat.bayes._around_linear import AroundLinear, Trial, memory_around_linear
from bigcat.bayes._arrays import Floats
from bigcat.bayes._chains import Chains
from bigcat.bayes._chains import Drawn as ChainDraws
from bigcat.bayes._design import Design
from bigcat.bayes._frames import Frame, GaussianAtMode
from bigcat.bayes._laplace_batches import Known
from bigcat.bayes._laplace_plan import Plan, Work, is_rank
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import low_rank_frame
from bigcat.bayes._mixing import Mixing
from bigcat.bayes._mode import find_mode, mean_of_gaussian
from bigcat.bayes._posed import Posed, pose
from bigcat.bayes._scale_chain import ScaleChain, first_rows
from bigcat.bayes._uncentred import uncentred, uncentred_covariance
from bigcat.bayes.covariance import Covariance, Drawn
from bigcat.bayes.learned_scale import LearnedScale
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.prior_chains import PriorChain
from bigcat.bayes.priors import Prior
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.caller import warn_caller
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
    covariance : {"auto", "draws", "full", "class", "low-rank", "diagonal"}, default="auto"
        What is kept of the posterior: draws of chains, or a Gaussian whose covariance is that of
        all weights together, of the weights of each class, the same as a spectrum and a few
        directions, or none.  "auto" takes the first of draws, class, low-rank that time and memory
        allow, and says in ``history_.choice`` what it took.
    n_draws : int, default=400
        Draws that are kept, or made for averaged probabilities and intervals.
    centre : {"mean", "mode"}, default="mean"
        Of a Gaussian: the posterior's mean, which predicts better, or its mode, which with a flat
        prior is the maximum-likelihood estimate of other programs.  Draws have a mean of their own.
    rank : int, "auto" or None, default="auto"
        Where the posterior lies.  None is the mode with the prior, a number the fit of
        `LinearClassifier` with that rank.  "auto" is None where draws can be had, or a matrix per
        class of few columns; else it is what predicts held-out rows better, the mode or the fit of
        `LinearClassifier()`, of whatever rank.  Around a fit the prior's scale is what the fit
        implies, and intervals hold their level roughly; docs/bayesian.md has figures.  For the
        softmax.

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
    rank: int | str | None = "auto"

    def __post_init__(self) -> None:
        noises.resolve(self.noise)
        check_choice("covariance", self.covariance, ("auto", *_laplace_plan.FORMS))
        check_rank(self.rank)
        if is_rank(self.rank) and self.covariance not in ("auto", "low-rank"):
            raise ValueError(
                f"rank={self.rank!r} and covariance={self.covariance!r} do not go together: around "
                "a linear fit the covariance has the form 'low-rank'; set covariance='auto' or "
                "rank=None"
            )
        if is_rank(self.rank) and not noises.resolve(self.noise).softmax:
            raise ValueError(
                f"rank={self.rank!r} is for the softmax, noise='gumbel', not for {self.noise!r}; "
                "set rank=None"
            )
        check_whole("n_draws", self.n_draws)
        check_choice("centre", self.centre, ("mean", "mode"))

    # Fitting

    def fit(self, task: Task) -> FittedPosterior:
        sizes = Sizes.of(task.sample.X, task.n_classes)
        work = Work.of(sizes, task.fit_intercept, noises.resolve(self.noise))
        plan = self.plan(work, task.prior)
        warning = None if plan.around == "linear" else work.warning()
        if warning is not None:
            warn_caller(warning)
        seen = Seen(float(task.sample.row_weights.sum()), 1)
        begun = None
        if plan.around != "mode":
            around = self._around(task, plan)
            trial = around.trial()
            if plan.around == "either" and trial is not None:
                begun = _better_mode(self, task, plan, trial)
            if begun is None:
                found, history = _linear_posterior(self, around, trial, plan)
                return FittedPosterior(found, np.nan, history, seen, bounds_evidence=False)
        return self.fit_posed(task, plan, pose(task, plan, noises.resolve(self.noise)), seen, begun)

    def fit_posed(
        self, task: Task, plan: Plan, posed: Posed, seen: Seen, begun: Begun | None = None
    ) -> FittedPosterior:
        """Around the mode, of rows wherever they are: those of the task are not looked at."""
        fit = _Fit(self, task, plan, posed, begun)
        posterior = fit.run()
        return FittedPosterior(posterior, fit.evidence, fit.history, seen, bounds_evidence=False)

    def _around(self, task: Task, plan: Plan) -> AroundLinear:
        noise = noises.resolve(self.noise)
        return AroundLinear(task, noise, self._linear_rank, plan.n_directions)

    @property
    def _linear_rank(self) -> int | Literal["auto"]:
        """Of the fit of `LinearClassifier`, where there is one."""
        return int(self.rank) if is_rank(self.rank) else "auto"

    def why_no_batches(self, prior: Prior) -> str | None:
        if self.covariance not in ("draws", "low-rank") and not is_rank(self.rank):
            return None
        if self.covariance != "draws":
            return (
                "partial_fit keeps a matrix per class or less of them, and not covariance="
                "'low-rank' or a rank; name 'auto', 'full', 'class' or 'diagonal', or use fit"
            )
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
        X, labels, row_weights = task.sample[:3]
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
        usual = prior == self.usual_prior
        return _laplace_plan.plan(self.covariance, self.rank, work, prior, usual, int(self.n_draws))

    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        noise = noises.resolve(self.noise)
        work = Work.of(sizes, fit_intercept, noise)
        plan = self.plan(work, prior)
        needed = 0
        if plan.around != "linear":
            needed = _laplace_plan.memory(plan, work, int(self.n_draws), n_threads)
        if plan.around != "mode":
            parameters = Parameters(
                noise, rank=self._linear_rank, fit_intercept=fit_intercept, n_threads=n_threads
            )
            around = memory_around_linear(parameters, sizes, dtype, work, plan)
            needed = max(needed, around)
        return needed

    def memory_remedy(self, prior: Prior) -> str:
        return (
            "set covariance='diagonal' or a smaller rank of the method, or fit fewer classes or "
            "features"
        )


class Begun(NamedTuple):
    """A prior that was learnt, and a mode near the one that is sought."""

    precisions: Floats
    mode: Floats


def _better_mode(method: Laplace, task: Task, plan: Plan, trial: Trial) -> Begun | None:
    """The mode with the prior, unless the fit of the trial predicts held-out rows better.

    By more than a standard error: around the mode all that is unknown is in the intervals.
    """
    kept = replace(task, sample=trial.kept)
    fit = _Fit(method, kept, plan, pose(kept, plan, noises.resolve(method.noise)))
    begun = fit.begin()
    weights = uncentred(begun.mode[None], fit.means)[0]
    scores = Design(trial.held_out.X, task.fit_intercept).product(weights.T)
    return None if trial.is_ahead_of(scores) else begun


def _linear_posterior(
    method: Laplace, around: AroundLinear, trial: Trial | None, plan: Plan
) -> tuple[NoisePosterior, History]:
    """The posterior around the fit of `LinearClassifier`, and how it came about."""
    began, task = time.perf_counter(), around.task
    found = around.run(trial)
    reason = f"{plan.reason}; around the fit of LinearClassifier"
    if trial is not None and plan.around == "either":
        reason += ", which predicts held-out rows better than the mode with the prior"
    choice = replace(plan, around="linear").told() | {
        "rank": found.rank,
        "reason": reason,
        **found.chosen._asdict(),
    }
    row = _row(1, time.perf_counter() - began, 0)
    row[LEARNT[0]] = float(np.log(found.chosen.scale**-2.0))
    return _posterior(method, task, found.mean, found.covariance), History([row], choice)


class _Fit:
    """One fit: its rows, likelihood and prior, and what becomes of them."""

    def __init__(
        self, method: Laplace, task: Task, plan: Plan, posed: Posed, begun: Begun | None = None
    ) -> None:
        self.method, self.task, self.plan, self.begun = method, task, plan, begun
        self.noise = noises.resolve(method.noise)
        self.likelihood, self.columns, self.means, self.make_frame = posed
        self.history = History(choice=replace(plan, around="mode").told())
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
        prior, near = self.begun or self._precisions(start)
        mode = self._mode(prior, near)
        frame = self._gaussian(mode, prior)
        self._weigh(frame, prior)
        mean = self._mean(prior, frame)
        covariance = uncentred_covariance(frame, self.means)
        return self._posterior(uncentred(mean[None], self.means)[0], covariance)

    def begin(self) -> Begun:
        """The prior and the mode, without what lies around it."""
        start = np.zeros(self.likelihood.shape)
        prior, near = self._precisions(start)
        return Begun(prior, self._mode(prior, near))

    def _mode(self, precision: Floats, start: Floats) -> Floats:
        return find_mode(self.likelihood, precision, self._prior(1).mean[None], start)[0]

    def _gaussian(self, mode: Floats, precision: Floats) -> GaussianAtMode:
        if self.plan.form == "low-rank":
            return low_rank_frame(self.likelihood, mode, precision, self.plan.n_directions)
        found: GaussianAtMode = self.make_frame(self.plan.form, self.likelihood, mode, precision)
        return found

    def _mean(self, precision: Floats, frame: GaussianAtMode) -> Floats:
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

    def _chains(
        self,
        kind: type[AnyChains],
        likelihood: Likelihood,
        start: Floats,
        prior: PriorChain | None = None,
    ) -> AnyChains:
        plan = self.plan
        prior = prior or self._prior(plan.n_chains)
        mean = prior.mean[None]

        def reframe(precision: Floats, near: Floats) -> Frame:
            mode, _ = find_mode(likelihood, precision, mean, near, kind.mode_tol)
            frame: Frame = self.make_frame(plan.frame, likelihood, mode, precision)
            return frame

        return kind(likelihood, prior, reframe, start, self.task.random_state)

    def _draws(self, start: Floats) -> ChainDraws:
        chains = self._chains(Chains, self.likelihood, start)
        with self._told(chains) as tell:
            drawn = chains.run(self.plan.n_kept, self.plan.every, self.plan.most_every, tell)
        self._judge(drawn.mixing)
        return drawn

    def _judge(self, mixing: Mixing) -> None:
        """Keep what is known of the chains, and warn where their draws are the posterior."""
        assert self.history.choice is not None
        self.history.choice.update(mixing.told())
        warning = mixing.warning()
        if warning is not None and self.plan.form == "draws":
            warn_caller(warning, ConvergenceWarning)

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
        few = first_rows(likelihood, rng)
        if few is not None:
            ahead = self._chains(ScaleChain, few, start)
            ahead.arrive()
            # Few rows may tell nothing of intercepts, whose scale then wanders off.
            learnt = ahead.prior
            start, prior = ahead.frame.mode, replace(learnt, intercepts=prior.intercepts)
        chain = self._chains(ScaleChain, likelihood, start, prior)
        with self._told(chain) as tell:
            precisions, mixing = chain.learn(self.plan.n_kept, tell)
        self._judge(mixing)
        return precisions, chain.frame.mode

    # What comes out

    def _weigh(self, frame: GaussianAtMode, precision: Floats) -> None:
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
        if not self.history:
            seconds = time.perf_counter() - self.began
            self.history.append(_row(1, seconds, self.likelihood.n_gradients))
        found = _posterior(self.method, self.task, mean, covariance)
        found.prior = WeightPrior(self._prior(1).mean, self.precisions, self.means)
        return found


def _row(iteration: int, seconds: float, gradients: int) -> dict[str, Any]:
    """Of the history, with nothing learnt of the prior."""
    row = {"iteration": iteration, "seconds": seconds, "gradients": gradients}
    return row | dict.fromkeys(LEARNT, np.nan)


def _posterior(method: Laplace, task: Task, mean: Floats, covariance: Covariance) -> NoisePosterior:
    return NoisePosterior(
        mean,
        covariance,
        intercept=task.fit_intercept,
        classes=task.classes,
        noise=noises.resolve(method.noise),
        n_draws=int(method.n_draws),
        seed=task.random_state.randint(np.iinfo(np.int32).max),
    )
