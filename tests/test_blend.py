"""How far fits are trusted, and what becomes of those that know nothing."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax

from bigcat import LinearClassifier
from bigcat.auto.policy import LOW
from bigcat.linear import FullRankWeights, LinearModel, LowRankWeights, weighted_sum
from bigcat.noise import Gaussian, Gumbel
from bigcat.training import member_fits, members, task
from bigcat.training.blend import find_factors
from bigcat.training.fit import Fit, FitResult
from bigcat.training.history import History
from bigcat.training.members import averaged
from bigcat.training.data import TrainingData

N_CLASSES, N_FEATURES = 6, 4
FOURTHS = [1.0, 0.25, 0.0625]


def some_models(n_rows=400, seed=0):
    """Two models that know a part each and are too sure of it; rows of the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((N_CLASSES, N_FEATURES))
    base = rng.standard_normal(N_CLASSES)
    X = rng.standard_normal((n_rows, N_FEATURES))
    scores = X @ truth.T + base
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    models = [
        LinearModel(FullRankWeights(3.0 * truth * mask), base + shift, Gumbel())
        for mask, shift in ((np.arange(4) < 2, 0.3), (np.arange(4) >= 2, -0.2))
    ]
    return models, base, TrainingData(X, labels, rng.random(n_rows))


def test_factors_are_those_of_an_independent_solver():
    models, base, sample = some_models()
    departures = [m.weights.coef @ sample.X.T + (m.intercept - base)[:, None] for m in models]

    def loss(factors):
        scores = base[:, None] + sum(f * d for f, d in zip(factors, departures))
        values = log_softmax(scores, axis=0)[sample.labels, np.arange(len(sample.labels))]
        return -sample.row_weights @ values / sample.row_weights.sum()

    expected = minimize(loss, [0.5, 0.5], tol=1e-12)
    found = find_factors(models, base, sample)
    np.testing.assert_allclose(found.factors, expected.x, atol=1e-4)
    assert found.gain == pytest.approx(loss(np.zeros(2)) - expected.fun, abs=1e-6)
    assert found.pays


def test_a_model_that_errs_is_not_trusted():
    models, base, sample = some_models()
    wrong = LinearModel(FullRankWeights(-models[0].weights.coef), base, Gumbel())
    found = find_factors([wrong, models[1]], base, sample)
    assert found.factors[0] == 0.0 < found.factors[1]
    alone = find_factors([wrong], base, sample)
    assert alone.factors[0] == 0.0
    assert not alone.pays


@pytest.mark.parametrize("size", [1e9, 1e-9])
def test_factors_of_scores_of_any_size(size):
    models, base, sample = some_models()
    far = LinearModel(FullRankWeights(size * models[0].weights.coef), base, Gumbel())
    found = find_factors([far], base, sample)
    assert np.isfinite(found.factors).all()
    assert found.gain >= -1e-9


def test_the_factor_of_another_noise():
    models, base, sample = some_models()
    model = LinearModel(models[0].weights, base, Gaussian())
    found = find_factors([model], base, sample)
    assert 0.05 < found.factors[0] < 0.9  # the model is three times too sure
    assert found.pays


def test_a_sum_of_weights_scores_as_the_sum_of_their_scores():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, N_FEATURES))
    full = FullRankWeights(rng.standard_normal((N_CLASSES, N_FEATURES)))
    low = [
        LowRankWeights(rng.standard_normal((N_CLASSES, r)), rng.standard_normal((N_FEATURES, r)))
        for r in (1, 2)
    ]
    for kinds, rank in (([full, low[0]], None), (low, 3), ([full, full], None)):
        expected = 0.25 * kinds[0].products(False, float)(X)
        expected += 2.0 * kinds[1].products(False, float)(X)
        total = weighted_sum([0.25, 2.0], kinds)
        assert total.kind.rank == rank
        np.testing.assert_allclose(total.products(False, float)(X), expected, rtol=1e-6)
    before = low[0].products(False, float)(X)
    np.testing.assert_allclose(weighted_sum([3.0], [low[0]]).products(False, float)(X), 3 * before)


# In fits


