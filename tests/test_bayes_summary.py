"""The weights as a table: statsmodels, change of base, filters, order, size."""

import sys
import time
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior, Laplace
from bigcat.bayes.covariance import ClassDiagonal, Drawn
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.inference.summary import summarise
from bigcat.noise import resolve
from tests.bayesian import binary, four_classes

pandas = pytest.importorskip("pandas")
NAMES = ["x0", "x1", "x2", "intercept"]


@pytest.fixture(scope="module")
def flat():
    """The Laplace approximation with a prior that hardly counts."""
    X, y = four_classes(400)
    method, prior = Laplace(covariance="full"), GaussianPrior(scale=1e3)
    return BayesianClassifier(method, prior, random_state=0, progress=False).fit(X, y)


def posterior(covariance: Any, mean: np.ndarray) -> NoisePosterior:
    classes = np.array([f"c{k}" for k in range(len(mean))])
    return NoisePosterior(
        mean, covariance, intercept=True, classes=classes, noise=resolve("gumbel")
    )


def lookup(table: Any) -> Any:
    return table.to_frame().set_index(["class", "feature"])


def test_it_agrees_with_statsmodels(flat):
    statsmodels = pytest.importorskip("statsmodels.api")
    X, y = four_classes(400)
    order = ["bee", "ant", "cat", "dog"]  # statsmodels takes the first as base
    codes = np.array([order.index(label) for label in y])
    design = np.column_stack([X, np.ones(len(X))])
    expected = statsmodels.MNLogit(codes, design).fit(disp=0, tol=1e-12, maxiter=100)
    found = lookup(flat.summary(base="bee", level=0.95))
    assert len(found) == 12
    intervals = expected.conf_int(0.05).reshape(3, 4, 2)
    for j, label in enumerate(order[1:]):
        for m, name in enumerate(NAMES):
            row = found.loc[(label, name)]
            error = expected.bse[m, j]
            assert row["sd"] == pytest.approx(error, rel=1e-3)
            # One of the coefficients is 0.001: it is as exact as the others, not relative to it.
            close = {"rtol": 1e-3, "atol": 1e-4 * error}
            np.testing.assert_allclose(row["mean"], expected.params[m, j], **close)
            np.testing.assert_allclose(row[["2.5%", "97.5%"]].tolist(), intervals[j, m], **close)


def test_what_the_posterior_says_itself(flat):
    q, table = flat.posterior_, lookup(flat.summary(level=0.8))
    assert len(table) == 16
    low, high = q.weight_interval(0.8)
    for k, label in enumerate(flat.classes_):
        for m, name in enumerate(NAMES):
            found = table.loc[(label, name), ["mean", "sd", "10%", "90%"]].tolist()
            expected = [q.mean[k, m], q.scale[k, m], low[k, m], high[k, m]]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_change_of_base_with_draws():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((300, 1, 4))  # of all classes: it cancels
    deviations = common + 0.1 * rng.standard_normal((300, 3, 4))
    deviations -= deviations.mean(axis=0)
    q = posterior(Drawn(deviations), rng.standard_normal((3, 4)))
    table = lookup(summarise(q, NAMES, base=1))
    weights = q.mean + deviations
    difference = weights[:, 2, 0] - weights[:, 1, 0]
    row = table.loc[("c2", "x0")]
    assert row["mean"] == pytest.approx(difference.mean())
    assert row["sd"] == pytest.approx(difference.std(ddof=1))
    assert row["sd"] < 0.2
    assert (difference < row["5%"]).mean() == pytest.approx(0.05, abs=0.01)
    assert "c1" not in table.index.get_level_values("class")


def test_variances_of_independent_classes_add_up():
    variances = np.array([[1.0, 4.0], [2.0, 0.5]])
    q = posterior(ClassDiagonal(variances), np.array([[1.0, 2.0], [3.0, 5.0]]))
    row = lookup(summarise(q, ["x0", "intercept"], base=0)).loc[("c1", "intercept")]
    assert row["mean"] == 3.0
    assert row["sd"] == pytest.approx(np.sqrt(4.5))


