"""The battery of the bounds, each with every noise that it accepts, and of the estimators.

A step is taken for one row as the training loop does it, in plain Python: `test_compile.py` shows
that compiled code does the same.
"""

from itertools import combinations
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from forms import many, slow
from scipy import stats
from scipy.special import logsumexp

import reference.bounds as twin
import reference.double_sum
import reference.estimators
from bigcat.bounds import REGISTRY, AugmentReduce, Exact, OneVsEach
from bigcat.bounds._base import full_rows
from bigcat.bounds.exact import TRAINING_QUADRATURE
from bigcat.compile import kernel
from bigcat.noise import Gaussian, Gumbel, Logistic
from bigcat.numerics import random as _random
from bigcat.probabilities import log_probabilities_of
from bigcat.verbs import fit_local, step

LABEL_SCORE = 0.4
OTHERS = np.array([1.3, -0.8, 0.1, -2.5, 2.2])  # asymmetric on purpose
COUNTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
LABEL_COUNT = 1.6
ONES = np.ones(5)
FALSE_ALARM = 1e-6  # of each statistical test, were its seed not fixed


def take_step(bound, rng, local, progress, label_score, others, counts, n_always, grads):
    n = others.shape[0]
    with np.errstate(all="ignore"):
        return step(bound, rng, local, progress, label_score, others, counts, n, n_always, grads)


def fit_one_local(bound, local, label_score, others, counts):
    with np.errstate(all="ignore"):
        fit_local(bound, local, label_score, others, counts, others.shape[0])


@kernel
def take_steps(bound, rng, local, label_score, others, counts, values, grads):
    """Return values and gradients, the label's last, at the same local parameters."""
    for r in range(values.shape[0]):
        values[r] = step(
            bound, rng, local, 0.0, label_score, others, counts, others.shape[0], 0, grads[r]
        )


def state(seed=0):
    return _random.new_state(np.random.RandomState(seed))


class Step(NamedTuple):
    value: float
    grads: np.ndarray  # of the others
    label_grad: float
    local: np.ndarray  # after the step


def value_at(
    case,
    local,
    label_score,
    others,
    counts,
    *,
    label_count=1.0,
    progress=0.0,
    n_always=0,
    seed=0,
):
    local, grads = np.array(local, float), np.full(len(others) + 1, np.nan)
    counts = np.append(counts, label_count)
    arguments = (local, progress, float(label_score), others, counts, n_always, grads)
    value = take_step(case.tag, state(seed), *arguments)
    return Step(value, grads[:-1], grads[-1], local)


def best_local(case, label_score, others, counts):
    local = np.zeros(max(case.bound.n_local, 1))
    counts = np.append(counts, 1.0)
    fit_one_local(case.tag, local, float(label_score), np.asarray(others, float), counts)
    return local


def some_locals(case, n, seed=0):
    """Local parameters far from and near to anything reasonable."""
    rng = np.random.default_rng(seed)
    if case.bound.n_local == 2 and case.pair.name != "gumbel":
        return np.column_stack([rng.normal(1.0, 2.0, n), np.exp(rng.normal(-0.3, 0.6, n))])
    return rng.normal(1.5, 2.0, (n, max(case.bound.n_local, 1)))


def named_case(name):
    """A softmax bound or estimator by its name."""
    bound = REGISTRY[name]()
    return SimpleNamespace(bound=bound, tag=bound.lower(Gumbel()))


def exact_log_probability(pair, label_score, others):
    scores = np.concatenate([[label_score], others])[None]
    return log_probabilities_of(pair.noise, scores, [0])[0]


def with_many_nodes(case):
    """The same bound with its expectation to rounding, for comparisons with exact values."""
    if isinstance(case.bound, AugmentReduce):
        return case._replace(bound=AugmentReduce(n_nodes=60))
    return case


def counts_for(case):
    """Asymmetric counts, but for what is not defined over a sample."""
    return (ONES, 1.0) if case.bound.name == "exact" else (COUNTS, LABEL_COUNT)


# The twins: value, gradient of the label and gradients of the others at given local parameters.


def augment_reduce_twin(pair, local, rule):
    if pair.name == "gumbel":
        return lambda y, psi, w: twin.softmax_augment_reduce(y, psi, w, local[0])
    gamma = twin.inverse_softplus(local[1])
    return lambda y, psi, w: twin.augment_reduce(pair.twin, y, psi, w, local[0], gamma, rule)