def no_signal(n_rows, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random(n_rows, 300, 0.02, "csr", np.float32, random_state=seed)
    p = 1.0 / np.arange(1, n_classes + 1)
    return X, rng.choice(n_classes, n_rows, p=p / p.sum())


def test_scores_that_are_too_sure_are_taken_back():
    """Few rows and many passes: without a factor the fit is worse than class frequencies."""
    rng = np.random.default_rng(0)
    X, y = no_signal(6_000, 60)
    marked = rng.random(6_000) < 0.2
    X = X.tolil()
    for i in np.flatnonzero(marked):
        X[i, y[i]] = 1.0
    X = X.tocsr()
    test = slice(3_000, None)
    model = LinearClassifier(rank=16, learning_rate=0.5, max_epochs=40, random_state=0)
    model.fit(X[:3_000], y[:3_000])
    choice = model.history_.choice
    assert choice is not None
    (member,) = choice["blend"]["members"]
    assert 0.0 < member["factor"] < 0.9
    assert choice["reason"].endswith(f"ask for {member['factor']:.2f} times the scores of rank 16")
    found = model.log_proba_of(X[test], y[test]).mean()
    unblended = LinearClassifier(
        rank=16, learning_rate=0.5, max_epochs=40, random_state=0, l2=0.0
    ).fit(X[:3_000], y[:3_000])
    frequencies = np.log(np.bincount(y[:3_000], minlength=60).clip(0.5) / 3_000)[y[test]].mean()
    assert unblended.log_proba_of(X[test], y[test]).mean() < frequencies < found


@pytest.mark.parametrize(("few", "last"), [(2_400, 2_400), (2_399, 240)])
def test_all_rows_are_in_the_final_fit(few, last, monkeypatch):
    """The fit goes on with all rows where they are few; else with those that were held out."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 30, 2_400)
    X = np.eye(30)[y] + 0.3 * rng.standard_normal((2_400, 30))
    fitted = []

    class Spied(Fit):
        def __init__(self, recipe, problem, *args):
            fitted.append(problem.n_rows)
            super().__init__(recipe, problem, *args)

    monkeypatch.setattr(member_fits, "FEW_ROWS", few)
    monkeypatch.setattr(member_fits, "FEW_ROWS_OF_LOW_RANK", few)
    monkeypatch.setattr(member_fits, "FEW_SCORES", 0)
    monkeypatch.setattr(task, "Fit", Spied)
    model = LinearClassifier(rank=8, random_state=0, max_epochs=3).fit(X, y)
    assert fitted == [2_160, last]
    epochs = model.history_["epoch"].tolist()
    assert epochs == list(range(1, len(epochs) + 1))
    assert (np.diff(model.history_["seconds"]) > 0).all()


@pytest.mark.parametrize(
    ("limit", "rather", "full_rates", "slower_is_better", "two_alike_are_better", "parts"),
    [
        (0.0, 0.0, [1.0], False, False, [("2 x rank 128", 1.0)]),
        (0.0, 9.0, [1.0, 0.5, 0.25], False, False, [("2 x rank 128", 1.0)]),
        (9.0, 9.0, FOURTHS, True, True, [("rank 128", 1.0), ("rank 128, slower", 0.5)]),
        (9.0, 9.0, FOURTHS, False, False, [("rank 128", 1.0), ("rank 128, slower", 0.5)]),
        (9.0, 9.0, FOURTHS, False, True, [("2 x rank 128", 1.0)]),
    ],
)
def test_what_is_too_sure_is_followed_by_slower_fits(
    limit, rather, full_rates, slower_is_better, two_alike_are_better, parts, monkeypatch
):
    """And if a slower one is no better by itself, by another that is as fast."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 70, 2_400)
    X = np.eye(70)[y] + 0.3 * rng.standard_normal((2_400, 70))
    monkeypatch.setattr(members, "TOO_SURE", limit)
    monkeypatch.setattr(members, "RATHER_SURE", rather)
    monkeypatch.setattr(members, "TIMID", np.inf)
    monkeypatch.setattr(members, "LEAST_SHARE", -1.0)
    monkeypatch.setattr(members.Member, "gains_on", lambda *given: slower_is_better)
    monkeypatch.setattr(members.Member, "beats_sum_of", lambda *given: two_alike_are_better)
    rows = scipy.sparse.csr_array(X.astype(np.float32))
    model = LinearClassifier(random_state=0, max_epochs=3).fit(rows, y)
    choice = model.history_.choice
    assert choice is not None
    tried = [(m["what"], m["learning_rate"]) for m in choice["blend"]["members"]]
    full = [rate / tried[0][1] for what, rate in tried if what == "full rank"]
    low = [(what, rate / LOW.rates.all_classes) for what, rate in tried if "rank 128" in what]
    assert full == full_rates
    assert low == parts
    epochs = model.history_["epoch"].tolist()
    assert epochs == sorted(epochs)


@pytest.mark.parametrize(("share", "what"), [(-1.0, "2 x rank 128"), (0.01, "rank 128")])
def test_a_model_that_adds_nothing_has_no_second_one(share, what, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 70, 2_400)
    X = np.eye(70)[y] + 0.5 * rng.standard_normal((2_400, 70))
    monkeypatch.setattr(members, "LEAST_SHARE", share)
    monkeypatch.setattr(members, "TIMID", np.inf)
    monkeypatch.setattr(members, "TOO_SURE", 0.0)
    monkeypatch.setattr(members, "RATHER_SURE", 0.0)
    rows = scipy.sparse.csr_array(X.astype(np.float32))
    model = LinearClassifier(random_state=0, max_epochs=3).fit(rows, y)
    assert model.history_.choice is not None
    found = model.history_.choice["blend"]["members"]
    assert [member["what"] for member in found][:2] == ["full rank", what]
    told = model.history_.choice["reason"]
    for member in found:  # what the scores are made of, and nothing else
        asked = f"{member['factor']:.2f} times" in told and f"of {member['what']}" in told
        assert asked == (member["factor"] > 0.0)


def test_fits_that_are_averaged_have_the_mean_of_their_scores():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 6))
    fits = [
        FitResult(
            LowRankWeights(
                rng.standard_normal((4, 2)).astype(np.float32),
                rng.standard_normal((6, 2)).astype(np.float32),
            ),
            rng.standard_normal(4),
            History(),
            np.empty(0, np.int64),
        )
        for _ in range(3)
    ]
    means = np.mean([f.weights.dense() @ X.T + f.intercept[:, None] for f in fits], axis=0)
    mean = averaged(fits)
    assert mean.weights.kind.rank == 6
    assert_allclose(mean.weights.dense() @ X.T + mean.intercept[:, None], means, rtol=1e-5)


