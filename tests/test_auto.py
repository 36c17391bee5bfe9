"""``method="auto"``: what is chosen for which data, what a user's own settings do to it."""

import time

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from sklearn.linear_model import LogisticRegression

from bigcat import LinearClassifier
from bigcat.auto import Parameters, recipe_for, recipe_for_stream
from bigcat.auto.policy import LOW
from bigcat.bounds import Complementary
from bigcat.bounds.exact import FEW_NODES
from bigcat.linear import LinearModel
from bigcat.rows import Sizes
from bigcat.samplers import Shared, Uniform
from bigcat.solvers import AdaGrad
from bigcat.training import fit as _fit
from bigcat.training import task as _task


def rows(n, n_classes, n_features=40, seed=0, sparse=True):
    """Each class has two features of its own kind; labels follow them most of the time."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.1)
    X[np.arange(n), y % n_features] += 1.0
    X[np.arange(n), (y // n_features) % n_features] += 1.0
    X = X.astype(np.float32)
    return (scipy.sparse.csr_array(X) if sparse else X), y


def words(y, n_classes, seed, n_features=400):
    """Rows of given classes: six features of the class's eight, and three others."""
    rng = np.random.default_rng(seed)
    own = np.random.default_rng(1).integers(0, n_features, (n_classes, 8))
    places = rng.random((len(y), 8)).argsort(axis=1)[:, :6]
    features = np.take_along_axis(own[y], places, axis=1)
    features = np.hstack([features, rng.integers(0, n_features, (len(y), 3))])
    # Indices of 32 bits, as those of files: others are kernels of their own.
    where = (np.repeat(np.arange(len(y), dtype=np.int32), 9), features.ravel().astype(np.int32))
    ones = np.ones(features.size, np.float32)
    return scipy.sparse.csr_array((ones, where), shape=(len(y), n_features))


def sizes_of(n_rows=10**5, n_features=1000, n_classes=100, sparse=True, n_values=None):
    return Sizes(n_rows, n_features, n_classes, n_values or 10 * n_rows, sparse)


def told_by(model):
    assert model.history_.choice is not None
    return model.history_.choice


def choice(estimator=None, **sizes):
    parameters = Parameters.of((estimator or LinearClassifier()).get_params(deep=False))
    return recipe_for(parameters, sizes_of(**sizes))


def stream_choice(estimator, **sizes):
    return recipe_for_stream(Parameters.of(estimator.get_params(deep=False)), sizes_of(**sizes))


