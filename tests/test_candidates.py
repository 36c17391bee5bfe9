"""``method="auto"``: which candidates there are, and what the user's own settings do to them."""

import time

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from sklearn.linear_model import LogisticRegression

from bigcat import LinearClassifier
from bigcat.auto import Parameters, config_for_stream, plan_for
from bigcat.bounds import Complementary
from bigcat.bounds.exact import TRAINING_QUADRATURE
from bigcat.rows import Sizes
from bigcat.samplers import Shared, Uniform
from bigcat.solvers import LBFGS, AdaGrad


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
    where = (np.repeat(np.arange(len(y)), 9), features.ravel())
    ones = np.ones(features.size, np.float32)
    return scipy.sparse.csr_array((ones, where), shape=(len(y), n_features))


def sizes_of(n_rows=10**5, n_features=1000, n_classes=100, sparse=True, n_values=None):
    return Sizes(n_rows, n_features, n_classes, n_values or 10 * n_rows, sparse)


def plan(estimator=None, **sizes):
    parameters = Parameters.of((estimator or LinearClassifier()).get_params(deep=False))
    return plan_for(parameters, sizes_of(**sizes))


def names(estimator=None, **sizes):
    return [candidate.name for candidate in plan(estimator, **sizes).candidates]


def stream_config(estimator, **sizes):
    return config_for_stream(Parameters.of(estimator.get_params(deep=False)), sizes_of(**sizes))


def test_few_rows_are_scikit_learns_logistic_regression():
    X, y = rows(300, 5, sparse=False)
    X = X.astype(np.float64)
    ours = LinearClassifier(l2=1.0, max_epochs=500, solver=LBFGS(tol=1e-8)).fit(X, y)
    theirs = LogisticRegression(tol=1e-8, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert ours.selection_.n_validation_rows == 0  # a ridge of the user's is an objective


@pytest.mark.parametrize("fold", [False, True])
def test_the_ridge_of_small_problems_is_found_by_validation_rows(fold):
    X, y = rows(600, 5, sparse=False)
    y[::3] = np.roll(y[::3], 1)  # a third says nothing about its row
    X_new, y_new = X[400:], y[400:]
    X, y, X_val, y_val = X[:300], y[:300], X[300:400], y[300:400]
    validation = {} if fold else {"X_val": X_val, "y_val": y_val}
    model = LinearClassifier(random_state=0).fit(X, y, **validation)
    n_distinct = len(np.unique(np.column_stack([X, y]), axis=0))
    assert model.selection_.n_validation_rows == (n_distinct if fold else 100)
    assert model.selection_.refitted is fold
    ends = (LinearClassifier(l2=l2).fit(X, y) for l2 in (100.0, 1e-4))
    value = model.log_proba_of(X_new, y_new).mean()
    assert all(value >= end.log_proba_of(X_new, y_new).mean() for end in ends)


def test_small_problems_have_one_candidate_and_others_low_and_full_rank():
    assert names(n_rows=50, n_features=10) == ["ridge path"]
    assert names(n_rows=20_000, n_classes=9, n_features=50) == ["ridge path"]
    found = names(n_classes=900)
    assert found[:2] == ["low rank 1 of 2", "low rank 2 of 2"]
    assert found[2:] == ["full rank", "rank 64"]
    assert names(n_classes=20) == ["full rank", "rank 64"]
    assert names(n_classes=20, n_rows=1_000, n_features=30) == ["ridge path", "rank 64"]
    assert names(n_classes=10) == ["ridge path"]
    large = {"n_rows": 10**6, "n_classes": 20_000, "n_features": 10**5}
    assert names(**large)[2:] == ["full rank"]
    assert not plan(**large).refits
    assert all("low" in name for name in names(**large, n_values=10**8))


def test_full_rank_that_exceeds_a_matrix_is_kept_in_pairs():
    few, many = (plan(n_features=1_000, n_classes=k).candidates[2] for k in (900, 90_000))
    assert not few.in_pairs
    assert many.in_pairs
    dense = plan(n_features=1_000, n_classes=90_000, sparse=False)
    assert all(candidate.config.kind.rank for candidate in dense.candidates)


ALL = ["low rank 1 of 2", "low rank 2 of 2", "full rank", "rank 64"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"rank": 7}, ["low rank"]),
        ({"rank": 7, "noise": "gaussian"}, ["low rank"]),
        ({"effort": "quick"}, ["low rank"]),
        ({"noise": "gaussian"}, ["low rank"]),
        ({"l2": 0.1}, ["low rank 1 of 2"]),
        ({"rank": None, "effort": "quick"}, ["full rank"]),
        ({"rank": None, "solver": AdaGrad(2.0)}, ["full rank"]),
        ({"solver": "sgd"}, ALL),
        ({"solver": AdaGrad(batch_size=32)}, ALL),
        ({"solver": AdaGrad(per="vector")}, [*ALL[:2], "rank 64"]),
        ({"solver": "implicit"}, ["full rank"]),
        ({"solver": "lbfgs"}, ["ridge path"]),
        ({"sampler": "uniform"}, ["full rank"]),
        ({"sampler": Shared(40)}, ALL),
        ({"method": "one-vs-each"}, ["one-vs-each"]),
    ],
    ids=str,
)
def test_settings_of_the_user_remove_candidates(parameters, expected):
    assert names(LinearClassifier(**parameters), n_classes=900) == expected


