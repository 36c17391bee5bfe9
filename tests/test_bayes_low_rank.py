"""Covariances of low rank, and posteriors around the fit of LinearClassifier."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import log_softmax, softmax

import reference.laplace as twin
import reference.noise as reference_noise
from bigcat import BayesianClassifier, LinearClassifier, load_model, save_model
from bigcat import noise as noises
from bigcat.bayes import GaussianPrior, Laplace, LearnedScale, _around_linear, _low_rank_frame
from bigcat.bayes._around_linear import AroundLinear, Trial, Tried, _between, _Judge
from bigcat.bayes._design import Design
from bigcat.bayes._frames import class_precisions, make_frame
from bigcat.bayes._laplace_plan import Work
from bigcat.bayes._likelihood import Likelihood
from bigcat.bayes._low_rank_frame import Curvature, low_rank_frame
from bigcat.bayes._mode import find_mode
from bigcat.bayes._uncentred import uncentred_covariance
from bigcat.bayes.covariance import LowRank, few_pairs
from bigcat.bayes.method import Task
from bigcat.training.data import TrainingData
from tests.bayesian import check_intervals, check_predictions, laplace

EVERYONE = slice(0, 4)


def problem(n=30, n_features=5, seed=0, sparse=False, noise="gumbel"):
    """A likelihood of four classes with correlated columns, and weights near its mode."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) @ rng.standard_normal((n_features, n_features))
    if sparse:
        X *= rng.random(X.shape) < 0.4
    y = np.append(np.arange(4), rng.integers(0, 4, n - 4))
    rows = scipy.sparse.csr_array(X) if sparse else X
    design = Design(rows, True, rng.integers(1, 3, n).astype(float))
    weights = 0.4 * rng.standard_normal((4, n_features + 1))
    return Likelihood(design, y, noises.resolve(noise), 4, 1), weights


def prior_of(likelihood):
    return np.linspace(0.5, 2.0, likelihood.design.n_columns)[None]


@pytest.fixture
def wide(monkeypatch):
    """Few columns are treated as many."""
    monkeypatch.setattr(_low_rank_frame, "EXACT_UP_TO", 0)


# The form


