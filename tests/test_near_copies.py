"""Rows that are copies but for a little noise stay on one side of every split."""

import warnings

import numpy as np
import pytest

from benchmarks.field import dense, sparse
from bigcat import LinearClassifier
from bigcat.training import near_copies
from bigcat.training.near_copies import kinds_of
from bigcat.training.data import TrainingData, hold_out


def choice_of(model):
    assert model.history_.choice is not None
    return model.history_.choice


def jittered(n_different=120, copies=5, jitter=0.05, n_features=20, n_classes=5, seed=0):
    """Clouds, each row several times with a little noise; which row it was; and new rows."""
    rng = np.random.default_rng(seed)
    X, y = dense.clouds(n_features, n_classes, 0.5)(rng, n_different + 2_000)
    rows = np.tile(np.arange(n_different), copies)
    noisy = X[rows] + jitter * rng.standard_normal((len(rows), n_features))
    return noisy, y[rows], rows, X[n_different:], y[n_different:]


def with_code_for_missing(draw):
    """A tenth of the values are -999, so that rows lie in groups by which ones are missing."""

    def change(rng, n):
        X, y = draw(rng, n)
        return np.where(rng.random(X.shape) < 0.1, -999.0, X), y

    return change


def sample_of(X, y):
    return TrainingData(X, np.unique(y, return_inverse=True)[1], np.ones(len(y)))


def same_partition(a, b):
    return len(np.unique(a)) == len(np.unique(b)) == len(np.unique(np.stack([a, b]), axis=1).T)


@pytest.mark.parametrize("jitter", [1e-6, 1e-3, 0.05, 0.2])
@pytest.mark.parametrize("copies", [2, 5, 12])
def test_copies_are_found_whatever_the_noise(jitter, copies):
    X, y, rows, *_ = jittered(600 // copies, copies, jitter)
    found = kinds_of(sample_of(X, y))
    assert found.told["near_copies"] > 0.85
    assert found.searched is None
    n_right = sum(len(np.unique(found.of_row[rows == row])) == 1 for row in np.unique(rows))
    assert n_right >= 0.85 * len(np.unique(rows))
    assert len(np.unique(found.of_row)) >= 0.95 * len(np.unique(rows))


def test_copies_of_sparse_rows():
    rng = np.random.default_rng(0)
    texts, y = sparse.topics(500, 5, 0.3)(rng, 150)
    rows = np.tile(np.arange(150), 4)
    X = texts[rows].tocsr()
    X.data *= rng.uniform(0.9, 1.1, X.nnz)
    found = kinds_of(sample_of(X, y[rows]))
    assert same_partition(found.of_row, rows)


@pytest.mark.parametrize(
    ("draw", "n"),
    [
        (dense.clouds(20, 5, 0.5), 600),
        (dense.clouds(20, 5, 0.5), 60),
        (dense.clouds(1, 3, 2.0), 500),
        (dense.clouds(2, 3, 2.0), 2_000),
        (dense.unit_embeddings(384, 300, 1.5), 900),
        (dense.several_clouds(30, 25, 1.0), 2_000),
        (dense.rounded(dense.clouds(12, 4, 0.5), 5), 700),
        (dense.heavy_tailed(dense.clouds(8, 3, 0.5), 1.7), 350),
        (dense.mixed_columns(4, (4, 12, 30), 12), 2_500),
        (dense.poisson_counts(20, 5, 0.5), 600),
        (with_code_for_missing(dense.clouds(15, 12, 0.7)), 3_000),
        (sparse.topics(500, 20, 0.3), 1_000),
        (sparse.categories((3, 10, 100), 3, 1.0), 1_000),
        (sparse.categories((40,), 4, 1.0), 500),
        (sparse.codes(100), 1_000),
        (sparse.chains(200, 4, 0.9), 1_500),
        (sparse.baskets(500, 20, 0.9), 3_000),
    ],
)
def test_no_alarm_where_rows_are_only_alike(draw, n):
    assert kinds_of(sample_of(*draw(np.random.default_rng(0), n))).told == {}


def test_classes_of_few_rows_that_are_alike_are_no_copies():
    """Four rows per class, far from all others: they are what a class is."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 4)
    X = 10.0 * rng.standard_normal((100, 30))[y] + rng.standard_normal((400, 30))
    assert kinds_of(sample_of(X, y)).told == {}


def test_near_copies_do_not_judge_the_ridge():
    """120 rows, five times each: -5.88 nats per new row, where class frequencies have -1.64."""
    X, y, _, X_new, y_new = jittered()
    with pytest.warns(UserWarning, match="nearly copies of other rows of their class"):
        model = LinearClassifier(random_state=0).fit(X, y)
    frequencies = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, y_new).mean() > frequencies + 0.5
    assert choice_of(model)["near_copies"] > 0.95


def test_near_copies_do_not_judge_passes(monkeypatch):
    X, y, _, X_new, y_new = jittered(700, 3, 0.2, 30, 40)
    with pytest.warns(UserWarning, match="nearly copies"):
        model = LinearClassifier(random_state=0, n_threads=1).fit(X, y)
    monkeypatch.setattr(near_copies, "MANY", 2.0)  # as if there were none
    without = LinearClassifier(random_state=0, n_threads=1).fit(X, y)
    gain = model.log_proba_of(X_new, y_new) - without.log_proba_of(X_new, y_new)
    assert gain.mean() > 0.1


def test_rows_to_judge_by_that_are_given_need_no_search():
    X, y, _, X_new, y_new = jittered()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearClassifier(random_state=0).fit(X, y, X_val=X_new[:500], y_val=y_new[:500])
    assert "near_copies" not in choice_of(model)


def test_of_very_many_rows_those_are_held_out_whose_copies_are_known(monkeypatch):
    X, y, rows, *_ = jittered(1_000, 3, 0.05, 30, 4)
    monkeypatch.setattr(near_copies, "MOST_PRODUCTS", 30 * 750 * 400)
    sample = sample_of(X, y)
    kinds = kinds_of(sample)
    assert kinds.searched is not None
    assert 0 < kinds.searched.sum() < len(kinds.searched)
    numbered = sample._replace(row_weights=1.0 + rows)  # so that rows tell which they are
    kept, held = hold_out(numbered, 4, 0.1, np.random.RandomState(0), "", kinds)
    assert held.n_rows > 200
    assert not np.isin(held.row_weights, kept.row_weights).any()
