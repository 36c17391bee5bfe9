"""Priors whose scales are learned from the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bigcat.bayes.priors.base import Prior, check_positive
from bigcat.bayes.priors.binary import BinaryPrior
from bigcat.bayes.priors.chains import PriorChain, Scales
from bigcat.checks import check_choice

PER = ("all", "class", "feature", "both")
#: Degrees of freedom of the half-t distribution: heavy tails, but scores of a hundred are not
#: expected of a few rows.
FREEDOM = 4.0


@dataclass(frozen=True, repr=False)
class LearnedScale(Prior):
    """Weights N(0, scale^2) with a scale that is learned, in units of the columns.

    A column of X counts in units of its own size, and dense columns are centred, so the answer does
    not depend on how columns are measured.  With ``method="laplace"`` the scale has a posterior of
    its own, and draws of the weights are draws over both.  The other methods take the scales that
    maximise their bound, with columns as they are.

    Parameters
    ----------
    per : {"all", "class", "feature", "both"}, default="all"
        One scale for all weights, one per class, one per feature, or the product of the last two.
        The intercepts have one of their own.  "independent-binary" takes "all" and "feature",
        "augment-reduce" takes "all".
    width : float, default=2.0
        Of the half-t distribution (4 degrees of freedom) of the standard deviation that scores of
        a class have among rows, and of that of the intercepts.

    Examples
    --------
    >>> from bigcat.bayes import LearnedScale
    >>> LearnedScale(per="feature")
    LearnedScale(per='feature')
    """

    name: ClassVar[str] = "learned"
    learned: ClassVar[bool] = True
    in_units_of_columns: ClassVar[bool] = True

    per: str = "all"
    width: float = 2.0

    def __post_init__(self) -> None:
        check_choice("per", self.per, PER)
        check_positive("width", self.width)

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> BinaryPrior:
        """Return the prior of binary regressions, at its best scales; columns are as given."""
        if self.per in ("class", "both"):
            raise ValueError(
                "binary regressions learn one scale, or one per feature, and not "
                f"per={self.per!r}; set prior=LearnedScale('feature')"
            )
        n = n_columns - intercept
        groups = [slice(0, n)] if self.per == "all" else [slice(m, m + 1) for m in range(n)]
        groups += [slice(n, None)] * intercept
        return BinaryPrior(n_classes, np.zeros(n_columns), np.ones(n_columns), groups)

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        """Return the prior as chains see it."""
        units = np.full(n_features, squared_length)
        of_classes = n_classes if self.per in ("class", "both") else 1
        features = None
        if self.per in ("feature", "both"):
            features = Scales.half_t(1.0, (n_chains, 1, n_features), FREEDOM)
        intercepts = Scales.half_t(self.width, (n_chains, 1, 1), FREEDOM) if intercept else None
        return PriorChain(
            np.zeros(n_features + intercept),
            np.append(units, 1.0) if intercept else units,
            n_chains,
            scales=Scales.half_t(self.width, (n_chains, of_classes, 1), FREEDOM),
            features=features,
            intercepts=intercepts,
            has_intercept=intercept,
        )


@dataclass(frozen=True, repr=False)
class HorseshoePrior(Prior):
    """Most weights near zero, a few left alone (Carvalho, Polson and Scott, 2010).

    Weights are N(0, lambda_km^2 tau_k^2) with half-Cauchy lambda_km and tau_k, tau_k of scale
    `global_scale`.  It is for ``method="laplace"``.

    Parameters
    ----------
    global_scale : float, default=1.0
    intercept_scale : float, default=10.0
        Standard deviation of the intercept, which has no horseshoe.

    Examples
    --------
    >>> from bigcat.bayes import HorseshoePrior
    >>> HorseshoePrior(global_scale=0.1)
    HorseshoePrior(global_scale=0.1)
    """

    name: ClassVar[str] = "horseshoe"
    learned: ClassVar[bool] = True

    global_scale: float = 1.0
    intercept_scale: float = 10.0

    def __post_init__(self) -> None:
        for name in ("global_scale", "intercept_scale"):
            check_positive(name, getattr(self, name))

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> BinaryPrior:
        """Raise: a precision per weight would give each class a covariance of its own."""
        raise ValueError(
            "prior='horseshoe' is for method='laplace'; for binary regressions set "
            "prior=LearnedScale('feature')"
        )

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
        """Return the prior as chains see it."""
        units = np.ones(n_features)
        return PriorChain(
            np.zeros(n_features + intercept),
            np.append(units, self.intercept_scale**-2.0) if intercept else units,
            n_chains,
            scales=Scales.half_t(self.global_scale, (n_chains, n_classes, 1)),
            locals_=Scales.half_t(1.0, (n_chains, n_classes, n_features)),
            has_intercept=intercept,
        )
