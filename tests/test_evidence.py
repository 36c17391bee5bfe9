"""Rules by which the defaults follow evidence, each on rows that the fits have not seen."""

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from benchmarks.field import dense, ledgers, letters
from bigcat import LinearClassifier
from bigcat.linear import FullRankWeights, LinearModel
from bigcat.noise import Gumbel
from bigcat.rows import columns
from bigcat.training import member_fits, members, ridge_path
from bigcat.training.blend import find_factors, part_to_trust
from bigcat.training.members import Member
from bigcat.training.data import TrainingData
from bigcat.training.start import log_frequencies, smoothed


def split(draw, n, n_test=2_000, seed=0):
    X, y = draw(np.random.default_rng(seed), n + n_test)
    return (X[:n], y[:n]), (X[n:], y[n:])


def default(X, y):
    return LinearClassifier(random_state=0, n_threads=1).fit(X, y)


def usual(X):
    """Single precision and indices of 32 bits, as rows of text have: kernels that others have."""
    parts = X.data.astype(np.float32), X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return scipy.sparse.csr_array(parts, X.shape)


def full_rank_members(model):
    return [m for m in model.history_.choice["blend"]["members"] if m["what"] == "full rank"]


def test_a_timid_fit_is_followed_by_a_faster_one(monkeypatch):
    """Trials of few rows with far-out values choose a rate at which eight passes learn little."""
    draw = dense.heavy_tailed(dense.clouds(20, 40, 0.5), 1.7)
    train, test = split(draw, 3_500)
    followed = default(*train)
    rates = [member["learning_rate"] for member in full_rank_members(followed)]
    assert rates[1] == member_fits.MUCH_FASTER * rates[0]
    monkeypatch.setattr(members, "TIMID", np.inf)
    assert followed.log_proba_of(*test).mean() > default(*train).log_proba_of(*test).mean() + 0.02


def test_noise_is_not_followed():
    """One departure in forty that means nothing gains more than its standard error."""
    rng = np.random.default_rng(0)
    n, k = 200, 4
    base, paying = np.zeros(k), 0
    for _ in range(400):
        sample = TrainingData(rng.standard_normal((n, 3)), rng.integers(k, size=n), np.ones(n))
        model = LinearModel(FullRankWeights(0.1 * rng.standard_normal((k, 3))), base, Gumbel())
        paying += find_factors([model], base, sample).pays
    assert paying < 0.045 * 400


def test_a_fit_that_learned_nothing_is_followed_by_none():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2_000, 60)), rng.integers(20, size=2_000)
    with pytest.warns(UserWarning, match="nothing was gained"):
        model = default(X, y)
    assert len(full_rank_members(model)) == 1


def test_class_frequencies_are_smoothed_as_their_evidence_says():
    rng = np.random.default_rng(0)
    k, n = 400, 4_000
    zipf = 1.0 / np.arange(1, k + 1)
    for truth, gained in ((np.full(k, 1.0 / k), 0.03), (zipf / zipf.sum(), 0.0)):
        counts = rng.multinomial(n, truth).astype(float)
        truth = truth[counts > 0.0] / truth[counts > 0.0].sum()  # rows to come are of known classes
        counts = counts[counts > 0.0]
        raw, added_one, ours = (
            truth @ log_frequencies(c) for c in (counts, counts + 1.0, smoothed(counts))
        )
        assert ours > raw + gained - 1e-3
        assert ours > added_one
    even = np.full(k, 10.0)
    assert_array_equal(np.ptp(smoothed(even)), 0.0)


def test_nothing_is_fitted_beside_a_fit_that_knows_all():
    (X, y), (X_test, y_test) = split(dense.clouds(40, 40, 2.0), 3_000)
    model = default(X, y)
    assert len(model.history_.choice["blend"]["members"]) == 1
    assert model.log_proba_of(X_test, y_test).mean() > -0.05


def test_held_out_rows_are_learned_from_in_the_end(monkeypatch):
    draw = dense.clouds(20, 100, 0.6)
    train, test = split(draw, 1_500)
    gone_on = default(*train)
    epochs = [row["epoch"] for row in gone_on.history_]
    assert len(epochs) == (1 + member_fits.MORE_PASSES) * gone_on.history_.choice["max_epochs"]
    monkeypatch.setattr(Member, "on_all_rows", lambda member, before: before)
    assert gone_on.log_proba_of(*test).mean() > default(*train).log_proba_of(*test).mean() + 0.01


