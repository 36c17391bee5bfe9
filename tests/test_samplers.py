"""The battery of the samplers: never the label, no class twice, and honest counts.

Statistical tests have fixed seeds, and limits that a right sampler exceeds once in a million
seeds (each of them).
"""

import dataclasses
from itertools import combinations, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from forms import many
from scipy import stats

import reference.samplers as twin
from bigcat import LinearClassifier, bounds
from bigcat.compile import implement, kernel
from bigcat.noise import Gumbel
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows
from bigcat.samplers import (
    REGISTRY,
    CoOccurrence,
    Everything,
    Sampler,
    Stratified,
    Uniform,
)
from bigcat.verbs import draw, step

FALSE_ALARM = 1e-6


@kernel
def draw_many(sampler, rng, rows, i, label, classes, counts, sizes, always):
    for r in range(classes.shape[0]):
        sizes[r], always[r] = draw(sampler, rng, rows, i, label, classes[r], counts[r])


def some_problem(n_classes=11, head=None, n_rows=60, n_features=9):
    """Sparse rows of which the second has no feature, and classes of which the last has no row."""
    rng = np.random.default_rng(n_classes)
    X = (rng.random((n_rows, n_features)) < 0.4) * rng.uniform(0.5, 2.0, (n_rows, n_features))
    X[1] = 0.0
    y = np.minimum(rng.geometric(0.3, n_rows) - 1, max(n_classes - 2, 0))
    head = np.asarray([] if head is None else head, np.int64)
    rows = as_rows(scipy.sparse.csr_array(X), np.float64)
    return Problem(rows, y, np.ones(n_rows), n_features, n_classes, head=head)


def draws(sampler, problem, label, repeats, seed=0, row=0):
    """Many draws: classes (-1 beyond the drawn ones), counts, sizes, how many are always in."""
    width = sampler.width(problem.n_classes, problem.head)
    classes, counts = np.full((repeats, width), -1), np.full((repeats, width + 1), np.nan)
    sizes, always = np.empty(repeats, np.int64), np.empty(repeats, np.int64)
    tag, rng = sampler.lower(problem), new_state(np.random.RandomState(seed))
    draw_many(tag, rng, problem.rows, row, label, classes, counts, sizes, always)
    beyond = np.arange(width) >= sizes[:, None]
    assert ((classes == -1) == beyond).all()
    return classes, counts, sizes, always


def all_drawn(sampler, n_classes, label, repeats, seed=0, head=None):
    """Return (repeats, n) arrays of draws of one size, and the label's count."""
    problem = some_problem(n_classes, head)
    classes, counts, sizes, always = draws(sampler, problem, label, repeats, seed)
    n = sizes[0]
    assert (sizes == n).all()
    assert (always == always[0]).all()
    assert (counts[:, n] == counts[0, n]).all()
    return classes[:, :n], counts[:, :n], always[0], counts[0, n]


def drawn(*arguments, **options):
    return all_drawn(*arguments, **options)[:3]


def weight_of_classes(classes, counts, n_classes):
    """Return the count of each class in each draw, 0 if not drawn: (repeats, n_classes)."""
    weight = np.zeros((len(classes), n_classes + 1))
    np.put_along_axis(weight, classes, counts[:, : classes.shape[1]], axis=1)  # -1: the last
    return weight[:, :n_classes]


WITH_REPLACEMENT = ("frequency", "stratified", "co-occurrence", "shared")


def members(names, numbers=(1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 40)):
    """Samplers; one that draws a number of classes with several, around half of them too."""
    for name in names:
        kind: Any = REGISTRY[name]
        options = {"n_head": 3} if hasattr(kind, "n_head") else {}
        if hasattr(kind, "n_negatives"):
            for n in numbers:
                yield pytest.param(kind(n_negatives=n, **options), id=f"{name}-{n}")
        else:
            yield pytest.param(kind(), id=name)


ONE_SIZE = [name for name in REGISTRY if name not in WITH_REPLACEMENT]
every_member = pytest.mark.parametrize("sampler", list(members(ONE_SIZE)))
any_size = pytest.mark.parametrize("sampler", list(members(REGISTRY, (1, 4, 16))))
with_replacement = pytest.mark.parametrize("sampler", list(members(WITH_REPLACEMENT, (1, 5, 16))))
HEADS = [None, [], [3], [0, 5, 9], list(range(11))]
every_head = pytest.mark.parametrize("head", HEADS, ids=str)


