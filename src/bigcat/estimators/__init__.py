"""scikit-learn estimators, imported when they are first used: a linear fit needs no posteriors."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bigcat.training.history import History

if TYPE_CHECKING:
    from bigcat.estimators.bayesian import BayesianClassifier
    from bigcat.estimators.linear import LinearClassifier

_HOME = {
    "BayesianClassifier": "bigcat.estimators.bayesian",
    "LinearClassifier": "bigcat.estimators.linear",
}

__all__ = ["BayesianClassifier", "History", "LinearClassifier"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bigcat.estimators' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
