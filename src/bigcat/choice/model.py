"""The estimator of discrete choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bigcat._warnings import warn_caller
from bigcat.bayes import GaussianPrior
from bigcat.choice import files
from bigcat.choice.analysis import Analysis
from bigcat.choice.covariance import classical, sandwich, solve_by_products
from bigcat.choice.data import (
    Array,
    Layout,
    Pairs,
    Rows,
    codes_of,
    column,
    numbers,
    read_long,
    read_pairs,
    read_table,
    read_wide,
)
from bigcat.choice.newton import Optimum, Penalised, maximise
from bigcat.choice.pairs_likelihood import PairsLikelihood
from bigcat.choice.rows_likelihood import RowsLikelihood
from bigcat.choice.sampling import SampledCases
from bigcat.choice.utility import Coding, Source, Term, Utility
from bigcat.estimators.options import explains_unknown
from bigcat.noise import Noise
from bigcat.noise import resolve as resolve_noise

_ESTIMATIONS = ("exact", "sampled", "mcfadden")
#: Pairs times variables that may be rows in memory, pairs from which fits start by a sample, and
#: pairs up to which constants alone are fitted.
_MAX_ROWS, _LARGE, _SMALL = 100_000_000, 20_000_000, 1_000_000


class ChoiceModel(Analysis, BaseEstimator):
    """Discrete choice by random utility: conditional logit, and probit with independent noise.

    The chosen alternative has the highest utility plus noise, and utilities are linear in their
    coefficients, which `fit` estimates by maximum likelihood.

    Parameters
    ----------
    utility : str, or sequence or mapping of variables
        A formula of up to three parts, ``"cost + freq | income | time"``: variables with one
        coefficient; variables with a coefficient for each alternative, among them a constant
        unless the part has ``0``; more of the latter.  Names and products (``a:b``) are read as
        they are; for anything else, such as ``C(mode)`` or ``np.log(cost)``, formulaic is needed
        (the extra ``formula``).  Or names of columns or products with one coefficient each; or a
        dict of names of coefficients with columns, products or functions of all columns, as in
        ``{"distance": lambda data: abs(data["home"] - data["place"])}``.
    by_alternative : sequence or mapping of variables, default=()
        Variables with a coefficient for each alternative, where `utility` is not a formula.  That
        of the reference is zero where a variable is the same for all alternatives of a case.
    constants : bool, optional
        Whether each alternative but the reference has a constant.  Default: the formula says;
        without a formula there are none.
    reference : label, optional
        Alternative without a constant; default: the first in alphabetical order.
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        Gumbel noise is the conditional logit, Gaussian noise the probit with independent noise.
    offset : str or callable, optional
        Variable whose coefficient is 1.
    fixed : dict of str to float, optional
        Coefficients that are not estimated.
    bounds : dict of str to (low, high), optional
        Bounds of coefficients; None is no bound.
    constants_l2 : float, default=0.0
        Ridge on the constants: the log-likelihood is reduced by half of it times their squares.
    prior : bigcat.bayes.GaussianPrior, optional
        Prior of all coefficients; None is flat.  Estimates are then posterior modes.
    posterior : bool, default=False
        Whether to draw from the posterior, approximated by a Gaussian around its mode: `draws_`.
    estimation : {"exact", "sampled", "mcfadden"}, default="exact"
        For choosers beside a table of alternatives.  "exact" visits all alternatives of all cases;
        "sampled" draws alternatives until that moves the estimate by less than about 0.03 standard
        errors, which `sampling_error_` tells; it pays from about 10,000 alternatives on.
        "mcfadden" fits to the chosen and some drawn alternatives with McFadden's correction, and is
        less efficient.
    n_sampled : int, default=100
        Alternatives drawn per case.
    sampling : str, optional
        Column of the alternatives in proportion to which they are drawn; default: all alike.
    max_iter : int, default=100
        Most Newton steps.
    random_state : int, RandomState or None, default=None
        For draws of alternatives and of the posterior.

    Attributes
    ----------
    coef_ : array of shape (n_coefficients,)
    coef_names_ : list of str
    alternatives_ : array of shape (n_alternatives,)
    std_errors_, robust_std_errors_ : arrays of shape (n_coefficients,)
        NaN where a coefficient is fixed or at a bound.  Robust ones are clustered by `groups`.
    covariance_, robust_covariance_ : arrays of shape (n_coefficients, n_coefficients)
        With more than 5,000 coefficients, those of the coefficients that are not constants, and
        only `covariance_`.
    log_likelihood_, null_log_likelihood_, constants_log_likelihood_ : float
        At the estimate, with equal probabilities, and with constants alone (NaN where that would
        take a fit with very many constants).
    n_cases_ : int
    n_iter_ : int
    converged_ : bool
    seconds_ : float
    draws_ : array of shape (1000, n_coefficients)
        With ``posterior=True``.
    sampling_error_ : array of shape (n_coefficients,)
        With ``estimation="sampled"``: standard deviation that drawing adds, in standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat import ChoiceModel
    >>> rng = np.random.default_rng(0)
    >>> trips = {
    ...     "trip": np.repeat(np.arange(500), 2),
    ...     "mode": np.tile(["bus", "car"], 500),
    ...     "cost": rng.uniform(1, 9, 1000),
    ... }
    >>> utility = -0.5 * trips["cost"] + rng.gumbel(size=1000)
    >>> trips["chosen"] = (utility.reshape(500, 2).argmax(1)[:, None] == [0, 1]).ravel()
    >>> model = ChoiceModel("cost").fit(trips, choice="chosen", case="trip", alternative="mode")
    >>> model.coef_names_
    ['cost', 'constant:car']
    >>> bool(abs(model.coef_[0] + 0.5) < 2 * model.std_errors_[0])
    True
    """

    #: Names of parameters that other estimators have, with the place of each here.
    moved: ClassVar[dict[str, str]] = {
        "C": "prior=GaussianPrior(scale=sqrt(C))",
        "l2": "prior=GaussianPrior(scale=1 / sqrt(l2))",
        "max_epochs": "max_iter",
    }

    @explains_unknown
    def __init__(
        self,
        utility: str | Sequence[str] | Mapping[str, Source],
        *,
        by_alternative: Sequence[str] | Mapping[str, Source] = (),
        constants: bool | None = None,
        reference: Any = None,
        noise: str | Noise = "gumbel",
        offset: Source | None = None,
        fixed: Mapping[str, float] | None = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        constants_l2: float = 0.0,
        prior: GaussianPrior | None = None,
        posterior: bool = False,
        estimation: str = "exact",
        n_sampled: int = 100,
        sampling: str | None = None,
        max_iter: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.utility = utility
        self.by_alternative = by_alternative
        self.constants = constants
        self.reference = reference
        self.noise = noise
        self.offset = offset
        self.fixed = fixed
        self.bounds = bounds
        self.constants_l2 = constants_l2
        self.prior = prior
        self.posterior = posterior
        self.estimation = estimation
        self.n_sampled = n_sampled
        self.sampling = sampling
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self,
        data: Any,
        *,
        choice: str | None = None,
        case: str | None = None,
        alternative: str | None = None,
        alternatives: Any = None,
        columns: str | None = None,
        available: Any = None,
        counts: str | None = None,
        weights: str | None = None,
        groups: str | None = None,
    ) -> ChoiceModel:
        """Estimate the coefficients.

        Parameters
        ----------
        data : table
            A data frame of pandas or polars, an Arrow table or a dict of columns, in one of three
            forms.  *Long*: a row per case and alternative, with `case` and `alternative`.  *Wide*:
            a row per case, with `columns`.  *Choosers*: a row per case, with a table of
            `alternatives`.
        choice : str
            Column of choices: 1 for the chosen row and 0 for others of a long table, else the
            label of the chosen alternative.
        case : str, optional
            Column that names the cases; a long table needs it.
        alternative : str, optional
            Column that names the alternatives, of a long table or of the table of `alternatives`
            (default there: the name of `choice`).
        alternatives : table, or sequence or mapping of labels, optional
            A table of alternatives; or for a wide table, labels of the alternatives as in
            `choice`, as a dict where columns name them otherwise.
        columns : str, optional
            Pattern of the columns of a wide table, such as ``"{variable}.{alternative}"``.
        available : str, array or callable, optional
            Column, pattern with ``{alternative}``, mask of the shape of `predict_proba`, or a
            function of all columns that returns a mask.
        counts : str, optional
            In place of `choice`: column, or pattern with ``{alternative}``, with the number of
            choices.
        weights : str, optional
            Column of weights of cases.
        groups : str, optional
            Column of groups, such as persons, by which robust standard errors are clustered.

        Returns
        -------
        self : ChoiceModel
        """
        begun, before = time.perf_counter(), self.__dict__.copy()
        if self.estimation not in _ESTIMATIONS:
            known = ", ".join(map(repr, _ESTIMATIONS))
            raise ValueError(f"estimation={self.estimation!r} is not known; choose one of {known}")
        if self.estimation != "exact" and (alternatives is None or columns is not None):
            raise ValueError(
                f"estimation={self.estimation!r} is for choosers beside a table of alternatives; "
                "use 'exact' for long and wide tables"
            )
        if self.n_sampled < 1:
            raise ValueError(f"n_sampled={self.n_sampled} must be at least 1")
        names = () if columns is None else _names_of(alternatives)
        if alternatives is not None and columns is None and alternative is None:
            alternative = choice
        pattern = available if isinstance(available, str) else None
        layout = Layout(choice, case, alternative, columns, names, counts, weights, groups, pattern)
        try:
            for name in [name for name in before if name.endswith("_")]:
                delattr(self, name)
            self._fit(data, layout, alternatives, available)
        except BaseException:  # the model of an earlier fit stays
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        self.seconds_ = time.perf_counter() - begun
        return self

    def _fit(self, data: Any, layout: Layout, alternatives: Any, available: Any) -> None:
        self.layout_ = layout
        self.utility_ = Utility.of(self.utility, self.by_alternative, self.constants)
        found = self._read(data, alternatives, available, fitting=True)
        self.alternatives_, self.n_cases_ = found.labels, found.n_cases
        self.coding_ = self._coding(found)
        self.coef_names_ = self.coding_.names
        self._check_constants(found.totals())
        likelihood = self._beside(found)
        target = self._target(likelihood)
        self._estimate(target, likelihood, found.groups)
        self._set_figures(found, target)
        if self.posterior:
            self.draws_ = self._draw(1000, check_random_state(self.random_state))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the fitted model to a file, whose usual ending is ``.safetensors``.

        Functions of the utility and noises of your own are left out; `load` takes them.
        """
        check_is_fitted(self, "coef_")
        return files.write(self, path)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        noise: Noise | None = None,
    ) -> ChoiceModel:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : path
        functions : dict, optional
            Functions of the utility by the names of their coefficients, and that of the offset
            under "offset".
        noise : Noise, optional
            The noise of the fit, where it was one of your own.
        """
        return files.read(cls, path, functions or {}, noise)

    # Reading

    def _read(self, data: Any, alternatives: Any, available: Any, fitting: bool) -> Rows | Pairs:
        table, layout = read_table(data), self.layout_
        available = layout.available if available is None else available
        if layout.columns is not None:
            return read_wide(table, layout, available, fitting)
        if alternatives is None:
            return read_long(table, layout, available, fitting)
        pairs = read_pairs(table, layout, alternatives, available, fitting)
        if self._in_pairs(resolve_noise(self.noise)):
            return pairs
        if self.estimation != "exact":
            raise ValueError(
                f"estimation={self.estimation!r} is for choosers beside a table of alternatives, "
                "with Gumbel noise and one coefficient per variable; use 'exact'"
            )
        n_terms = len(self.utility_.generic) + len(self.utility_.specific)
        if pairs.n_cases * len(pairs.labels) * max(1, n_terms) > _MAX_ROWS:
            raise ValueError(
                f"{pairs.n_cases:,} cases and {len(pairs.labels):,} alternatives are too many for "
                "this model; use Gumbel noise and variables with one coefficient, or fewer cases"
            )
        return pairs.rows()

    def _in_pairs(self, noise: Noise) -> bool:
        """Return True if pairs of choosers and alternatives are made when they are needed."""
        utility = self.utility_
        simple = all(isinstance(term, Term) for term in utility.generic)
        return noise.softmax and simple and not utility.specific

    def _coding(self, found: Rows | Pairs) -> Coding:
        """Return the assignment of coefficients to variables and alternatives."""
        reference = 0
        if self.reference is not None:
            wanted = np.array([self.reference])
            reference = int(codes_of(wanted, found.labels, "reference")[0])
        if isinstance(found, Rows):
            return Coding.of(self.utility_, found, reference)
        constants = [("constant", False)] if self.utility_.constants else []
        names = [term.name for term in self.utility_.terms_of_pairs()]
        return Coding(names, constants, found.labels, reference)

    def _beside(
        self, found: Rows | Pairs, like: Mapping[Any, Any] | None = None
    ) -> RowsLikelihood | PairsLikelihood:
        """Return the likelihood of the utility beside data."""
        coding, noise = self.coding_, resolve_noise(self.noise)
        offset = None if self.offset is None else Term("offset", self.offset)
        own = np.arange(len(found.labels))
        if coding.specific:
            own = self._own(found.labels, like)
        if isinstance(found, Rows):
            X = coding.matrix(self.utility_, found, own[found.alternative])
            given = np.zeros(X.shape[0]) if offset is None else offset.value(found.columns)
            return RowsLikelihood(X, given, found, noise)
        constant, n_constants = np.full(len(own), -1), 0
        if self.utility_.constants:
            constant = np.where(own == coding.reference, -1, own - (own > coding.reference))
            n_constants = len(coding.labels) - 1
        terms = self.utility_.terms_of_pairs()
        return PairsLikelihood(found, terms, offset, constant, n_constants)

    def _own(self, labels: Array, like: Mapping[Any, Any] | None) -> Array:
        """Return for each label the alternative of the fit whose coefficients it has."""
        wanted = [(like or {}).get(label, label) for label in labels.tolist()]
        return codes_of(np.array(wanted), self.alternatives_, "alternative")

    # Estimating

    def _check_constants(self, totals: Array) -> None:
        """Raise ValueError for alternatives that are never chosen, whose constants diverge."""
        known = {*(self.fixed or {}), *(self.bounds or {})}
        if not self.utility_.constants or self.constants_l2 or self.prior is not None:
            return
        never = [
            label
            for label in self.alternatives_[totals == 0.0].tolist()
            if f"constant:{label}" not in known
        ]
        if never:
            raise ValueError(
                f"{len(never):,} alternatives are never chosen, such as {never[0]!r}, so they have "
                "no finite constant; leave them out, or shrink constants by constants_l2"
            )

    def _numbers(self, given: Mapping[str, Any] | None, parameter: str) -> dict[int, Any]:
        """Return values by the numbers of coefficients; ValueError for an unknown name."""
        places = {name: k for k, name in enumerate(self.coef_names_)}
        if unknown := set(given or {}) - set(places):
            shown = ", ".join(self.coef_names_[:20])
            raise ValueError(f"{parameter} names {min(unknown)!r}; the coefficients are {shown}")
        return {places[name]: value for name, value in (given or {}).items()}

    def _target(self, likelihood: RowsLikelihood | PairsLikelihood) -> Penalised:
        """Return the penalised log-likelihood that `fit` maximises."""
        n = len(self.coef_names_)
        precision, mean = np.zeros(n), np.zeros(n)
        if self.prior is not None:
            if not isinstance(self.prior, GaussianPrior):
                raise TypeError(f"prior={self.prior!r} is not a bigcat.bayes.GaussianPrior")
            known = self.prior.bind(1, n, False)
            precision += known.precision
            mean += known.mean
        if self.constants_l2 < 0.0:
            raise ValueError(f"constants_l2={self.constants_l2} must be zero or more")
        constants = np.array([name.startswith("constant:") for name in self.coef_names_], bool)
        precision[constants] += self.constants_l2
        if self.estimation == "mcfadden" and isinstance(likelihood, PairsLikelihood):
            likelihood = self._sampled(likelihood).likelihood()
        return Penalised(likelihood, precision, mean)

    def _sampled(self, likelihood: PairsLikelihood) -> SampledCases:
        q = np.ones(likelihood.n_alternatives)
        if self.sampling is not None:
            q = numbers(column(likelihood.pairs.alternatives, self.sampling), self.sampling)
            if not (q > 0.0).all():
                raise ValueError(
                    f"{self.sampling} is {q.min()} for an alternative; give values above zero"
                )
        random_state = check_random_state(self.random_state)
        return SampledCases(likelihood, q / q.sum(), self.n_sampled, random_state)

    def _estimate(
        self,
        target: Penalised,
        likelihood: RowsLikelihood | PairsLikelihood,
        groups: Array | None,
    ) -> None:
        n = len(self.coef_names_)
        start, free = np.zeros(n), np.ones(n, bool)
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        for k, value in self._numbers(self.fixed, "fixed").items():
            start[k] = low[k] = high[k] = float(value)
            free[k] = False
        for k, (least, most) in self._numbers(self.bounds, "bounds").items():
            low[k] = -np.inf if least is None else float(least)
            high[k] = np.inf if most is None else float(most)
            if not low[k] < high[k]:
                name = self.coef_names_[k]
                raise ValueError(f"bounds of {name} are {low[k]} and {high[k]}; give (low, high)")
        start = np.clip(start, low, high)
        limits = self.coef_names_, free, low, high, self.max_iter
        by_sample = self.estimation == "sampled"
        if isinstance(likelihood, PairsLikelihood):
            large = likelihood.n_cases * likelihood.n_alternatives > _LARGE
            if by_sample or (large and not self.utility_.constants):
                cases = self._sampled(likelihood)
                first = Penalised(cases.likelihood(), target.precision, target.mean)
                optimum = maximise(first, start, *limits)
                if by_sample:
                    self._improve(cases, optimum, target, groups)
                    return
                start = optimum.coef
        optimum = maximise(target, start, *limits)
        self.coef_, self.n_iter_, self.converged_ = optimum.coef, optimum.n_iter, optimum.converged
        penalty = 0.5 * float(target.precision @ (self.coef_ - target.mean) ** 2)
        self.log_likelihood_ = optimum.derivatives.value + penalty
        self._set_covariances(target, optimum, groups)

    def _improve(
        self, cases: SampledCases, optimum: Optimum, target: Penalised, groups: Array | None
    ) -> None:
        """Go from McFadden's estimate to the maximum, with draws by mean probabilities."""
        if self.utility_.constants or self.bounds:
            raise ValueError("estimation='sampled' takes no constants and no bounds; use 'exact'")
        chances = cases.full.mean_probabilities(optimum.coef, cases.random_state)
        cases.probabilities = 0.9 * chances + 0.1 * cases.probabilities
        free = optimum.free
        found = cases.improve(optimum.coef, free, target)
        self.coef_, self.log_likelihood_ = found.coef, found.log_likelihood
        self.n_iter_, self.converged_ = optimum.n_iter + 2, optimum.converged
        self.sampling_error_ = np.full(len(free), np.nan)
        self.sampling_error_[free] = found.error
        scores = [(slice(None), found.scores)]
        self._set_errors(
            classical(found.information, free),
            free,
            scores,
            groups,
            found.noise[np.ix_(free, free)],
        )

    def _set_errors(
        self,
        covariance: Array,
        free: Array,
        scores: Iterable[tuple[slice, Array]],
        groups: Array | None,
        noise: Array | float = 0.0,
    ) -> None:
        self.covariance_ = covariance
        self.robust_covariance_ = sandwich(covariance, free, scores, groups, noise)
        self.std_errors_ = np.sqrt(np.diag(self.covariance_))
        self.robust_std_errors_ = np.sqrt(np.diag(self.robust_covariance_))

    def _set_covariances(self, target: Penalised, optimum: Optimum, groups: Array | None) -> None:
        free, information = optimum.free, optimum.derivatives.information
        if information is not None:
            scores = target.likelihood.scores(self.coef_)
            self._set_errors(classical(information, free), free, scores, groups)
            return
        self.robust_covariance_ = None
        self.std_errors_ = np.full(len(free), np.nan)
        self.robust_std_errors_ = self.std_errors_.copy()
        if not isinstance(target.likelihood, PairsLikelihood):
            self.covariance_ = np.zeros((0, 0))
            warn_caller(
                f"no standard errors: the matrix of {len(free):,} coefficients is too large; "
                "give choosers beside a table of alternatives, or fewer coefficients"
            )
            return
        likelihood, n_terms = target.likelihood, len(target.likelihood.terms)
        squares, cross, diagonal = likelihood.blocks(self.coef_)
        ridge = target.precision[n_terms:, None]
        turned = solve_by_products(
            lambda right: likelihood.constants_product(self.coef_, right) + ridge * right,
            cross,
            diagonal + ridge[:, 0],
        )
        squares = squares + np.diag(target.precision[:n_terms]) - cross.T @ turned
        self.covariance_ = classical(squares, free[:n_terms])
        self.std_errors_[:n_terms] = np.sqrt(np.diag(self.covariance_))

    def _set_figures(self, found: Rows | Pairs, target: Penalised) -> None:
        """Compare with equal probabilities, and with constants alone."""
        fixed = len(self.fixed or {})
        self.n_free_ = len(self.coef_names_) - fixed
        self.constants_log_likelihood_ = np.nan
        if self.estimation == "mcfadden":  # a likelihood of its own, of the sampled alternatives
            zeros = np.zeros(len(self.coef_names_))
            self.null_log_likelihood_ = float(target.likelihood.at(zeros, 0).value)
            return
        if isinstance(found, Pairs) and found.n_cases * len(found.labels) <= _SMALL:
            found = found.rows()
        n, counts = len(found.labels), found.totals()
        if isinstance(found, Pairs):
            sizes, weights = found.sizes(), found.weights
        else:
            sizes = np.diff(found.starts)
            weights = np.add.reduceat(found.chosen, found.starts[:-1])
        self.null_log_likelihood_ = -float(weights @ np.log(sizes))
        if (sizes == n).all():
            counts = counts[counts > 0]
            self.constants_log_likelihood_ = float(counts @ np.log(counts / counts.sum()))
        elif isinstance(found, Rows) and n <= 200:
            coding = Coding([], [("constant", False)], found.labels, int(counts.argmax()))
            names, free = coding.names, np.delete(counts, coding.reference) > 0
            X, zeros = coding.matrix(Utility([], [], True), found), np.zeros(len(found.chosen))
            noise = resolve_noise(self.noise)
            likelihood = RowsLikelihood(X, zeros, found, noise)
            prior = Penalised(likelihood, np.zeros(n - 1), np.zeros(n - 1))
            low = np.where(free, -np.inf, -30.0)
            done = maximise(prior, np.where(free, 0.0, -30.0), names, free, low, -low, 100)
            self.constants_log_likelihood_ = done.derivatives.value

    def _draw(self, n_draws: int, random_state: np.random.RandomState) -> Array:
        """Draw coefficients from the Gaussian around the estimate."""
        n = len(self.covariance_)
        free = np.isfinite(np.diag(self.covariance_))
        if not free.any() or n < len(self.coef_):
            raise ValueError("the covariance of the constants is not known; use n_draws=0")
        root = np.linalg.cholesky(self.covariance_[np.ix_(free, free)])
        draws = np.tile(self.coef_, (n_draws, 1))
        draws[:, free] += random_state.standard_normal((n_draws, int(free.sum()))) @ root.T
        return draws


def _names_of(alternatives: Any) -> tuple[tuple[Any, str], ...]:
    """Return labels of a wide table's alternatives and their names in its columns."""
    if alternatives is None:
        raise ValueError("a wide table needs alternatives=, the labels of its alternatives")
    if isinstance(alternatives, Mapping):
        return tuple((label, str(name)) for label, name in alternatives.items())
    return tuple((label, str(label)) for label in alternatives)
