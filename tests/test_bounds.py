"""The battery of the bounds, each with every noise that it accepts.

A step is taken for one row through a driver that calls the seam as the training loop does.
"""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

import bigcat.bounds
import reference.bounds as twin
from bigcat import _random
from bigcat._jit import kernel
from bigcat._seam import fit_local, step
from bigcat.bounds import REGISTRY, AugmentReduce, Bound, OneVsEach
from bigcat.bounds._base import full_rows
from bigcat.noise import Gaussian, Gumbel
from bigcat.probabilities import log_probabilities_of

LABEL_SCORE = 0.4
OTHERS = np.array([1.3, -0.8, 0.1, -2.5, 2.2])  # asymmetric on purpose
COUNTS = np.array([2.0, 1.0, 0.5, 3.0, 1.25])
ONES = np.ones(5)
FALSE_ALARM = 1e-6  # of each statistical test, were its seed not fixed


@kernel
def take_step(bound, rng, local, progress, label_score, others, counts, n_always, slopes):
    n = others.shape[0]
    return step(bound, rng, local, progress, label_score, others, counts, n, n_always, slopes)


@kernel
def fit_one_local(bound, local, label_score, others, counts):
    fit_local(bound, local, label_score, others, counts, others.shape[0])


@kernel
def take_steps(bound, rng, local, label_score, others, counts, values, slopes):
    """Many values and slopes at the same local parameters."""
    for r in range(values.shape[0]):
        values[r] = step(
            bound, rng, local, 0.0, label_score, others, counts, others.shape[0], 0, slopes[r]
        )


def state(seed=0):
    return _random.new_state(np.random.RandomState(seed))


def value_at(case, local, label_score, others, counts, *, progress=0.0, n_always=0, seed=0):
    """Value, slopes of the others, and the local parameters after the step."""
    local, slopes = np.array(local, float), np.empty(len(others))
    rng = state(seed)
    arguments = (local, progress, float(label_score), others, counts, n_always, slopes)
    return take_step(case.tag, rng, *arguments), slopes, local


def best_local(case, label_score, others, counts):
    local = np.zeros(max(case.bound.n_local, 1))
    fit_one_local(case.tag, local, float(label_score), np.asarray(others, float), counts)
    return local


def some_locals(case, n, seed=0):
    """Local parameters far from and near to anything reasonable."""
    rng = np.random.default_rng(seed)
    if case.bound.n_local == 2 and case.pair.name != "gumbel":
        return np.column_stack([rng.normal(1.0, 2.0, n), np.exp(rng.normal(-0.3, 0.6, n))])
    return rng.normal(1.5, 2.0, (n, max(case.bound.n_local, 1)))


def exact_log_probability(pair, label_score, others):
    scores = np.concatenate([[label_score], others])[None]
    return log_probabilities_of(pair.noise, scores, [0])[0]


def with_many_nodes(case):
    """The same bound with its expectation to rounding, for comparisons with exact values."""
    if isinstance(case.bound, AugmentReduce):
        return case._replace(bound=AugmentReduce(n_nodes=60))
    return case


# The twins: value, slope of the label and slopes of the others at given local parameters.


def augment_reduce_twin(pair, local, rule):
    if pair.name == "gumbel":
        return lambda *row: twin.softmax_augment_reduce(*row, local[0])
    gamma = twin.inverse_softplus(local[1])
    return lambda *row: twin.augment_reduce(pair.twin, *row, local[0], gamma, rule)


def twin_of(case, local, rule=None):
    """A function of (label score, others, counts), with the library's convention for locals."""
    name = case.bound.name
    if name == "exact":
        if case.pair.name == "gumbel":
            return lambda y, psi, counts: twin.exact(y, psi)
        return lambda y, psi, counts: exact_by_quadrature(case.pair, y, psi)
    if name == "one-vs-each":
        return twin.one_vs_each
    if name == "bouchard":
        return lambda y, psi, counts: twin.bouchard(y, psi, counts, alpha=local[0] + y)
    if name == "augment-reduce":
        return augment_reduce_twin(case.pair, local, rule)
    raise NotImplementedError(f"the {name} bound needs a twin in reference/bounds.py")


def exact_by_quadrature(pair, label_score, others):
    from reference.probabilities import log_prob_of

    value, gradient = log_prob_of(pair.twin, np.append(others, label_score), len(others))
    return twin.Bound(value, gradient[-1], gradient[:-1])


