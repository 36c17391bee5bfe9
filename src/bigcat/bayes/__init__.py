"""Bayesian classification: independent binary regressions, and augment-and-reduce's posterior."""

from bigcat.bayes.priors import GaussianPrior, HierarchicalPrior, HorseshoePrior

__all__ = ["GaussianPrior", "HierarchicalPrior", "HorseshoePrior"]
