"""scikit-learn estimators."""

from bigcat.estimators.bayesian import BayesianClassifier
from bigcat.estimators.categorical import CategoricalDistribution
from bigcat.estimators.linear import LinearClassifier
from bigcat.training.history import History

__all__ = ["BayesianClassifier", "CategoricalDistribution", "History", "LinearClassifier"]