def test_ridges_are_tried_on_some_of_many_rows():
    """By rows enough for the weights: the ridge is as good for all of them."""
    (X, y), test = split(dense.clouds(10, 5, 0.3), 6_000)
    sample = TrainingData(X, y, np.ones(len(y)))
    folds = ridge_path.folds_of(sample, 5, np.random.RandomState(0), "", quickly=True)
    assert [fold.kept.n_rows for fold in folds] == [ridge_path.LEAST_FITTED]
    fits = {
        l2: LinearClassifier(method="exact", solver="lbfgs", l2=l2).fit(X, y)
        for l2 in (0.01, 1.0, 100.0)
    }
    best = max(fit.log_proba_of(*test).mean() for fit in fits.values())
    assert default(X, y).log_proba_of(*test).mean() > best - 0.003


def test_as_many_folds_as_say_enough():
    rng = np.random.default_rng(0)
    for n, n_folds in ((100, 5), (600, 3), (1_100, 2), (1_300, 1)):
        X = scipy.sparse.csr_array(rng.random((n, 5)))
        sample = TrainingData(X, rng.integers(3, size=n), np.ones(n))
        assert len(ridge_path.folds_of(sample, 3, np.random.RandomState(0), "")) == n_folds


@pytest.mark.parametrize("n", [1, 2, 7, 200, 1_000, 3_001])
def test_quantiles_are_those_of_numpy(n):
    rng = np.random.default_rng(n)
    X, times = rng.standard_normal((n, 5)).round(1), rng.integers(1, 4, n)
    found = columns._quantiles(X, np.ones(n))
    expected = [np.quantile(X, q, axis=0, method="inverted_cdf") for q in columns.QUANTILES]
    assert_array_equal(found, expected)
    copies = columns._quantiles(np.repeat(X, times, axis=0), np.ones(times.sum()))
    assert_array_equal(columns._quantiles(X, times / times.sum()), copies)


@pytest.mark.parametrize("n_rows", [500, 4_000])
@pytest.mark.parametrize("noisy", [True, False])
def test_one_category_per_row_is_learned(n_rows, noisy):
    """Rows of one category are equal, and still none of them is a copy of another."""
    rng = np.random.default_rng(0)
    n_categories, n_classes = 40, 4
    scores = rng.normal(scale=2.0, size=(n_categories, n_classes))

    def draw(n):
        category = rng.zipf(1.3, size=n) % n_categories
        noise = rng.gumbel(size=(n, n_classes)) if noisy else 0.0
        y = (scores[category] + noise).argmax(axis=1)
        X = scipy.sparse.csr_array((np.ones(n), category, np.arange(n + 1)), (n, n_categories))
        return X, y

    X, y = draw(n_rows)
    X_test, y_test = draw(2_000)
    model = LinearClassifier(random_state=0).fit(X, y)
    frequencies = np.log(np.bincount(y, minlength=n_classes) / n_rows)[y_test].mean()
    gain = model.log_proba_of(X_test, y_test).mean() - frequencies
    best = np.zeros((n_categories, n_classes)) + np.bincount(y, minlength=n_classes) / n_rows
    np.add.at(best, (X.indices, y), 1.0)
    best = np.log(best / best.sum(axis=1, keepdims=True))[X_test.indices, y_test].mean()
    assert gain > 0.9 * (best - frequencies)


def test_a_fit_that_begins_at_its_optimum_has_a_history():
    """Few different rows: every trial of a ridge has seen all there is."""
    rng = np.random.default_rng(0)
    category = rng.integers(0, 3, 300)
    X = scipy.sparse.csr_array((np.ones(300), category, np.arange(301)), (300, 3))
    model = default(X, category)
    assert model.n_iter_ == len(model.history_) >= 1
    assert np.isfinite(model.history_["objective"]).all()


def test_the_clock_of_several_fits_does_not_go_back():
    """Two models of low rank, each of which goes on with all rows when both are judged."""
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((1_500, 700), density=0.02, rng=rng, format="csr")
    y = np.concatenate([np.arange(600), rng.integers(0, 600, 900)])
    X = (X + scipy.sparse.csr_array((np.full(1_500, 3.0), y, np.arange(1_501)), X.shape)).tocsr()
    model = default(usual(X), y)
    assert "2 x rank" in str((model.history_.choice or {})["blend"])
    assert model.history_["epoch"].tolist() == list(range(1, model.n_iter_ + 1))
    assert (np.diff(model.history_["seconds"]) >= 0.0).all()