@pytest.mark.parametrize("noise", ["gumbel", "gaussian"])
@pytest.mark.usefixtures("wide")
def test_the_covariance_is_the_twins(noise):
    likelihood, weights = problem(noise=noise)
    prior = prior_of(likelihood)
    found = low_rank_frame(likelihood, weights, prior, 2).covariance
    X, s = likelihood.design.dense(slice(None)), likelihood.design.row_weights
    reference = {"gumbel": reference_noise.GUMBEL, "gaussian": reference_noise.GAUSSIAN}[noise]
    expected = twin.low_rank_covariances(reference, weights, X, s, prior[0], 2, 8, 0.01)
    np.testing.assert_allclose(found.array(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.usefixtures("wide")
def test_rows_that_are_all_kept_give_the_inverse(monkeypatch, sparse, turned):
    monkeypatch.setattr(_low_rank_frame, "LEAST_CURVATURE", 0.0)
    monkeypatch.setattr(_low_rank_frame, "MOST_TURNED", 100 if turned else 0)
    likelihood, weights = problem(n=8, n_features=12, sparse=sparse)
    prior = prior_of(likelihood)
    found = low_rank_frame(likelihood, weights, prior, 8).covariance
    assert bool(found.basis.size) == turned
    exact = np.linalg.inv(class_precisions(likelihood, weights, prior))
    np.testing.assert_allclose(found.array(), exact, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
def test_few_columns_leave_nothing_out(sparse):
    likelihood, weights = problem(n=60, sparse=sparse)
    prior = prior_of(likelihood)
    exact = np.linalg.inv(class_precisions(likelihood, weights, prior))
    for factor in (1.0, 4.0):
        curvature = Curvature.at(likelihood, weights, prior / factor)
        found = curvature.covariance(2, factor)
        np.testing.assert_allclose(found.array(), exact, rtol=1e-4, atol=1e-6)


def test_a_basis_and_directions_are_near_the_inverse_where_a_diagonal_is_not():
    rng = np.random.default_rng(0)
    d, n = 40, 600
    X = (rng.standard_normal((n, d)) / np.arange(1, d + 1)) @ np.linalg.qr(
        rng.standard_normal((d, d))
    )[0]
    y = np.append(np.arange(4), rng.integers(0, 4, n - 4))
    likelihood = Likelihood(Design(X, True), y, noises.resolve("gumbel"), 4, 1)
    prior = np.full((1, d + 1), 0.05)
    weights, _ = find_mode(likelihood, prior, np.zeros((1, d + 1)), np.zeros((4, d + 1)))
    exact, diagonal, low_rank = (
        np.sqrt(covariance.row_variances(likelihood.design, EVERYONE))
        for covariance in (
            uncentred_covariance(make_frame("class", likelihood, weights, prior), None),
            uncentred_covariance(make_frame("diagonal", likelihood, weights, prior), None),
            low_rank_frame(likelihood, weights, prior).covariance,
        )
    )
    assert np.abs(low_rank / exact - 1.0).max() < 0.1
    assert np.abs(np.mean(low_rank / exact) - 1.0) < 0.02
    assert np.abs(diagonal / exact - 1.0).max() > 0.2


def covariances() -> dict[str, LowRank]:
    rng = np.random.default_rng(4)
    directions = np.linalg.qr(rng.standard_normal((4, 6, 3)))[0].transpose(0, 2, 1)
    scales, shrinkage = rng.uniform(0.5, 2.0, (4, 6)), rng.uniform(0.1, 0.9, (4, 3))
    turned = LowRank(scales, directions, shrinkage, rng.standard_normal((6, 6)))
    plain = LowRank(turned.scales, turned.directions, turned.shrinkage, np.empty((0, 0)))
    basis = np.random.default_rng(5).standard_normal((9, 6))
    embedded = LowRank(turned.scales, turned.directions, turned.shrinkage, basis)
    return {"turned": turned, "plain": plain, "embedded": embedded}


@pytest.mark.parametrize("kind", ["turned", "plain", "embedded"])
def test_all_answers_are_those_of_the_matrices(kind):
    form = covariances()[kind]
    matrices = form.array()
    m = matrices.shape[1]
    some = np.array([3, 1])
    np.testing.assert_allclose(
        form.variances(some), np.diagonal(matrices[some], axis1=1, axis2=2), rtol=1e-5
    )
    X = np.random.default_rng(1).standard_normal((7, m))
    expected = np.einsum("nm,kml,nl->nk", X, matrices[some], X)
    for rows in (X, scipy.sparse.csr_array(X)):
        np.testing.assert_allclose(
            form.row_variances(Design(rows, False), some), expected, rtol=1e-5
        )
    if kind == "embedded":
        assert np.isneginf(form.log_determinants(EVERYONE)).all()
    else:
        logs = np.linalg.slogdet(matrices)[1]
        np.testing.assert_allclose(form.log_determinants(EVERYONE), logs, rtol=1e-4)
    matrix = np.random.default_rng(2).standard_normal((m, m))
    np.testing.assert_allclose(
        form.traces(matrix, some), np.einsum("kij,ij->k", matrices[some], matrix), rtol=1e-5
    )
    ends = form.colour(np.eye(m)[:, None].repeat(4, axis=1), EVERYONE)  # G e_j, one after another
    np.testing.assert_allclose(np.einsum("jki,jkl->kil", ends, ends), matrices, atol=1e-5)


def test_the_transposed_root_is_the_roots():
    form = covariances()["turned"]
    unit = np.eye(6)[:, None].repeat(4, axis=1)
    root = form.colour(unit, EVERYONE)
    np.testing.assert_allclose(
        form.transposed_root_times(unit, EVERYONE), root.transpose(2, 1, 0), atol=1e-6
    )


def test_arrays_that_do_not_belong_together():
    form = covariances()["turned"]
    with pytest.raises(ValueError, match="do not belong together"):
        LowRank(form.scales, form.directions[:, :, :-1], form.shrinkage, form.basis)
    with pytest.raises(ValueError, match="do not belong together"):
        LowRank(form.scales, form.directions, form.shrinkage, form.basis[:, :-1])


def test_blocks_of_sparse_rows_are_those_of_dense_ones():
    likelihood, weights = problem(n=25, n_features=40, sparse=True)
    rows = likelihood.design.dense(slice(None))[:, :40]
    rows[:, 3:] = 0.0
    sparse = Design(scipy.sparse.csr_array(rows), True)
    assert few_pairs(sparse.rows)
    prior, noise = np.ones((1, 41)), noises.resolve("gumbel")
    found = class_precisions(Likelihood(sparse, likelihood.labels, noise, 4), weights, prior)
    dense = Design(sparse.dense(slice(None))[:, :40], True)
    expected = class_precisions(Likelihood(dense, likelihood.labels, noise, 4), weights, prior)
    np.testing.assert_allclose(found, expected, atol=1e-10)


# The method


def grouped(n=240, n_features=12, n_classes=8, seed=0):
    """Rows whose scores are of rank 2, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features)) + 1.0
    weights = rng.standard_normal((n_classes, 2)) @ rng.standard_normal((2, n_features))
    scores = X @ weights.T
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)


def test_low_rank_fits_are_near_those_with_matrices():
    X, y = grouped(n_features=40)
    low, full = (
        laplace(covariance=form, rank=None, prior=GaussianPrior(0.5), centre="mode").fit(X, y)
        for form in ("low-rank", "class")
    )
    assert low.history_.choice is not None
    assert low.history_.choice["covariance"] == "low-rank"
    np.testing.assert_allclose(low.posterior_.mean, full.posterior_.mean, atol=1e-6)
    ratio = low.posterior_.scale / full.posterior_.scale
    np.testing.assert_allclose(ratio, 1.0, atol=0.2)
    assert abs(ratio.mean() - 1.0) < 0.02
    np.testing.assert_allclose(low.evidence_, full.evidence_, rtol=0.01)
    check_predictions(low, X[:20], y[:20], "averaged")
    check_intervals(low, X[:20])
    assert low.summary(top=2).shape == (2 * len(low.classes_), 7)


@pytest.mark.parametrize(("n_features", "within"), [(12, 1e-3), (40, 0.25)])
def test_centred_columns_are_turned_back(n_features, within):
    X, y = grouped(n_features=n_features)
    models = [
        laplace(covariance=form, rank=None).fit(X, y).posterior_ for form in ("low-rank", "class")
    ]
    low, full = (
        model.covariance_form.row_variances(Design(X, True), slice(0, 8)) for model in models
    )
    np.testing.assert_allclose(np.sqrt(low / full), 1.0, atol=within)


@pytest.fixture(scope="module")
def around():
    """A posterior around a fit with vectors of length 3."""
    X, y = grouped()
    return X, y, laplace(rank=3, n_threads=1).fit(X, y)


def test_a_posterior_around_the_linear_fit(around, tmp_path):
    X, y, model = around
    choice = model.history_.choice
    assert choice["covariance"] == "low-rank"
    assert choice["rank"] == 3
    assert 0.25 <= choice["scale"] <= 16.0
    assert np.isnan(model.evidence_)
    assert model.posterior_.covariance_form.basis.shape == (13, 13)
    check_predictions(model, X[:20], y[:20], "averaged")
    check_intervals(model, X[:20])
    assert model.summary(classes=[1], top=3, base=0).shape == (3, 8)
    draws = model.posterior_.sample(2000, random_state=0)
    np.testing.assert_allclose(draws.std(axis=0), model.posterior_.scale, rtol=0.15)
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    again = load_model(path)
    np.testing.assert_array_equal(again.predict_proba(X[:9]), model.predict_proba(X[:9]))


def test_its_mean_is_the_linear_fit_and_its_spread_the_curvature():
    X, y = grouped()
    sample = TrainingData(X, y, np.ones(len(y)))
    noise = noises.resolve("gumbel")
    task = Task(sample, np.arange(8), LearnedScale(), True, np.random.RandomState(0))
    found = AroundLinear(task, noise, 3, 64).run(None)
    linear = LinearClassifier(rank=3, random_state=0, n_threads=1).fit(X, y)
    scores = np.column_stack([X, np.ones(len(X))]) @ found.mean.T
    logs = linear.predict_log_proba(X)
    np.testing.assert_allclose(log_softmax(scores, axis=1), logs, atol=1e-4)
    rows_with_ones = np.column_stack([X, np.ones(len(X))])
    prior = np.append(X.shape[1] * np.square(X).mean(axis=0), 1.0)
    p = softmax(scores, axis=1)
    for k in (0, 5):
        curved = rows_with_ones * (p[:, k] * (1 - p[:, k]))[:, None]
        inverse = np.linalg.inv(np.diag(prior) + curved.T @ rows_with_ones)
        expected = np.einsum("nm,nm->n", rows_with_ones @ inverse, rows_with_ones)
        rows = found.covariance.row_variances(Design(X, True), slice(k, k + 1))[:, 0]
        np.testing.assert_allclose(rows, expected, rtol=1e-3)


def test_held_out_rows_are_judged_without_bias():
    rng = np.random.default_rng(0)
    scores, variances = rng.standard_normal((40, 6)), rng.uniform(0.5, 2.0, (40, 6))
    held = TrainingData(None, rng.integers(0, 6, 40), rng.integers(1, 3, 40).astype(float))
    base = np.full(6, -1.0)
    draws = 1.3 * (scores - base) + base
    draws = draws + np.sqrt(variances) * rng.standard_normal((20_000, 40, 6))
    p = softmax(draws, axis=2)[:, np.arange(40), held.labels].mean(axis=0)
    expected = held.row_weights @ np.log(p) / held.row_weights.sum()
    judges = [_Judge(scores, base, held, np.random.RandomState(seed)) for seed in range(20)]
    found = [judge(1.3, variances) for judge in judges]
    error = np.std(found, ddof=1) / np.sqrt(20)
    assert abs(np.mean(found) - expected) < 4.0 * error + 0.002  # false alarms: 1 in 10,000
    assert error < 0.01


def test_the_scale_lies_between_those_tried():
    """Where scores vary as it says, or where held-out rows have lost what they may."""
    first = Tried(1.0, 1.0, -2.0, 1.5)
    implied = _between([first, Tried(2.0, 1.2, -2.0, 1.5)])
    part = np.log(1.5) / np.log(2.0)
    assert implied == pytest.approx((1.5, 1.0 + 0.2 * part, -2.0))
    cost = 2.0 * _around_linear.MAY_COST
    costly = _between([first, Tried(2.0, 1.2, -2.0 - 4.0 * cost, 2.5)])
    assert costly == pytest.approx((2.0**0.25, 1.05, -2.0 - cost))
    assert _between([first, Tried(2.0, 1.0, -2.0, 2.1)])[0] == 2.0  # the last that is tried
    assert _between([Tried(0.25, 0.9, -2.0, 0.2)]) == (0.25, 0.9, -2.0)


def test_a_factor_goes_up_and_down_as_far_as_rows_say():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((400, 5))
    for true in (0.5, 1.0, 2.0):
        labels = np.argmax(true * scores + rng.gumbel(size=scores.shape), axis=1)
        held = TrainingData(None, labels, np.ones(400))
        judge = _Judge(scores, np.zeros(5), held, np.random.RandomState(0))
        factor, value = judge.best(1.0, np.full(scores.shape, 1e-6))
        assert factor == pytest.approx(true, rel=0.25)
        expected = log_softmax(factor * scores, axis=1)[np.arange(400), labels].mean()
        assert value == pytest.approx(expected, abs=1e-4)
        assert judge.fitted_variance() == pytest.approx(scores.var(axis=0).mean(), rel=1e-5)


def test_one_row_per_class_leaves_none_to_hold_out():
    X = np.eye(6)
    model = laplace(rank=2, n_threads=1).fit(X, np.arange(6))
    assert model.history_.choice is not None
    assert model.history_.choice["scale"] == _around_linear.USUAL_SCALE
    assert np.isfinite(model.predict_proba(X)).all()


# What is taken


def taken(n_rows, n_features, n_classes, row_values=None, **options: Any):
    prior = options.pop("prior", LearnedScale())
    row_values = n_features if row_values is None else row_values
    sparse = row_values < n_features
    work = Work(n_rows, n_features + 1, n_classes, row_values + 1, sparse, True)
    return Laplace(**options).plan(work, prior)


def test_the_plan_of_many_weights():
    assert taken(800, 100, 100).form == "draws"
    assert taken(10_000, 100, 1_000).form == "class"
    delicious = taken(12_910, 500, 352, 19)
    assert (delicious.form, delicious.around) == ("low-rank", "linear")
    assert taken(12_910, 500, 352, 19, rank=None).form == "class"
    bibtex = taken(4_880, 1_836, 146, 70)
    assert (bibtex.form, bibtex.around) == ("low-rank", "either")
    assert (bibtex.n_directions, bibtex.turns_columns) == (16, True)
    omniglot = taken(25_968, 784, 1_623, 150)
    assert (omniglot.form, omniglot.around) == ("low-rank", "linear")
    wide = taken(50_000, 5_000, 10_000, 20)
    assert (wide.form, wide.around, wide.n_directions) == ("low-rank", "linear", 5)
    known = taken(4_880, 1_836, 146, 70, prior=GaussianPrior())
    assert (known.form, known.around) == ("low-rank", "mode")
    assert taken(4_880, 1_836, 146, 70, rank=None).around == "mode"
    assert taken(800, 100, 100, rank=8).around == "linear"


def test_what_is_ahead_on_held_out_rows_is_taken(monkeypatch):
    X, y = grouped(n=200, n_features=5, n_classes=4)
    chosen = []
    for ahead in (True, False):
        monkeypatch.setattr(Trial, "is_ahead_of", lambda self, scores, ahead=ahead: ahead)
        model = laplace(covariance="low-rank", n_threads=1).fit(X, y)
        assert model.history_.choice is not None
        chosen.append("scale" in model.history_.choice)
    assert chosen == [True, False]


def test_a_trial_is_ahead_by_more_than_a_standard_error():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    held = TrainingData(None, labels, np.ones(400))
    good = 2.0 * np.eye(3)[labels] + rng.standard_normal((400, 3))
    trial = Trial(None, held, held, good)  # type: ignore[arg-type]
    assert trial.is_ahead_of(rng.standard_normal((400, 3)))
    assert not trial.is_ahead_of(good)
    assert not Trial(None, held, held, 0.0 * good).is_ahead_of(good)  # type: ignore[arg-type]
    expected = log_softmax(good, axis=1)[np.arange(400), labels].mean()
    assert trial.value() == pytest.approx(expected)


def test_options_that_do_not_go_together():
    with pytest.raises(ValueError, match=r"rank=0 must be a whole number"):
        Laplace(rank=0)
    with pytest.raises(ValueError, match=r"rank=3 and covariance='class' do not go together"):
        Laplace(rank=3, covariance="class")
    with pytest.raises(ValueError, match=r"rank=3 is for the softmax"):
        Laplace(rank=3, noise="gaussian")


def test_memory_counts_what_is_kept_of_each_class():
    model = BayesianClassifier(n_threads=1)
    small, large = (
        model.memory_forecast(50_000, 5_000, n_classes, row_nonzeros=20)
        for n_classes in (10_000, 20_000)
    )
    kept = 10_000 * 5_001 * (8 + 4 + 4 * 4)  # of ten thousand classes, at the least
    assert large - small > kept
    assert small > 8 * 10_000 * 5_000


@pytest.mark.parametrize("sparse", [False, True])
def test_own_rows_and_a_mean_stand_for_all_classes_of_all_rows(monkeypatch, sparse):
    """Standard deviations of the scores of new rows, with 4 rows per class."""
    rng = np.random.default_rng(0)
    n_classes, n_features = 300, 50
    X = rng.standard_normal((4 * n_classes + 40, n_features))
    if sparse:
        X *= rng.random(X.shape) < 0.3
    scores = X @ rng.standard_normal((n_features, n_classes)) * 1.5 / np.sqrt(n_features)
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)[:-40]
    rows = scipy.sparse.csr_array(X) if sparse else X
    sample = TrainingData(rows[:-40], y, np.ones(len(y)))
    task = Task(sample, np.arange(n_classes), LearnedScale(), True, np.random.RandomState(0))
    around = AroundLinear(task, noises.resolve("gumbel"), 8, 4)
    model = around.fit(sample)
    found = []
    for most in (np.inf, 0.0):
        monkeypatch.setattr(_around_linear, "MOST_SECONDS_OF_CURVATURE", most)
        covariance = around.curvature(model, sample).covariance(4, 0.5)
        found.append(covariance.row_variances(Design(rows[-40:], True), slice(0, n_classes)))
    ratio = np.sqrt(found[1] / found[0])
    assert ratio.mean() == pytest.approx(1.0, abs=0.05)
    assert ratio.std() < 0.1


def test_few_held_out_rows_save_a_fit(monkeypatch):
    X, y = grouped()
    fits = []
    fit = AroundLinear.fit

    def counted(self, sample):
        fits.append(sample.n_rows)
        return fit(self, sample)

    monkeypatch.setattr(AroundLinear, "fit", counted)
    for few in (1, 1_000):
        monkeypatch.setattr(_around_linear, "FEW_HELD_OUT", few)
        laplace(rank=3, n_threads=1).fit(X, y)
    assert fits == [216, 216, 240]


def test_averages_of_vanishing_classes():
    """All of a softmax's probabilities are finite, and near those of very many draws."""
    X, y = grouped()
    q: Any = laplace(covariance="class", rank=None, prior=GaussianPrior(1.0)).fit(X, y).posterior_
    rows = np.concatenate([X[:5], 300.0 * X[:5]])
    found = q.log_proba(rows, "averaged")
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0)
    ((_, eta, variances),) = q.score_blocks(rows, variances=True)
    q.n_draws = 20_000
    expected = q._averaged_logs(eta[:5], np.sqrt(variances[:5]))
    np.testing.assert_allclose(np.exp(found[:5]), np.exp(expected), atol=0.01)