def the_rule(case, rng=None):
    """The nodes that the case's expectation uses; a sample takes the generator's next draw."""
    family = case.pair.twin.family
    if case.pair.name == "gumbel" or case.bound.name != "augment-reduce":
        return None
    if case.bound.expectation == "sample":
        draw = {"gaussian": _random.standard_normal, "logistic": _random.standard_logistic}
        return np.array([draw[family](rng)]), np.ones(1)
    return twin.quadrature(family, case.bound.n_nodes)


def test_registry_is_what_the_package_exports():
    exported = set(bigcat.bounds.__all__) - {"Bound"}
    assert {kind.__name__ for kind in REGISTRY.values()} == exported
    assert all(name == kind.name for name, kind in REGISTRY.items())
    with pytest.raises(TypeError, match=r"Bound is a base class; use a member of bigcat\.bounds"):
        Bound().lower(Gumbel())


def test_agrees_with_the_twin(case):
    counts = ONES if case.bound.name == "exact" else COUNTS
    for seed, local in enumerate(some_locals(case, 5)):
        rule = the_rule(case, state(seed))
        expected = twin_of(case, local, rule)(LABEL_SCORE, OTHERS, counts)
        value, slopes, after = value_at(case, local, LABEL_SCORE, OTHERS, counts, seed=seed)
        assert value == pytest.approx(expected.value, rel=1e-10)
        np.testing.assert_allclose(slopes, expected.slopes, rtol=1e-10, atol=1e-12)
        if case.bound.name != "bouchard":  # whose twin keeps alpha, not alpha - psi_y, fixed
            assert -slopes.sum() == pytest.approx(expected.slope_y, rel=1e-9)
        assert (after == local).all()  # no progress, no move


def test_slopes_are_finite_differences(case):
    """At fixed local parameters (and, for a sample, the same draw)."""
    h = 1e-5
    counts = ONES if case.bound.name == "exact" else COUNTS
    for seed, local in enumerate(some_locals(case, 3, seed=1)):

        def value(label_score, others, local=local, seed=seed):
            return value_at(case, local, label_score, others, counts, seed=seed)[0]

        _, slopes, _ = value_at(case, local, LABEL_SCORE, OTHERS, counts, seed=seed)
        for c in range(OTHERS.size):
            move = h * (np.arange(OTHERS.size) == c)
            up, down = value(LABEL_SCORE, OTHERS + move), value(LABEL_SCORE, OTHERS - move)
            assert slopes[c] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8)
        up, down = value(LABEL_SCORE + h, OTHERS), value(LABEL_SCORE - h, OTHERS)
        assert -slopes.sum() == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-8)


def test_never_above_the_log_probability(deterministic_case):
    assert deterministic_case.bound.is_bound
    case = with_many_nodes(deterministic_case)
    rng = np.random.default_rng(2)
    for n_others in (1, 2, 7, 40):
        for _ in range(5):
            label_score, others = rng.normal(0, 2), rng.normal(0, 2, n_others)
            exact = exact_log_probability(case.pair, label_score, others)
            ones = np.ones(n_others)
            best, _, _ = value_at(
                case, best_local(case, label_score, others, ones), label_score, others, ones
            )
            assert best <= exact + 1e-9
            for local in some_locals(case, 4, seed=n_others):
                value, _, _ = value_at(case, local, label_score, others, ones)
                assert value <= exact + 1e-9
                assert value <= best + 1e-9


def test_few_nodes_are_nearly_a_bound(deterministic_case):
    """Eight Gauss-Hermite nodes, what training uses, may exceed the bound a little."""
    case = deterministic_case
    rng = np.random.default_rng(3)
    for n_others in (1, 3, 300):
        label_score, others = rng.normal(0, 2), rng.normal(0, 2, n_others)
        exact = exact_log_probability(case.pair, label_score, others)
        local = best_local(case, label_score, others, np.ones(n_others))
        value, _, _ = value_at(case, local, label_score, others, np.ones(n_others))
        assert value <= exact + 5e-3


def test_tight_where_promised(deterministic_case):
    case = with_many_nodes(deterministic_case)
    softmax = case.pair.name == "gumbel"
    for others in (OTHERS, OTHERS[:1]):
        local = best_local(case, LABEL_SCORE, others, np.ones(others.size))
        value, slopes, _ = value_at(case, local, LABEL_SCORE, others, np.ones(others.size))
        exact = exact_log_probability(case.pair, LABEL_SCORE, others)
        tight = case.bound.name == "exact" or (case.bound.name == "augment-reduce" and softmax)
        if tight or (case.bound.name == "one-vs-each" and others.size == 1):
            assert value == pytest.approx(exact, abs=1e-10)
            if softmax:
                p = twin.exact(LABEL_SCORE, others)
                np.testing.assert_allclose(slopes, p.slopes, rtol=1e-9)
        else:
            assert exact - 3.0 < value < exact - 1e-4


