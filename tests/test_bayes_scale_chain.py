"""The prior's scale from one short chain over all weights: against long chains, and the truth."""

import numpy as np
import pytest

from bigcat import noise as noises
from bigcat.bayes import HierarchicalPrior, LearnedScale, _laplace_plan, _scale_chain
from bigcat.bayes._chains import Chains
from bigcat.bayes._column_sizes import ColumnSizes
from bigcat.bayes._design import Design
from bigcat.bayes._frames import make_frame
from bigcat.bayes._laplace_plan import Work, plan
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._mode import find_mode
from bigcat.bayes._scale_chain import ScaleChain, first_rows
from tests.bayesian import four_classes, laplace

SCALE, INTERCEPT_SCALE = 2.0, 0.7
LEARNED = LearnedScale()


def likelihood_of(n_classes, rows_per_class, n_features, seed=0):
    """Softmax labels whose scores have the standard deviation SCALE among rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_classes * rows_per_class, n_features))
    weights = rng.standard_normal((n_features, n_classes)) * SCALE / np.sqrt(n_features)
    scores = X @ weights + INTERCEPT_SCALE * rng.standard_normal(n_classes)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    design = Design(X - X.mean(axis=0), True)
    return Likelihood(design, y, noises.resolve("gumbel"), n_classes)


def chains(kind, likelihood, n_chains, frame, prior=LEARNED):
    columns = ColumnSizes.of(likelihood.design)
    state = prior.chain(n_chains, likelihood.n_classes, columns, True)

    def reframe(precision, near):
        mode, _ = find_mode(likelihood, precision, state.mean[None], near)
        return make_frame(frame, likelihood, mode, precision)

    start = np.zeros(likelihood.shape)
    return kind(likelihood, state, reframe, start, np.random.RandomState(0))


def test_it_finds_the_scale_of_long_chains():
    likelihood = likelihood_of(40, 5, 20)
    found = []
    short = chains(ScaleChain, likelihood, 1, "diagonal")
    short.learn(60, lambda: found.append(short._log_scales()))
    drawn = chains(Chains, likelihood, 4, "class").run(100)
    logs = -0.5 * drawn.log_scales
    # Both means have errors of about a quarter of the posterior's deviation.
    off = np.abs(np.mean(found[-60:], axis=0) - logs.mean(axis=0)) / logs.std(axis=0)
    assert (off < 1.2).all(), off


@pytest.mark.parametrize("shape", [(300, 5, 20), (200, 5, 60), (150, 20, 8)], ids=str)
def test_it_finds_the_scale_that_many_classes_have(shape):
    likelihood = likelihood_of(*shape)
    chain = chains(ScaleChain, likelihood, 1, "diagonal")
    began = likelihood.n_gradients
    chain.learn(16)
    assert np.exp(chain._log_scales()[0]) == pytest.approx(SCALE, rel=0.16)
    assert likelihood.n_gradients - began < 500


def test_a_scale_per_feature_too():
    likelihood = likelihood_of(100, 5, 6)
    chain = chains(ScaleChain, likelihood, 1, "diagonal", HierarchicalPrior())
    precisions, mixing = chain.learn(16)
    assert mixing.ess_bulk > 1.0
    found = 1.0 / np.sqrt(precisions[0, :-1])
    np.testing.assert_allclose(found, SCALE / np.sqrt(6), rtol=0.5)


def test_errors_count_per_row():
    likelihood = likelihood_of(40, 5, 20)
    chain = chains(ScaleChain, likelihood, 1, "diagonal")
    limit = _scale_chain.TOLERATED * likelihood.design.n
    assert chain._accepted(np.array([limit, -limit])).tolist() == [1.0, 1.0]
    assert chain._accepted(np.array([-30.0]))[0] < 1e-10


def test_moves_that_shrink_evenly_are_extrapolated():
    moves = 0.2 * 0.8 ** np.arange(100)
    first, second, rest = moves[:2].sum(), moves[2:4].sum(), moves[4:].sum()
    some = _scale_chain._extrapolated(np.array([first, -first]), np.array([second, -second]))
    np.testing.assert_allclose(some, [rest, -rest], rtol=1e-6)
    turned = _scale_chain._extrapolated(np.array([0.3, -0.3, 0.01]), np.array([-0.2, 0.2, 0.01]))
    np.testing.assert_array_equal(turned, 0.0)
    growing = _scale_chain._extrapolated(np.array([0.2]), np.array([0.4]))
    assert growing[0] == _scale_chain.LONGEST_MOVE


def planned(covariance, work):
    return plan(covariance, "auto", work, LearnedScale(), False, 400)


def test_when_one_chain_is_taken(monkeypatch):
    small = Work(500, 20, 20, 20.0, False, True)
    large = Work(10_000, 101, 1_000, 101.0, False, True)
    assert not planned("class", small).one_chain
    chosen = planned("auto", large)
    assert (chosen.form, chosen.one_chain) == ("class", True)
    assert not planned("draws", large).one_chain
    assert chosen.n_rows is None
    huge = planned("auto", large._replace(n_rows=1_000_000))
    assert huge.n_rows is not None
    assert 10_000 < huge.n_rows < 100_000
    X, y = four_classes(80)
    known = laplace(covariance="class").fit(X, y).posterior_.prior
    monkeypatch.setattr(_laplace_plan, "SECONDS_OF_PRIOR", 0.0)
    model = laplace(covariance="class").fit(X, y)
    assert np.isfinite(model.history_["log_precision"]).all()
    prior = model.posterior_.prior
    assert prior is not None
    assert known is not None
    # Twelve weights leave the scale open, four intercepts theirs by far more.
    assert np.abs(np.log(prior.precision / known.precision))[0, :-1].max() < 1.0


def test_random_rows_tell_the_scale_too():
    """All classes and some of the rows, which unlike the rows of some classes are not selected."""
    likelihood = likelihood_of(150, 20, 8)
    some = likelihood.of_rows(np.arange(0, likelihood.design.n, 4))
    assert some.shape == likelihood.shape
    assert some.design.n == 750
    chain = chains(ScaleChain, some, 1, "diagonal")
    chain.learn(16)
    assert np.exp(chain._log_scales()[0]) == pytest.approx(SCALE, rel=0.25)


def test_slopes_of_factors_are_those_of_the_posterior():
    likelihood = likelihood_of(40, 5, 20)
    chain = chains(ScaleChain, likelihood, 1, "diagonal")
    chain.some = likelihood  # all rows, so that bends have no error either
    slopes, bends = chain._parabolas(chain._here())

    def posterior(kind, log):
        stack, prior = chain._multiplied(log, kind)
        return likelihood.values(stack)[0] + prior.log_density(kind)[0]

    for kind, slope, bend in zip(chain.prior.scalable(), slopes, bends):
        low, middle, high = (posterior(kind, log) for log in (-0.01, 0.0, 0.01))
        assert slope == pytest.approx((high - low) / 0.02, rel=1e-3, abs=0.05)
        assert bend == pytest.approx((2.0 * middle - low - high) / 1e-4, rel=0.05, abs=1.0)


def test_a_part_of_the_rows_tells_about_the_bend():
    likelihood = likelihood_of(60, 50, 10)
    chain = chains(ScaleChain, likelihood, 1, "diagonal")
    rough = chain._parabolas(chain._here())
    assert chain.some.design.n == _scale_chain.LEAST_ROWS < likelihood.design.n
    chain.some = likelihood
    exact = chain._parabolas(chain._here())
    np.testing.assert_array_equal(rough[0], exact[0])
    np.testing.assert_allclose(rough[1], exact[1], rtol=0.3)
    assert (rough[1] != exact[1]).any()


def test_an_iteration_costs_its_gradients_and_no_values_of_all_rows(monkeypatch):
    likelihood = likelihood_of(60, 20, 10)
    chain = chains(ScaleChain, likelihood, 1, "diagonal")
    chain.angle = 0.5
    chain._here()
    seen = []
    values = Likelihood.values

    def counted(self: Likelihood, stack: np.ndarray) -> np.ndarray:
        seen.append(self)
        return values(self, stack)

    monkeypatch.setattr(Likelihood, "values", counted)
    before = likelihood.n_gradients
    chain._iterate(lambda: None, arrived=False)
    # Angles of 0.4 to 0.6 take three or four parts of a quarter of a turn; then there are factors.
    cost = likelihood.n_gradients - before
    assert cost in (4, 5)
    assert seen
    assert all(one is chain.some for one in seen)
    place = chain._here()
    assert likelihood.n_gradients - before == cost
    value, gradient = likelihood.gradients(chain.stack)
    np.testing.assert_array_equal(place.values, value)
    np.testing.assert_array_equal(place.gradients, gradient)


def test_a_chain_begins_with_some_of_many_rows():
    likelihood = likelihood_of(150, 40, 4)
    rng = np.random.RandomState(0)
    few = first_rows(likelihood, rng)
    assert few is not None
    assert (few.design.n, few.shape) == (750, likelihood.shape)
    assert first_rows(likelihood_of(40, 5, 20), rng) is None


def test_intercepts_do_not_begin_where_few_rows_took_them(monkeypatch):
    """Their scale may wander off there, and the chain over all rows does not wait for it."""
    X, y = four_classes(2_000)
    monkeypatch.setattr(_laplace_plan, "SECONDS_OF_PRIOR", 0.0)
    monkeypatch.setattr(_scale_chain, "LEAST_ROWS", 50)
    begun = []

    class Watched(ScaleChain):
        def __init__(self, likelihood, prior, *rest):
            begun.append((likelihood.design.n, prior))
            super().__init__(likelihood, prior, *rest)

    monkeypatch.setattr("bigcat.bayes.laplace.ScaleChain", Watched)
    laplace(covariance="class").fit(X, y)
    (n_few, first), (n, second) = begun
    assert n_few == n // 8
    assert second.intercepts is not None
    np.testing.assert_array_equal(first.intercepts.values, second.intercepts.values)
    assert (first.scales.values != second.scales.values).all()