def test_few_rows_are_scikit_learns_logistic_regression():
    X, y = rows(300, 5, sparse=False)
    X = X.astype(np.float64)
    ours = LinearClassifier(l2=1.0, tol=1e-8, max_epochs=500).fit(X, y)
    theirs = LogisticRegression(tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert told_by(ours)["solver"] == "lbfgs"
    assert told_by(ours)["l2"] == 1.0


def test_the_ridge_of_few_rows_is_found_by_held_out_ones():
    X, y = rows(600, 5, sparse=False)
    y[::3] = np.roll(y[::3], 1)  # a third says nothing about its row
    model = LinearClassifier(random_state=0).fit(X[:300], y[:300])
    found = told_by(model)["ridge_path"]["tried"]
    best = max(found, key=lambda trial: trial["log_likelihood"])
    assert told_by(model)["l2"] == best["l2"]
    ends = (LinearClassifier(l2=l2).fit(X[:300], y[:300]) for l2 in (100.0, 1e-4))
    value = model.log_proba_of(X[300:], y[300:]).mean()
    assert all(value >= end.log_proba_of(X[300:], y[300:]).mean() for end in ends)


@pytest.mark.parametrize(
    ("sizes", "bound", "sampler", "solver", "rank"),
    [
        ({"n_rows": 50, "n_features": 10}, "exact", "everything", "lbfgs", None),
        ({"n_rows": 500}, "exact", "everything", "damped", None),
        ({"n_rows": 20_000, "n_classes": 9}, "exact", "everything", "damped", None),
        (
            {"n_rows": 20_000, "n_classes": 9, "n_features": 50},
            "exact",
            "everything",
            "lbfgs",
            None,
        ),
        ({"n_classes": 900}, "exact", "everything", "adagrad", 256),
        ({"n_classes": 20_000}, "complementary", "shared", "adagrad", 256),
        ({"n_classes": 20_000, "sparse": False}, "complementary", "shared", "adagrad", 256),
    ],
)
def test_what_is_chosen(sizes, bound, sampler, solver, rank):
    recipe = choice(**sizes)
    told = recipe.choice
    assert (told["bound"], told["sampler"], told["solver"]) == (bound, sampler, solver)
    assert told["rank"] == recipe.kind.rank == rank
    assert f"{sizes.get('n_classes', 100):,} classes" in told["reason"] or "rows" in told["reason"]


@pytest.mark.parametrize(
    ("sizes", "bound", "sampler"),
    [
        ({}, "exact", "everything"),
        ({"n_classes": 20_000}, "complementary", "co-occurrence"),
        ({"n_classes": 20_000, "sparse": False}, "complementary", "stratified"),
    ],
)
def test_what_is_chosen_of_full_rank(sizes, bound, sampler):
    told = choice(LinearClassifier(rank=None), **sizes).choice
    assert (told["bound"], told["sampler"], told["solver"]) == (bound, sampler, "damped")
    assert told["rank"] is None


@pytest.mark.parametrize(
    ("parameters", "sizes", "rank", "reason"),
    [
        (
            {},
            {"n_classes": 20_000},
            256,
            "low rank, from which rare classes gain; vectors of length",
        ),
        ({}, {"n_rows": 500, "n_classes": 9, "n_features": 50}, None, "few rows; 500 rows are few"),
        (
            {},
            {"n_rows": 20_000},
            None,
            "full rank, which has fewer weights than low rank; 100 classes",
        ),
        (
            {},
            {"n_features": 100, "n_classes": 20_000},
            None,
            "full rank, which has fewer weights than low rank",
        ),
        ({"solver": "sgd"}, {"n_classes": 20_000}, None, "full rank, since solver was given; "),
        (
            {"solver": "sgd", "sampler": "uniform"},
            {"n_classes": 20_000},
            None,
            "full rank, since solver and sampler were given; ",
        ),
        (
            {"noise": "gaussian"},
            {"n_classes": 20_000},
            256,
            "low rank, from which rare classes gain",
        ),
        (
            {"rank": 7},
            {"n_classes": 20_000},
            7,
            "vectors of length 7 for 20,000 classes and 1,000 f",
        ),
        ({"rank": 7}, {"n_rows": 500}, 7, "500 rows are few enough"),
        ({"rank": 7, "noise": "gaussian"}, {}, 7, "vectors of length 7 for 100 classes"),
        (
            {"rank": None},
            {"n_classes": 20_000},
            None,
            "20,000 classes: a few are drawn for each row",
        ),
    ],
    ids=str,
)
def test_rank_and_why(parameters, sizes, rank, reason):
    recipe = choice(LinearClassifier(**parameters), **sizes)
    assert recipe.choice["rank"] == recipe.kind.rank == rank
    assert recipe.choice["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("parameters", "sizes", "rank", "n_apart"),
    [
        ({}, {}, 256, 2),
        ({}, {"n_rows": 20_000}, 128, 2),
        ({}, {"n_classes": 2_000_000}, 256, 1),
        ({"rank": 256}, {}, 256, 1),
        ({"noise": "gaussian"}, {}, 256, 1),
        ({"l2": 0.1}, {}, 256, 1),
    ],
)
def test_models_that_are_trained_apart(parameters, sizes, rank, n_apart):
    sizes = {"n_classes": 20_000, "n_rows": 50_000} | sizes
    recipe = choice(LinearClassifier(**parameters), **sizes)
    assert (recipe.kind.rank, recipe.n_apart) == (rank, n_apart)
    assert ("trained apart" in recipe.choice["reason"]) == (n_apart > 1)


def test_of_low_rank_what_the_user_sets_is_kept():
    estimator = LinearClassifier(
        rank=5, n_negatives=40, batch_size=8, max_epochs=2, l2=0.1, learning_rate=0.3, n_threads=1
    )
    recipe = choice(estimator, n_classes=20_000)
    assert (recipe.parts.sampler.name, recipe.parts.sampler.n_negatives) == ("shared", 40)
    assert (recipe.batch_size, recipe.max_epochs, recipe.l2, recipe.n_threads) == (8, 2, 0.1, 1)
    assert recipe.parts.solver == AdaGrad(0.3, schedule="linear", power=1.25, per="vector")
    assert not recipe.searches_rate
    for n_classes, n_first in ((16_384, 128), (16_385, 256)):
        untouched = choice(LinearClassifier(rank=5), n_classes=n_classes).parts
        assert untouched.sampler == Shared(512, n_first=n_first)
    assert choice(LinearClassifier(rank=5)).parts.solver.per == "coordinate"
    assert choice(LinearClassifier(rank=5, sampler="uniform")).parts.sampler.name == "uniform"
    given = choice(LinearClassifier(rank=5, solver="umax", sampler="frequency"))
    assert (given.parts.bound.name, given.parts.solver.name) == ("augment-reduce", "umax")
    stream = stream_choice(LinearClassifier(rank=5), n_classes=20_000)
    assert (stream.kind.rank, stream.parts.sampler.name) == (5, "shared")
    assert stream.parts.solver == AdaGrad(LOW.rates.all_classes)


@pytest.mark.parametrize(("n_rows", "passes"), [(10_000, 7), (150_000, 5), (10**6, 3)])
def test_passes_of_low_rank(n_rows, passes):
    assert choice(n_rows=n_rows, n_classes=20_000).max_epochs == passes


def test_each_class_is_visited_often_enough():
    assert choice(n_rows=10**6, n_classes=115_000).max_epochs == 5


def test_all_classes_are_not_visited_where_averaging_the_weights_costs_more():
    estimator = LinearClassifier(rank=None, l2=0.1)
    long, short = (
        choice(estimator, n_rows=3_000, n_features=10**5, n_values=n).parts
        for n in (8 * 10**5, 8 * 10**5 - 1)
    )
    assert (long.bound.name, long.solver.average) == ("exact", True)
    assert (short.bound.name, short.solver.average) == ("complementary", False)


def test_a_fit_of_low_rank_tells_what_it_does():
    X, y = rows(2_400, 30, sparse=False)
    X = X.astype(np.float64)
    model = LinearClassifier(rank=4, random_state=0).fit(X, y)
    told = told_by(model)
    assert told["learning_rate"] == LOW.rates.all_classes
    assert "rate_search" not in told
    assert (told["solver"], told["rank"]) == ("adagrad", 4)
    assert told["max_epochs"] == 11  # 200 batches of 128
    assert model.n_iter_ == 14  # without some rows, and a quarter as many with all of them
    assert np.isnan(model.history_["validation_log_likelihood"]).all()  # all rows are fitted
    X_new, y_new = rows(2_400, 30, seed=1, sparse=False)
    baseline = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, y_new).mean() > baseline + 0.3
    again = LinearClassifier(rank=4, random_state=0).fit(X, y)
    assert np.array_equal(again.embedding_, model.embedding_)