def twin_of(case, local, rule=None, label_count=LABEL_COUNT):
    """A function of (label score, others, counts), with the library's convention for locals."""
    name = case.bound.name
    if name == "raman":
        return lambda y, psi, w: reference.double_sum.raman(y, psi, w, local[0])
    if name == "nce":
        return lambda y, psi, w: reference.estimators.noise_contrastive(y, psi, w, label_count)
    if name == "importance":
        return lambda y, psi, w: reference.estimators.importance(y, psi, w, label_count)
    if name == "complementary":
        if case.pair.name == "gumbel":
            return reference.estimators.complementary
        return lambda *row: by_quadrature(case.pair, *row)
    if name == "exact":
        if case.pair.name == "gumbel":
            return lambda y, psi, counts: twin.exact(y, psi)
        return lambda y, psi, counts: by_quadrature(case.pair, y, psi, np.ones(len(psi)))
    if name == "one-vs-each":
        return twin.one_vs_each
    if name == "bouchard":
        return lambda y, psi, counts: twin.bouchard(y, psi, counts, alpha=local[0] + y)
    if name == "augment-reduce":
        return augment_reduce_twin(case.pair, local, rule)
    raise NotImplementedError(f"the {name} bound needs a twin in reference/")


def by_quadrature(pair, label_score, others, counts):
    from reference.probabilities import log_prob_of

    scores, counts = np.append(others, label_score), np.append(counts, 1.0)
    value, gradient = log_prob_of(pair.twin, scores, len(others), counts)
    return twin.Bound(value, gradient[-1], gradient[:-1])


def the_rule(case, rng=None):
    """The nodes that the case's expectation uses; a sample takes the generator's next draw."""
    family = case.pair.twin.family
    if case.pair.name == "gumbel" or case.bound.name != "augment-reduce":
        return None
    if case.bound.expectation == "sample":
        draw = {"gaussian": _random.standard_normal, "logistic": _random.standard_logistic}
        with np.errstate(over="ignore"):
            return np.array([draw[family](rng)]), np.ones(1)
    return twin.quadrature(family, case.bound.n_nodes)


def test_agrees_with_the_twin(case):
    counts, label_count = counts_for(case)
    row = (LABEL_SCORE, OTHERS, counts)
    for seed, local in enumerate(some_locals(case, 5)):
        rule = the_rule(case, state(seed))
        expected = twin_of(case, local, rule)(*row)
        found = value_at(case, local, *row, label_count=label_count, seed=seed)
        assert found.value == pytest.approx(expected.value, rel=1e-10)
        np.testing.assert_allclose(found.grads, expected.grads, rtol=1e-10, atol=1e-12)
        if case.bound.name != "bouchard":  # whose twin keeps alpha, not alpha - psi_y, fixed
            assert found.label_grad == pytest.approx(expected.grad_y, rel=1e-9)
        assert (found.local == local).all()  # no progress, no move


def test_gradients_are_finite_differences(case):
    """At fixed local parameters (and, for a sample, the same draw)."""
    h = 1e-5
    counts, label_count = counts_for(case)
    for seed, local in enumerate(some_locals(case, 3, seed=1)):

        def taken(label_score, others, local=local, seed=seed):
            return value_at(
                case, local, label_score, others, counts, label_count=label_count, seed=seed
            )

        def value(label_score, others, taken=taken):
            return taken(label_score, others).value

        found = taken(LABEL_SCORE, OTHERS)
        for c in range(OTHERS.size):
            move = h * (np.arange(OTHERS.size) == c)
            up, down = value(LABEL_SCORE, OTHERS + move), value(LABEL_SCORE, OTHERS - move)
            assert found.grads[c] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8)
        up, down = value(LABEL_SCORE + h, OTHERS), value(LABEL_SCORE - h, OTHERS)
        assert found.label_grad == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8)


