"""Exact fits whose classes several workers own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import bigcat

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from bigcat.dask import LinearClassifier  # noqa: E402
from bigcat.dask.by_class import direction  # noqa: E402

SETTINGS: dict[str, Any] = {
    "method": "exact",
    "solver": bigcat.solvers.LBFGS(tol=1e-7),
    "l2": 1.0,
    "max_epochs": 200,
    "progress": False,
}
N, D, K = 200, 5, 5


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((N, D)) * (rng.uniform(size=(N, D)) < 0.5)
    y = (X @ rng.standard_normal((D, K)) + rng.gumbel(size=(N, K))).argmax(axis=1)
    return X, 10 * y, rng.choice([0.0, 1.0, 2.0], N)


def collections(rows: tuple[np.ndarray, ...], sparse: bool) -> list[Any]:
    X, y, weights = rows
    chunks = da.from_array(X, chunks=(90, D))
    if sparse:
        chunks = chunks.map_blocks(sp.csr_matrix)
    return [chunks, da.from_array(y, chunks=90), da.from_array(weights, chunks=90)]


@pytest.mark.parametrize(
    ("sparse", "n_lanes", "others"),
    [
        (True, 2, {}),
        pytest.param(False, 3, {"fit_intercept": False}, marks=pytest.mark.slow),
        pytest.param(False, 1, {"class_weight": "balanced", "l2": 0.1}, marks=pytest.mark.slow),
    ],
)
def test_the_optimum_is_that_of_one_process(
    client: Any, rows: Any, sparse: bool, n_lanes: int, others: dict[str, Any]
) -> None:
    settings = SETTINGS | others
    ours = LinearClassifier(client=client, n_lanes=n_lanes, **settings)
    ours.fit(*collections(rows, sparse))
    local = bigcat.LinearClassifier(n_threads=1, **settings).fit(*rows)
    np.testing.assert_allclose(ours.coef_, local.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, local.intercept_, atol=2e-4)
    mine, theirs = (model.history_["objective"][-1] for model in (ours, local))
    assert mine == pytest.approx(theirs, abs=1e-6)
    assert len(ours.history_) < 2 * len(local.history_)


def test_a_warning_names_the_line_that_called_fit(client: Any, rows: Any) -> None:
    ours = LinearClassifier(client=client, n_lanes=2, **SETTINGS | {"max_epochs": 2})
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations") as caught:
        ours.fit(*collections(rows, sparse=True))
    told = [warning for warning in caught if warning.category is ConvergenceWarning]
    assert [warning.filename for warning in told] == [__file__]


def test_directions_are_those_of_the_matrix() -> None:
    """What L-BFGS applies is the inverse of the curvature, once it has seen all directions."""
    rng = np.random.RandomState(0)
    root = rng.standard_normal((4, 4))
    curvature = root @ root.T + np.eye(4)
    steps = list(rng.standard_normal((3, 4)))
    bends = [curvature @ step for step in steps]
    slopes = rng.standard_normal(4)
    basis = np.array([*steps, *bends, slopes])
    found = direction(basis @ basis.T) @ basis
    h = np.eye(4) * (steps[-1] @ bends[-1]) / (bends[-1] @ bends[-1])
    for s, y in zip(steps, bends):  # BFGS, one pair after the other
        v = np.eye(4) - np.outer(s, y) / (s @ y)
        h = v @ h @ v.T + np.outer(s, s) / (s @ y)
    np.testing.assert_allclose(found, -h @ slopes, rtol=1e-9)


def test_one_number_per_row_travels(client: Any, rows: Any) -> None:
    """What blocks tell each other of a place is as long as the rows, whatever the classes."""
    from bigcat.dask.by_class import Tried, without_place

    told = without_place(Tried(np.ones((50, 9)), np.zeros(N), 1.0, 2.0))
    assert sum(np.size(part) for part in told) == N + 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 3}, "goes with method='exact' and rank=None"),
        ({"method": "one-vs-each"}, "goes with method='exact' and rank=None"),
        ({"noise": "gaussian"}, "no normaliser that falls apart by class"),
        ({"warm_start": True}, "takes no warm_start"),
        ({"l2": "path"}, "holds no rows out"),
    ],
)
def test_what_is_refused(client: Any, rows: Any, settings: dict[str, Any], message: str) -> None:
    model = LinearClassifier(client=client, **SETTINGS | settings)
    with pytest.raises(ValueError, match=message):
        model.fit(*collections(rows, False))
