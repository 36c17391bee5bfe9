"""Draws of the samplers with random numbers that are given: what each number leads to.

In plain Python, so that every branch is looked at and nothing is compiled; how often each class
comes is the business of `test_samplers.py`.
"""

import itertools
from collections import Counter

import numpy as np
import pytest
import scipy.sparse

from bigcat.numerics import random as _random
from bigcat.rows import Problem, as_rows
from bigcat.samplers import CoOccurrence, Everything, Frequency, Stratified, Uniform, _base, uniform
from bigcat.samplers._alias import alias_draw
from bigcat.verbs import draw, label_count

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def problem(y, n_classes, head=(), X=None):
    y = np.asarray(y, np.int64)
    X = np.ones((len(y), 1)) if X is None else np.asarray(X, float)
    rows = as_rows(scipy.sparse.csr_array(X), np.float64)
    head = np.asarray(head, np.int64)
    return Problem(rows, y, np.ones(len(y)), X.shape[1], n_classes, head=head)


def drawn(tag, label, rows=None, row=0, width=30):
    """Classes, their counts, the label's, and how many are always in."""
    classes, counts = np.full(width, -1), np.full(width, np.nan)
    n, n_always = draw(tag, None, rows, row, label, classes, counts)
    assert (classes[n:] == -1).all()
    return classes[:n].tolist(), counts[:n].tolist(), counts[n], n_always


def given(monkeypatch, name, numbers):
    """Numbers for the next calls of a function of random numbers; what is left of them."""
    left = list(numbers)
    monkeypatch.setattr(_random, name, lambda rng, *n: left.pop(0))
    return left


# Uniform, without replacement


def distinct(monkeypatch, n, n_others, numbers, start=0):
    left = given(monkeypatch, "below", numbers)
    table, pool = uniform._scratch(n, n_others + 1)  # one more, which the label may be
    out = np.full(start + n_others + 2, -7)
    uniform._distinct(None, n, n_others, table, pool, out, start)
    assert left == []
    assert (out[:start] == -7).all()
    assert (out[start + min(n, n_others) :] == -7).all()
    return out[start : start + min(n, n_others)].tolist()


@pytest.mark.parametrize("n", [3, 4])
def test_all_others_in_their_order(monkeypatch, n):
    assert distinct(monkeypatch, n, 3, [], start=2) == [0, 1, 2]


def test_the_front_of_a_shuffled_list_is_any_list(monkeypatch):
    """Three of five: each of the 60 lists for one triple of random numbers."""
    triples = itertools.product(range(5), range(4), range(3))
    found = Counter(tuple(distinct(monkeypatch, 3, 5, triple, 1)) for triple in triples)
    assert set(found) == set(itertools.permutations(range(5), 3))
    assert set(found.values()) == {1}


def test_what_was_drawn_is_drawn_again(monkeypatch):
    """Two of five, by a hash set: half of them at the most."""
    assert distinct(monkeypatch, 2, 5, [4, 1], start=3) == [4, 1]
    assert distinct(monkeypatch, 2, 5, [4, 4, 4, 0]) == [4, 0]
    assert distinct(monkeypatch, 2, 4, [3, 3, 2]) == [3, 2]  # exactly half
    assert distinct(monkeypatch, 3, 6, [0, 0, 5, 0, 5, 2]) == [0, 5, 2]


def test_random_numbers_are_asked_below_what_is_left(monkeypatch):
    asked = []

    def below(rng, n):
        asked.append(n)
        return 0 if len(asked) < 3 else n - 1

    monkeypatch.setattr(_random, "below", below)
    table, pool = uniform._scratch(3, 5)
    uniform._distinct(None, 3, 5, table, pool, np.empty(5, int), 0)
    assert asked == [5, 4, 3]
    asked.clear()
    uniform._distinct(None, 2, 5, table, pool, np.empty(5, int), 0)
    assert asked == [5, 5, 5]  # 0 twice, then 4


def test_places_of_a_hash_set_meet(monkeypatch):
    """A table that is too small for its keys: searches go on at its beginning."""
    numbers = [3, 7, 3, 11, 7, 15, 11, 15, 2]
    left = given(monkeypatch, "below", numbers)
    out = np.empty(5, int)
    uniform._distinct(None, 5, 100, np.zeros(8, np.int64), np.empty(0, int), out, 0)
    assert out.tolist() == [3, 7, 11, 15, 2]
    assert left == []


@pytest.mark.parametrize("label", [0, 2, 4])
def test_uniform_draws_leave_out_the_label(monkeypatch, label):
    given(monkeypatch, "below", [1, 3])
    tag = Uniform(2).lower(problem([0, 1, 2], 5))
    classes, counts, own, n_always = drawn(tag, label)
    others = [k for k in range(5) if k != label]
    assert classes == [others[1], others[3]]
    assert (counts, own, n_always) == ([2.0, 2.0], 2.0, 0)