@pytest.mark.parametrize(
    "parameters", [{"rank": 4}, slow({"rank": None, "method": "one-vs-each"})], ids=str
)
def test_the_first_part_of_training_forecasts_the_rest(parameters, monkeypatch):
    """By a clock that stands still while others have the processor."""
    monkeypatch.setattr(time, "perf_counter", time.process_time)
    X, y = rows(4_000, 30)
    history = LinearClassifier(**parameters, max_epochs=20, n_threads=1).fit(X, y).history_
    assert 0.2 < history.forecast_seconds / history[-1]["seconds"] < 2.0


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
@pytest.mark.parametrize("rank", ["auto", None, 7])
def test_other_noises_take_all_of_few_classes_and_draw_of_many(noise, rank):
    """By a few nodes, and as the softmax does."""
    estimator = LinearClassifier(noise, rank=rank)
    few, many = (choice(estimator, n_rows=10_000, n_classes=k).parts for k in (2_048, 2_049))
    assert (few.bound, few.sampler.name) == (FEW_NODES, "everything")
    assert many.bound == Complementary(FEW_NODES)
    if rank == 7:
        rates = (0.03, 0.04) if noise == "gaussian" else (0.05, 0.065)
        assert (few.solver.learning_rate, many.solver.learning_rate) == rates
    drawn = choice(LinearClassifier(noise, rank=rank, n_negatives=9), n_rows=10_000)
    assert drawn.parts.bound == Complementary(FEW_NODES)
    if rank == 7:
        sizes = [choice(estimator, n_rows=n).batch_size for n in (10_000, 10_001)]
        assert sizes == [64, 128]
    streams = [stream_choice(estimator, n_classes=k) for k in (2_048, 2_049)]
    assert [s.parts.bound for s in streams] == [FEW_NODES, Complementary(FEW_NODES)]