def test_never_above_the_log_probability(deterministic_bound_case):
    case = with_many_nodes(deterministic_bound_case)
    rng = np.random.default_rng(2)
    for n_others in (1, 7, 40):
        for _ in range(2):
            label_score, others = rng.normal(0, 2), rng.normal(0, 2, n_others)
            exact = exact_log_probability(case.pair, label_score, others)
            ones = np.ones(n_others)
            at_best = best_local(case, label_score, others, ones)
            best = value_at(case, at_best, label_score, others, ones).value
            assert best <= exact + 1e-9
            for local in some_locals(case, 4, seed=n_others):
                value = value_at(case, local, label_score, others, ones).value
                assert value <= exact + 1e-9
                assert value <= best + 1e-9


def test_tight_where_promised(deterministic_bound_case):
    case = with_many_nodes(deterministic_bound_case)
    name, softmax = case.bound.name, case.pair.name == "gumbel"
    for others in (OTHERS, OTHERS[:1]):
        local = best_local(case, LABEL_SCORE, others, np.ones(others.size))
        found = value_at(case, local, LABEL_SCORE, others, np.ones(others.size))
        exact = exact_log_probability(case.pair, LABEL_SCORE, others)
        tight = name in ("exact", "raman") or (name == "augment-reduce" and softmax)
        if tight or (name == "one-vs-each" and others.size == 1):
            assert found.value == pytest.approx(exact, abs=1e-10)
            if softmax:
                p = twin.exact(LABEL_SCORE, others)
                np.testing.assert_allclose(found.grads, p.grads, rtol=1e-9)
                assert found.label_grad == pytest.approx(p.grad_y, rel=1e-9)
        else:
            assert exact - 3.0 < found.value < exact - 1e-4


def test_local_optimum(local_case):
    """`fit_local` finds the best local parameters: the twin's, and nothing near is better."""
    case = local_case
    if not case.bound.deterministic:
        case = case._replace(bound=AugmentReduce(n_nodes=case.bound.n_nodes))
    for counts in (ONES, COUNTS):
        local = best_local(local_case, LABEL_SCORE, OTHERS, counts)
        best = value_at(case, local, LABEL_SCORE, OTHERS, counts).value
        for move in np.random.default_rng(4).normal(0, 0.05, (20, local.size)):
            value = value_at(case, local + move, LABEL_SCORE, OTHERS, counts).value
            assert value <= best + 1e-10
        row = (LABEL_SCORE, OTHERS, counts)
        if case.bound.name == "raman":
            u = reference.double_sum.raman_best_u(*row)
            expected = reference.double_sum.raman(*row, u).value
            assert local[0] == pytest.approx(u, abs=1e-12)
        elif case.bound.name == "bouchard":
            expected = twin.bouchard(*row).value
            assert local[0] + LABEL_SCORE == pytest.approx(twin.bouchard_alpha(*row), abs=1e-9)
        elif case.pair.name == "gumbel":
            expected = twin.softmax_augment_reduce(*row, twin.log_eta_estimate(*row)).value
        else:
            rule = the_rule(case)
            at = twin.optimal_local(case.pair.twin, *row, rule)
            expected = twin.augment_reduce(case.pair.twin, *row, *at, rule).value
        assert best == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("progress", [0.3, 1.0])
def test_local_step_agrees_with_the_twin(local_case, progress):
    case, row = local_case, (LABEL_SCORE, OTHERS, COUNTS)
    name, noise = case.bound.name, case.pair.twin
    if name == "bouchard":
        start = np.array([0.8])
        target = twin.bouchard_alpha(*row) - LABEL_SCORE
        expected = start + progress * (target - start)
    elif name == "raman":
        start = np.array([1.7])
        target = reference.double_sum.raman_best_u(*row)
        expected = [twin.softmax_local_step(start[0], target, progress)]
    elif case.pair.name == "gumbel":
        start = np.array([1.7, 0.0])
        estimate = twin.log_eta_estimate(*row)
        expected = [twin.softmax_local_step(start[0], estimate, progress), 0.0]
    else:
        start = np.array([0.9, 0.55])
        at = (start[0], twin.inverse_softplus(start[1]))
        rule = the_rule(case, state(7))
        if case.bound.expectation == "sample":
            gradient = twin.local_gradient(noise, *row, *at, rule)
            mu, gamma = at + progress * case.bound.local_rate * gradient
        else:
            gain = {"gaussian": 1.0, "logistic": 3.0}[noise.family]
            mu, gamma = twin.local_natural_step(noise, *row, *at, rule, progress, gain)
        expected = [mu, twin.softplus(gamma)]
    found = value_at(case, start, *row, progress=progress, seed=7)
    np.testing.assert_allclose(found.local, expected, rtol=1e-9)
    # The value is the one before the move, so that it does not depend on what was drawn ...
    assert found.value == pytest.approx(value_at(case, start, *row, seed=7).value, rel=1e-12)
    # ... and the gradients are those after it (for a sample: at a new draw).
    if case.bound.deterministic:
        after = value_at(case, found.local, *row)
        np.testing.assert_allclose(found.grads, after.grads, rtol=1e-12)
        assert found.label_grad == pytest.approx(after.label_grad, rel=1e-12)
    else:
        rng = state(7)
        the_rule(case, rng)
        after = twin_of(case, found.local, the_rule(case, rng))(*row)
        np.testing.assert_allclose(found.grads, after.grads, rtol=1e-9)
        assert found.label_grad == pytest.approx(after.grad_y, rel=1e-9)