def test_a_named_rank_is_validated_and_refitted_as_the_defaults_are():
    for parameters in ({}, {"rank": 7}, {"rank": None}, {"sampler": Shared(40)}, {"solver": "sgd"}):
        found = plan(LinearClassifier(**parameters), n_classes=900)
        assert found.stacks
        assert found.refits
        assert found.scales_columns


def test_more_effort_is_more_members_and_longer_passes():
    quick, balanced, best = (
        plan(LinearClassifier(effort=effort), n_classes=900)
        for effort in ("quick", "balanced", "best")
    )
    assert len(quick.candidates) == 1 < len(balanced.candidates) < len(best.candidates)
    epochs = [found.first.max_epochs for found in (quick, balanced, best)]
    assert epochs == sorted(set(epochs))
    assert [found.refits for found in (quick, balanced, best)] == [False, True, True]


def test_of_low_rank_what_the_user_sets_is_kept():
    estimator = LinearClassifier(
        rank=5,
        max_epochs=2,
        l2=0.1,
        n_threads=1,
        solver=AdaGrad(learning_rate=0.3, batch_size=8),
        sampler=Shared(40),
    )
    config = plan(estimator, n_classes=20_000).first
    assert (config.parts.sampler.name, config.parts.sampler.n_negatives) == ("shared", 40)
    assert (config.batch_size, config.max_epochs, config.l2, config.n_threads) == (8, 2, 0.1, 1)
    assert config.parts.solver.learning_rate == 0.3
    assert plan(LinearClassifier(rank=5)).first.parts.solver.per == "coordinate"
    given = plan(LinearClassifier(rank=5, sampler="uniform")).first
    assert given.parts.sampler.name == "uniform"
    given = plan(LinearClassifier(rank=5, solver="umax", sampler="frequency")).first
    assert (given.parts.bound.name, given.parts.solver.name) == ("augment-reduce", "umax")
    stream = stream_config(LinearClassifier(rank=5), n_classes=20_000)
    assert (stream.kind.rank, stream.parts.sampler.name) == (5, "shared")


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
@pytest.mark.parametrize("rank", ["auto", None, 7])
def test_other_noises_take_all_of_few_classes_and_draw_of_many(noise, rank):
    """By a few nodes, and as the softmax does."""
    estimator = LinearClassifier(noise, rank=rank)
    few, many = (plan(estimator, n_rows=10_000, n_classes=k).first.parts for k in (2_048, 2_049))
    assert (few.bound, few.sampler.name) == (TRAINING_QUADRATURE, "everything")
    assert many.bound == Complementary(TRAINING_QUADRATURE)
    drawn = plan(LinearClassifier(noise, rank=rank, sampler=Uniform(9)), n_rows=10_000).first
    assert drawn.parts.bound == Complementary(TRAINING_QUADRATURE)
    streams = [stream_config(estimator, n_classes=k) for k in (2_048, 2_049)]
    assert [s.parts.bound for s in streams] == [
        TRAINING_QUADRATURE,
        Complementary(TRAINING_QUADRATURE),
    ]