def test_what_the_user_sets_is_kept():
    estimator = LinearClassifier(n_negatives=5, max_epochs=3, l2=0.1, learning_rate=2.0)
    recipe = choice(estimator, n_classes=20_000)
    assert recipe.parts.sampler.n_negatives == 5
    assert recipe.max_epochs == 3
    assert recipe.l2 == 0.1
    assert recipe.parts.solver.learning_rate == 2.0
    assert not recipe.searches_rate
    assert choice(LinearClassifier(solver="adagrad")).parts.solver.name == "adagrad"
    assert choice(LinearClassifier(sampler="uniform")).parts.sampler.name == "uniform"
    assert not choice(LinearClassifier(early_stopping=False)).early_stopping


def test_a_fit_reports_its_search_and_ends_by_itself():
    X, y = rows(3000, 150, sparse=False)
    model = LinearClassifier(random_state=0, l2=0.1, rank=None).fit(X, y)
    told = told_by(model)
    trials = told["rate_search"]["trials"]
    worst = 1.005 * max(trials.values())  # they are negative
    assert told["learning_rate"] == min(rate for rate in trials if trials[rate] >= worst) / 3
    assert model.n_iter_ < 2 * told["max_epochs"]
    validated = np.isfinite(model.history_["validation_log_likelihood"])
    n_refitted = int((~validated).sum())
    assert 0 < n_refitted <= validated.sum()  # then all rows, for the best number of epochs
    assert validated[:-n_refitted].all()
    assert model.history_["epoch"].tolist() == list(range(1, model.n_iter_ + 1))
    assert (np.diff(model.history_["seconds"]) > 0).all()


@pytest.mark.slow
def test_a_search_without_held_out_rows_to_judge_by_asks_the_rows_of_the_trials():
    """Nearly every row is the only one of its class: 4,300 classes, 20 of them twice."""
    n_classes = 4_300
    labels = np.concatenate([np.arange(n_classes), np.arange(20)])
    model = LinearClassifier(rank=None, random_state=0).fit(words(labels, n_classes, 0), labels)
    search = told_by(model)["rate_search"]
    assert search["judged_by"] == "rows of the trial"
    assert np.isfinite(list(search["trials"].values())).all()
    new = np.arange(n_classes)
    found = model.log_proba_of(words(new, n_classes, 2), new).mean()
    print(f"{found:.2f}, and {-np.log(n_classes):.2f} of equal probabilities")
    assert found > -5.0


def test_a_validation_set_is_watched_and_nothing_is_refitted():
    X, y = rows(3000, 20)
    model = LinearClassifier(random_state=0).fit(X[:2500], y[:2500], X_val=X[2500:], y_val=y[2500:])
    assert np.isfinite(model.history_["validation_log_likelihood"]).all()


def test_nearly_as_good_as_the_optimum_with_a_tuned_ridge():
    X, y = rows(4000, 30)
    X_test, y_test = rows(2000, 30, seed=1)
    ours = LinearClassifier(random_state=0).fit(X, y).log_proba_of(X_test, y_test).mean()
    tuned = max(
        LogisticRegression(C=C, max_iter=500)
        .fit(X, y)
        .predict_log_proba(X_test)[np.arange(len(y_test)), y_test]
        .mean()
        for C in (0.1, 1.0, 10.0)
    )
    frequencies = np.log(np.bincount(y) / len(y))[y_test].mean()
    assert tuned - ours < 0.01 * (tuned - frequencies)