# Sampling


def over_subsets(
    case, local, size, n_always=0, progress=0.0, label_score=LABEL_SCORE, scores=OTHERS
):
    """Return the means of value, gradients and label's gradient over all samples of `size`."""
    head, rest = list(range(n_always)), range(n_always, scores.size)
    values, grads, label_grads = [], [], []
    for chosen in combinations(rest, size):
        index = head + list(chosen)
        found = value_at(
            case,
            local,
            label_score,
            scores[index],
            np.array([1.0] * n_always + [len(rest) / size] * size),
            label_count=len(rest) / size,
            n_always=n_always,
            progress=progress,
            seed=9,
        )
        spread = np.zeros(scores.size)
        spread[index] = found.grads
        values.append(found.value)
        grads.append(spread)
        label_grads.append(found.label_grad)
    return np.mean(values), np.mean(grads, axis=0), np.mean(label_grads)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_samples_of_classes_are_right_on_average(sampling_case, size):
    """Exactly so: all samples are enumerated, at the same local parameters and the same draw."""
    case = sampling_case
    for local in some_locals(case, 3, seed=5):
        full = value_at(case, local, LABEL_SCORE, OTHERS, ONES, seed=9)
        value, grads, label_grad = over_subsets(case, local, size)
        assert value == pytest.approx(full.value, rel=1e-11)
        np.testing.assert_allclose(grads, full.grads, rtol=1e-10, atol=1e-13)
        assert label_grad == pytest.approx(full.label_grad, rel=1e-10)
        # Moving the local parameters does not touch the value that a step reports.
        moved, _, _ = over_subsets(case, local, size, progress=0.5)
        assert moved == pytest.approx(full.value, rel=1e-11)


def test_what_cannot_be_sampled_is_biased(unsampled_case):
    """So that the declaration is not only cautious."""
    case = unsampled_case
    full = value_at(case, [0.0], LABEL_SCORE, OTHERS, ONES)
    value, grads, _ = over_subsets(case, [0.0], 2)
    assert value > full.value + 0.01
    assert np.abs(grads - full.grads).max() > 0.01


# Estimators, which are no bounds


def test_estimators_do_not_promise_a_bound(estimator_case):
    """Each lies above the log-probability for some sample, so that `is_bound` is not modesty."""
    exact = exact_log_probability(estimator_case.pair, LABEL_SCORE, OTHERS)
    lowest = OTHERS.argmin()
    found = value_at(
        estimator_case, [0.0], LABEL_SCORE, OTHERS[[lowest]], np.array([5.0]), label_count=5.0
    )
    assert estimator_case.bound.n_local == 0
    assert found.value > exact + 0.5


@pytest.mark.parametrize("name", ["importance", "complementary"])
def test_all_classes_make_an_estimator_exact(name):
    case = named_case(name)
    for others in (OTHERS, OTHERS[:1], 1e3 * OTHERS):
        found = value_at(case, [0.0], LABEL_SCORE, others, np.ones(others.size))
        expected = twin.exact(LABEL_SCORE, others)
        assert found.value == pytest.approx(expected.value, rel=1e-13)
        np.testing.assert_allclose(found.grads, expected.grads, rtol=1e-13, atol=1e-300)
        assert found.label_grad == pytest.approx(expected.grad_y, rel=1e-13)