def test_a_fit_of_low_rank_has_vectors_of_that_length():
    X, y = rows(2_400, 30, sparse=False)
    X = X.astype(np.float64)
    model = LinearClassifier(rank=4, random_state=0).fit(X, y)
    assert model.embedding_.shape == (40, 4)
    stages = [row["stage"] for row in model.history_]
    assert set(stages) == {"validation", "refit"}
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
    first = [row for row in history if row["candidate"] == history[0]["candidate"]]
    first = [row for row in first if row["stage"] == history[0]["stage"]]
    assert 0.2 < history.forecast_seconds / first[-1]["seconds"] < 10.0


def test_a_validation_set_is_watched_and_nothing_is_refitted():
    X, y = rows(3000, 20)
    given = {"X_val": X[2500:], "y_val": y[2500:]}
    model = LinearClassifier(random_state=0, rank=8).fit(X[:2500], y[:2500], **given)
    assert np.isfinite(model.history_["validation_log_likelihood"]).all()
    assert {row["stage"] for row in model.history_} == {"validation"}
    assert model.selection_.n_validation_rows == 500
    assert not model.selection_.refitted


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


def test_a_second_fit_from_the_first_ones_weights():
    X, y = rows(3000, 20, n_features=20)
    new = rows(3000, 20, n_features=20, seed=1)
    model = LinearClassifier(random_state=0).fit(X, y)
    before = model.log_proba_of(*new).mean()
    assert model.fit(X, y, warm_start=True).log_proba_of(*new).mean() > before - 0.05


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
    assert model.selection_.reason == "rows come in parts"


@pytest.mark.parametrize("rank", [slow("auto"), None])
def test_a_row_for_each_class_is_fitted_without_holding_any_out(rank):
    y = np.arange(2_100)
    X, X_new = (words(y, 2_100, seed) for seed in (0, 2))
    model = LinearClassifier(rank=rank, random_state=0).fit(X, y)
    assert model.selection_.n_validation_rows == 0
    assert model.log_proba_of(X_new, y).mean() > 3.0 - np.log(2_100)
    with pytest.raises(ValueError, match="no validation row has a class"):
        LinearClassifier(early_stopping=True, random_state=0).fit(X, y)


def test_the_ridge_of_a_path_is_in_the_units_of_the_rows():
    X, y = rows(600, 8, sparse=False)
    X = X.astype(np.float64)
    X_val, y_val, X, y = X[:200], y[:200], X[200:], y[200:]
    model = LinearClassifier(l2="path").fit(X, y, X_val=X_val, y_val=y_val)
    l2 = model.selection_.candidates[0].settings["l2"]
    same = LinearClassifier(l2=l2, solver=LBFGS(tol=1e-5)).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-3)
    values = [
        LinearClassifier(
            l2=other,
            max_epochs=500,
            solver=LBFGS(tol=1e-6),
        )
        .fit(X, y)
        .log_proba_of(X_val, y_val)
        .mean()
        for other in (30.0 * l2, l2, l2 / 30.0)
    ]
    assert values[1] == max(values)


def test_a_path_needs_lbfgs():
    X, y = rows(300, 5)
    with pytest.raises(ValueError, match=r"l2='path'.*lbfgs"):
        LinearClassifier(l2="path", solver="adagrad").fit(X, y)
    with pytest.raises(ValueError, match=r"l2='path'.*lbfgs"):
        LinearClassifier(l2="path").partial_fit(X, y, classes=np.unique(y))
