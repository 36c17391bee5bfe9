"""Priors by name."""

from __future__ import annotations

from bigcat.bayes.learned_scale import LearnedScale
from bigcat.bayes.priors import GaussianPrior, HierarchicalPrior, HorseshoePrior, Prior

#: Priors by class, for model files; and by the name that stands for one at its defaults.
PRIORS: dict[str, type[Prior]] = {
    kind.__name__: kind for kind in (LearnedScale, GaussianPrior, HierarchicalPrior, HorseshoePrior)
}
NAMED: dict[str, type[Prior]] = {kind.name: kind for kind in PRIORS.values()}


def resolve_prior(prior: str | Prior) -> Prior:
    """The prior of that name, or the object itself.

    Examples
    --------
    >>> from bigcat.bayes.known_priors import resolve_prior
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