@pytest.mark.parametrize(
    ("name", "gaps"),
    [
        # nats above log p(y) = -2.361, with 1, 2 and 4 of the 5 other classes drawn
        ("importance", {1: 1.548, 2: 0.973, 4: 0.243}),
        ("complementary", {1: 0.614, 2: 0.274, 4: 0.046}),
    ],
)
def test_sampled_estimators_are_optimistic_on_average(name, gaps):
    """Over all samples, so exactly.  Importance sampling drops the classes that are not drawn;
    the complementary sum is unbiased, but its logarithm is too small (Jensen)."""
    exact = value_at(named_case(name), [0.0], LABEL_SCORE, OTHERS, ONES)
    for size, gap in gaps.items():
        value, grads, _ = over_subsets(named_case(name), [0.0], size)
        assert value - exact.value == pytest.approx(gap, abs=5e-4)
        assert np.abs(grads - exact.grads).max() > 0.05 * gap


def mean_gradients(case, log_p, size):
    """Return the mean gradient of a step at scores that are the true log-probabilities."""
    total = np.zeros(log_p.size)
    for label in range(log_p.size):
        _, grads, label_grad = over_subsets(
            case, [0.0], size, label_score=log_p[label], scores=np.delete(log_p, label)
        )
        total += np.exp(log_p[label]) * np.insert(grads, label, label_grad)
    return total


@pytest.mark.parametrize("size", [1, 2, 4])
def test_where_the_estimators_have_their_optimum(size):
    """With uniform draws the truth is stationary for noise-contrastive estimation, and for the
    sampled softmax, which is then the likelihood given the set that was looked at (McFadden,
    1978): but only the first fixes the level of the scores.  The complementary sum has another
    optimum, the further off the fewer classes are drawn."""
    scores = np.append(OTHERS, LABEL_SCORE)
    log_p = scores - logsumexp(scores)
    for name in ("nce", "importance"):
        np.testing.assert_allclose(mean_gradients(named_case(name), log_p, size), 0.0, atol=1e-14)
    shifted = mean_gradients(named_case("importance"), log_p + 1.0, size)  # times e in all
    np.testing.assert_allclose(shifted, 0.0, atol=1e-13)
    assert np.abs(mean_gradients(named_case("nce"), log_p + 1.0, size)).max() > 0.05
    bias = np.abs(mean_gradients(named_case("complementary"), log_p, size)).max()
    assert bias == pytest.approx({1: 0.1177, 2: 0.0844, 4: 0.0225}[size], abs=1e-4)


def test_one_monte_carlo_sample_is_right_on_average(monte_carlo_case):
    """Compare value and gradients with 60 quadrature nodes by z-tests."""
    case = monte_carlo_case
    n = many(40_000)
    local = best_local(case, LABEL_SCORE, OTHERS, COUNTS) * np.array([1.1, 0.8])
    values, grads = np.empty(n), np.empty((n, OTHERS.size + 1))
    counts = np.append(COUNTS, LABEL_COUNT)
    take_steps(case.tag, state(11), local, LABEL_SCORE, OTHERS, counts, values, grads)
    expected = value_at(with_many_nodes(case), local, LABEL_SCORE, OTHERS, COUNTS)
    limit = stats.norm.isf(FALSE_ALARM / 2 / (2 + OTHERS.size))
    found = np.column_stack([values, grads])
    error = found.std(axis=0) / np.sqrt(n)
    assert (error > 0).all()
    aim = np.concatenate([[expected.value], expected.grads, [expected.label_grad]])
    z = (found.mean(axis=0) - aim) / error
    assert (abs(z) < limit).all(), z


# Invariances and extremes