@pytest.mark.parametrize("label", [0, 1, 2, 4, 5])
def test_uniform_draws_beside_a_head(monkeypatch, label):
    """Of the classes that are neither in the head nor the label."""
    head, rest = [4, 1], [k for k in (0, 2, 3, 5) if k != label]
    numbers = [1, 0]
    given(monkeypatch, "below", numbers if len(rest) == 4 else [1, 1])
    tag = Uniform(2).lower(problem([0, 1, 2], 6, head))
    classes, counts, own, n_always = drawn(tag, label)
    always = [k for k in head if k != label]
    assert (classes[:n_always], counts[:n_always]) == (always, [1.0] * len(always))
    if len(rest) == 4:  # the label is one of the head: by the hash set
        assert classes[n_always:] == [rest[1], rest[0]]
    else:  # the second of three; then the second of what is left, where the first took its place
        assert classes[n_always:] == [rest[1], rest[2]]
    assert counts[n_always:] == [len(rest) / 2.0] * 2
    assert own == (1.0 if label in head else len(rest) / 2.0)


def test_nothing_is_left_to_draw_beside_a_head():
    tag = Uniform(2).lower(problem([0, 1, 2], 3, [0, 2]))
    assert drawn(tag, 1) == ([0, 2], [1.0, 1.0], 1.0, 2)  # the label is all that is left
    assert drawn(tag, 0) == ([2, 1], [1.0, 1.0], 1.0, 1)


def test_everything():
    tag = Everything().lower(problem([0], 5, [3, 1]))
    assert drawn(tag, 4) == ([3, 1, 0, 2], [1.0] * 4, 1.0, 2)
    assert drawn(tag, 3) == ([1, 0, 2, 4], [1.0] * 4, 1.0, 1)


# By frequency, with replacement


@pytest.mark.parametrize("head", [[], [2]])
def test_draws_by_frequency_are_merged_and_weighed(monkeypatch, head):
    y = [0] * 6 + [1] * 3 + [2] * 2 + [3]
    tag = Frequency(6, power=1.0, uniform=0.5).lower(problem(y, 5, head))
    frequencies, ones = np.array([6.0, 3.0, 2.0, 1.0, 0.0]), np.ones(5)
    frequencies[head] = ones[head] = 0.0
    q = 0.5 * frequencies / frequencies.sum() + 0.5 * ones / ones.sum()
    np.testing.assert_allclose(tag.table.probability, q, rtol=1e-6)
    for label in range(5):
        numbers = [0.05, 0.9, 0.31, 0.06, 0.62, 0.07]
        left = given(monkeypatch, "uniform", numbers)
        times: dict[int, int] = {}
        for u in numbers:
            k = int(alias_draw(tag.table, u))
            times[k] = times.get(k, 0) + (k != label)
        expected = {k: n for k, n in times.items() if n}
        classes, counts, own, n_always = drawn(tag, label)
        always = [k for k in head if k != label]
        assert left == []
        assert classes == [*always, *expected]
        weighed = [n / (6 * q[k]) for k, n in expected.items()]
        np.testing.assert_allclose(counts, [*np.ones(len(always)), *weighed], rtol=1e-6)
        assert own == pytest.approx(1.0 if label in head else 1.0 / (6 * q[label]), rel=1e-6)
        assert label_count(tag, label) == own
        assert n_always == len(always)


def test_a_head_that_is_everything_leaves_no_draws():
    tag = Frequency(6).lower(problem([0, 1], 2, [0, 1]))
    assert tag.n_drawn == 0
    assert drawn(tag, 1) == ([0], [1.0], 1.0, 1)
    sparse = CoOccurrence(6).lower(problem([0, 1], 2, [0, 1]))
    assert sparse.n_drawn == 0
    assert drawn(sparse, 1) == ([0], [1.0], 1.0, 1)


def test_the_head_of_stratified_draws():
    """The most frequent, of equals the first, after those that are exact anyway."""
    y = [3] * 4 + [0] * 2 + [1] * 2 + [2]
    tag = Stratified(2, 5, power=1.0, uniform=0.25).lower(problem(y, 6, [2]))
    assert tag.head.tolist() == [2, 0, 3]
    q = np.array([0.0, 0.75 + 0.25 / 3, 0.0, 0.0, 0.25 / 3, 0.25 / 3])
    np.testing.assert_allclose(tag.table.probability, q, rtol=1e-6)
    assert tag.n_drawn == 5
    alone = Stratified(2, 5).lower(problem(y, 6))
    assert alone.head.tolist() == [0, 3]


# By features


X = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])
Y = [0, 1, 2, 2, 3, 1]
#: Shares of the classes among the rows of a feature.
SHARES = np.array([[1 / 3, 0.0, 2 / 3, 0.0], [1 / 4, 2 / 4, 1 / 4, 0.0]])
BACKGROUND = 0.5 * np.array([1.0, 2.0, 2.0, 1.0]) / 6 + 0.5 / 4


