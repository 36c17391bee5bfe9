"""Layouts of rows and weights: dense or sparse, at once or through a buffer, the fit is the same.

Everything is float64 here, so that the order of additions is all that may differ.
"""

from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np
import pytest
import scipy.sparse
from forms import forms, slow

from bigcat.rows import (
    SparseRows,
    as_rows,
    batch_grams,
    class_major,
    is_sparse,
    squared_norms,
    weights_shape,
)
from bigcat.solvers import REGISTRY, SGD
from bigcat.verbs import scores

STOCHASTIC = [name for name, kind in REGISTRY.items() if kind.stochastic]
# With each solver both forms of rows are kernels of their own: one solver without memory here, one
# with it.
stochastic = pytest.mark.parametrize("solver", forms(STOCHASTIC, lambda name: name == "adagrad"))


def sparse_problem(n_rows, n_features, n_classes, nonzeros, seed=0, index=np.int32):
    rng = np.random.default_rng(seed)
    indices = np.concatenate(
        [np.sort(rng.choice(n_features, nonzeros, replace=False)) for _ in range(n_rows)]
    ).astype(index)
    indptr = np.arange(n_rows + 1, dtype=index) * nonzeros
    X = scipy.sparse.csr_array(
        (rng.normal(size=indices.size), indices, indptr), shape=(n_rows, n_features)
    )
    y = rng.integers(0, n_classes, n_rows)
    y[:2] = 0, n_classes - 1
    assert X.indices.dtype == X.indptr.dtype == index
    return X, y


def assert_same(found, expected, tolerance=1e-12):
    for name in ("coef", "intercept", "local", "values"):
        a, b = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max(initial=1.0))
    assert np.abs(expected.coef).max() > 1e-3  # something was learned


def score_rows(rows, weights, scale, intercepts, classes, out):
    for i in range(out.shape[0]):
        scores(rows, i, weights, scale, intercepts, classes, classes.shape[0], out[i])


@pytest.mark.parametrize("scale", [1.0, 3e-5])
@pytest.mark.parametrize(
    ("sparse", "index"), [(False, np.int32), (True, np.int32), (True, np.int64)]
)
def test_scores(sparse, index, scale):
    """The weights are what is stored times a scale; intercepts are not scaled."""
    X, _ = sparse_problem(8, 20, 5, nonzeros=4, index=index)
    rng = np.random.default_rng(1)
    coef, intercept = rng.normal(size=(5, 20)), rng.normal(size=5)
    rows = as_rows(X if sparse else X.toarray(), np.dtype(float))
    assert is_sparse(rows) == sparse
    weights = np.empty(weights_shape(is_sparse(rows), 20, 5))
    class_major(weights, rows)[:] = coef / scale
    classes = np.array([3, 0, 3, 4])
    out = np.empty((8, 4))
    score_rows(rows, weights, scale, intercept, classes, out)
    np.testing.assert_allclose(out, (X @ coef.T + intercept)[:, classes], rtol=1e-13, atol=1e-13)


def with_empty_rows():
    X, _ = sparse_problem(9, 20, 5, nonzeros=4)
    X = X.toarray()
    X[[0, 3, 4, 8]] = 0.0
    return X


@pytest.mark.parametrize("sparse", [False, True])
def test_squared_norms(sparse):
    """Empty rows too: the first, the last, and two in a row."""
    X = with_empty_rows()
    rows = as_rows(scipy.sparse.csr_array(X) if sparse else X, np.dtype(float))
    np.testing.assert_allclose(squared_norms(rows), (X**2).sum(axis=1), rtol=1e-14)
    nothing = np.zeros((3, 4))
    rows = as_rows(scipy.sparse.csr_array(nothing) if sparse else nothing, np.dtype(float))
    assert (squared_norms(rows) == np.zeros(3)).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_inner_products_of_each_batch(sparse):
    X = with_empty_rows()
    rows = as_rows(scipy.sparse.csr_array(X) if sparse else X, np.dtype(float))
    members = np.array([5, 0, 2, 8, 1, 3, 4, 7, 6])
    grams = batch_grams(rows, 20, members, 4)
    assert grams.shape == (3, 4, 4)
    for batch in range(3):
        x = X[members[4 * batch : 4 * batch + 4]]
        n = len(x)
        np.testing.assert_allclose(grams[batch, :n, :n], x @ x.T, rtol=1e-13, atol=1e-15)
    assert not grams[2, 1:].any()
    assert not grams[2, :, 1:].any()