def test_shift_and_permutation(case):
    counts, label_count = counts_for(case)
    name = case.bound.name
    options = {"label_count": label_count, "progress": 0.5}
    local = some_locals(case, 1, seed=7)[0]
    found = value_at(case, local, LABEL_SCORE, OTHERS, counts, **options)
    for shift in (-17.0, 300.0):
        along = shift if name == "raman" else 0.0  # its local parameter is a score itself
        shifted = value_at(
            case, local + along, LABEL_SCORE + shift, OTHERS + shift, counts, **options
        )
        if name == "nce":  # the level counts: everything looks like noise, or like data
            assert abs(shifted.value - found.value) > 5.0
            continue
        assert shifted.value == pytest.approx(found.value, rel=1e-9)
        np.testing.assert_allclose(shifted.grads, found.grads, rtol=1e-8, atol=1e-11)
        assert shifted.label_grad == pytest.approx(found.label_grad, rel=1e-8)
        np.testing.assert_allclose(shifted.local, found.local + along, rtol=1e-9)
    order = [3, 0, 4, 1, 2]
    permuted = value_at(case, local, LABEL_SCORE, OTHERS[order], counts[order], **options)
    assert permuted.value == pytest.approx(found.value, rel=1e-11)
    np.testing.assert_allclose(permuted.grads, found.grads[order], rtol=1e-10)
    assert permuted.label_grad == pytest.approx(found.label_grad, rel=1e-10)
    np.testing.assert_allclose(permuted.local, found.local, rtol=1e-10)


@pytest.mark.parametrize("size", [1e3, 1e9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_scores_stay_finite(case, size, sign):
    others = size * np.array([1.0, -1.0, 0.0, 0.5, -0.25])
    counts, label_count = counts_for(case)
    start = case.bound.initial_local(case.pair.noise, np.zeros(6))[0]
    start = start if start.size else np.zeros(1)
    for local in (start, best_local(case, sign * size, others, counts)):
        assert np.isfinite(local).all()
        for progress in (0.0, 0.5, 1.0):
            found = value_at(
                case,
                local,
                sign * size,
                others,
                counts,
                label_count=label_count,
                progress=progress,
            )
            assert np.isfinite(found.value)
            assert np.isfinite(found.grads).all()
            assert np.isfinite(found.label_grad)
            assert np.isfinite(found.local).all()
            assert (found.grads <= 0.0).all()


# Properties of some bounds only


def test_exact_classes_make_one_vs_each_tighter():
    """Equation 6: from one-vs-each itself to the exact softmax."""
    case_class = type("Case", (), {"tag": OneVsEach().lower(Gumbel())})
    values = []
    for n_always in range(OTHERS.size + 1):
        found = value_at(case_class, [0.0], LABEL_SCORE, OTHERS, ONES, n_always=n_always)
        head, tail = OTHERS[:n_always], OTHERS[n_always:]
        expected = twin.exact_times_one_vs_each(LABEL_SCORE, head, tail, np.ones(tail.size))
        assert found.value == pytest.approx(expected.value, rel=1e-12)
        np.testing.assert_allclose(found.grads, expected.grads, rtol=1e-11)
        assert found.label_grad == pytest.approx(expected.grad_y, rel=1e-11)
        values.append(found.value)
    assert values[1] == pytest.approx(values[0])  # a softmax over one other class is a sigmoid
    assert (np.diff(values[1:]) > 0).all()
    assert values[-1] == pytest.approx(twin.exact(LABEL_SCORE, OTHERS).value, rel=1e-12)


@pytest.mark.parametrize("band", [1.0, 1.5])
def test_band_keeps_eta_near_the_fresh_estimate(band):
    case_class = SimpleNamespace(tag=AugmentReduce(band=band).lower(Gumbel()))
    fresh = twin.log_eta_estimate(LABEL_SCORE, OTHERS, COUNTS)
    for start in (fresh - 5.0, fresh + 5.0):
        local = [start, 0.0]
        found = value_at(case_class, local, LABEL_SCORE, OTHERS, COUNTS, progress=0.01)
        assert abs(found.local[0] - fresh) <= np.log(band) + 1e-12
    with pytest.raises(ValueError, match=r"band=0\.5 must be at least 1; math\.inf switches it"):
        AugmentReduce(band=0.5)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "gumbel"])
