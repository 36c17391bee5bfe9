"""`check_leakage` finds near-duplicates and serial dependence, and stays quiet otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from benchmarks.field import dense, repeated, sparse
from bigcat.inspection import check_leakage


def repeated_rows(n_originals=120, copies=5, jitter=0.05, n_features=20, n_classes=5, seed=0):
    """Rows that are noisy copies of others, their labels and the number of each one's original."""
    rng = np.random.default_rng(seed)
    X, y = dense.clouds(n_features, n_classes, 0.5)(rng, n_originals)
    original = rng.permutation(np.tile(np.arange(n_originals), copies))
    noise = jitter * rng.standard_normal((len(original), n_features))
    return X[original] + noise, y[original], original


def sessions(n=1_000, seed=3):
    """Rows of one person after another, three classes."""
    return repeated.sessions(12, 3, 6.0, 0.4, 1.0)(np.random.default_rng(seed), n)


def with_code_for_missing(draw):
    """A tenth of the values are -999, so rows cluster by which values are missing."""

    def change(rng, n):
        X, y = draw(rng, n)
        return np.where(rng.random(X.shape) < 0.1, -999.0, X), y

    return change


def groups_of(report):
    assert report.near_duplicate_groups is not None
    return report.near_duplicate_groups


def is_quiet(report):
    return report.near_duplicate_groups is None and report.block_length is None


def same_partition(a, b):
    return len(np.unique(a)) == len(np.unique(b)) == len(np.unique(np.stack([a, b]), axis=1).T)


# Near-duplicates


@pytest.mark.parametrize("jitter", [0.0, 1e-6, 1e-3, 0.05, 0.2])
@pytest.mark.parametrize("copies", [2, 5, 12])
def test_repeated_rows_are_found_at_every_noise(jitter, copies):
    X, y, original = repeated_rows(600 // copies, copies, jitter)
    report = check_leakage(X, y)
    assert report.near_duplicate_share > 0.85
    assert report.block_length is None
    assert "groups=report.near_duplicate_groups" in report.recommendation
    groups = groups_of(report)
    together = [len(np.unique(groups[original == row])) == 1 for row in range(600 // copies)]
    assert np.mean(together) >= 0.85
    assert len(np.unique(groups)) >= 0.95 * len(together)


@pytest.mark.parametrize("jitter", [0.0, 0.05])
def test_groups_make_near_duplicates_vanish(jitter):
    X, y, original = repeated_rows(jitter=jitter)
    report = check_leakage(X, y)
    assert same_partition(report.near_duplicate_groups, original)
    for groups in (original, report.near_duplicate_groups, [f"row {i}" for i in original]):
        found = check_leakage(X, y, groups)
        assert found.near_duplicate_share == 0.0
        assert is_quiet(found)
        assert found.n_groups == 120


def test_noise_on_the_blank_border_of_pictures_hides_no_copies():
    X, y = load_digits(return_X_y=True)
    assert check_leakage(X, y).near_duplicate_share == 0.0
    original = np.tile(np.arange(len(y)), 3)
    X = X[original] + 0.2 * np.random.default_rng(0).standard_normal((len(original), 64))
    assert check_leakage(X, y[original]).near_duplicate_share > 0.85


@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
def test_columns_of_other_units_beside_binary_ones_raise_no_alarm(scale):
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=3_000)
    binary = rng.random((3_000, 10)) < 0.3 + 0.1 * y[:, None]
    rates = scale * (rng.standard_normal((4, 5))[y] + rng.standard_normal((3_000, 5)))
    assert check_leakage(np.concatenate([binary, rates], axis=1), y).near_duplicate_share < 0.05


def test_groups_that_split_copies_are_merged():
    X, y, original = repeated_rows(n_originals=200, copies=2)
    pair = original // 2
    groups = np.where(np.arange(len(y)) % 2, pair, 1_000 + pair)
    report = check_leakage(X, y, groups)
    assert 0.2 < report.near_duplicate_share < 1.0
    merged = groups_of(report)
    for keep_together in (groups, original):
        assert all(len(np.unique(merged[keep_together == k])) == 1 for k in keep_together)
    assert check_leakage(X, y, merged).near_duplicate_share == 0.0


def test_near_duplicates_that_connect_all_groups_have_no_merged_groups():
    X, y, _ = repeated_rows(copies=2)
    report = check_leakage(X, y, groups=np.arange(len(y)) % 2)
    assert report.near_duplicate_share > 0.3
    assert report.near_duplicate_groups is None
    assert "drop them" in report.recommendation


def test_noisy_texts_are_found():
    rng = np.random.default_rng(0)
    texts, y = sparse.topics(500, 5, 0.3)(rng, 150)
    original = np.tile(np.arange(150), 4)
    X = texts[original].tocsr()
    X.data *= rng.uniform(0.9, 1.1, X.nnz)
    assert same_partition(check_leakage(X, y[original]).near_duplicate_groups, original)


def test_dense_and_sparse_rows_and_frames_have_the_same_exact_duplicates():
    pandas = pytest.importorskip("pandas")
    X, y, original = repeated_rows(jitter=0.0)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])[y]
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])])
    for rows in (X.tolist(), X.astype(np.float32), sp.csr_array(X), sp.csc_matrix(X), frame):
        report = check_leakage(rows, names)
        assert same_partition(report.near_duplicate_groups, original)