def test_rows_are_grouped_by_class_then_feature(flat):
    table = flat.summary()
    assert table["class"].tolist() == np.repeat(flat.classes_, 4).tolist()
    assert table["feature"].tolist() == NAMES * 4
    assert list(table.columns) == [
        "class",
        "feature",
        "mean",
        "sd",
        "5%",
        "95%",
        "sign_probability",
    ]
    sureness = (np.abs(table["mean"]) / table["sd"]).reshape(4, 4)
    top = flat.summary(top=2)
    expected = np.argsort(-sureness, axis=1)[:, :2]
    assert top["feature"].tolist() == [NAMES[m] for m in expected.ravel()]
    np.testing.assert_allclose(table["sign_probability"], norm.cdf(sureness.ravel()))


def test_odds_ratios_are_relative_to_a_base(flat):
    table = flat.summary(base="cat", level=0.5)
    assert table.figures == {"base": "cat"}
    np.testing.assert_allclose(table["odds_ratio"], np.exp(table["mean"]))
    assert "odds_ratio" not in flat.summary().columns


def test_filters(flat):
    table = flat.summary(classes=["dog", "ant"], features=["x1", "intercept"])
    assert sorted(set(table["class"])) == ["ant", "dog"]
    assert sorted(set(table["feature"])) == ["intercept", "x1"]
    assert len(table) == 4
    numbers = flat.summary(classes="dog", features=[1, 3])
    assert sorted(numbers["feature"]) == ["intercept", "x1"]
    whole = lookup(flat.summary())
    for _, row in table.to_frame().iterrows():
        assert row["mean"] == whole.loc[(row["class"], row["feature"]), "mean"]
    assert flat.summary(classes=["cat"], top=99).shape == (4, 7)


def test_names_of_columns():
    X, y = four_classes(60)
    frame = pandas.DataFrame(X, columns=["length", "width", "age"])
    m = binary(random_state=0).fit(frame, y)
    assert sorted(set(m.summary()["feature"])) == ["age", "intercept", "length", "width"]
    assert m.summary(features="age")["feature"].tolist() == ["age"] * 4
    bare = binary(random_state=0, fit_intercept=False).fit(X, y)
    assert sorted(set(bare.summary()["feature"])) == NAMES[:3]


def test_without_pandas(flat, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = flat.summary(classes=["cat"], base="dog")
    assert len(table) == 4
    with pytest.raises(ImportError, match=r"to_frame needs pandas: pip install 'bigcat\[tables\]'"):
        table.to_frame()


def test_no_table_is_larger_than_asked():
    n_classes, n_columns = 100_000, 60
    mean = np.zeros((n_classes, n_columns), np.float32)
    mean[7, 5] = 3.0
    q = posterior(ClassDiagonal(np.ones_like(mean)), mean)
    names = [f"x{m}" for m in range(n_columns)]
    began = time.process_time()
    table = summarise(q, names, classes=np.array([7, 11]), top=10)
    assert time.process_time() - began < 0.2
    assert len(table) == 20
    assert (table["class"][0], table["feature"][0]) == ("c7", "x5")
    assert len(summarise(q, names, top=1, base=3)) == n_classes - 1
    q.mean = np.broadcast_to(mean[:, :1], (n_classes, 200))  # no memory
    with pytest.raises(ValueError, match=r"20,000,000 rows, and 10,000,000 is the most; ask for"):
        summarise(q, ["x"] * 200)


def test_errors(flat):
    with pytest.raises(ValueError, match=r"classes: 'eel' is not a class of this model, which has"):
        flat.summary(classes=["cat", "eel"])
    with pytest.raises(ValueError, match="base: 3 is not a class of this model"):
        flat.summary(base=3)
    with pytest.raises(ValueError, match=r"features: 'x9' is not a feature of this model"):
        flat.summary(features=["x1", "x9"])
    with pytest.raises(ValueError, match=r"features: 4 is not a feature of this model"):
        flat.summary(features=[4])
    with pytest.raises(ValueError, match="top=0 must be a whole number of at least 1"):
        flat.summary(top=0)
    with pytest.raises(ValueError, match="no rows; ask for at least one feature, and for a class"):
        flat.summary(classes=["cat"], base="cat")
    with pytest.raises(ValueError, match=r"level=90 must lie between 0 and 1"):
        flat.summary(level=90)


def test_the_evidence_has_a_name(flat):
    assert np.isfinite(flat.evidence_)
    assert not hasattr(flat, "elbo_")
    X, y = four_classes(60)
    m = binary(random_state=0).fit(X, y)
    assert m.elbo_ == m.evidence_ < 0.0
    m.set_params(method=flat.method, prior=flat.prior).fit(X, y)
    assert not hasattr(m, "elbo_")
