"""Bayesian classifiers and posteriors as tests write them, all options in one call."""

from typing import Any

import numpy as np
import scipy.sparse

from bigcat import BayesianClassifier
from bigcat.bayes import AugmentReducePosterior, IndependentBinary, Laplace
from bigcat.bayes.covariance import Drawn
from bigcat.bayes.noise_posterior import NoisePosterior
from bigcat.noise import Gumbel

#: Parameters of the estimator; all others belong to the method.
OF_ESTIMATOR = ("prior", "fit_intercept", "n_threads", "random_state", "progress")


def _classifier(kind: type, options: dict[str, Any]) -> BayesianClassifier:
    own = {name: options.pop(name) for name in OF_ESTIMATOR if name in options}
    return BayesianClassifier(kind(**options), **own)


def binary(link: str = "probit", **options: Any) -> BayesianClassifier:
    """Independent binary regressions."""
    return _classifier(IndependentBinary, {"link": link, **options})


def laplace(**options: Any) -> BayesianClassifier:
    """The Laplace method, with a seed."""
    return _classifier(Laplace, {"random_state": 0, **options})


def augment_reduce(**options: Any) -> BayesianClassifier:
    """Augment and reduce, with a seed."""
    return _classifier(AugmentReducePosterior, {"random_state": 0, **options})


def four_classes(n_rows: int, new: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three features, and words as labels; `new` ones are as many others, alike."""
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((n_rows, 3)), rng.standard_normal((3, 4))
    if new:
        rng = np.random.default_rng(1)
        X = rng.standard_normal((n_rows, 3))
    scores = X @ weights + [0.0, 0.5, 1.0, 0.2]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return X, np.array(["ant", "bee", "cat", "dog"])[y]


def drawn_posterior(n_draws: int = 12, intercept: bool = True) -> NoisePosterior:
    """Draws of weights of two classes and three columns."""
    rng = np.random.default_rng(3)
    deviations = rng.normal(size=(n_draws, 2, 3)).astype(np.float32)
    return NoisePosterior(
        rng.normal(size=(2, 3)),
        Drawn(deviations - deviations.mean(axis=0)),
        intercept=intercept,
        classes=np.array(["a", "b"]),
        noise=Gumbel(),
        n_draws=n_draws,
    )


def csr(X: np.ndarray) -> Any:
    return scipy.sparse.csr_array(X)


def check_predictions(model: Any, X: np.ndarray, y: np.ndarray, posterior: str) -> None:
    """Check that all ways to predict agree, and that rows do not affect each other."""
    p = model.predict_proba(X, posterior=posterior)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    logs = model.predict_log_proba(X, posterior=posterior)
    np.testing.assert_allclose(np.exp(logs), p)
    assert (model.predict(X, posterior=posterior) == model.classes_[p.argmax(axis=1)]).all()
    classes, best = model.predict_top_k(X, 2, posterior=posterior)
    assert (classes[:, 0] == model.predict(X, posterior=posterior)).all()
    np.testing.assert_allclose(best, -np.sort(-logs, axis=1)[:, :2])
    own = np.searchsorted(model.classes_, y)
    found = model.log_proba_of(X, y, posterior=posterior)
    np.testing.assert_allclose(found, logs[np.arange(len(y)), own])
    np.testing.assert_allclose(model.predict_proba(X[7:9], posterior=posterior), p[7:9], rtol=1e-9)


def check_intervals(model: Any, X: np.ndarray) -> None:
    """Wider ones hold narrower ones, and nearly all hold the probabilities."""
    q = model.posterior_
    narrow, wide = (q.predict_interval(X, level=level) for level in (0.5, 0.95))
    assert (wide[0] <= narrow[0]).all()
    assert (narrow[1] <= wide[1]).all()
    p = model.predict_proba(X)
    assert ((wide[0] <= p) & (p <= wide[1])).mean() > 0.95


def check_arviz(model: Any) -> None:
    """`to_arviz` gives the draws of `sample`, with names, which ArviZ can summarise."""
    import arviz
    import pytest

    q = model.posterior_
    found = model.to_arviz(n_draws=500, random_state=3)
    weights = found.posterior["weights"]
    assert weights.dims == ("chain", "draw", "class", "feature")
    assert weights.shape == (1, 500, 4, 4)
    assert weights.coords["class"].values.tolist() == ["ant", "bee", "cat", "dog"]
    assert weights.coords["feature"].values.tolist() == ["x0", "x1", "x2", "intercept"]
    np.testing.assert_array_equal(weights.values[0], q.sample(500, random_state=3))
    one = weights.sel({"class": "cat", "feature": "intercept"})
    assert float(one.mean()) == pytest.approx(q.mean[2, 3], abs=0.1)
    summary: Any = arviz.summary(found, kind="stats")
    assert len(summary) == 16
    assert summary.loc["weights[cat, intercept]", "sd"] == pytest.approx(q.scale[2, 3], rel=0.2)
    assert arviz.hdi(found)["weights"].shape == (4, 4, 2)