def test_local_optimum(local_case):
    """`fit_local` finds the best local parameters: the twin's, and nothing near is better."""
    case = local_case
    if not case.bound.deterministic:
        case = case._replace(bound=AugmentReduce(n_nodes=case.bound.n_nodes))
    for counts in (ONES, COUNTS):
        local = best_local(local_case, LABEL_SCORE, OTHERS, counts)
        best, _, _ = value_at(case, local, LABEL_SCORE, OTHERS, counts)
        for move in np.random.default_rng(4).normal(0, 0.05, (20, local.size)):
            value, _, _ = value_at(case, local + move, LABEL_SCORE, OTHERS, counts)
            assert value <= best + 1e-10
        row = (LABEL_SCORE, OTHERS, counts)
        if case.bound.name == "bouchard":
            expected = twin.bouchard(*row).value
            assert local[0] + LABEL_SCORE == pytest.approx(twin.bouchard_alpha(*row), abs=1e-9)
        elif case.pair.name == "gumbel":
            expected = twin.softmax_augment_reduce(*row, twin.log_eta_estimate(*row)).value
        else:
            rule = the_rule(case)
            at = twin.optimal_local(case.pair.twin, *row, rule)
            expected = twin.augment_reduce(case.pair.twin, *row, *at, rule).value
        assert best == pytest.approx(expected, abs=1e-8)


def test_initial_local(local_case):
    """The optimum at the intercepts where they are equal, and for the softmax's eta always."""
    bound, noise = local_case.bound, local_case.pair.noise
    table = bound.initial_local(noise, np.full(6, 0.7))
    assert table.shape == (6, bound.n_local)
    expected = best_local(local_case, 0.7, np.full(5, 0.7), ONES)
    np.testing.assert_allclose(table, np.tile(expected, (6, 1)), rtol=1e-5, atol=1e-6)
    scores = np.append(OTHERS, LABEL_SCORE)
    table = bound.initial_local(noise, scores)
    for k in range(6):
        expected = best_local(local_case, scores[k], np.delete(scores, k), ONES)
        exact = bound.name == "augment-reduce" and noise.name == "gumbel"
        assert table[k, 0] == pytest.approx(expected[0], abs=1e-9 if exact else 1.0)


@pytest.mark.parametrize("progress", [0.3, 1.0])
def test_local_step_agrees_with_the_twin(local_case, progress):
    case, row = local_case, (LABEL_SCORE, OTHERS, COUNTS)
    name, noise = case.bound.name, case.pair.twin
    if name == "bouchard":
        start = np.array([0.8])
        target = twin.bouchard_alpha(*row) - LABEL_SCORE
        expected = start + progress * (target - start)
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
    value, slopes, after = value_at(case, start, *row, progress=progress, seed=7)
    np.testing.assert_allclose(after, expected, rtol=1e-9)
    # The value is the one before the move, so that it does not depend on what was drawn ...
    before, _, _ = value_at(case, start, *row, seed=7)
    assert value == pytest.approx(before, rel=1e-12)
    # ... and the slopes are those after it (for a sample: at a new draw).
    if case.bound.deterministic:
        _, slopes_after, _ = value_at(case, after, *row)
        np.testing.assert_allclose(slopes, slopes_after, rtol=1e-12)
    else:
        rng = state(7)
        the_rule(case, rng)
        expected = twin_of(case, after, the_rule(case, rng))(*row)
        np.testing.assert_allclose(slopes, expected.slopes, rtol=1e-9)


def test_repeated_steps_reach_the_optimum(deterministic_local_case):
    case, row = deterministic_local_case, (LABEL_SCORE, OTHERS, ONES)
    local = case.bound.initial_local(case.pair.noise, np.zeros(6))[0]
    for epoch in range(60):
        _, _, local = value_at(case, local, *row, progress=max((1 + epoch) ** -0.9, 0.1))
    best, _, _ = value_at(case, best_local(case, *row), *row)
    assert value_at(case, local, *row)[0] == pytest.approx(best, abs=1e-4)


# Sampling