@every_member
@every_head
@pytest.mark.parametrize("label", [0, 5, 10])
def test_never_the_label_never_twice_counts_add_up(sampler, head, label):
    classes, counts, always = drawn(sampler, 11, label, 60, head=head)
    assert ((classes >= 0) & (classes < 11)).all()
    assert not (classes == label).any()
    ordered = np.sort(classes, axis=1)
    assert (np.diff(ordered, axis=1) > 0).all()
    # The counts together stand for all other classes.
    np.testing.assert_allclose(counts.sum(axis=1), 10.0, rtol=1e-12)
    expected = [k for k in head or [] if k != label]
    assert always == len(expected)
    assert (classes[:, :always] == expected).all()
    assert (counts[:, :always] == 1.0).all()


@any_size
@every_head
@pytest.mark.parametrize("row", [0, 1])
def test_counts_make_sums_unbiased(sampler, head, row):
    """Class by class; none twice in a draw, never the label, the head first."""
    repeats, label, problem = many(20_000), 5, some_problem(11, head)
    classes, counts, _, always = draws(sampler, problem, label, repeats, seed=1, row=row)
    expected = [k for k in head or [] if k != label]
    assert (classes[:, : len(expected)] == expected).all()
    assert (always >= len(expected)).all()
    assert (counts[:, : always[0]] == 1.0).all()
    ordered = np.sort(classes, axis=1)
    assert ((np.diff(ordered, axis=1) > 0) | (ordered[:, 1:] == -1)).all()
    weight = weight_of_classes(classes, counts, 11)
    assert not weight[:, label].any()
    limit = stats.norm.isf(FALSE_ALARM / 2 / 10)  # ten classes
    for k in np.delete(np.arange(11), label):
        error = weight[:, k].std() / np.sqrt(repeats)
        assert abs(weight[:, k].mean() - 1.0) <= limit * error + 1e-7


@pytest.mark.parametrize("n_negatives", [2, 3, 4])  # two ways to draw, around half of 6
def test_uniform_draws_each_set_equally_often(n_negatives):
    repeats, label = many(30_000), 2
    classes, counts, _ = drawn(Uniform(n_negatives), 7, label, repeats, seed=2)
    assert (counts == 6 / n_negatives).all()
    sets = list(combinations([k for k in range(7) if k != label], n_negatives))
    place = {chosen: i for i, chosen in enumerate(sets)}
    seen = np.bincount([place[tuple(row)] for row in np.sort(classes, axis=1)], minlength=len(sets))
    assert stats.chisquare(seen).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sampler", [Everything(), Uniform(4), Uniform(5), Uniform(99)], ids=str)
def test_all_others_where_there_are_no_more(sampler):
    classes, counts, always = drawn(sampler, 5, 2, 3)
    assert (np.sort(classes, axis=1) == [0, 1, 3, 4]).all()
    assert (counts == 1.0).all()
    assert always == 0


@any_size
def test_seeds(sampler):
    problem = some_problem(30)
    first = draws(sampler, problem, 7, 50, seed=5)[0]
    assert (first == draws(sampler, problem, 7, 50, seed=5)[0]).all()
    if len(np.unique(first, axis=0)) > 1:
        assert (first != draws(sampler, problem, 7, 50, seed=6)[0]).any()
    rows = problem.rows
    X = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=(60, 9))
    classes, counts = sampler.sample(30, 7, seed=5, X=X, y=problem.labels)
    assert (classes == first[0][first[0] >= 0]).all()
    assert counts.shape == classes.shape


# Draws with replacement


def probabilities(sampler, problem, row):
    """Return draw probabilities by the twin (0 if always drawn), and the classes always drawn."""
    frequencies = np.bincount(problem.labels, minlength=problem.n_classes)
    head = tuple(int(k) for k in problem.head)
    if isinstance(sampler, Stratified):
        head = twin.most_frequent(frequencies, sampler.n_head, head)
    q = twin.frequency(frequencies, sampler.power, sampler.uniform, head)
    if isinstance(sampler, CoOccurrence):
        shape = (problem.n_rows, problem.n_features)
        rows = problem.rows
        X = scipy.sparse.csr_array((rows.values, rows.indices, rows.indptr), shape=shape)
        options = (sampler.n_features, sampler.background)
        q = twin.co_occurrence(X.toarray() != 0.0, problem.labels, row, q, *options)
        q = np.where(np.isin(np.arange(len(q)), head), 0.0, q)
    return q, head


