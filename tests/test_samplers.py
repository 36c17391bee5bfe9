"""The battery of the samplers: never the label, no class twice, and honest counts.

Statistical tests have fixed seeds, and limits that a right sampler exceeds once in a million
seeds (each of them).
"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import bigcat.samplers
from bigcat._jit import kernel
from bigcat._random import new_state
from bigcat._seam import draw
from bigcat.samplers import REGISTRY, Everything, Sampler, Uniform

FALSE_ALARM = 1e-6


@kernel
def draw_many(sampler, rng, label, classes, counts, sizes, always):
    for r in range(classes.shape[0]):
        sizes[r], always[r] = draw(sampler, rng, label, classes[r], counts[r])


def all_drawn(sampler, n_classes, label, repeats, seed=0, head=None):
    """Many draws: classes and counts (repeats, n), how many are always in, the label's count."""
    width = sampler.width(n_classes, head)
    classes, counts = np.full((repeats, width), -1), np.full((repeats, width + 1), np.nan)
    sizes, always = np.empty(repeats, np.int64), np.empty(repeats, np.int64)
    tag, rng = sampler.lower(n_classes, head), new_state(np.random.RandomState(seed))
    draw_many(tag, rng, label, classes, counts, sizes, always)
    n = sizes[0]
    assert (sizes == n).all()
    assert (always == always[0]).all()
    assert (counts[:, n] == counts[0, n]).all()
    return classes[:, :n], counts[:, :n], always[0], counts[0, n]


def drawn(*arguments, **options):
    return all_drawn(*arguments, **options)[:3]


def members():
    """Every sampler; one that draws a number of classes with several, around half of them too."""
    for name, kind in REGISTRY.items():
        if hasattr(kind, "n_negatives"):
            for n in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 40):
                yield pytest.param(kind(n_negatives=n), id=f"{name}-{n}")
        else:
            yield pytest.param(kind(), id=name)


every_member = pytest.mark.parametrize("sampler", list(members()))
HEADS = [None, [], [3], [0, 5, 9], list(range(11))]
every_head = pytest.mark.parametrize("head", HEADS, ids=str)


def test_registry_is_what_the_package_exports():
    assert {kind.__name__ for kind in REGISTRY.values()} == (
        set(bigcat.samplers.__all__) - {"Sampler"}
    )
    assert all(name == kind.name for name, kind in REGISTRY.items())
    with pytest.raises(TypeError, match=r"Sampler is a base class; use a member of bigcat\.samp"):
        Sampler().lower(3)


@every_member
@every_head
@pytest.mark.parametrize("label", [0, 5, 10])
def test_never_the_label_never_twice_counts_add_up(sampler, head, label):
    classes, counts, always = drawn(sampler, 11, label, 60, head=head)
    assert ((classes >= 0) & (classes < 11)).all()
    assert not (classes == label).any()
    ordered = np.sort(classes, axis=1)
    assert (np.diff(ordered, axis=1) > 0).all()
    # What the counts stand for, together, is all other classes.
    np.testing.assert_allclose(counts.sum(axis=1), 10.0, rtol=1e-12)
    expected = [k for k in head or [] if k != label]
    assert always == len(expected)
    assert (classes[:, :always] == expected).all()
    assert (counts[:, :always] == 1.0).all()


@every_member
@every_head
@pytest.mark.parametrize("label", [0, 5, 10])
def test_the_labels_count_is_that_of_a_class_like_it(sampler, head, label):
    """Of the always-in classes, were it one of them, and else of those that are drawn."""
    _, counts, always, label_count = all_drawn(sampler, 11, label, 3, head=head)
    kind = counts[0, :always] if label in (head or []) else counts[0, always:]
    expected = kind[0] if kind.size else 1.0
    assert label_count == pytest.approx(expected, rel=1e-15)
    # And so it is counted where it is drawn for another label.
    classes, counts, _, _ = all_drawn(sampler, 11, 4, 200, head=head)
    assert label_count == pytest.approx(counts[classes == label][0], rel=1e-15)


