"""Noise distributions: the e_k in y = argmax_k psi_k + e_k (A&R, equation 4).

A noise is five functions of one variable, all vectorised: the logarithm of its distribution
function and of its density, the derivatives of both, and the quantile function. Every other file
needs nothing else. ``log_cdf_grad`` is phi / Phi, the inverse Mills ratio of the noise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

Function = Callable[[Any], Any]  # of a number or an array


@dataclass(frozen=True)
class Noise:
    """Noise distribution; ``family`` names the q that augment-and-reduce pairs with it.

    The pairs are the paper's (A&R, section 3.2), and the Gaussian where it has none. They need not
    be the best: ``dataclasses.replace(LOGISTIC, family="gumbel")`` is all but tight with many
    classes, because the largest of many logistic variables is nearly Gumbel.
    """

    name: str
    log_cdf: Function
    log_cdf_grad: Function
    log_pdf: Function
    log_pdf_grad: Function
    quantile: Function
    family: str = "gaussian"

    def log_cdf_grad_log(self, x: np.ndarray) -> np.ndarray:
        """Return log(phi / Phi), even where the ratio underflows."""
        with np.errstate(invalid="ignore"):
            difference = self.log_pdf(x) - self.log_cdf(x)
        # Far to the left both logarithms are huge and cancel, but there the ratio is large and
        # safe to take the logarithm of (finite, so that adding log 0 gives log 0).
        with np.errstate(divide="ignore"):
            ratio = np.log(np.minimum(self.log_cdf_grad(x), np.finfo(float).max))
        return np.where(x < 0, ratio, difference)


def _exp(x: np.ndarray) -> np.ndarray:
    """Return exp, infinite for large arguments without a warning."""
    with np.errstate(over="ignore"):
        return np.exp(x)


GUMBEL = Noise(
    # A&R, section 3.1: phi = exp(-e - exp(-e)), Phi = exp(-exp(-e)).
    name="gumbel",
    log_cdf=lambda x: -_exp(-x),
    log_cdf_grad=lambda x: _exp(-x),
    log_pdf=lambda x: -x - _exp(-x),
    log_pdf_grad=lambda x: _exp(-x) - 1.0,
    quantile=lambda p: -np.log(-np.log(p)),
)

GAUSSIAN = Noise(
    # A&R, section 3.2. phi / Phi through erfcx: both vanish on the left, erfcx does not.
    name="gaussian",
    log_cdf=special.log_ndtr,
    log_cdf_grad=lambda x: np.sqrt(2.0 / np.pi) / special.erfcx(-x / np.sqrt(2.0)),
    log_pdf=lambda x: -0.5 * np.square(x) - 0.5 * np.log(2.0 * np.pi),
    log_pdf_grad=lambda x: -x,
    quantile=special.ndtri,
)

LOGISTIC = Noise(
    # A&R, section 3.2: Phi = sigmoid(e), phi = sigmoid(e) sigmoid(-e).
    name="logistic",
    log_cdf=special.log_expit,
    log_cdf_grad=lambda x: special.expit(-x),
    log_pdf=lambda x: -np.abs(x) - 2.0 * np.log1p(np.exp(-np.abs(x))),
    log_pdf_grad=lambda x: -np.tanh(0.5 * x),
    quantile=special.logit,
    family="logistic",
)


def student_t(df: float) -> Noise:
    """Return Student's t, an example of a custom noise that is not log-concave.

    Its lower tail is half an incomplete beta function of df / (df + x^2), which keeps its relative
    accuracy; the upper tail is one minus that.
    """

    def tail(x):
        return 0.5 * special.betainc(0.5 * df, 0.5, df / (df + np.square(x)))

    def log_cdf(x):
        x = np.asarray(x, float)
        return np.where(x < 0, np.log(tail(x)), np.log1p(-tail(x)))

    constant = special.gammaln(0.5 * (df + 1)) - special.gammaln(0.5 * df)
    constant -= 0.5 * np.log(df * np.pi)

    def log_pdf(x):
        return constant - 0.5 * (df + 1) * np.log1p(np.square(x) / df)

    return Noise(
        name=f"student_t({df})",
        log_cdf=log_cdf,
        log_cdf_grad=lambda x: np.exp(log_pdf(x) - log_cdf(x)),
        log_pdf=log_pdf,
        log_pdf_grad=lambda x: -(df + 1) * x / (df + np.square(x)),
        quantile=lambda p: special.stdtrit(df, p),
    )


STUDENT_T = student_t(3.0)
