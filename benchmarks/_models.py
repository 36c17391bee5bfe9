"""Estimators that name what they depend on, for commands whose subject is not the defaults.

A benchmark that leaves a choice to the library measures something else once the library chooses
better.  So what decides a fit has to be given here: an argument that is left out is an error.
Commands that measure the defaults call the estimators themselves.
"""

from __future__ import annotations

from typing import Any

from bigcat import BayesianClassifier, EarlyStopping, LinearClassifier, Method
from bigcat.bayes import AugmentReducePosterior, IndependentBinary, Laplace
from bigcat.bounds import Bound
from bigcat.noise import Noise
from bigcat.samplers import Sampler
from bigcat.solvers import Solver


def linear(
    *,
    noise: str | Noise = "gumbel",
    method: str | Bound | Method,
    solver: Solver,
    sampler: str | Sampler,
    max_epochs: int,
    rank: int | None = None,
    l2: float | str = 0.0,
    early_stopping: bool | EarlyStopping = False,
    random_state: int | None = 0,
    n_threads: int = 1,
    **options: Any,
) -> LinearClassifier:
    """The softmax of full rank without a ridge or early stopping, on one thread.

    Arguments without a default, and those here, say otherwise.  Rates and sizes of batches are in
    the solver, numbers of draws in the sampler, which are objects.
    """
    if not isinstance(solver, Solver):
        raise TypeError(f"solver={solver!r} must be an object, which has the rate")
    if not isinstance(sampler, Sampler) and sampler != "everything":
        raise TypeError(f"sampler={sampler!r} must be an object, which has the number of draws")
    return LinearClassifier(
        noise=noise,
        method=method,
        solver=solver,
        sampler=sampler,
        max_epochs=max_epochs,
        rank=rank,
        l2=l2,
        early_stopping=early_stopping,
        random_state=random_state,
        n_threads=n_threads,
        progress=False,
        **options,
    )


def independent_binary(
    link: str,
    likelihood: str,
    *,
    covariance: str = "full",
    prior: Any = "gaussian",
    solver: str = "newton",
    tol: float = 1e-8,
    max_iter: int = 200,
    n_draws: int = 100,
    n_threads: int = 1,
) -> BayesianClassifier:
    """A posterior of independent binary regressions, to its optimum by Newton steps."""
    method = IndependentBinary(
        link=link,
        likelihood=likelihood,
        covariance=covariance,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        n_draws=n_draws,
    )
    return BayesianClassifier(method, prior, n_threads=n_threads, random_state=0, progress=False)


def weight_posterior(
    noise: str, *, max_epochs: int, prior: Any = "gaussian", n_draws: int = 100
) -> BayesianClassifier:
    """A posterior by augment and reduce: 32 sampled classes, AdaGrad of rate 0.3, all epochs."""
    method = AugmentReducePosterior(
        noise=noise,
        n_negatives=32,
        max_epochs=max_epochs,
        learning_rate=0.3,
        tol=0,
        n_draws=n_draws,
    )
    return BayesianClassifier(method, prior, random_state=0, progress=False)


def laplace(
    noise: str = "gumbel",
    *,
    covariance: str = "auto",
    rank: int | str | None = "auto",
    prior: Any = "learned",
    n_draws: int = 400,
    random_state: int = 0,
    n_threads: int = 1,
) -> BayesianClassifier:
    """The default posterior, with the prior's scale learned."""
    method = Laplace(noise=noise, covariance=covariance, rank=rank, n_draws=n_draws)
    return BayesianClassifier(
        method, prior, n_threads=n_threads, random_state=random_state, progress=False
    )