@pytest.mark.parametrize(("n_rows", "least", "most"), [(20, 1.2, 3.0), (20_000, 3.8, 4.0)])
def test_only_many_rows_can_say_that_a_fit_should_be_much_surer(n_rows, least, most):
    """The rows want a factor of 4 and more; a few of them do not get it."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n_rows)
    model = LinearModel(FullRankWeights(np.array([[0.0], [1.0]])), np.zeros(2), Gumbel())
    held_out = TrainingData(2.0 * labels[:, None] - 1.0, labels, np.ones(n_rows))
    found = find_factors([model], np.zeros(2), held_out)
    assert least < found.factors[0] <= most


def test_more_rows_are_held_out_where_nearly_all_are_of_one_class():
    rng = np.random.default_rng(0)
    n = 15_000
    y = (rng.random(n) < 0.01).astype(int)
    X = scipy.sparse.random_array((n, 400), density=0.02, rng=rng, format="lil")
    X[np.flatnonzero(y), rng.integers(0, 5, y.sum())] = 1.0
    model = LinearClassifier(random_state=0).fit(X.tocsr(), y)
    choice = model.history_.choice or {}
    assert choice["blend"]["held_out_rows"] >= 0.9 * n / 10


def genes(n_rows, n_classes, seed=0):
    """More columns than rows, and five directions in which rows differ most that say nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    X = rng.standard_normal((n_rows, 1_500))
    X += rng.standard_normal((n_rows, 5)) @ rng.standard_normal((5, 1_500)) / 2.0
    X[:, :60] += 0.6 * rng.standard_normal((n_classes, 60))[y]
    return X.astype(np.float32), y


def test_an_exact_fit_is_tried_where_passes_find_little(monkeypatch):
    """Trials that see no signal leave a rate at which passes learn next to nothing."""

    def far_too_low(recipe, *_):
        report = {"seconds": 0.0, "compile_seconds": 0.0, "trials": {}}
        return recipe.with_solver(recipe.parts.solver.at_rate(1e-5)), report

    monkeypatch.setattr(task, "search_rate", far_too_low)
    X, y = genes(1_500, 12)
    model = LinearClassifier(random_state=0).fit(X[:500], y[:500])
    choice = model.history_.choice or {}
    assert choice["blend"]["gain"] < 0.2
    assert choice["solver"] == "lbfgs"
    assert model.log_proba_of(X[500:], y[500:]).mean() > -np.log(12) + 0.7


def test_an_exact_fit_that_finds_nothing_leaves_class_frequencies():
    X, y = genes(300, 4)
    y = np.random.default_rng(2).permutation(y)
    with pytest.warns(UserWarning, match="nothing was gained over class frequencies"):
        model = LinearClassifier(random_state=0).fit(X, y)
    assert not model.coef_.any()
