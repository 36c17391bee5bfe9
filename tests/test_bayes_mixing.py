"""Convergence of chains: against ArviZ, and the messages of a fit."""

import arviz
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bigcat.bayes import GaussianPrior
from bigcat.inference import mixing as _mixing
from bigcat.inference.mixing import Mixing
from tests.bayesian import four_classes, laplace


def autoregressive(n, n_chains, memory, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((n, n_chains))
    for i in range(1, n):
        values[i] += memory * values[i - 1]
    return values


@pytest.mark.parametrize("memory", [0.9, 0.5, 0.0, -0.5])
@pytest.mark.parametrize(("n", "n_chains"), [(400, 4), (101, 8)])
def test_names_mean_what_they_mean_in_arviz(n, n_chains, memory):
    values = autoregressive(n, n_chains, memory)
    assert _mixing.r_hat(values) == pytest.approx(arviz.rhat(values.T, method="rank"), rel=1e-9)
    # ArviZ does not even out the last of Geyer's sums.
    assert _mixing.ess_bulk(values) == pytest.approx(arviz.ess(values.T, method="bulk"), rel=0.03)


def test_chains_that_stay_apart_are_told():
    apart = autoregressive(100, 4, 0.0)[:, :, None] + np.arange(4.0)[:, None] * 5.0
    found = Mixing.of(0.8, apart)
    assert found.r_hat > 2.0
    assert found.ess_bulk < 10.0
    message = found.warning()
    assert message is not None
    assert "raise n_draws" in message
    together = Mixing.of(0.8, autoregressive(100, 4, 0.0)[:, :, None])
    assert together.warning() is None
    assert set(together.as_dict()) == {"acceptance", "r_hat", "ess_bulk"}


def test_a_few_iterations_and_constants():
    assert np.isnan(Mixing.of(0.8, np.zeros((3, 4, 1))).r_hat)
    constant = Mixing.of(0.8, np.zeros((10, 4, 1)))
    assert (constant.r_hat, constant.ess_bulk) == (1.0, 40.0)
    assert Mixing.of(0.8, np.zeros((10, 4, 1)) + np.arange(4.0)[:, None]).r_hat == np.inf


def test_a_fit_says_how_its_chains_have_mixed(monkeypatch):
    X, y = four_classes(60)
    for options in ({}, {"prior": GaussianPrior()}):
        selection = laplace(n_draws=64, **options).fit(X, y).history_.selection
        assert selection is not None
        assert 0.5 < selection["acceptance"] <= 1.0 or "prior" in options
        assert selection["r_hat"] < 2.5
        assert selection["ess_bulk"] > 4.0
    drawn = laplace(n_draws=64).fit(X, y)
    assert drawn.history_.selection is not None
    told = {name: drawn.history_.selection[name] for name in _mixing.NAMES}
    assert drawn.summary().figures == told
    of_gaussian = laplace(covariance="class", prior="gaussian").fit(X, y)
    assert of_gaussian.summary().figures == {}
    monkeypatch.setattr(_mixing, "TOO_FEW", 1e6)
    with pytest.warns(ConvergenceWarning, match="have not mixed.*raise n_draws"):
        laplace(n_draws=64).fit(X, y)
