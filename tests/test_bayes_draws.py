"""Draws of weights as tables: names, errors, order."""

from typing import Any

import numpy as np

from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.inference import summary
from bigcat.inference.mixing import mean_error
from bigcat.noise import Gumbel
from tests.bayesian import drawn_posterior


def test_tables_of_draws_tell_their_error_and_how_chains_have_mixed():
    q: Any = drawn_posterior()
    names, selection = ["x", "y", "intercept"], {"chains": 3, "r_hat": 1.01, "reason": "none"}
    table = summary.summarise(q, names, selection=selection)
    assert table.figures == {"r_hat": 1.01}
    assert table["class"].tolist() == ["a"] * 3 + ["b"] * 3
    assert table["feature"].tolist() == names * 2
    np.testing.assert_array_equal(table["mean"], q.mean.ravel())
    deviations = q.covariance_form.deviations.reshape(-1, 6)
    np.testing.assert_allclose(table["mcse"], mean_error(deviations, 3))
    signs = np.sign(q.mean.ravel() + deviations) == np.sign(q.mean.ravel())
    np.testing.assert_allclose(table["sign_probability"], signs.mean(axis=0))
    for some in (None, {}, {"r_hat": 1.01}):
        assert "mcse" not in summary.summarise(q, names, selection=some).columns
    others = summary.summarise(q, names, base=0, level=0.5)
    assert others.figures == {"base": "a"}
    assert set(others["class"]) == {"b"}
    q.covariance_form = ClassDiagonal(np.ones((2, 3)))
    table = summary.summarise(q, names, selection=selection)
    assert "mcse" not in table.columns
    assert table.figures == {}


def test_with_top_the_surest_weights_of_a_class_are_its_first_rows():
    names = [str(m) for m in range(600)]
    for seed in range(4):
        rng = np.random.default_rng(seed)
        mean, variances = rng.normal(size=(3, 600)), rng.uniform(0.1, 2.0, (3, 600))
        q = NoisePosterior(
            mean,
            ClassDiagonal(variances),
            intercept=False,
            classes=np.arange(3),
            noise=Gumbel(),
            n_draws=10,
        )
        sureness = np.abs(mean) / np.sqrt(variances)
        for top in (1, 2, 3, 599):
            found = summary.summarise(q, names, top=top)
            for k in range(3):
                columns = found["feature"][found["class"] == k].astype(int)
                assert columns.tolist() == np.argsort(-sureness[k])[:top].tolist()
        everything = summary.summarise(q, names, top=600)
        assert everything["feature"].tolist() == names * 3
