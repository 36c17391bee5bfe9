"""scikit-learn estimators."""

from bigcat.estimators._history import History
from bigcat.estimators.linear import LinearClassifier

__all__ = ["History", "LinearClassifier"]
