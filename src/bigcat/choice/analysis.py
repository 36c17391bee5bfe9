"""Results of a fitted model of choices: tables, predictions, elasticities, tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bigcat.choice.covariance import ChiSquaredTest
from bigcat.choice.data import Array, Layout, Pairs, Rows, codes_of
from bigcat.inference import ResultsTable, quantile_names, wald_columns

if TYPE_CHECKING:
    from bigcat.choice.pairs_likelihood import PairsLikelihood
    from bigcat.choice.rows_likelihood import RowsLikelihood
    from bigcat.choice.utility import Coding, Utility


#: Alternatives for each of which shares are computed anew.
_MAX_CHANGED = 100


class Analysis:
    """Methods of a fitted `ChoiceModel`."""

    utility: Any
    alternatives_: Array
    coef_: Array
    coef_names_: list[str]
    covariance_: Array
    robust_covariance_: Array | None
    std_errors_: Array
    robust_std_errors_: Array
    log_likelihood_: float
    null_log_likelihood_: float
    constants_log_likelihood_: float
    layout_: Layout
    n_cases_: int
    n_free_: int
    seconds_: float
    noise: Any
    random_state: Any
    coding_: Coding
    utility_: Utility
    _read: Callable[..., Rows | Pairs]
    _beside: Callable[..., RowsLikelihood | PairsLikelihood]
    _draw: Callable[..., Array]

    def summary(self, *, level: float = 0.95, robust: bool = True) -> ResultsTable:
        """Return the table of estimates, with the figures of the whole model.

        Parameters
        ----------
        level : float, default=0.95
            Probability of covering of the intervals.
        robust : bool, default=True
            Whether z, p and intervals follow from robust standard errors; these are clustered
            where the fit had `groups`.

        Returns
        -------
        ResultsTable
            It prints as text, and has `to_frame`, `to_latex` and `to_html`.
        """
        check_is_fitted(self, "coef_")
        robust = robust and self.robust_covariance_ is not None
        errors = self.robust_std_errors_ if robust else None
        columns = wald_columns(self.coef_, self.std_errors_, robust_std_errors=errors, level=level)
        final, null, n = self.log_likelihood_, self.null_log_likelihood_, self.n_free_
        figures = {
            "cases": self.n_cases_,
            "coefficients": n,
            "log-likelihood": final,
            "with equal probabilities": null,
            "with constants only": self.constants_log_likelihood_,
            "LR test of all coefficients": 2.0 * (final - null),
            "rho-squared": 1.0 - final / null,
            "adjusted rho-squared": 1.0 - (final - n) / null,
            "AIC": 2.0 * (n - final),
            "BIC": n * np.log(self.n_cases_) - 2.0 * final,
            "seconds": self.seconds_,
        }
        return ResultsTable(
            {"coefficient": self.coef_names_, **columns},
            title=f"Discrete choice, {getattr(self.noise, 'name', self.noise)} noise",
            figures=figures,
        )

    def predict_proba(
        self,
        data: Any,
        *,
        alternatives: Any = None,
        available: Any = None,
        like: Mapping[Any, Any] | None = None,
    ) -> Array:
        """Return choice probabilities.

        Parameters
        ----------
        data, alternatives, available
            As in `fit`, in the same form; no choices are needed.  A table of alternatives may
            have other rows than that of the fit.
        like : dict, optional
            For new alternatives, the one of the fit whose constant and coefficients they take.

        Returns
        -------
        array of shape (n_rows,) or (n_cases, n_alternatives)
            One probability per row of a long table, else one column per alternative, in the order
            of the table of alternatives; zero where one is not available.
        """
        return self._likelihood(data, alternatives, available, like).probabilities(self.coef_)

    def score(self, data: Any, *, alternatives: Any = None, available: Any = None) -> float:
        """Return the mean log-likelihood of the choices in data, per choice."""
        check_is_fitted(self, "coef_")
        found = self._read(data, alternatives, available, fitting=True)
        likelihood = self._beside(found)
        total = found.chosen.sum() if isinstance(found, Rows) else found.weights.sum()
        return float(likelihood.at(self.coef_, 0).value / total)

    def shares(
        self,
        data: Any,
        *,
        alternatives: Any = None,
        available: Any = None,
        like: Mapping[Any, Any] | None = None,
        without: Sequence[Any] = (),
        level: float = 0.95,
        n_draws: int = 100,
    ) -> ResultsTable:
        """Return market shares: the mean probability of each alternative, with intervals.

        Parameters
        ----------
        data, alternatives, available, like
            As in `predict_proba`.
        without : sequence of labels
            Alternatives that are taken away.
        level : float, default=0.95
        n_draws : int, default=100
            Draws of the coefficients, from which intervals follow; 0 for none.

        Returns
        -------
        ResultsTable
        """
        check_is_fitted(self, "coef_")
        found = self._read(data, alternatives, available, fitting=False)
        if without:
            found = found.without(codes_of(np.array(without), found.labels, "without"))
        model = self._beside(found, like)
        columns = {"alternative": model.labels, "share": model.shares(self.coef_[None])[0]}
        if n_draws:
            draws = model.shares(self._draw(n_draws, check_random_state(self.random_state)))
            tail = 0.5 - 0.5 * level
            names = quantile_names(level)
            columns["std_error"] = draws.std(axis=0)
            columns |= dict(zip(names, np.quantile(draws, [tail, 1.0 - tail], axis=0)))
        return ResultsTable(columns, title="Shares")

    def elasticities(
        self,
        data: Any,
        variable: str,
        *,
        alternatives: Any = None,
        available: Any = None,
        of: Sequence[Any] | None = None,
    ) -> ResultsTable:
        """Return elasticities of shares: their relative change per relative change of a variable.

        Parameters
        ----------
        data, alternatives, available
            As in `predict_proba`.
        variable : str
            Column of the data.
        of : sequence of labels, optional
            Alternatives for which the variable changes; default: all, at most 100.  A variable
            that is the same for all alternatives of a case changes for all of them at once.

        Returns
        -------
        ResultsTable
            One row per alternative and one column per changed alternative: own elasticities are
            those where both are the same.
        """
        return self._effects(data, variable, alternatives, available, of, True, "Elasticities")

    def marginal_effects(
        self,
        data: Any,
        variable: str,
        *,
        alternatives: Any = None,
        available: Any = None,
        of: Sequence[Any] | None = None,
    ) -> ResultsTable:
        """Return marginal effects: the change of shares per unit of a variable.

        The parameters are those of `elasticities`.
        """
        return self._effects(data, variable, alternatives, available, of, False, "Marginal effects")

    def _effects(
        self,
        data: Any,
        variable: str,
        alternatives: Any,
        available: Any,
        of: Sequence[Any] | None,
        relative: bool,
        title: str,
    ) -> ResultsTable:
        check_is_fitted(self, "coef_")
        found = self._read(data, alternatives, available, fitting=False)
        which: dict[str, int | None] = {"all": None}
        if found.varies(variable):
            labels = found.labels if of is None else np.array(of)
            if len(labels) > _MAX_CHANGED:
                raise ValueError(
                    f"{variable} differs between {len(labels):,} alternatives; name at most "
                    f"{_MAX_CHANGED} of them in of="
                )
            which = {str(k): int(c) for k, c in zip(labels, codes_of(labels, found.labels, "of"))}

        def shares(k: int | None, by: float) -> Array:
            likelihood = self._beside(found.changed(variable, k, by, relative))
            return np.asarray(likelihood.shares(self.coef_[None])[0])

        step = 1e-4 if relative else 1e-4 * found.scale(variable)
        columns: dict[str, Array] = {"alternative": found.labels}
        for name, k in which.items():
            gradient = (shares(k, step) - shares(k, -step)) / (2.0 * step)
            columns[name] = gradient / shares(k, 0.0) if relative else gradient
        return ResultsTable(columns, title=f"{title} of shares by {variable}")

    def willingness_to_pay(self, cost: str, *, level: float = 0.95) -> ResultsTable:
        """Return ratios of coefficients to that of the cost, by the delta method.

        Parameters
        ----------
        cost : str
            Name of the coefficient of the cost.
        level : float, default=0.95

        Returns
        -------
        ResultsTable
            What one unit less of each variable is worth, in units of the cost, where both
            coefficients have one sign.  Standard errors are robust where the fit has them.
        """
        check_is_fitted(self, "coef_")
        if cost not in self.coef_names_:
            raise ValueError(f"cost={cost!r} is not a coefficient: {', '.join(self.coef_names_)}")
        at = self.coef_names_.index(cost)
        kept = [k for k in range(len(self.covariance_)) if k != at]
        ratio = self.coef_[kept] / self.coef_[at]
        robust = self.robust_covariance_
        errors = []
        for covariance in (self.covariance_, *([] if robust is None else [robust])):
            filled = np.nan_to_num(covariance)
            variance = (
                np.diag(filled)[kept] + ratio**2 * filled[at, at] - 2.0 * ratio * filled[kept, at]
            )
            errors.append(np.sqrt(np.maximum(variance, 0.0)) / abs(self.coef_[at]))
        columns = wald_columns(
            ratio, errors[0], robust_std_errors=errors[1] if len(errors) > 1 else None, level=level
        )
        names = [self.coef_names_[k] for k in kept]
        return ResultsTable({"coefficient": names, **columns}, title=f"Worth in units of {cost}")

    def log_sums(
        self,
        data: Any,
        *,
        alternatives: Any = None,
        available: Any = None,
        like: Mapping[Any, Any] | None = None,
    ) -> Array:
        """Return the logsum of each case: its expected highest utility, up to a constant.

        The parameters are those of `predict_proba`.  Gumbel noise only.
        """
        return self._likelihood(data, alternatives, available, like).log_sums(self.coef_)

    def likelihood_ratio_test(self, restricted: Any) -> ChiSquaredTest:
        """Test this model against one with fewer coefficients, fitted to the same data."""
        df = self.n_free_ - restricted.n_free_
        if df <= 0 or self.n_cases_ != restricted.n_cases_:
            raise ValueError(
                f"restricted has {restricted.n_free_} coefficients and {restricted.n_cases_} "
                f"cases, and this model {self.n_free_} and {self.n_cases_}; it needs fewer "
                "coefficients and the same cases"
            )
        return ChiSquaredTest.of(2.0 * (self.log_likelihood_ - restricted.log_likelihood_), df)

    def wald_test(self, hypothesis: Mapping[str, float], *, robust: bool = True) -> ChiSquaredTest:
        """Test that coefficients have given values."""
        check_is_fitted(self, "coef_")
        if unknown := set(hypothesis) - set(self.coef_names_):
            raise ValueError(f"{min(unknown)!r} is not a coefficient: {self.coef_names_}")
        places = [self.coef_names_.index(name) for name in hypothesis]
        robust = robust and self.robust_covariance_ is not None
        covariance = self.robust_covariance_ if robust else self.covariance_
        assert covariance is not None
        away = self.coef_[places] - np.array([*hypothesis.values()], float)
        matrix = covariance[np.ix_(places, places)]
        return ChiSquaredTest.of(float(away @ np.linalg.solve(matrix, away)), len(places))

    def report_tables(
        self, data: Any, *, alternatives: Any = None, available: Any = None
    ) -> dict[str, ResultsTable]:
        """Return the tables of `bigcat.report` by their heads.

        The parameters are those of `predict_proba`; `data` has choices.
        """
        check_is_fitted(self, "coef_")
        found = self._read(data, alternatives, available, fitting=True)
        chosen = found.totals()
        at, zero = (self._beside(found).at(b, 0).value for b in (self.coef_, 0.0 * self.coef_))
        facts = {
            "utility": self.utility if isinstance(self.utility, str) else ", ".join(self.utility),
            "noise": getattr(self.noise, "name", self.noise),
            "alternatives": f"{len(self.alternatives_):,}",
            "cases of the fit": f"{self.n_cases_:,}",
            "cases of this page": f"{found.n_cases:,}",
        }
        quality = {
            "log-likelihood per choice": at / chosen.sum(),
            "with coefficients of zero": zero / chosen.sum(),
            "rho-squared": 1.0 - at / zero,
        }
        shares = self.shares(data, alternatives=alternatives, available=available)
        most = np.argsort(-chosen, kind="stable")[:_MAX_CHANGED]
        observed = {"alternative": found.labels, "observed": chosen / chosen.sum()}
        columns = {name: column[most] for name, column in (observed | shares.columns).items()}
        return {
            "What it is": ResultsTable({"": [*facts], "value": [*facts.values()]}),
            "Estimates": self.summary(),
            "How good it is": ResultsTable({"": [*quality], "value": [*quality.values()]}),
            "Shares": ResultsTable(columns, title="Observed and predicted, most frequent first"),
        }

    def _likelihood(
        self, data: Any, alternatives: Any, available: Any, like: Mapping[Any, Any] | None
    ) -> RowsLikelihood | PairsLikelihood:
        check_is_fitted(self, "coef_")
        found = self._read(data, alternatives, available, fitting=False)
        return self._beside(found, like)