@with_replacement
@pytest.mark.parametrize("head", [None, [0, 5]], ids=str)
@pytest.mark.parametrize("row", [0, 1, 2])
def test_draws_have_the_twins_probabilities(sampler, head, row):
    repeats, label, problem = many(20_000), 1, some_problem(12, head)
    q, always_in = probabilities(sampler, problem, row)
    classes, counts, sizes, always = draws(sampler, problem, label, repeats, seed=2, row=row)
    expected = [k for k in always_in if k != label]
    assert (always == len(expected)).all()
    assert (classes[:, : len(expected)] == expected).all()
    # A count is a whole number of draws over their expected number.
    n, tail = sampler.n_negatives, np.flatnonzero((q > 0.0) & (np.arange(12) != label))
    times = weight_of_classes(classes, counts, 12)[:, tail] * n * q[tail]
    np.testing.assert_allclose(times, np.rint(times), atol=1e-5)
    label_count = counts[np.arange(repeats), sizes]
    in_head = label in always_in
    np.testing.assert_allclose(label_count, 1.0 if in_head else 1.0 / (n * q[label]), rtol=1e-6)
    seen = np.rint(times).sum(axis=0)
    seen, q_seen = np.append(seen, repeats * n - seen.sum()), np.append(q[tail], 1 - q[tail].sum())
    if q_seen[-1] < 1e-12:
        assert seen[-1] == 0
        seen, q_seen = seen[:-1], q_seen[:-1]
    assert stats.chisquare(seen, repeats * n * q_seen / q_seen.sum()).pvalue > FALSE_ALARM


def test_rows_without_weight_are_not_drawn_from():
    """But are drawn for, by the features that other rows have."""
    rows = as_rows(scipy.sparse.csr_array([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]]), np.float64)
    problem = Problem(rows, np.array([0, 1, 2]), np.array([0.0, 1.0, 1.0]), 2, 3)
    sampler = CoOccurrence(n_negatives=8, background=0.1)
    classes, counts, _, _ = draws(sampler, problem, 0, 1000, seed=5)
    q = 0.9 + 0.1 * (0.5 * 0.5 + 0.5 / 3)
    at = classes == 1
    times = counts[:, :-1][at] * 8 * q
    np.testing.assert_allclose(times, np.rint(times), rtol=1e-5)
    assert 7.0 < times.sum() / 1000 < 8.0


# Every sampler with every bound


@kernel
def step_many(bound, rng, label, scores, classes, counts, sizes, always, local, values, grads):
    others, found = np.empty(scores.shape[0]), np.empty(scores.shape[0] + 1)
    for r in range(values.shape[0]):
        n = sizes[r]
        for c in range(n):
            others[c] = scores[classes[r, c]]
        values[r] = step(
            bound, rng, local, 0.0, scores[label], others, counts[r], n, always[r], found
        )
        for c in range(n):
            grads[r, classes[r, c]] = found[c]
        grads[r, label] = found[n]


SAMPLED = [name for name, kind in bounds.REGISTRY.items() if kind.can_sample and kind.is_bound]


@pytest.mark.parametrize("sampler", list(members(REGISTRY, (3,))))
@pytest.mark.parametrize("bound", SAMPLED)
def test_every_bound_is_unbiased_with_every_sampler(bound, sampler):
    """Return the value and all gradients, at fixed local parameters."""
    repeats, n_classes, label, problem = many(20_000), 8, 2, some_problem(8)
    scores = np.random.default_rng(3).normal(size=n_classes)
    part = bounds.REGISTRY[bound]()
    local = part.initial_local(Gumbel(), np.zeros(n_classes))[label]

    def values_and_gradients(which, problem, repeats):
        values, grads = np.empty(repeats), np.zeros((repeats, n_classes))
        rng = new_state(np.random.RandomState(7))
        some = draws(which, problem, label, repeats, seed=7)
        step_many(part.lower(Gumbel()), rng, label, scores, *some, local, values, grads)
        return np.column_stack([values, grads])

    # Classes that are always in make one-vs-each another bound.
    head = probabilities(sampler, problem, 0)[1] if sampler.name == "stratified" else ()
    with_head = dataclasses.replace(problem, head=np.array(head, np.int64))
    full = values_and_gradients(Everything(), with_head, 1)[0]
    found = values_and_gradients(sampler, problem, repeats)
    limit = stats.norm.isf(FALSE_ALARM / 2 / full.size) * found.std(axis=0) / np.sqrt(repeats)
    assert (np.abs(found.mean(axis=0) - full) <= limit + 1e-6).all()