def test_pairs_alone_have_the_history_of_what_was_fitted_beside(monkeypatch):
    choose = members.choose

    def pairs_alone(fitted, base, held_out):
        pairs = next(member for member in fitted if member.what == "pairs")
        pairs.factor = 1.0
        return [pairs], choose(fitted, base, held_out)[1]

    monkeypatch.setattr(member_fits, "members_chosen", pairs_alone)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 30, 3_000)
    own = rng.random((3_000, 5)) < 0.6  # of five words, most are of the class
    words = 6 * np.where(own, y[:, None], rng.integers(0, 30, (3_000, 5))) + rng.integers(
        0, 6, (3_000, 5)
    )
    places = (np.ones(15_000, np.float32), words.ravel(), np.arange(0, 15_001, 5))
    model = default(usual(scipy.sparse.csr_array(places, (3_000, 180))), y)
    assert model.class_embedding_.shape[1] == 0
    assert model.n_iter_ == len(model.history_) > 0


def test_a_doubtful_fit_is_followed_a_part_of_the_way():
    assert part_to_trust(-0.1, 0.1, 100) == part_to_trust(0.1, 0.1, 100) == 0.0
    assert part_to_trust(0.2, 0.1, 100) == pytest.approx(0.8)
    assert part_to_trust(0.4, 0.1, 100) == part_to_trust(0.1, 0.0, 100) == 1.0
    assert part_to_trust(0.4, 0.1, 2) == part_to_trust(0.0, 0.0, 100) == 0.0


@pytest.mark.parametrize("seed", range(6))
def test_few_rows_of_many_columns_without_signal(seed):
    """80 rows, 1,000 columns: as they were fitted, up to 0.03 nats below class frequencies."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((2_080, 1_000)), rng.integers(3, size=2_080)
    model = LinearClassifier(random_state=0).fit(X[:80], y[:80])
    frequencies = np.log((np.bincount(y[:80]) + 1.0) / 83.0)[y[80:]]
    gains = model.log_proba_of(X[80:], y[80:]) - frequencies
    assert gains.mean() > -max(gains.std() / np.sqrt(2_000), 0.005)


def test_the_part_that_is_followed_is_told():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((200, 5)), rng.integers(2, size=200)
    X[:, 0] += 0.4 * y
    choice = LinearClassifier(random_state=0).fit(X, y).history_.choice
    assert choice is not None
    path = choice["ridge_path"]
    assert 0.0 < path["factor"] < 1.0
    assert path["factor"] == part_to_trust(path["gain"], path["gain_error"], 200)


def test_an_exact_fit_where_faster_passes_go_on_gaining(monkeypatch):
    """Few directions have most of the variance and say nothing: steps learn those alone."""
    train, test = split(ledgers.few_directions(60, 40, 3.0, 6.0), 2_000)
    exact = default(*train)
    assert [m["learning_rate"] for m in full_rank_members(exact)][-1] is None
    assert exact.n_iter_ == len(exact.history_)
    monkeypatch.setattr(member_fits, "MUCH_MORE", np.inf)
    passes = default(*train)
    assert exact.log_proba_of(*test).mean() > passes.log_proba_of(*test).mean() + 0.2


@pytest.mark.parametrize("seed", range(4))
def test_a_doubtful_gain_is_asked_again_of_other_rows(seed):
    """Names of letters without signal: what chance pleased was 0.012 nats below frequencies."""
    train, (X, y) = split(dense.noise(letters.names(2_048, 20, 0.5)), 3_000, seed=seed)
    model = LinearClassifier(random_state=seed, n_threads=1).fit(*train)
    frequencies = np.log((np.bincount(train[1]) + 1.0) / (len(train[1]) + 20.0))
    gains = model.log_proba_of(X, y) - frequencies[y]
    assert gains.mean() >= -gains.std() / np.sqrt(len(y)) - 1e-6


def test_a_weak_signal_stays_when_it_is_asked_again():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5_000, 60)), rng.integers(20, size=5_000)
    X[np.arange(5_000), y] += 0.7
    model = default(X[:2_000], y[:2_000])
    blend = model.history_.choice["blend"]
    if "part" in blend:
        assert blend["part"] > 0.0
    assert model.log_proba_of(X[2_000:], y[2_000:]).mean() > -np.log(20) + 0.01
