"""Statistical inference: tables of estimates, standard errors, marginal effects."""

from bigcat.inference.table import ResultsTable, quantile_names, wald_columns

__all__ = ["ResultsTable", "quantile_names", "wald_columns"]
