"""`bigcat.dask.BayesianClassifier`: the posterior of one process, by sums over workers."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import bigcat
from bigcat.bayes import GaussianPrior, Laplace

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from bigcat.dask import BayesianClassifier  # noqa: E402
from bigcat.dask.cluster import Cluster, connected  # noqa: E402
from bigcat.dask.likelihood import LikelihoodOfParts, Parts  # noqa: E402

N, D, K = 200, 3, 5


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((N, D)) + np.arange(D)
    scores = X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))
    y = np.array(["a", "b", "c", "d", "e"])[scores.argmax(axis=1)]
    return X, y, rng.choice([0.0, 1.0, 2.5], N, p=[0.1, 0.6, 0.3])


def collections(rows: tuple[np.ndarray, ...], size: int = 150) -> list[Any]:
    return [da.from_array(array, chunks=(size, *array.shape[1:])) for array in rows]


def both(
    client: Any, rows: tuple[np.ndarray, ...], method: Laplace, prior: Any
) -> tuple[BayesianClassifier, bigcat.BayesianClassifier]:
    """A fit on the cluster and one without."""
    ours = BayesianClassifier(method, prior, client=client, random_state=0)
    local = bigcat.BayesianClassifier(method, prior, n_threads=1, random_state=0)
    return ours.fit(*collections(rows)), local.fit(*rows)


@pytest.mark.parametrize(
    ("form", "centre"),
    [
        ("class", "mean"),
        pytest.param("diagonal", "mode", marks=pytest.mark.slow),
        pytest.param("full", "mode", marks=pytest.mark.slow),
    ],
)
def test_the_posterior_is_that_of_one_process(
    client: Any, rows: Any, form: str, centre: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "class":  # as if the weights were many
        monkeypatch.setattr("bigcat.dask.likelihood.SMALL", 0)
        monkeypatch.setattr("bigcat.dask.likelihood.BYTES_OF_BLOCK", 1_000)
    ours, local = both(client, rows, Laplace(covariance=form, centre=centre), GaussianPrior(2.0))
    q, p = ours.posterior_, local.posterior_
    np.testing.assert_allclose(q.mean, p.mean, atol=2e-4)
    np.testing.assert_allclose(q.scale, p.scale, rtol=2e-3)
    assert ours.evidence_ == pytest.approx(local.evidence_, rel=1e-6)
    assert ours.class_count_.tolist() == local.class_count_.tolist()
    np.testing.assert_allclose(ours.fitted.seen.rows, rows[2].sum())


@pytest.mark.slow
def test_the_prior_is_learnt_as_in_one_process(client: Any, rows: Any) -> None:
    """With the same random numbers, so that only the order of additions differs."""
    ours, local = both(client, rows, Laplace(covariance="class"), "learned")
    names = ("log_precision", "log_intercept_precision")
    for name in names:
        mine, theirs = (m.history_[name][-16:].mean() for m in (ours, local))
        assert mine == pytest.approx(theirs, abs=0.05)
    assert ours.evidence_ == pytest.approx(local.evidence_, abs=0.1)
    np.testing.assert_allclose(ours.posterior_.scale, local.posterior_.scale, rtol=0.05)


def test_sparse_rows_some_of_which_tell_the_prior(client: Any) -> None:
    """A likelihood of some rows of the parts is the one of these rows."""
    from bigcat.bayes._design import Design
    from bigcat.bayes._likelihood import Likelihood

    rng = np.random.RandomState(1)
    X = sp.random(60, 7, 0.4, format="csr", random_state=rng)
    labels, weights = rng.randint(3, size=60), rng.uniform(0.5, 2.0, 60)
    noise = bigcat.noise.resolve("gumbel")
    whole = Likelihood(Design(X, True, weights), labels, noise, 3)
    cluster = Cluster(client)
    parts = [
        client.scatter(whole.of_rows(np.arange(a, b)), direct=True) for a, b in ((0, 25), (25, 60))
    ]
    ours = LikelihoodOfParts(Parts(cluster, parts), noise, 3, 8, True)
    stack = rng.standard_normal((2, 3, 8))
    some = np.array([3, 20, 26, 30, 59])
    for mine, theirs in ((ours, whole), (ours.of_rows(some), whole.of_rows(some))):
        np.testing.assert_allclose(mine.values(stack), theirs.values(stack))
        for found, expected in zip(mine.gradients(stack), theirs.gradients(stack)):
            np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(mine.class_weights(), theirs.class_weights())
        np.testing.assert_allclose(mine.design.gram(), theirs.design.gram())
        assert mine.design.n == theirs.design.n


def test_predictions_files_and_clones(client: Any, rows: Any, tmp_path: Path) -> None:
    X, y = rows[:2]
    ours = BayesianClassifier(Laplace(covariance="class"), "gaussian", client=client)
    ours.fit(*collections(rows), classes=[*"abcde", "never"])
    assert ours.class_count_[-1] == 0
    local = ours.to_local()
    assert type(local) is bigcat.BayesianClassifier
    chunks, labels = collections((X, y))
    for name in ("predict", "predict_proba", "predict_log_proba"):
        lazy = getattr(ours, name)(chunks, posterior="plug-in")
        assert isinstance(lazy, da.Array)
        np.testing.assert_array_equal(lazy.compute(), getattr(local, name)(X, posterior="plug-in"))
    top, _ = ours.predict_top_k(chunks, k=2)
    np.testing.assert_array_equal(top.compute(), local.predict_top_k(X, k=2)[0])
    np.testing.assert_allclose(
        ours.log_proba_of(chunks, labels).compute(), local.log_proba_of(X, y), atol=1e-6
    )
    ends = ours.log_odds_interval(chunks, "a", "b")
    for found, expected in zip(ends, local.log_odds_interval(X, "a", "b")):
        np.testing.assert_allclose(found.compute(), expected, atol=1e-6)
    low, high = ours.predict_interval(chunks, n_draws=200)
    assert low.shape == (N, 6)
    assert bool((low <= high).all())
    assert float(ours.score(chunks, labels)) == pytest.approx(local.score(X, y), abs=0.02)
    loaded = bigcat.load_model(bigcat.save_model(ours, tmp_path / "model.safetensors"))
    assert type(loaded) is bigcat.BayesianClassifier
    np.testing.assert_allclose(loaded.coef_, ours.coef_, rtol=1e-6)
    assert pickle.loads(pickle.dumps(ours)).client is None
    assert clone(ours).client is client


@pytest.mark.slow
def test_a_killed_worker_does_not_matter(
    client: Any, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does what it was sent."""
    monkeypatch.setattr("bigcat.dask.likelihood.SMALL", 0)
    method = Laplace(covariance="class")
    expected = BayesianClassifier(method, "gaussian", client=client, n_lanes=2, random_state=0)
    expected.fit(*collections(rows))
    with connected("local:2") as other:
        model = clone(expected).set_params(client=other)
        pid = next(iter(other.run(os.getpid).values()))
        seen = LikelihoodOfParts.gradients

        def and_kill(self: LikelihoodOfParts, stack: Any) -> Any:
            if self.n_gradients == 5:
                os.kill(pid, signal.SIGKILL)
            return seen(self, stack)

        monkeypatch.setattr(LikelihoodOfParts, "gradients", and_kill)
        model.fit(*collections(rows))
    np.testing.assert_allclose(model.posterior_.mean, expected.posterior_.mean, atol=1e-6)
    assert model.evidence_ == pytest.approx(expected.evidence_, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "given", "message"),
    [
        ({"method": "independent-binary"}, {}, "needs all rows in one place"),
        ({"method": Laplace(covariance="low-rank")}, {}, "looks at single rows of all workers"),
        ({"method": Laplace(rank=2)}, {}, "looks at single rows of all workers"),
        ({"checkpoint": "kept"}, {}, "checkpoint and resume are for stochastic fits"),
        ({}, {"groups": [0]}, "groups are for rows that are held out"),
        ({}, {"classes": ["a", "b"]}, "c"),
    ],
)
def test_what_is_not_there(
    client: Any, rows: Any, settings: dict[str, Any], given: dict[str, Any], message: str
) -> None:
    model = BayesianClassifier(client=client, **settings)
    with pytest.raises(ValueError, match=message):
        model.fit(*collections(rows), **given)
    with pytest.raises(AttributeError, match="to_local"):
        _ = model.partial_fit
    with contextlib.suppress(AttributeError):
        assert not model.classes_