@pytest.mark.slow  # kernels of their own
@pytest.mark.parametrize("sampler", ["frequency", "co-occurrence"])
def test_many_classes_come_back_in_the_order_of_their_labels(sampler):
    X, y = rows(12_000, 2_500, n_features=60)
    names = np.array([f"class {k:05d}" for k in range(2_500)])
    model = LinearClassifier(
        method="complementary",
        sampler=sampler,
        solver="damped",
        max_epochs=6,
        random_state=0,
    ).fit(X, names[y])
    assert model.classes_.tolist() == names.tolist()
    X_new, y_new = rows(12_000, 2_500, n_features=60, seed=1)
    baseline = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, names[y_new]).mean() > baseline + 3.0
    again = LinearClassifier(method="exact", solver="damped", max_epochs=2, random_state=0)
    again.fit(X, names[y], X_val=X[:500], y_val=names[y[:500]])
    np.testing.assert_allclose(
        again.history_[-1]["validation_log_likelihood"],
        again.log_proba_of(X[:500], names[y[:500]]).mean(),
        rtol=1e-5,
    )


def test_callbacks_can_evaluate_the_weights_of_now():
    X, y = rows(12_000, 2_500, n_features=60)
    seen = []
    model = LinearClassifier(
        method="exact",
        solver="damped",
        max_epochs=2,
        random_state=0,
        callbacks=[lambda info: seen.append(info["log_likelihood_of"](X[:300], y[:300]))],
    ).fit(X, y)
    assert seen[-1] == pytest.approx(model.log_proba_of(X[:300], y[:300]).mean(), rel=1e-5)


@pytest.mark.slow
def test_exact_classes_keep_their_labels_when_classes_are_reordered():
    X, y = rows(12_000, 2_500, n_features=60)
    model = LinearClassifier(
        method="one-vs-each",
        sampler=Uniform(32, exact_classes=[7, 2_400]),
        max_epochs=1,
        random_state=0,
    ).fit(X, y)
    assert sorted(model.exact_classes_.tolist()) == [7, 2_400]


def test_the_last_fit_is_of_all_rows(monkeypatch):
    """A fit is judged by rows that are held out; then these are fitted too."""
    seen = []

    class Spied(_fit.Fit):
        def __init__(self, recipe, problem, *given):
            seen.append(problem.n_rows)
            super().__init__(recipe, problem, *given)

    monkeypatch.setattr(_task, "Fit", Spied)
    X, y = rows(3000, 150, sparse=False)
    model = LinearClassifier(rank=None, random_state=0).fit(X, y)
    n_tried = len(told_by(model)["blend"]["members"])
    assert seen == [2_700] * n_tried + [3_000]  # a tenth is held out


def test_a_second_fit_from_the_first_ones_weights():
    X, y = rows(3000, 20, n_features=20)
    new = rows(3000, 20, n_features=20, seed=1)
    model = LinearClassifier(random_state=0, warm_start=True).fit(X, y)
    before = model.log_proba_of(*new).mean()
    assert model.fit(X, y).log_proba_of(*new).mean() > before - 0.05


@pytest.mark.parametrize("n_classes", [20, slow(5_000)])
def test_rows_that_come_in_parts(n_classes):
    X, y = rows(12_000, n_classes, n_features=72)
    model = LinearClassifier(random_state=0)
    for _ in range(3):
        for part in np.array_split(np.arange(len(y)), 3):
            model.partial_fit(X[part], y[part], classes=np.arange(n_classes))
    X_new, y_new = rows(7_000, n_classes, n_features=72, seed=1)
    baseline = np.log(np.bincount(y) / len(y))[y_new].mean()
    assert model.log_proba_of(X_new, y_new).mean() > baseline + 0.5
    assert told_by(model)["reason"] == "rows come in parts"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_threads": 0}, "n_threads=0 must be a whole number of at least 1, or None"),
        (
            {"max_epochs": "many"},
            "max_epochs='many' must be a whole number of at least 1, or 'auto'",
        ),
        ({"n_negatives": 0}, "n_negatives=0 must be a whole number of at least 1, or 'auto'"),
        ({"l2": "some"}, "l2='some' must be a finite number of at least 0, 'auto' or 'path'"),
        ({"early_stopping": "yes"}, "early_stopping='yes' must be True, False or 'auto'"),
    ],
)
def test_bad_parameters_are_told_before_any_work(parameters, message):
    X, y = rows(50, 3)
    with pytest.raises(ValueError, match=message):
        LinearClassifier(**parameters).fit(X, y)


