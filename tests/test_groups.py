"""Rows that depend on each other: `groups=`, and neighbours that are found to."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.field import repeated
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.training.near_copies import kinds_of
from bigcat.training.neighbours import with_neighbours
from bigcat.training.data import TrainingData, hold_out, standard_error


def people(seed=3, n=600, n_test=4_000):
    """Training rows with whose they are, and rows of other people; three classes."""
    draw = repeated.sessions(12, 3, 6.0, 0.4, 1.0)
    X, y, person = draw(np.random.default_rng(seed), n + n_test)
    last = person[n]
    train, test = person < last, person > last
    return X[train], y[train], person[train], X[test], y[test]


def gain(model, X, y, y_train):
    """Over class frequencies, nats per row."""
    frequencies = np.log(np.bincount(y_train) / len(y_train))
    return float((model.log_proba_of(X, y) - frequencies[y]).mean())


def shuffled(rng, *arrays):
    order = rng.permutation(len(arrays[0]))
    return [array[order] for array in arrays]


def kinds_with_neighbours(X, y):
    sample = TrainingData(X, y, np.ones(len(y)))
    return with_neighbours(sample, kinds_of(sample))


def quiet():
    return LinearClassifier(random_state=0, progress=False, n_threads=1)


def test_groups_make_a_fit_to_people_hold_for_others():
    more = []
    for seed in range(3):
        X, y, person, X_test, y_test = people(seed, n=300)
        X, y, person = shuffled(np.random.default_rng(seed), X, y, person)
        alone = quiet().fit(X, y)
        model = quiet().fit(X, y, groups=person)
        assert gain(model, X_test, y_test, y) > 0.0
        more.append(gain(model, X_test, y_test, y) - gain(alone, X_test, y_test, y))
        assert model.history_.choice["groups"] == len(np.unique(person))
        assert "neighbours" not in alone.history_.choice  # nobody can find shuffled people
    assert np.mean(more) > 0.05


def test_neighbours_are_found_where_people_stand_together():
    X, y, _, X_test, y_test = people()
    with pytest.warns(UserWarning, match="neighbouring rows are more alike.*groups="):
        model = quiet().fit(X, y)
    assert gain(model, X_test, y_test, y) > 0.05
    found = model.history_.choice["neighbours"]
    assert found["more_alike"] > 0.2
    assert 8 <= found["rows_held_out_together"] <= 32


@pytest.mark.parametrize("order", ["as drawn", "by class", "by class, then people"])
def test_a_file_by_class_is_no_file_of_people(order):
    rng = np.random.default_rng(0)
    if order == "by class, then people":
        X, y, _, _, _ = people()
        by_class = np.argsort(y, kind="stable")
        assert kinds_with_neighbours(X[by_class], y[by_class]).depend
        return
    y = rng.integers(5, size=1_000)
    X = rng.standard_normal((5, 10))[y] + rng.standard_normal((1_000, 10))
    by_class = np.argsort(y, kind="stable") if order == "by class" else np.arange(1_000)
    assert not kinds_with_neighbours(X[by_class], y[by_class]).depend


def test_sparse_rows_of_visitors_are_found_and_shuffled_ones_are_not():
    draw = repeated.visits(600, 5, 5.0, 0.15)
    X, y, _ = draw(np.random.default_rng(1), 800)
    assert sp.issparse(X)
    assert kinds_with_neighbours(X, y).depend
    order = np.random.default_rng(0).permutation(len(y))
    assert not kinds_with_neighbours(X[order], y[order]).depend


def test_a_few_far_rows_beside_each_other_are_no_neighbours():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 8)), rng.integers(3, size=500)
    X[100:104] += 1e4
    assert not kinds_with_neighbours(X, y).depend


def test_rows_that_move_with_time_are_held_out_in_stretches():
    rng = np.random.default_rng(0)
    times = np.sort(rng.random(2_000))
    X, y = repeated.moving(10, 4, 0.6, 6.0)(rng, times)
    kinds = kinds_with_neighbours(X, y)
    assert kinds.told["neighbours"]["rows_held_out_together"] == 100  # 20 stretches at least
    assert (np.diff(kinds.of_row) >= 0).all()


def test_rows_of_a_group_are_on_one_side():
    rng = np.random.default_rng(0)
    groups = rng.integers(40, size=400)
    sample = TrainingData(rng.standard_normal((400, 3)), np.arange(400) % 2, np.ones(400), groups)
    kept, held = hold_out(sample, 2, 0.2, np.random.RandomState(0), "")
    assert kept.groups is not None
    assert held.groups is not None
    assert not set(kept.groups) & set(held.groups)
    assert len(np.unique(held.groups)) == 8


def test_standard_errors_take_a_group_as_one_observation():
    values = np.random.default_rng(0).standard_normal(50)
    ones = np.ones(50)
    five_times = np.repeat(values, 5)
    by_groups = standard_error(five_times, np.ones(250), np.repeat(np.arange(50), 5))
    assert by_groups == pytest.approx(standard_error(values, ones))
    assert by_groups == pytest.approx(np.sqrt(5) * standard_error(five_times, np.ones(250)))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([0, 1], "inconsistent numbers of samples"),
        (np.zeros(60), "one group only"),
        (np.where(np.arange(60) < 3, np.nan, 1.0), "missing values"),
        ([None, *"abc"] * 15, "missing values"),
    ],
)
@pytest.mark.parametrize("estimator", [LinearClassifier(), BayesianClassifier()])
def test_bad_groups_are_refused(groups, message, estimator):
    X = np.random.default_rng(0).standard_normal((60, 2))
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, np.arange(60) % 2, groups=groups)


def test_groups_may_be_texts_and_rows_of_weight_0_do_not_matter():
    X, y, person, _, _ = people(n=200, n_test=100)
    names = np.array([f"user {i}" for i in person])
    first = quiet().fit(X, y, groups=names)
    more = quiet().fit(
        np.concatenate([X, X + 1.0]),
        np.concatenate([y, y]),
        np.repeat([1.0, 0.0], len(y)),
        groups=np.concatenate([names, names]),
    )
    assert np.array_equal(first.coef_, more.coef_)


def test_groups_are_routed():
    X, y, person, _, _ = people(n=300, n_test=100)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = quiet().set_fit_request(groups=True)
        pipeline = make_pipeline(StandardScaler(), model)
        found = cross_validate(
            pipeline,
            X,
            y,
            cv=GroupKFold(3),
            params={"groups": person},
            return_estimator=True,
        )
    for fitted, rows in zip(found["estimator"], GroupKFold(3).split(X, y, person)):
        assert fitted[-1].history_.choice["groups"] == len(np.unique(person[rows[0]]))


def test_a_posterior_holds_out_groups():
    X, y, person, _, _ = people(n=200, n_test=100)
    model = BayesianClassifier(method="augment-reduce", random_state=0, progress=False)
    model.set_params(method__validation_fraction=0.2, method__max_epochs=2)
    first = model.fit(X, y, groups=person).history_[-1]
    alone = model.fit(X, y).history_[-1]
    assert first["validation_log_likelihood"] != alone["validation_log_likelihood"]