def test_no_copy_where_the_input_fits():
    X, _ = sparse_problem(4, 6, 2, nonzeros=2)
    rows = as_rows(X, np.dtype(float))
    assert isinstance(rows, SparseRows)
    assert np.shares_memory(rows.values, X.data)
    assert np.shares_memory(rows.indices, X.indices)
    dense = X.toarray()
    assert np.shares_memory(as_rows(dense, np.dtype(float)).values, dense)
    assert as_rows(X, np.dtype(np.float32)).values.dtype == np.float32


@pytest.mark.parametrize("sparse", [False, True])
def test_read_only_input_is_the_same_type_to_the_kernels(sparse):
    X, _ = sparse_problem(4, 6, 2, nonzeros=2)
    X = X if sparse else X.toarray()
    types = numba.typeof(as_rows(X, np.dtype(float)))
    for array in (X.data, X.indptr, X.indices) if sparse else (X,):
        array.flags.writeable = False
    assert numba.typeof(as_rows(X, np.dtype(float))) == types


@stochastic
@pytest.mark.parametrize("batch_size", [1, 7])
def test_dense_and_sparse_rows_give_one_trajectory(train, solver, batch_size):
    X, y = sparse_problem(45, 30, 12, nonzeros=5)
    options = {"solver": solver, "batch_size": batch_size, "n_classes": 12}
    sparse, dense = train(X, y, **options), train(X.toarray(), y, **options)
    assert_same(sparse, dense)


@stochastic
def test_the_ridge_too_where_each_batch_sweeps_all(train, solver):
    X, y = sparse_problem(45, 30, 12, nonzeros=5)
    l2 = 300.0 if solver in ("vanilla", "umax", "implicit") else 3.0  # small steps
    options = {"solver": solver, "batch_size": 45, "l2": l2, "epochs": 4}
    sparse, dense = train(X, y, **options), train(X.toarray(), y, **options)
    assert_same(sparse, dense)
    free = train(X, y, **{**options, "l2": 0.0})
    assert np.linalg.norm(sparse.coef) < 0.99 * np.linalg.norm(free.coef)


@stochastic
def test_both_ways_to_apply_a_batch_agree(train, solver):
    """With many classes and few non-zeros the loop visits what a batch touched; dense rows, or few
    classes, take the scan over whole slots."""
    n_classes, nonzeros, batch_size, n_negatives = 3000, 3, 6, 2
    X, y = sparse_problem(30, 40, n_classes, nonzeros)
    triples = batch_size * nonzeros * (n_negatives + 1)
    fewest_majors = nonzeros  # that a batch can touch
    assert fewest_majors * n_classes >= 4 * triples
    options = {"solver": solver, "batch_size": batch_size, "n_negatives": n_negatives}
    assert_same(train(X, y, **options), train(X.toarray(), y, **options))


@dataclass(frozen=True)
class BufferedSGD(SGD):
    """Plain SGD that pretends to need a batch's sum."""

    linear: ClassVar[bool] = False


@pytest.mark.parametrize("sparse", [False, slow(True)])
@pytest.mark.parametrize("n_classes", [12, 3000])
def test_the_buffer_gives_what_direct_updates_give(train, sparse, n_classes):
    X, y = sparse_problem(45, 30, n_classes, nonzeros=5)
    X = X if sparse else X.toarray()
    options = {"batch_size": 8, "n_classes": n_classes}
    direct = train(X, y, solver=SGD(), **options)
    buffered = train(X, y, solver=BufferedSGD(), **options)
    assert_same(buffered, direct)


@stochastic
def test_no_intercept(train, solver):
    X, y = sparse_problem(20, 10, 4, nonzeros=3)
    for rows in (X, X.toarray()):
        found = train(rows, y, solver=solver, fit_intercept=False)
        assert (found.intercept == 0.0).all()
        assert found.coef.any()
