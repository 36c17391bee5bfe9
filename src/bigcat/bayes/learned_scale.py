"""The prior whose scale is learnt: the default of the Laplace method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bigcat.bayes._prior_arrays import check_positive
from bigcat.bayes.one_scale import OneScaleState
from bigcat.bayes.prior_chains import PriorChain, Scales
from bigcat.bayes.priors import HierarchicalPrior, Prior, PriorState, Sharing
from bigcat.checks import check_choice

PER = ("all", "class", "feature", "both")
#: Degrees of freedom of the half-t distribution: heavy tails, but scores of a hundred are not
#: expected of a few rows.
FREEDOM = 4.0


@dataclass(frozen=True, repr=False)
class LearnedScale(Prior):
    """Weights N(0, scale^2) with a scale that is learnt, in units of the columns.

    A column of X counts in units of its own size, and dense columns are centred, so the answer does
    not depend on how columns are measured.  With ``method="laplace"`` the scale has a posterior of
    its own, and draws of the weights are draws over both.  The other methods take the one scale
    that maximises their bound, with columns as they are.

    Parameters
    ----------
    per : {"all", "class", "feature", "both"}, default="all"
        One scale for all weights, one per class, one per feature, or the product of the last two.
        The intercepts have one of their own.
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
    learnt: ClassVar[bool] = True
    in_units_of_columns: ClassVar[bool] = True

    per: str = "all"
    width: float = 2.0

    def __post_init__(self) -> None:
        check_choice("per", self.per, PER)
        check_positive("width", self.width)

    @property
    def sharing(self) -> Sharing:
        return {"class": "class", "both": "coordinate"}.get(self.per, "shared")  # type: ignore[return-value]

    def bind(self, n_classes: int, n_columns: int, intercept: bool) -> PriorState:
        """The state of the prior for binary regressions.

        One scale for all weights, at its best value; or one per class or per feature, where
        variational factors stand for half-t distributions.  Columns count as they are.
        """
        if self.per == "all":
            return OneScaleState(n_classes, n_columns, intercept)
        if self.per == "both":
            raise ValueError(
                "binary regressions learn one scale, or one per class or per feature, and not "
                "per='both'; take prior=LearnedScale('feature')"
            )
        return HierarchicalPrior(self.per).bind(n_classes, n_columns, intercept)

    def chain(
        self,
        n_chains: int,
        n_classes: int,
        n_features: int,
        intercept: bool,
        squared_length: float = 1.0,
    ) -> PriorChain:
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