def test_families_of_q(family):
    """Any family gives a bound; for logistic noise and many classes Gumbel's is the tightest."""
    from dataclasses import replace

    from bigcat.noise import Logistic
    from reference.noise import LOGISTIC

    bound = AugmentReduce(variational=family, n_nodes=30)
    case_class = SimpleNamespace(tag=bound.lower(Logistic()))
    others = np.random.default_rng(8).normal(size=60)
    ones = np.ones(60)
    local = np.zeros(2)
    fit_one_local(case_class.tag, local, LABEL_SCORE, others, ones)
    found = value_at(case_class, local, LABEL_SCORE, others, ones)
    noise = replace(LOGISTIC, family=family)
    at = (local[0], twin.inverse_softplus(local[1]))
    rule = twin.quadrature(family, 30)
    expected = twin.augment_reduce(noise, LABEL_SCORE, others, ones, *at, rule)
    assert found.value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(found.grads, expected.grads, rtol=1e-9)
    exact = exact_log_probability(type("Pair", (), {"noise": Logistic()}), LABEL_SCORE, others)
    gap = {"gaussian": 0.13, "logistic": 0.13, "gumbel": 0.01}[family]
    assert exact - gap < found.value <= exact + 1e-9


def test_bad_options():
    with pytest.raises(ValueError, match="expectation='exact' is not known; choose 'quadrature'"):
        AugmentReduce(expectation="exact")
    with pytest.raises(ValueError, match="variational='cauchy' is not known; choose one of 'auto'"):
        AugmentReduce(variational="cauchy")


def test_full_rows_is_the_step_at_the_best_local_parameters(deterministic_case):
    """Values for L-BFGS and `lower_bound`: all classes, in any order of visit, all gradients."""
    case = deterministic_case
    scores = np.array([[0.4, 1.3, -0.8, 0.1], [2.0, -1.0, 0.3, 0.2]])
    labels, order = np.array([2, 0]), np.array([3, 1, 0, 2])
    values, grads, local = np.empty(2), scores.copy(), np.zeros((2, max(case.bound.n_local, 1)))
    full_rows.plain(case.tag, state(), scores, labels, 0, order, local, values, grads, True)
    if case.bound.name != "nce":
        np.testing.assert_allclose(grads.sum(axis=1), 0.0, atol=1e-12)
    for i, y in enumerate(labels):
        others = np.delete(scores[i], y)
        best = best_local(case, scores[i, y], others, np.ones(3))
        found = value_at(case, best, scores[i, y], others, np.ones(3))
        assert values[i] == pytest.approx(found.value, rel=1e-9)
        expected = np.insert(found.grads, y, found.label_grad)
        np.testing.assert_allclose(grads[i], expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("noise", [Gaussian(), slow(Logistic())], ids=lambda noise: noise.name)
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("n_classes", [2, 200])
def test_the_few_nodes_of_fits_are_nearly_exact(noise, spread, n_classes):
    scores = spread * np.random.default_rng(0).normal(size=n_classes)
    label_score, others = scores.max() - 0.5, np.delete(scores, scores.argmax())
    fine, coarse = (
        value_at(
            SimpleNamespace(bound=bound, tag=bound.lower(noise)),
            np.zeros(1),
            label_score,
            others,
            np.ones(len(others)),
        )
        for bound in (Exact(), TRAINING_QUADRATURE)
    )
    assert coarse.value == pytest.approx(fine.value, abs=2e-3)
    assert coarse.grads == pytest.approx(fine.grads, abs=1e-3)
    wide = np.concatenate([[label_score], others])[None]
    assert fine.value == pytest.approx(log_probabilities_of(noise, wide, [0])[0], abs=1e-12)


@pytest.mark.parametrize("noise", [Gaussian(), slow(Logistic())], ids=lambda noise: noise.name)
@pytest.mark.parametrize("size", [1e2, 1e4, 1e6, 1e9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_few_nodes_of_scores_far_apart(noise, size, sign):
    """Single precision lacks digits for the nodes, but gradients are about right."""
    others = size * np.array([1.0, -1.0, 0.0, 0.5, -0.25])
    fine, coarse = (
        value_at(
            SimpleNamespace(bound=bound, tag=bound.lower(noise)),
            np.zeros(1),
            sign * size,
            others,
            COUNTS,
        )
        for bound in (Exact(), TRAINING_QUADRATURE)
    )
    assert np.isfinite(coarse.value)
    assert coarse.value == pytest.approx(fine.value, rel=1e-3)
    if size < 1e9:
        np.testing.assert_allclose(coarse.grads, fine.grads, rtol=0.5, atol=0.5)
    assert np.isfinite(coarse.grads).all()
    assert (coarse.grads <= 0.0).all()
    assert coarse.label_grad >= 0.0
