"""Rows that depend on each other: `groups=`."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.field import repeated
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.training.data import TrainingData
from bigcat.training.validation import split


def people(seed=3, n=600, n_test=4_000):
    """Return training rows with their groups, and rows of other groups; three classes."""
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
    assert np.mean(more) > 0.05


@pytest.mark.parametrize("n", [400, 20_000])
def test_rows_of_a_group_are_on_one_side(n):
    rng = np.random.default_rng(0)
    groups = rng.integers(40, size=n)
    data = TrainingData(rng.standard_normal((n, 3)), np.arange(n) % 2, np.ones(n), groups)
    folds = split(data, np.random.RandomState(0))
    for kept, held in folds:
        assert not set(groups[kept]) & set(groups[held])
    if n == 400:  # each row is predicted once
        assert np.array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(n))


def test_standard_errors_take_a_group_as_one_observation():
    values = np.random.default_rng(0).standard_normal(50)
    data = TrainingData(None, np.zeros(50), np.ones(50))
    five = TrainingData(None, np.zeros(250), np.ones(250), np.repeat(np.arange(50), 5))
    by_groups = five.standard_error(np.repeat(values, 5))
    assert by_groups == pytest.approx(data.standard_error(values))
    alone = five._replace(groups=None).standard_error(np.repeat(values, 5))
    assert by_groups == pytest.approx(np.sqrt(5) * alone)


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
        kept = rows[0]
        scaled = StandardScaler().fit_transform(X[kept])
        same = quiet().fit(scaled, y[kept], groups=person[kept])
        assert np.array_equal(fitted[-1].coef_, same.coef_)


def test_a_posterior_holds_out_groups():
    X, y, person, _, _ = people(n=200, n_test=100)
    model = BayesianClassifier(method="augment-reduce", random_state=0, progress=False)
    model.set_params(method__validation_fraction=0.2, method__max_epochs=2)
    first = model.fit(X, y, groups=person).history_[-1]
    alone = model.fit(X, y).history_[-1]
    assert first["validation_log_likelihood"] != alone["validation_log_likelihood"]