def test_rows_that_coincide_by_chance_are_no_duplicates():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=600)
    one_category = sp.csr_array(np.eye(200)[rng.integers(200, size=600)])
    two_grades = rng.integers(10, size=(600, 2)).astype(float)
    for X in (one_category, two_grades):
        assert check_leakage(X, y).near_duplicate_share < 0.05


# Serial dependence


def test_sessions_are_found_and_groups_make_them_vanish():
    X, y, person = sessions()
    report = check_leakage(X, y)
    assert report.serial_dependence > 0.2
    assert report.serial_dependence > 4.0 * report.standard_error > 0.0
    assert report.block_length in range(8, 51)
    assert f"np.arange(len(y)) // {report.block_length}" in report.recommendation
    assert "shuffle the rows" in report.recommendation
    assert is_quiet(check_leakage(X, y, person))
    order = np.random.default_rng(0).permutation(len(y))
    assert is_quiet(check_leakage(X[order], y[order]))


@pytest.mark.parametrize("order", ["by time", "by a column", "by class, then person"])
def test_ordered_rows_are_found_and_shuffled_ones_are_not(order):
    rng = np.random.default_rng(0)
    X, y = repeated.moving(10, 4, 0.6, 6.0)(rng, np.sort(rng.random(2_000)))
    if order == "by a column":
        X, y = dense.clouds(3, 4, 0.5)(rng, 2_000)
        first = np.argsort(X[:, 0])
        X, y = X[first], y[first]
    elif order == "by class, then person":
        X, y, _ = sessions()
        first = np.argsort(y, kind="stable")
        X, y = X[first], y[first]
    assert check_leakage(X, y).block_length is not None
    shuffled = rng.permutation(len(y))
    assert is_quiet(check_leakage(X[shuffled], y[shuffled]))


# No false alarms


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
        (sparse.crossed(8, 3, 1.0), 1_000),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_independent_rows_raise_no_alarm(draw, n, seed):
    report = check_leakage(*draw(np.random.default_rng(seed), n))
    assert is_quiet(report)
    assert report.near_duplicate_share < 0.1


@pytest.mark.parametrize("n_features", [1, 2, 5, 30])
def test_small_data_raise_no_alarm_at_many_seeds(n_features):
    alarms = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        y = rng.integers(3, size=120)
        X = 2.0 * rng.standard_normal((3, n_features))[y] + rng.standard_normal((120, n_features))
        alarms += not is_quiet(check_leakage(X, y))
    assert alarms == 0


# The report and its input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": [0, 1]}, "inconsistent numbers of samples"),
        ({"groups": np.zeros(60)}, "one group only"),
        ({"groups": [None, *"abc"] * 15}, "missing values"),
        ({"y": np.zeros(60)}, "y holds one class only, 0.0; a classifier needs at least 2"),
        ({"y": np.arange(59) % 2}, "inconsistent numbers of samples"),
        (
            {"X": np.full((60, 2), np.nan)},
            "X holds NaN in rows 0, 1, 2, 3, 4 and 55 more of columns",
        ),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"X": np.random.default_rng(0).standard_normal((60, 2)), "y": np.arange(60) % 2}
    with pytest.raises(ValueError, match=message):
        check_leakage(**(given | change))
