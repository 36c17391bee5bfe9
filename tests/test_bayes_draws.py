"""Draws of weights for ArviZ and as tables: names, errors, order; with stand-ins for both."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bigcat.bayes import summary
from bigcat.bayes._mixing import mean_error
from bigcat.bayes.covariance import ClassDiagonal
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.noise import Gumbel
from tests.bayesian import drawn_posterior


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_draws_for_arviz_have_the_names_of_their_columns(monkeypatch, intercept, named):
    given: dict[str, Any] = {}
    monkeypatch.setitem(
        sys.modules,
        "arviz",
        SimpleNamespace(from_dict=lambda draws, **more: given.update(draws, **more)),
    )
    q = drawn_posterior(intercept=intercept)
    names = ["height", "width", "depth"][: 3 - intercept]
    if named:
        q.feature_names = np.array(names, dtype=object)
    q.to_arviz(n_draws=5, random_state=1)
    assert given["weights"].shape == (1, 5, 2, 3)
    np.testing.assert_array_equal(given["weights"][0], q.sample(5, 1))
    features = names if named else ["0", "1", "2"][: 3 - intercept]
    assert given["coords"]["feature"] == features + ["intercept"] * intercept
    assert given["coords"]["class"].tolist() == ["a", "b"]
    assert given["dims"] == {"weights": ["class", "feature"]}


def test_a_thousand_draws_for_arviz_where_nobody_says_otherwise(monkeypatch):
    shapes: list[Any] = []
    arviz = SimpleNamespace(from_dict=lambda draws, **more: shapes.append(draws["weights"].shape))
    monkeypatch.setitem(sys.modules, "arviz", arviz)
    drawn_posterior().to_arviz()
    assert shapes == [(1, 1_000, 2, 3)]


def test_tables_of_draws_tell_their_error_and_how_chains_have_mixed(monkeypatch):
    monkeypatch.setattr(summary, "_table", lambda columns, attrs: (columns, attrs))
    q: Any = drawn_posterior()
    names, choice = ["x", "y", "intercept"], {"chains": 3, "r_hat": 1.01, "reason": "none"}
    columns, attrs = summary.summarise(q, names, choice=choice)
    assert attrs == {"level": 0.9, "base": None, "r_hat": 1.01}
    assert len(columns["mcse"]) == 6
    for label, feature, mean, error in zip(
        *(columns[n] for n in ("class", "feature", "mean", "mcse"))
    ):
        k, m = "ab".index(label), names.index(feature)
        assert mean == q.mean[k, m]
        assert error == pytest.approx(mean_error(q.covariance_form.deviations[:, k, m], 3))
    for some in (None, {}, {"r_hat": 1.01}):
        assert "mcse" not in summary.summarise(q, names, choice=some)[0]
    assert summary.summarise(q, names)[1] == {"level": 0.9, "base": None}
    others, attrs = summary.summarise(q, names, base=0, level=0.5)
    assert attrs == {"level": 0.5, "base": "a"}
    assert set(others["class"]) == {"b"}
    q.covariance_form = ClassDiagonal(np.ones((2, 3)))
    columns, attrs = summary.summarise(q, names, choice=choice)
    assert "mcse" not in columns
    assert attrs == {"level": 0.9, "base": None}


def test_the_surest_weights_are_the_first_rows(monkeypatch):
    """By mean over standard deviation, of all classes together; so many of each, if asked."""
    monkeypatch.setattr(summary, "_table", lambda columns, attrs: columns)
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
        for top in (1, 2, 3, 600):
            found = summary.summarise(q, names, top=top)
            numbers, columns = found["class"], found["feature"].astype(int)
            assert (np.diff(sureness[numbers, columns]) <= 0.0).all()
            for k in range(3):
                assert columns[numbers == k].tolist() == np.argsort(-sureness[k])[:top].tolist()


def test_a_table_of_one_row():
    table = summary.Table([{"class": "cat", "mean": 0.5}])
    assert repr(table).split() == ["class", "mean", "cat", "0.5000"]
    assert "<td>cat</td>" in table._repr_html_()
    assert "0.5000" in table._repr_html_()
    assert "cat" not in summary.Table([])._repr_html_()
    assert (table.attrs, summary.Table([], {"level": 0.9}).attrs) == ({}, {"level": 0.9})
