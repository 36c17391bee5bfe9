"""Statistical inference: tables of estimates, standard errors, marginal effects."""

from bigcat.inference.draws import inference_data, log_likelihood_of_draws
from bigcat.inference.effects import (
    average_effects,
    effects_with_errors,
    numerical_derivatives,
    softmax_derivatives,
)
from bigcat.inference.likelihood import LikelihoodFit, maximise, warn_of_separation
from bigcat.inference.table import ResultsTable, quantile_names, wald_columns

__all__ = [
    "LikelihoodFit",
    "ResultsTable",
    "average_effects",
    "effects_with_errors",
    "inference_data",
    "log_likelihood_of_draws",
    "maximise",
    "numerical_derivatives",
    "quantile_names",
    "softmax_derivatives",
    "wald_columns",
    "warn_of_separation",
]
