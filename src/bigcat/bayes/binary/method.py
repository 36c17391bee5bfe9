"""The method of independent binary regressions, one for each class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import DTypeLike
from sklearn.exceptions import ConvergenceWarning

from bigcat._warnings import warn_caller
from bigcat.bayes._design import Design
from bigcat.bayes.binary.averaging import averaging_weight
from bigcat.bayes.binary.fit import BinaryFit, class_blocks
from bigcat.bayes.binary.likelihoods import LIKELIHOODS
from bigcat.bayes.binary.links import LINKS
from bigcat.bayes.binary.posterior import BinaryPosterior
from bigcat.bayes.covariance import Covariance
from bigcat.bayes.covariance.pairs import PAIRS_CHUNK
from bigcat.bayes.method import FittedPosterior, PosteriorMethod, Seen, Task
from bigcat.bayes.posterior import BLOCK, GaussianPosterior
from bigcat.bayes.priors import Prior, WeightPrior
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
        Of the binary regressions.  With the probit all classes have one covariance, so it costs far
        less than the logit with ``covariance="full"``.
    likelihood : {"average", "conditioned", "marginalised"}, default="average"
        How K answers become one: exactly one regression says yes (CBC; with the logit link the
        softmax), the probability of each yes, normalised (CBM), or the average of the two with
        their posterior probabilities, `averaging_weight_`.
    covariance : {"full", "diagonal"}, default="full"
        Of the weights of a class; the diagonal one never forms an (n_features, n_features) array.
    solver : {"newton", "cavi"}, default="newton"
        Two ways to one optimum: Newton steps for blocks of classes, or the paper's coordinate
        ascent, which needs many more iterations and ``covariance="full"``.
    tol : float, default=1e-8
        Stop when an iteration adds less than this part of the ELBO; 0 makes all iterations.
    max_iter : int, default=200
    n_draws : int, default=100
        Most draws of each row's scores for `averaging_weight_`; large data take fewer.

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

    def __post_init__(self) -> None:
        check_choice("link", self.link, LINKS)
        check_choice("likelihood", self.likelihood, LIKELIHOODS)
        check_choice("covariance", self.covariance, COVARIANCES)
        check_choice("solver", self.solver, SOLVERS)
        if not (is_number(self.tol) and 0.0 <= self.tol < math.inf):
            raise ValueError(f"tol={self.tol!r} must be a finite number of at least 0")
        check_whole("max_iter", self.max_iter)
        check_whole("n_draws", self.n_draws)
        if self.solver == "cavi" and self.covariance == "diagonal":
            raise ValueError(
                "solver='cavi' is for covariance='full'; set solver='newton' for 'diagonal'"
            )

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
        posterior.prior = WeightPrior(prior.mean, prior.precision[None])
        seen = Seen(float(n_rows), 1)
        return FittedPosterior(posterior, found.elbo, History(found.history), seen)

    def _weighed(
        self, mean: Any, covariance: Covariance, task: Task, n_rows: float
    ) -> BinaryPosterior:
        """Return the posterior with the weight of its likelihoods, for `n_rows` rows."""
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
        """Return the bytes that a fit needs beside the data."""
        n, K, M = sizes.n_rows, sizes.n_classes, sizes.n_features + fit_intercept
        full, own = self.covariance == "full", LINKS[self.link].has_row_variance
        stored = sizes.n_values + n * fit_intercept if sizes.sparse else n * M
        rows = (1.5 if full or not sizes.sparse else 2.5) * stored
        posterior = K * M * (1 + own * (M if full else 1))
        blocks = class_blocks(n, K)
        width = len(blocks[0])
        # Scores of a block that live at once, and the matrices of its classes.
        a_block = (6.0 + 2.0 * own) * n * width + 8.0 * M * width
        if full and own:
            a_block += min(PAIRS_CHUNK, n * M**2 / 2) + 5.0 * width * M**2
        fit = rows + posterior + 6.0 * full * M**2 + min(n_threads, len(blocks)) * a_block
        some = min(n, BLOCK // K + 1)
        draws = (9.5 + 2.0 * own) * some * K + (0 if sizes.sparse else some * M)
        averaging = posterior + K * M + draws if self.likelihood == "average" else 0.0
        return int(8 * max(fit, averaging))

    def memory_remedy(self, prior: Prior) -> str:
        """Say what needs less memory."""
        if self.covariance == "diagonal":
            return "fit fewer classes or features, or lower n_threads"
        return "set covariance='diagonal' of the method"
