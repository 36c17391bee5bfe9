"""Posteriors over the weights: the methods that find them, and priors.

>>> from bigcat.bayes import METHODS
>>> list(METHODS)
['laplace', 'independent-binary', 'augment-reduce']
"""

from bigcat.bayes.augment_reduce.method import AugmentReducePosterior
from bigcat.bayes.binary.method import IndependentBinary
from bigcat.bayes.laplace.method import Laplace
from bigcat.bayes.method import PosteriorMethod
from bigcat.bayes.priors import PRIORS, GaussianPrior, HorseshoePrior, LearnedScale, Prior

__all__ = [
    "METHODS",
    "PRIORS",
    "AugmentReducePosterior",
    "GaussianPrior",
    "HorseshoePrior",
    "IndependentBinary",
    "Laplace",
    "LearnedScale",
    "PosteriorMethod",
    "Prior",
    "resolve_method",
]

#: Methods by name, the default first.
METHODS: dict[str, type[PosteriorMethod]] = {
    method.name: method for method in (Laplace, IndependentBinary, AugmentReducePosterior)
}


def resolve_method(method: str | PosteriorMethod) -> PosteriorMethod:
    """Return the method of that name, or the object itself.

    Examples
    --------
    >>> from bigcat.bayes import resolve_method
    >>> resolve_method("augment-reduce")
    AugmentReducePosterior()
    """
    if isinstance(method, PosteriorMethod):
        return method
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"method={method!r} is not known; choose one of {', '.join(map(repr, METHODS))}, or "
            "give a method of bigcat.bayes"
        )
    return METHODS[method]()
