"""scikit-learn estimators."""

from bigcat.estimators._history import History
from bigcat.estimators.bayesian import BayesianClassifier
from bigcat.estimators.categorical import CategoricalDistribution
from bigcat.estimators.linear import LinearClassifier

__all__ = ["BayesianClassifier", "CategoricalDistribution", "History", "LinearClassifier"]