@every_member
@every_head
def test_counts_are_inverse_inclusion_probabilities(sampler, head):
    repeats, label = 20_000, 5
    classes, counts, _ = drawn(sampler, 11, label, repeats, seed=1, head=head)
    weight = np.zeros((repeats, 11))
    np.put_along_axis(weight, classes, counts, axis=1)
    limit = stats.norm.isf(FALSE_ALARM / 2 / 10)  # ten classes
    for k in range(11):
        if k == label:
            assert not weight[:, k].any()
        else:
            error = weight[:, k].std() / np.sqrt(repeats)
            assert abs(weight[:, k].mean() - 1.0) <= limit * error + 1e-12


@pytest.mark.parametrize("n_negatives", [2, 3, 4])  # two ways to draw, around half of 6
def test_uniform_draws_each_set_equally_often(n_negatives):
    repeats, label = 30_000, 2
    classes, counts, _ = drawn(Uniform(n_negatives), 7, label, repeats, seed=2)
    assert (counts == 6 / n_negatives).all()
    sets = list(combinations([k for k in range(7) if k != label], n_negatives))
    place = {chosen: i for i, chosen in enumerate(sets)}
    seen = np.bincount([place[tuple(row)] for row in np.sort(classes, axis=1)], minlength=len(sets))
    assert stats.chisquare(seen).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("n_classes", "n_negatives"), [(1000, 20), (1000, 499), (1000, 501)])
def test_uniform_frequencies_with_many_classes(n_classes, n_negatives):
    """Covariances of draws without replacement make this sum chi-squared."""
    repeats, n = 4000, n_classes - 1
    classes, _, _ = drawn(Uniform(n_negatives), n_classes, 321, repeats, seed=3)
    seen = np.delete(np.bincount(classes.ravel(), minlength=n_classes), 321)
    p = n_negatives / n
    statistic = (n - 1) / n * ((seen - repeats * p) ** 2).sum() / (repeats * p * (1 - p))
    assert FALSE_ALARM < stats.chi2.sf(statistic, n - 1) < 1 - FALSE_ALARM


@pytest.mark.parametrize("n_negatives", [4, 5, 6])  # the label in and out of the rest
@pytest.mark.parametrize("label", [1, 7])
def test_uniform_beside_a_head(n_negatives, label):
    head = np.array([1, 8])
    classes, counts, always = drawn(Uniform(n_negatives), 12, label, 30_000, seed=4, head=head)
    rest = np.setdiff1d(np.arange(12), [*head, label])
    assert (counts[:, always:] == len(rest) / n_negatives).all()
    assert classes.shape[1] == always + n_negatives
    seen = np.bincount(classes[:, always:].ravel(), minlength=12)[rest]
    p, n = n_negatives / len(rest), len(rest)
    statistic = (n - 1) / n * ((seen - 30_000 * p) ** 2).sum() / (30_000 * p * (1 - p))
    assert stats.chi2.sf(statistic, n - 1) > FALSE_ALARM


@pytest.mark.parametrize("sampler", [Everything(), Uniform(4), Uniform(5), Uniform(99)], ids=str)
def test_all_others_where_there_are_no_more(sampler):
    classes, counts, always = drawn(sampler, 5, 2, 3)
    assert (np.sort(classes, axis=1) == [0, 1, 3, 4]).all()
    assert (counts == 1.0).all()
    assert always == 0


@every_member
@pytest.mark.parametrize("label", [0, 1])
def test_two_classes(sampler, label):
    classes, counts, _ = drawn(sampler, 2, label, 5)
    assert (classes == 1 - label).all()
    assert classes.shape == (5, 1)
    assert (counts == 1.0).all()


@every_member
def test_seeds(sampler):
    first, _, _ = drawn(sampler, 30, 7, 50, seed=5)
    again, _, _ = drawn(sampler, 30, 7, 50, seed=5)
    assert (first == again).all()
    classes, counts = sampler.sample(30, 7, seed=5)
    assert (classes == first[0]).all()
    assert counts.sum() == pytest.approx(29.0)
    if classes.size < 29:
        other, _, _ = drawn(sampler, 30, 7, 50, seed=6)
        assert (first != other).any()