def over_subsets(case, local, size, n_always=0, progress=0.0):
    """Means of value and slopes over all samples of `size` of the others beyond the head."""
    head, rest = list(range(n_always)), range(n_always, OTHERS.size)
    values, slopes = [], []
    for chosen in combinations(rest, size):
        index = head + list(chosen)
        counts = np.array([1.0] * n_always + [len(rest) / size] * size)
        value, some, _ = value_at(
            case,
            local,
            LABEL_SCORE,
            OTHERS[index],
            counts,
            n_always=n_always,
            progress=progress,
            seed=9,
        )
        spread = np.zeros(OTHERS.size)
        spread[index] = some
        values.append(value)
        slopes.append(spread)
    return np.mean(values), np.mean(slopes, axis=0)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_samples_of_classes_are_right_on_average(sampling_case, size):
    """Exactly so: all samples are enumerated, at the same local parameters and the same draw."""
    case = sampling_case
    for local in some_locals(case, 3, seed=5):
        value, slopes, _ = value_at(case, local, LABEL_SCORE, OTHERS, ONES, seed=9)
        mean_value, mean_slopes = over_subsets(case, local, size)
        assert mean_value == pytest.approx(value, rel=1e-11)
        np.testing.assert_allclose(mean_slopes, slopes, rtol=1e-10, atol=1e-13)
        # Moving the local parameters does not touch the value that a step reports.
        assert over_subsets(case, local, size, progress=0.5)[0] == pytest.approx(value, rel=1e-11)


def test_samples_beside_exact_classes_are_right_on_average(sampling_case):
    case = sampling_case
    local = some_locals(case, 1, seed=6)[0]
    full = value_at(case, local, LABEL_SCORE, OTHERS, ONES, n_always=2, seed=9)
    value, slopes = over_subsets(case, local, 1, n_always=2)
    assert value == pytest.approx(full[0], rel=1e-11)
    np.testing.assert_allclose(slopes, full[1], rtol=1e-10, atol=1e-13)


def test_what_cannot_be_sampled_is_biased(unsampled_case):
    """So that the declaration is not only cautious."""
    case = unsampled_case
    full, _, _ = value_at(case, [0.0], LABEL_SCORE, OTHERS, ONES)
    assert over_subsets(case, [0.0], 2)[0] > full + 0.01


def test_one_monte_carlo_sample_is_right_on_average(monte_carlo_case):
    """z-tests of the value and of each slope against 60 quadrature nodes."""
    case = monte_carlo_case
    n = 40_000
    local = best_local(case, LABEL_SCORE, OTHERS, COUNTS) * np.array([1.1, 0.8])
    values, slopes = np.empty(n), np.empty((n, OTHERS.size))
    take_steps(case.tag, state(11), local, LABEL_SCORE, OTHERS, COUNTS, values, slopes)
    expected = value_at(with_many_nodes(case), local, LABEL_SCORE, OTHERS, COUNTS)
    limit = stats.norm.isf(FALSE_ALARM / 2 / (1 + OTHERS.size))
    found = np.column_stack([values, slopes])
    error = found.std(axis=0) / np.sqrt(n)
    assert (error > 0).all()
    z = (found.mean(axis=0) - np.append(expected[0], expected[1])) / error
    assert (abs(z) < limit).all(), z


# Invariances and extremes


def test_shift_and_permutation(case):
    counts = ONES if case.bound.name == "exact" else COUNTS
    local = some_locals(case, 1, seed=7)[0]
    value, slopes, moved = value_at(case, local, LABEL_SCORE, OTHERS, counts, progress=0.5)
    for shift in (-17.0, 300.0):
        found = value_at(case, local, LABEL_SCORE + shift, OTHERS + shift, counts, progress=0.5)
        assert found[0] == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-8, atol=1e-11)
        np.testing.assert_allclose(found[2], moved, rtol=1e-9)
    order = [3, 0, 4, 1, 2]
    found = value_at(case, local, LABEL_SCORE, OTHERS[order], counts[order], progress=0.5)
    assert found[0] == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(found[1], slopes[order], rtol=1e-10)
    np.testing.assert_allclose(found[2], moved, rtol=1e-10)


@pytest.mark.parametrize("size", [1e3, 1e9])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extreme_scores_stay_finite(case, size, sign):
    others = size * np.array([1.0, -1.0, 0.0, 0.5, -0.25])
    start = case.bound.initial_local(case.pair.noise, np.zeros(6))[0]
    start = start if start.size else np.zeros(1)
    for local in (start, best_local(case, sign * size, others, ONES)):
        assert np.isfinite(local).all()
        for progress in (0.0, 0.5, 1.0):
            value, slopes, after = value_at(
                case, local, sign * size, others, ONES, progress=progress
            )
            assert np.isfinite(value)
            assert np.isfinite(slopes).all()
            assert np.isfinite(after).all()
            assert (slopes <= 0.0).all()


# What only some bounds promise


