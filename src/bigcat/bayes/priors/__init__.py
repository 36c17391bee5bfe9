"""Priors of the weights: Gaussian, with a learned scale, or with a horseshoe for each weight."""

from __future__ import annotations

from bigcat.bayes.priors.base import Prior, WeightPrior
from bigcat.bayes.priors.binary import BinaryPrior
from bigcat.bayes.priors.chains import PriorChain
from bigcat.bayes.priors.gaussian import GaussianPrior
from bigcat.bayes.priors.learned import HorseshoePrior, LearnedScale

__all__ = [
    "NAMED",
    "PRIORS",
    "BinaryPrior",
    "GaussianPrior",
    "HorseshoePrior",
    "LearnedScale",
    "Prior",
    "PriorChain",
    "WeightPrior",
    "resolve_prior",
]

#: Priors by class, for model files; and by the name that stands for one at its defaults.
PRIORS: dict[str, type[Prior]] = {
    kind.__name__: kind for kind in (LearnedScale, GaussianPrior, HorseshoePrior)
}
NAMED: dict[str, type[Prior]] = {kind.name: kind for kind in PRIORS.values()}


def resolve_prior(prior: str | Prior) -> Prior:
    """Return the prior of that name, or the object itself.

    Examples
    --------
    >>> from bigcat.bayes.priors import resolve_prior
    >>> resolve_prior("horseshoe")
    HorseshoePrior()
    """
    if isinstance(prior, Prior):
        return prior
    if not isinstance(prior, str) or prior not in NAMED:
        raise ValueError(
            f"prior={prior!r} is not known; choose one of {', '.join(map(repr, NAMED))}, 'auto', "
            "or give a prior of bigcat.bayes"
        )
    return NAMED[prior]()