@pytest.mark.parametrize("head", [[], [1]])
@pytest.mark.parametrize("row", [0, 1, 4])
@pytest.mark.parametrize("label", [0, 1, 3])
def test_draws_by_features(monkeypatch, head, row, label):
    """A number below the background picks from that; the rest a feature, then a row that has it."""
    background = 0.25
    sampler = CoOccurrence(8, n_features=2, background=background, power=1.0, uniform=0.5)
    given_rows = problem(Y, 4, head, X)
    tag = sampler.lower(given_rows)
    features = [f for f in (0, 1) if X[row, f]]
    q0 = BACKGROUND.copy()
    if head:
        p = np.array([1.0, 2.0, 2.0, 1.0]) * (np.arange(4) != 1)
        q0 = 0.5 * p / p.sum() + 0.5 / 3 * (np.arange(4) != 1)
    share = background if features else 1.0
    q = share * q0 + (1.0 - share) * (SHARES[features].mean(axis=0) if features else 0.0)
    numbers = [0.05, 0.3, 0.99, 0.2, 0.7, 0.55, 0.31, 0.86]
    left = given(monkeypatch, "uniform", numbers)
    times: dict[int, int] = {}
    index = tag.by_feature
    for u in numbers:
        if u < share:
            k = int(alias_draw(tag.table, u / share))
        else:
            at = (u - share) / (1.0 - share) * len(features)
            f = index.rarest[row][int(at)]
            labels = index.labels[index.first_label[f] : index.first_label[f + 1]]
            k = int(labels[int((at - int(at)) * len(labels))])
        if k != label and k not in head:
            times[k] = times.get(k, 0) + 1
    classes, counts, own, n_always = drawn(tag, label, given_rows.rows, row)
    always = [k for k in head if k != label]
    assert left == []
    assert classes == [*always, *times]
    weighed = [n / (8 * q[k]) for k, n in times.items()]
    np.testing.assert_allclose(counts, [*np.ones(len(always)), *weighed], rtol=1e-5)
    assert own == pytest.approx(1.0 if label in head else 1.0 / (8 * q[label]), rel=1e-5)
    assert n_always == len(always)


def test_scratch_space_of_draws_by_features():
    tag = CoOccurrence(8, background=0.5).lower(problem(Y, 4, X=X))
    assert tag.drawn.shape == tag.q.shape == (9,)
    assert (tag.n_drawn, tag.background) == (8, 0.5)


# Many draws, and bad ones


def as_written(kernel):
    """The function that is compiled, so that it asks for the numbers that are given."""
    return getattr(kernel, "py_func", kernel)


def test_many_draws_and_the_size_of_the_last(monkeypatch):
    given(monkeypatch, "below", [0, 1, 3, 2])
    tag = Uniform(2).lower(problem([0, 1, 2], 5))
    classes, counts = np.full((2, 3), -1), np.zeros((2, 4))
    sample_many = as_written(_base.sample_many)
    n = sample_many(tag, None, None, 0, 0, classes, counts)
    assert n == 2
    assert classes.tolist() == [[1, 2, -1], [4, 3, -1]]
    assert (counts[:, :3] == 2.0).all()
    assert sample_many(tag, None, None, 0, 0, classes[:0], counts[:0]) == 0


@pytest.mark.parametrize(("bad", "found"), [(2, (7, 2)), (-1, (7, -1)), (9, (7, 9)), (0, (-1, -1))])
def test_the_first_bad_draw(monkeypatch, bad, found):
    """The label, a number below 0, or one beyond the classes; the last class is a good one."""

    def draws(sampler, rng, rows, i, label, classes, counts):
        classes[:3] = 8, 1, (bad if i == 7 else 3)
        return 3, 0

    monkeypatch.setattr(_base, "draw", draws)
    labels = np.full(10, 2)
    classes, counts = np.empty(4, int), np.empty(5)
    some = np.array([3, 7, 8])
    first_invalid_draw = as_written(_base.first_invalid_draw)
    assert first_invalid_draw(None, None, None, labels, some, 9, classes, counts) == found


def test_one_draw_for_people():
    """By the rows of X where there are any, else by frequencies; the head comes first."""
    rows = scipy.sparse.csr_array(X.astype(float))
    sampler = CoOccurrence(400, n_features=2, background=0.01)
    classes, counts = sampler.sample(4, 0, seed=1, X=rows, y=Y, row=2)  # type: ignore[arg-type]
    assert sorted(classes[np.argsort(-counts)].tolist()) == sorted(set(classes.tolist()))
    assert 2 in classes
    classes, counts = Frequency(5).sample(4, 1, head=np.array([2]), frequencies=[1, 1, 1, 1])  # type: ignore
    assert (classes[0], counts[0]) == (2, 1.0)
    assert 1 not in classes
    seldom = [
        k
        for seed in range(40)
        for k in Frequency(2, uniform=1e-9).sample(3, 0, seed, frequencies=[1, 50, 1e-9])[0]  # type: ignore
    ]
    assert set(seldom) == {1}
    alike = {k for seed in range(40) for k in Frequency(2, uniform=1e-9).sample(3, 0, seed)[0]}
    assert alike == {1, 2}