@pytest.mark.parametrize("rank", ["auto", None])
@pytest.mark.parametrize("n_classes", [2_100, slow(4_200)])
def test_a_row_for_each_class_is_fitted_without_holding_any_out(rank, n_classes):
    y = np.arange(n_classes)
    X, X_new = (words(y, n_classes, seed) for seed in (0, 2))
    model = LinearClassifier(rank=rank, random_state=0).fit(X, y)
    assert "no row can be held out" in told_by(model)["reason"]
    if rank is None:
        assert told_by(model)["rate_search"]["judged_by"] == "rows of the trial"
    assert model.log_proba_of(X_new, y).mean() > 4.0 - np.log(n_classes)
    with pytest.raises(ValueError, match="no validation row has a class"):
        LinearClassifier(early_stopping=True, random_state=0).fit(X, y)


# The ridge along a path


def test_the_ridge_of_a_path_is_the_best_on_held_out_rows():
    X, y = rows(600, 8, sparse=False)
    X = X.astype(np.float64)
    X_val, y_val, X, y = X[:200], y[:200], X[200:], y[200:]
    model = LinearClassifier(l2="path").fit(X, y, X_val=X_val, y_val=y_val)
    report = told_by(model)["ridge_path"]["tried"]
    values = [trial["log_likelihood"] for trial in report]
    best = int(np.argmax(values))
    assert told_by(model)["l2"] == report[best]["l2"]
    assert 0 < best < len(report) - 1  # not an end of the path, which ended soon after
    assert len(report) == best + 3
    for trial in report:
        alone = LinearClassifier(l2=trial["l2"]).fit(X, y)
        found = alone.log_proba_of(X_val, y_val).mean()
        assert found == pytest.approx(trial["log_likelihood"], rel=1e-6)
    chosen = LinearClassifier(l2=report[best]["l2"]).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), chosen.predict_proba(X), rtol=1e-6)


def test_without_rows_to_choose_by_a_fifth_is_held_out():
    X, y = rows(600, 8, sparse=False)
    model = LinearClassifier(l2="path", random_state=0).fit(X, y)
    path = told_by(model)["ridge_path"]["tried"]
    assert told_by(model)["l2"] == max(path, key=lambda trial: trial["log_likelihood"])["l2"]
    again = LinearClassifier(l2="path", random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_a_path_needs_lbfgs():
    X, y = rows(300, 5)
    message = r"l2='path' .* here the solver is '(adagrad|damped)'; set solver='lbfgs'"
    for parameters in ({"solver": "adagrad"}, {"learning_rate": 0.1}):
        with pytest.raises(ValueError, match=message):
            LinearClassifier(l2="path", **parameters).fit(X, y)
    with pytest.raises(ValueError, match=message):
        LinearClassifier(l2="path").partial_fit(X, y, classes=np.unique(y))


def test_a_look_at_held_out_rows_is_bounded(monkeypatch):
    X, y = rows(4_000, 10)
    monkeypatch.setattr(_fit, "MOST_HELD_OUT_SCORES", 10 * 150)
    seen = []
    original = LinearModel.mean_log_likelihood

    def counted(model, X, labels, row_weights):
        seen.append(len(labels))
        return original(model, X, labels, row_weights)

    monkeypatch.setattr(LinearModel, "mean_log_likelihood", counted)
    LinearClassifier(rank=4, max_epochs=2).fit(X[1000:], y[1000:], X_val=X[:1000], y_val=y[:1000])
    assert seen.count(150) == 2


def test_few_rows_of_many_features_are_few_products():
    """In the row space a fit has as many weights as rows."""
    defaults = Parameters.of(LinearClassifier().get_params(deep=False))
    recipe = recipe_for(defaults, Sizes(70, 2_000, 2, 140_000, False))
    assert recipe.parts.solver.name == "lbfgs"
