"""The reference class probabilities against closed forms, and against themselves."""

import mpmath
import numpy as np
import pytest

from reference.noise import GAUSSIAN
from reference.probabilities import (
    log_prob_of,
)


@pytest.mark.slow
def test_very_unlikely_classes_against_mpmath():
    # Gaussian, three classes, by 40-digit quadrature of equation 5 (scaled: mpmath's tolerance is
    # absolute).
    psi = [0.0, 55.0, 48.0]
    with mpmath.workdps(40):

        def phi(x):
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        def integrand(t):
            return mpmath.exp(904) * mpmath.npdf(t) * phi(t - 55) * phi(t - 48)

        expected = float(mpmath.log(mpmath.quad(integrand, mpmath.linspace(20, 60, 41))) - 904)
    assert log_prob_of(GAUSSIAN, np.array(psi), 0)[0] == pytest.approx(expected, rel=1e-13)
