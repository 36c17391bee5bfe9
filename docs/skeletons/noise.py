"""Skeleton of a noise: four plain functions of one number.

Copy this file and replace each line marked FILL; docs/extending/noise.md shows one filled in.
"""

import math

import numba

from bigcat.extending import CustomNoise

...  # FILL: helpers


def log_cdf(t):
    """Log of the distribution function."""
    ...  # FILL: log_cdf


def log_cdf_grad(t):
    """Derivative of `log_cdf`: density over distribution function."""
    ...  # FILL: log_cdf_grad


def log_pdf(t):
    """Log of the density."""
    ...  # FILL: log_pdf


def log_pdf_grad(t):
    """Derivative of `log_pdf`."""
    ...  # FILL: log_pdf_grad


noise = ...  # FILL: noise
