"""Every part in plain Python, on problems of a few rows: what `make coverage` follows line by line.

Compiled code leaves no trace, so these run with ``NUMBA_DISABLE_JIT=1`` only.  Dense and sparse
rows, and low rank beside full rank, take other ways to the same weights, so that there is something
to hold each fit to.
"""

from typing import Any

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import bigcat
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import AugmentReducePosterior
from bigcat.samplers import REGISTRY as SAMPLERS
from bigcat.samplers import Uniform
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import AdaGrad
from tests.conftest import STUDENT_T
from tests.fits import methods_and_noises

pytestmark = [
    pytest.mark.skipif(
        not getattr(numba.config, "DISABLE_JIT", False), reason="compiled code leaves no trace"
    ),
    pytest.mark.filterwarnings("ignore"),
]

N, D, K = 24, 5, 6


@pytest.fixture(scope="module")
def rows():
    rng = np.random.RandomState(0)
    X = rng.standard_normal((N, D)) * (rng.random_sample((N, D)) < 0.7)
    y = (X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y


def fitted(X: Any, y: Any, noise: Any = "gumbel", method: Any = "augment-reduce", **options: Any):
    usual = {"max_epochs": 2, "early_stopping": False, "random_state": 0, "progress": False}
    if "sampler" not in options and method not in ("exact", "bouchard"):
        options["sampler"] = Uniform(2)
    options = {**usual, **options}
    return LinearClassifier(noise, method, **options).fit(X, y)


def with_two_draws(name: str) -> Any:
    sampler = SAMPLERS[name]()
    return sampler.with_options(n_negatives=2) if sampler.n_drawn else sampler


def the_same_for_sparse_rows(rows, atol=2e-5, **options):
    X, y = rows
    dense, sparse = fitted(X, y, **options), fitted(sp.csr_array(X), y, **options)
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), rtol=0, atol=atol)
    for model, form in ((dense, X), (sparse, sp.csr_array(X))):
        proba = model.predict_proba(form)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-3)
        np.testing.assert_allclose(
            model.log_proba_of(form, y), np.log(proba[np.arange(N), y]), atol=1e-4
        )
        classes, _ = model.predict_top_k(form, k=2)
        best = np.sort(proba, axis=1)[:, -1]
        np.testing.assert_allclose(proba[np.arange(N), classes[:, 0]], best, rtol=1e-3)
    return dense


METHODS_AND_NOISES = [(row["name"], noise) for row, noise in methods_and_noises("all")]


@pytest.mark.parametrize(("method", "noise"), METHODS_AND_NOISES)
def test_methods(rows, method, noise):
    noise = STUDENT_T if noise == "custom" else noise
    X, y = rows
    if noise != "gumbel":  # quadrature, value by value
        X, y = X[:12], y[:12]
        assert np.isfinite(fitted(X, y, noise, method, max_epochs=1).predict_proba(X[:2])).all()
    else:
        the_same_for_sparse_rows(rows, method=method)


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "lbfgs"])
def test_solvers(rows, solver, batch_size):
    steps = SOLVERS[solver](batch_size=batch_size)
    the_same_for_sparse_rows(rows, solver=steps)
    X, y = rows  # how often a ridge is applied depends on what the rows cost, so dense ones alone
    assert fitted(X, y, solver=steps, l2=0.3).score(X, y) > -2.0


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "everything"])
def test_samplers(rows, sampler, rank):
    X, y = rows
    if sampler == "co-occurrence":
        X = sp.csr_array(np.abs(X).astype(np.float32))
    for method in ("augment-reduce", "one-vs-each", "complementary", "nce", "importance"):
        for batch_size in (1, 4):
            model = fitted(
                X,
                y,
                method=method,
                sampler=with_two_draws(sampler),
                rank=rank,
                solver=AdaGrad(batch_size=batch_size),
            )
            assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("solver", ["adaptive", "adagrad", "sgd", "damped"])
def test_low_rank(rows, solver):
    for l2, batch_size in ((0.0, 1), (0.3, 4)):
        for weights in (None, "balanced"):
            options: dict[str, Any] = {"solver": SOLVERS[solver](batch_size=batch_size), "l2": l2}
            the_same_for_sparse_rows(rows, rank=2, class_weight=weights, **options)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("method", ["exact", "bouchard", "one-vs-each"])
def test_all_classes(rows, method, rank):
    for solver in ("sgd", "adagrad", "adaptive"):
        if method == "bouchard" and rank:
            continue
        the_same_for_sparse_rows(
            rows,
            method=method,
            solver=SOLVERS[solver](batch_size=4),
            sampler="everything",
            rank=rank,
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_defaults(rows, sparse):
    X, y = rows
    more: list[dict[str, Any]] = [{}, {"rank": 2}, {"n_threads": 2}]
    for options in more:
        X_of_kind = sp.csr_array(X.astype(np.float32)) if sparse else X
        model = LinearClassifier(progress=False, random_state=0, max_epochs=2, **options)
        assert np.isfinite(model.fit(X_of_kind, y).score(X_of_kind, y))


@pytest.mark.parametrize("method", ["laplace", "independent-binary", "augment-reduce"])
def test_posteriors(rows, method):
    X, y = rows
    if method == "augment-reduce":
        method = AugmentReducePosterior(max_epochs=2)
    model = BayesianClassifier(method=method, random_state=0, progress=False, n_threads=1)
    for X_of_kind in (X[:, :2], sp.csr_array(X[:, :2])):
        low, high = model.fit(X_of_kind, y % 3).predict_interval(X_of_kind[:2])
        assert (low <= high).all()


def test_every_pair_of_parts_is_refused_or_fits(rows):
    """Each bound with each solver: an error before any work, or finite weights."""
    X, y = rows
    fits, refused = 0, []
    for row in bigcat.methods():
        for solver in SOLVERS:
            try:
                model = fitted(X, y, method=row["name"], solver=solver, max_epochs=1)
            except ValueError as error:
                refused.append(str(error))
                continue
            assert np.isfinite(model.coef_).all()
            fits += 1
    assert fits > 20
    assert all(f"solver='{name}'" in " ".join(refused) for name in ("umax", "implicit"))
