"""The method of independent binary regressions, one for each class."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import DTypeLike
from sklearn.exceptions import ConvergenceWarning

from bigcat._warnings import warn_caller
from bigcat.bayes import _binary_memory
from bigcat.bayes._design import Design
from bigcat.bayes.averaging import averaging_weight
from bigcat.bayes.binary_fit import BinaryFit
from bigcat.bayes.binary_posterior import BinaryPosterior
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.likelihoods import LIKELIHOODS
from bigcat.bayes.links import LINKS
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.one_scale import OneScaleState
from bigcat.bayes.posterior import GaussianPosterior
from bigcat.bayes.priors import Prior
from bigcat.bayes.stochastic import Stream
from bigcat.bayes.weight_prior import WeightPrior
from bigcat.checks import check_choice, check_whole, is_number
from bigcat.rows import Sizes
from bigcat.training import progress
from bigcat.training.history import History

COVARIANCES = ("full", "diagonal")
SOLVERS = ("newton", "cavi")


@dataclass(frozen=True, repr=False)
class IndependentBinary(PosteriorMethod):
    """Binary regressions "is it this class?", whose answers become one probability per class.

    Their posteriors are found by closed variational inference, all classes at once (Wojnowicz et
    al., 2022, *Easy variational inference for categorical models via an independent binary
    approximation*).

    Parameters
    ----------
    link : {"probit", "logit"}, default="probit"
        Of the binary regressions.  With the probit and a prior that classes share all classes have
        one covariance, so it costs far less than the logit with ``covariance="full"``.
    likelihood : {"average", "conditioned", "marginalised"}, default="average"
        How K answers become one: exactly one regression says yes (CBC; with the logit link the
        softmax), the probability of each yes, normalised (CBM), or the average of the two with
        their posterior probabilities, `averaging_weight_`.
    covariance : {"full", "diagonal"}, default="full"
        Of the weights of a class; the diagonal one never forms an (n_features, n_features) array.
    solver : {"newton", "cavi"}, default="newton"
        Two ways to one optimum: Newton steps for blocks of classes, or the paper's coordinate
        ascent, which needs many more iterations.
    tol : float, default=1e-8
        Stop when an iteration adds less than this part of the ELBO; 0 makes all iterations.
    max_iter : int, default=200
    n_draws : int, default=100
        Most draws of each row's scores for `averaging_weight_`; large data take fewer.
    step_power : float, default=0.7
        `partial_fit` moves by t^-step_power in its t-th call; between 0.5 (exclusive) and 1.
    total_rows : int or None, default=None
        Rows that all batches of `partial_fit` have in total; None counts those seen so far.

    Notes
    -----
    Columns of `history_`: ``iteration``, ``seconds``, ``elbo``.

    Probabilities at the posterior mean are what the paper evaluates, and both likelihoods are then
    proper models of the data.  ``posterior="averaged"`` puts the expectation of each binary margin
    under the posterior in its place: Phi(x.mu / sqrt(1 + x'Sigma x)) exactly for the probit,
    MacKay's approximation for the logit.

    Examples
    --------
    >>> from bigcat.bayes import IndependentBinary
    >>> IndependentBinary(link="logit")
    IndependentBinary(link='logit')
    """

    name: ClassVar[str] = "independent-binary"
    posterior: ClassVar[type[GaussianPosterior]] = BinaryPosterior

    link: str = "probit"
    likelihood: str = "average"
    covariance: str = "full"
    solver: str = "newton"
    tol: float = 1e-8
    max_iter: int = 200
    n_draws: int = 100
    step_power: float = 0.7
    total_rows: int | None = None

    def __post_init__(self) -> None:
        check_choice("link", self.link, LINKS)
        check_choice("likelihood", self.likelihood, LIKELIHOODS)
        check_choice("covariance", self.covariance, COVARIANCES)
        check_choice("solver", self.solver, SOLVERS)
        if not (is_number(self.tol) and 0.0 <= self.tol < math.inf):
            raise ValueError(f"tol={self.tol!r} must be a finite number of at least 0")
        check_whole("max_iter", self.max_iter)
        check_whole("n_draws", self.n_draws)
        if not (is_number(self.step_power) and 0.5 < self.step_power <= 1.0):
            raise ValueError(f"step_power={self.step_power!r} must be above 0.5 and at most 1")
        if self.total_rows is not None:
            check_whole("total_rows", self.total_rows)

    # Fitting

    def fit(self, task: Task) -> FittedPosterior:
        X, labels, row_weights = task.sample[:3]
        design = Design(X, task.fit_intercept, row_weights)
        prior = task.prior.bind(task.n_classes, design.n_columns, task.fit_intercept)
        machine = BinaryFit(design, labels, task.n_classes, prior, self, task.n_threads)
        with progress.reporter(task.progress, self.max_iter, self.link, "ELBO") as report:
            found = machine.run(report)
        del machine, design
        if self.tol > 0.0 and not found.converged:
            warn_caller(
                f"the ELBO still grows after max_iter={self.max_iter} iterations; raise max_iter "
                + ("or tol" if self.solver == "newton" else "or tol, or take solver='newton'"),
                ConvergenceWarning,
            )
        n_rows = row_weights.sum()
        posterior = self._weighed(found.mean, found.covariance, task, n_rows)
        if isinstance(prior, OneScaleState):
            posterior.prior = WeightPrior(prior.mean, prior.values[None])
        seen = Seen(float(n_rows), 1)
        return FittedPosterior(posterior, found.elbo, History(found.history), seen)

    def why_no_batches(self, prior: Prior) -> str | None:
        if not prior.learnt:
            return None
        return (
            f"partial_fit supports the GaussianPrior and not prior={prior!r}, whose scales are "
            "learnt from all rows; use fit"
        )

    def fit_more(self, task: Task, last: FittedPosterior | None) -> FittedPosterior:
        """One natural-gradient step; `elbo` is then an estimate from the batch."""
        X, labels, row_weights = task.sample[:3]
        design = Design(X, task.fit_intercept, row_weights)
        stream = self._stream(task, design.n_columns, last)
        began = time.perf_counter()
        elbo = stream.step(design, labels, self.total_rows)
        history = History([] if last is None else last.history)
        seconds = (history[-1]["seconds"] if history else 0.0) + time.perf_counter() - began
        history.append({"iteration": len(history) + 1, "seconds": seconds, "elbo": elbo})
        n_rows = stream.rows_seen if self.total_rows is None else self.total_rows
        assert stream.covariance is not None
        posterior = self._weighed(stream.mean, stream.covariance, task, n_rows)
        seen = Seen(stream.rows_seen, stream.n_steps)
        return FittedPosterior(posterior, elbo, history, seen, stream)

    def _stream(self, task: Task, n_columns: int, last: FittedPosterior | None) -> Stream:
        """What goes on from the last fit: its stream, or a new one from its posterior."""
        if last is not None and not self._like(last.posterior):
            raise ValueError(
                "the last fit was by another method, link, covariance or kind of prior, which "
                "partial_fit cannot go on from; start with a new estimator, "
                "sklearn.base.clone(model)"
            )
        if last is not None and last.stream is not None:
            last_stream: Stream = last.stream
            return last_stream.copied()
        prior = task.prior.bind(task.n_classes, n_columns, task.fit_intercept)
        full, power = self.covariance == "full", float(self.step_power)
        stream = Stream(prior, task.n_classes, self.link, full, power)
        if last is not None:  # by `fit`, or from a file
            q = last.posterior
            stream.resume(q.mean, q.covariance_form, last.seen.rows, last.seen.steps)
        return stream

    def _like(self, q: GaussianPosterior) -> bool:
        """Is a posterior one that steps on batches give?"""
        form = q.covariance_form
        return (
            isinstance(q, BinaryPosterior)
            and q.link == self.link
            and form.diagonal == (self.covariance == "diagonal")
            and form.shared != LINKS[self.link].has_row_variance
        )

    def _weighed(
        self, mean: Any, covariance: Covariance, task: Task, n_rows: float
    ) -> BinaryPosterior:
        """The posterior with the weight of its likelihoods, for so many rows."""
        posterior = BinaryPosterior(
            mean,
            covariance,
            intercept=task.fit_intercept,
            classes=task.classes,
            link=self.link,
            likelihood=self.likelihood,
            averaging_weight=0.0 if self.likelihood == "marginalised" else 1.0,
        )
        if self.likelihood == "average":
            posterior.averaging_weight = averaging_weight(
                posterior, *task.sample[:3], task.random_state, int(self.n_draws), n_rows
            )
        return posterior

    # Memory

    def memory_needed(
        self, sizes: Sizes, dtype: DTypeLike, prior: Prior, *, fit_intercept: bool, n_threads: int
    ) -> int:
        stored = sizes.n_values + sizes.n_rows * fit_intercept if sizes.sparse else None
        return _binary_memory.forecast(
            sizes.n_rows,
            sizes.n_features + fit_intercept,
            sizes.n_classes,
            stored=stored,
            full=self.covariance == "full",
            row_variances=LINKS[self.link].has_row_variance,
            sharing=prior.sharing,
            averages=self.likelihood == "average",
            n_threads=n_threads,
        )

    def memory_remedy(self, prior: Prior) -> str:
        if self.covariance == "diagonal":
            return "fit fewer classes or features, or lower n_threads"
        remedy = "set covariance='diagonal' of the method"
        if prior.sharing == "coordinate" and not LINKS[self.link].has_row_variance:
            return f"this prior needs a covariance matrix for each class; {remedy}"
        return remedy
