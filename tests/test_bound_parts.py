"""Declarations of bounds, and the pieces of their steps in plain Python."""

import math

import numpy as np
import pytest
from scipy.special import expit

from bigcat.bounds import augment_reduce as pieces
from bigcat.bounds import (
    bouchard,
)


@pytest.mark.parametrize("family", pieces.FAMILIES)
def test_moments_of_the_families(family):
    """By many nodes: mean, mass and entropy of the standard member."""
    known = pieces.FAMILIES[family]
    u, w = pieces.gauss_hermite(120, known)
    log_density = {
        "gaussian": -0.5 * u**2 - 0.5 * math.log(2.0 * math.pi),
        "logistic": -np.logaddexp(0.0, u) - np.logaddexp(0.0, -u),
        "gumbel": -u - np.exp(-u),
    }[family]
    assert w.sum() == pytest.approx(1.0, abs=1e-14)
    assert w @ u == pytest.approx(known.centre, abs=1e-6)
    assert -(w @ log_density) == pytest.approx(known.entropy, rel=1e-5)
    # The Fisher information of the location is the mean square of the gradient of the log-density.
    grad = {"gaussian": -u, "logistic": -np.tanh(0.5 * u), "gumbel": np.exp(-u) - 1.0}[family]
    assert 1.0 / (w @ grad**2) == pytest.approx(known.gain, rel=1e-3)
    assert known.code == list(pieces.FAMILIES).index(family)


# Bouchard's offset


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 3000.0])
@pytest.mark.parametrize("n", [1, 2, 40])
def test_bouchards_offset_is_a_root(spread, n):
    rng = np.random.default_rng(n)
    for label_score in (0.0, spread, -spread):
        others, counts = spread * rng.normal(size=n), rng.uniform(0.5, 3.0, n)
        counts[0] = max(counts[0], 1.0)
        a = bouchard._best_offset(label_score, others, counts, n)
        terms = [expit(-a), *(counts * expit(others - label_score - a))]
        assert sum(terms) == pytest.approx(1.0, rel=1e-9)