def test_exact_classes_make_one_vs_each_tighter():
    """Equation 6: from one-vs-each itself to the exact softmax."""
    case_class = type("Case", (), {"tag": OneVsEach().lower(Gumbel())})
    values = []
    for n_always in range(OTHERS.size + 1):
        value, slopes, _ = value_at(case_class, [0.0], LABEL_SCORE, OTHERS, ONES, n_always=n_always)
        head, tail = OTHERS[:n_always], OTHERS[n_always:]
        expected = twin.exact_times_one_vs_each(LABEL_SCORE, head, tail, np.ones(tail.size))
        assert value == pytest.approx(expected.value, rel=1e-12)
        np.testing.assert_allclose(slopes, expected.slopes, rtol=1e-11)
        values.append(value)
    assert values[1] == pytest.approx(values[0])  # a softmax over one other class is a sigmoid
    assert (np.diff(values[1:]) > 0).all()
    assert values[-1] == pytest.approx(twin.exact(LABEL_SCORE, OTHERS).value, rel=1e-12)


@pytest.mark.parametrize("band", [1.0, 1.5])
def test_band_keeps_eta_near_the_fresh_estimate(band):
    case_class = type("Case", (), {"tag": AugmentReduce(band=band).lower(Gumbel())})
    fresh = twin.log_eta_estimate(LABEL_SCORE, OTHERS, COUNTS)
    for start in (fresh - 5.0, fresh + 5.0):
        _, _, after = value_at(case_class, [start, 0.0], LABEL_SCORE, OTHERS, COUNTS, progress=0.01)
        assert abs(after[0] - fresh) <= np.log(band) + 1e-12
    with pytest.raises(ValueError, match=r"band=0\.5 must be at least 1; math\.inf switches it"):
        AugmentReduce(band=0.5)


@pytest.mark.parametrize("family", ["gaussian", "logistic", "gumbel"])
def test_families_of_q(family):
    """Any family gives a bound; for logistic noise and many classes Gumbel's is the tightest."""
    from dataclasses import replace

    from bigcat.noise import Logistic
    from reference.noise import LOGISTIC

    bound = AugmentReduce(variational=family, n_nodes=30)
    case_class = type("Case", (), {"tag": bound.lower(Logistic())})
    others = np.random.default_rng(8).normal(size=60)
    ones = np.ones(60)
    local = np.zeros(2)
    fit_one_local(case_class.tag, local, LABEL_SCORE, others, ones)
    value, slopes, _ = value_at(case_class, local, LABEL_SCORE, others, ones)
    noise = replace(LOGISTIC, family=family)
    at = (local[0], twin.inverse_softplus(local[1]))
    rule = twin.quadrature(family, 30)
    expected = twin.augment_reduce(noise, LABEL_SCORE, others, ones, *at, rule)
    assert value == pytest.approx(expected.value, rel=1e-10)
    np.testing.assert_allclose(slopes, expected.slopes, rtol=1e-9)
    exact = exact_log_probability(type("Pair", (), {"noise": Logistic()}), LABEL_SCORE, others)
    gap = {"gaussian": 0.13, "logistic": 0.13, "gumbel": 0.01}[family]
    assert exact - gap < value <= exact + 1e-9


def test_bad_options():
    with pytest.raises(ValueError, match="expectation='exact' is not known; choose 'quadrature'"):
        AugmentReduce(expectation="exact")
    with pytest.raises(ValueError, match="variational='cauchy' is not known; choose one of 'auto'"):
        AugmentReduce(variational="cauchy")
    with pytest.raises(ValueError) as caught:
        OneVsEach().check_noise(Gaussian())
    assert str(caught.value) == (
        "the one-vs-each bound holds for noise 'gumbel', not for 'gaussian'; take "
        "method='augment-reduce' or 'exact', which hold for every noise"
    )


def test_full_rows_is_the_step_at_the_best_local_parameters(deterministic_case):
    """What L-BFGS and `lower_bound` call: all classes, any order of visit, all slopes."""
    case = deterministic_case
    scores = np.array([[0.4, 1.3, -0.8, 0.1], [2.0, -1.0, 0.3, 0.2]])
    labels, order = np.array([2, 0]), np.array([3, 1, 0, 2])
    values, slopes, local = np.empty(2), scores.copy(), np.zeros((2, max(case.bound.n_local, 1)))
    full_rows(case.tag, state(), scores, labels, 0, order, local, values, slopes, True)
    np.testing.assert_allclose(slopes.sum(axis=1), 0.0, atol=1e-12)
    for i, y in enumerate(labels):
        others = np.delete(scores[i], y)
        best = best_local(case, scores[i, y], others, np.ones(3))
        value, expected, _ = value_at(case, best, scores[i, y], others, np.ones(3))
        assert values[i] == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(np.delete(slopes[i], y), expected, rtol=1e-5, atol=1e-7)