@pytest.mark.parametrize("bound", [n for n, kind in bounds.REGISTRY.items() if kind.can_sample])
def test_bounds_cope_with_no_class_at_all(bound):
    part = bounds.REGISTRY[bound]()
    local = part.initial_local(Gumbel(), np.zeros(5))[0]
    state = new_state(np.random.RandomState(0))
    for progress in (0.0, 0.5):
        grads = np.full(1, np.nan)
        counts = np.array([0.6])
        tag = part.lower(Gumbel())
        value = step(tag, state, local, progress, 0.7, np.empty(0), counts, 0, 0, grads)
        assert np.isfinite(value)
        assert np.isfinite(local).all()
        if bound in ("raman", "nce"):  # the label's own terms depend on its score
            assert np.isfinite(grads[0])
        else:
            assert grads[0] == 0.0


# By name, from end to end


def by_name():
    """Each sampler with each method and solver: training loops of their own."""
    return product(WITH_REPLACEMENT, ("complementary", "augment-reduce"), ("adagrad", "sgd"))


def rows_of_classes(n, seed):
    """A feature of the row's class, and one that says nothing."""
    y = np.arange(n) % 12
    X = np.zeros((n, 24))
    X[np.arange(n), y] = 1.0
    X[np.arange(n), np.random.default_rng(seed).integers(12, 24, n)] = 1.0
    return scipy.sparse.csr_array(X), y


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method", "solver"), list(by_name()))
def test_learning_with_a_sampler_by_name(name, method, solver):
    X, y = rows_of_classes(600, seed=0)
    new = rows_of_classes(300, seed=1)
    options = {"method": method, "solver": solver, "random_state": 0}
    model = LinearClassifier(
        max_epochs=20, sampler=REGISTRY[name]().with_options(n_negatives=16), **options
    )
    assert model.fit(X, y).score(*new) > 0.9
    model = LinearClassifier(
        max_epochs=10, sampler=REGISTRY[name]().with_options(n_negatives=8), **options
    )
    model.set_params(sampler__exact_classes=3)
    assert model.fit(X, y).score(*new) > 0.9
    for part in range(3):
        model.partial_fit(X[part * 200 : (part + 1) * 200], y[part * 200 : (part + 1) * 200])
    assert model.score(*new) > 0.9


# Samplers of one's own


class OwnTag(NamedTuple):
    n_classes: int
    first: int  # of the two classes that a draw gives, counted from the label on


@dataclasses.dataclass(frozen=True, repr=False)
class Neighbours(Sampler):
    """The classes `first` and `first + 1` after the label."""

    name: ClassVar[str] = "neighbours"
    first: int = 1
    turns: bool = True

    def lower(self, problem):
        return OwnTag(problem.n_classes if self.turns else 10**6, self.first)

    def width(self, n_classes, head=None):
        return 2


@implement(draw, OwnTag)
def _(sampler, rng, rows, i, label, classes, counts):
    for c in range(2):
        classes[c] = (label + sampler.first + c) % sampler.n_classes
        counts[c] = 0.5 * (sampler.n_classes - 1)
    counts[2] = counts[0]
    return 2, 0


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            Neighbours(first=0),
            r"Neighbours drew class number \d for a row of that class, .* leave the label out",
        ),
        (
            Neighbours(turns=False),
            r"Neighbours drew class number \d, and classes are numbered from 0 to 6; correct",
        ),
    ],
)
def test_a_bad_draw_is_found_before_the_fit(sampler, message):
    X, y = np.random.default_rng(0).normal(size=(70, 3)), np.arange(70) % 7
    model = LinearClassifier(method="augment-reduce", sampler=sampler, random_state=0)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_co_occurrence_needs_sparse_rows():
    text = (
        r"sampler='co-occurrence' draws classes by the features that a row has and needs sparse "
        r"rows, not a dense array; pass scipy\.sparse\.csr_array\(X\), or take "
        r"sampler='frequency'"
    )
    with pytest.raises(ValueError, match=text):
        LinearClassifier(method="one-vs-each", sampler="co-occurrence").fit(np.eye(3), [0, 1, 2])
