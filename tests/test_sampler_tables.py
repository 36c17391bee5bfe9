"""Declarations of samplers, and the tables that they draw from."""

import numpy as np
import pytest
import scipy.sparse

from bigcat.rows import Problem, as_rows
from bigcat.samplers import (
    REGISTRY,
    CoOccurrence,
    Frequency,
    Shared,
    Stratified,
    Uniform,
)
from bigcat.samplers import _alias as alias
from bigcat.samplers import _features as features
from tests.test_samplers import some_problem

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


# Options


def test_classes_that_are_always_in_come_sorted():
    counts = np.array([3.0, 9.0, 1.0, 9.0, 4.0])
    assert Uniform(1, exact_classes=3).head_of(counts, None).tolist() == [1, 3, 4]  # type: ignore
    assert Uniform(1, exact_classes=0).head_of(counts, None).tolist() == []  # type: ignore

    def number_of(labels):
        return np.array(["abcde".index(label) for label in labels])

    assert Uniform(1, exact_classes=["d", "a", "d"]).head_of(counts, number_of).tolist() == [0, 3]
    with pytest.raises(ValueError, match=r"exact_classes=\['z'\] holds labels that y does not"):
        Uniform(1, exact_classes=["z"]).head_of(counts, number_of)


def test_fewer_draws_in_the_first_third_of_the_epochs():
    sampler = Shared(n_negatives=8, n_first=2)
    tag = sampler.lower(some_problem())
    drawn = [sampler.in_epoch(tag, epoch, 9).n_drawn for epoch in range(9)]
    assert drawn == [2, 2, 2, 8, 8, 8, 8, 8, 8]
    assert [sampler.in_epoch(tag, epoch, 2).n_drawn for epoch in range(2)] == [8, 8]
    assert Shared(n_negatives=8).in_epoch(tag, 0, 9) is tag
    assert Shared(8, n_first=8).n_first == 8
    assert Shared(8, n_first=1).n_first == 1
    for wrong in (0, 9):
        with pytest.raises(ValueError, match=f"n_first={wrong} must be from 1 to n_negatives=8"):
            Shared(n_negatives=8, n_first=wrong)


def test_limits_of_shares():
    for kind in (Frequency, Stratified, CoOccurrence, Shared):
        assert (kind(uniform=1.0).uniform, kind(power=0.0).power) == (1.0, 0.0)
        for wrong in (0.0, 1.0001, -0.5):
            with pytest.raises(ValueError, match=r"uniform=.* must be above 0 and at most 1"):
                kind(uniform=wrong)
        for wrong in (-1e-9, np.inf):
            with pytest.raises(ValueError, match=r"power=.* must be a finite number"):
                kind(power=wrong)
    assert CoOccurrence(background=1.0, n_features=1).background == 1.0
    for wrong in (0.0, 1.0001):
        with pytest.raises(ValueError, match=r"background=.* must be above 0 and at most 1"):
            CoOccurrence(background=wrong)


@pytest.mark.parametrize("name", REGISTRY)
def test_threads_have_scratch_space_of_their_own(name):
    sampler = REGISTRY[name]()
    tag = sampler.lower(some_problem())
    other = sampler.with_own_scratch(tag)

    def arrays(value):
        return list(value) if isinstance(value, tuple) else [value]

    for field in tag._fields:
        for one, two in zip(arrays(getattr(tag, field)), arrays(getattr(other, field))):
            if isinstance(one, np.ndarray):
                assert np.shares_memory(one, two) == (field not in sampler.scratch) or not one.size


# Draws in constant time


@pytest.mark.parametrize(
    "q", [[1.0], [0.5, 0.5], [0.7, 0.1, 0.2], [0.0, 0.9, 0.05, 0.05], [0.01] * 50 + [0.5]]
)
def test_slots_of_an_alias_table_add_up_to_the_distribution(q):
    table = alias.alias_table(np.array(q))
    found = np.zeros(len(q))
    for slot, (own, other) in enumerate(zip(table.own, table.other)):
        assert 0.0 <= own <= 1.0
        found[slot] += own / len(q)
        found[other] += (1.0 - own) / len(q)
    np.testing.assert_allclose(found, q, atol=1e-6)
    np.testing.assert_allclose(table.probability, q, rtol=1e-6)
    # And so they are drawn: over all uniform numbers.
    n = 40 * len(q)
    drawn = [alias.alias_draw(table, (i + 0.5) / n) for i in range(n)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=len(q)) / n, q, atol=0.03)


# Classes by feature


def index_of(X, y, n_classes, n=2, row_weights=None):
    X = scipy.sparse.csr_array(np.asarray(X, float))
    y = np.asarray(y, np.int64)
    weights = np.ones(len(y)) if row_weights is None else np.asarray(row_weights, float)
    rows = as_rows(X, np.float64)
    problem = Problem(rows, y, weights, X.shape[1], n_classes)
    return features.feature_index(problem, rows, n)  # type: ignore


def shares(index, feature, n_classes):
    """Return the share of every class among the labels of a feature."""
    total = np.zeros(n_classes, np.float32)
    first, last = index.first_slot[feature], index.first_slot[feature + 1]
    classes = np.arange(n_classes)
    features.add_shares(index.slots, first, last, np.float32(1.0), classes, n_classes, total)
    return total


X = [[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]]


def test_classes_that_want_the_same_places_get_more_of_them():
    """Three classes for two places of the smallest table: it is doubled until each has its own."""
    mask, found = np.uint64(7), {}  # type: ignore
    for k in range(3_000):
        found.setdefault(frozenset(map(int, features._spots(k, mask))), []).append(k)
    classes = next(some[:3] for some in found.values() if len(some) >= 3)
    n_classes = max(classes) + 1
    index = index_of(np.ones((6, 1)), classes + classes[:1] * 3, n_classes)
    size = int(index.first_slot[1])
    assert size in (16, 32, 64)
    expected = np.zeros(n_classes)
    expected[classes] = [4 / 6, 1 / 6, 1 / 6]
    np.testing.assert_allclose(shares(index, 0, n_classes), expected, rtol=1e-6)
