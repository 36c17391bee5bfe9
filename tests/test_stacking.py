"""Stacking: weights by log score, and what the defaults make of them."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize
from scipy.special import log_softmax

from bigcat import LinearClassifier, metrics
from bigcat.linear import FullRankWeights, LinearModel
from bigcat.noise import Gaussian, Gumbel
from bigcat.training.data import TrainingData, without_duplicates
from bigcat.training.stacking import MAX_CLASSES, ValidationScores, stack
from bigcat.training.validation import split


def problem(n=800, n_classes=12, seed=0, noise=None):
    """Return two informative models, and rows drawn from a sum of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    first, second = rng.standard_normal((2, n_classes, 6))
    base = log_softmax(rng.standard_normal(n_classes))
    p = np.exp(log_softmax(base + X @ (0.7 * first + 0.4 * second).T, axis=1))
    labels = np.array([rng.choice(n_classes, p=row) for row in p])
    models = [
        LinearModel(FullRankWeights(w.astype(np.float32)), base, noise or Gumbel())
        for w in (first, second)
    ]
    return models, base, TrainingData(X, labels, rng.random(n) + 0.5)


def scores(models, base, data, seed=0):
    return ValidationScores.of(models, base, data, np.random.RandomState(seed))


def test_weights_are_those_of_an_independent_optimiser():
    models, base, data = problem()
    found = stack(scores(models, base, data), Gumbel())
    departures = [data.X @ m.weights.dense().T.astype(float) for m in models] + [base]

    def loss(w):
        total = sum(a * b for a, b in zip(w, departures))
        own = log_softmax(total, axis=1)[np.arange(data.n_rows), data.labels]
        prior = 0.5 * np.sum((w - [0.5, 0.5, 1.0]) ** 2) / data.n_rows
        return prior - np.average(own, weights=data.row_weights)

    best = minimize(loss, [0.5, 0.5, 1.0], method="Nelder-Mead", options={"xatol": 1e-6})
    np.testing.assert_allclose([*found.weights, found.frequency_weight], best.x, atol=2e-3)
    assert abs(found.weights[0] - 0.7) < 0.15  # those that the rows were drawn with
    assert abs(found.weights[1] - 0.4) < 0.15


def test_calibration_errors_are_those_of_the_metrics():
    models, base, data = problem()
    found = stack(scores(models, base, data), Gumbel())
    departures = [data.X @ m.weights.dense().T.astype(float) for m in models] + [base]
    total = sum(w * d for w, d in zip([*found.weights, found.frequency_weight], departures))
    p = np.exp(log_softmax(total, axis=1))
    expected = metrics.reliability(p.max(axis=1), p.argmax(axis=1) == data.labels)["ece"]
    assert found.calibration_errors[-1] == pytest.approx(expected, abs=1e-3)
    assert (found.calibration_errors[-1] < found.calibration_errors[:-1]).all()


def test_few_of_many_classes_stand_for_all():
    n_classes = 8 * MAX_CLASSES
    models, base, data = problem(400, n_classes)
    exact = LinearModel.log_proba_of(models[0], data.X, data.labels)
    sampled = [
        scores(models, base, data, seed).log_likelihoods(np.array([1.0, 0.0, 1.0]), Gumbel())
        for seed in range(5)
    ]
    errors = np.mean(sampled, axis=0) - exact
    assert np.abs(errors).max() < 0.4
    assert abs(errors.mean()) < 0.01
    found = stack(scores(models, base, data), Gumbel())
    again = stack(scores(models, base, data, 1), Gumbel())
    np.testing.assert_allclose(found.weights, again.weights, atol=0.02)


def test_a_model_that_knows_nothing_has_no_weight():
    models, base, data = problem()
    rng = np.random.default_rng(1)
    noise = FullRankWeights(rng.standard_normal((12, 6)).astype(np.float32))
    found = stack(scores([*models, LinearModel(noise, base, Gumbel())], base, data), Gumbel())
    assert found.weights[2] == 0.0
    assert found.weights[:2].all()


def test_scores_of_any_size_are_weighed():
    models, base, data = problem()
    huge = FullRankWeights(np.float32(1e9) * models[0].weights.dense())
    found = stack(scores([models[1], LinearModel(huge, base, Gumbel())], base, data), Gumbel())
    assert np.isfinite(found.weights).all()
    assert found.log_likelihoods.mean() >= found.of_frequencies.mean() - 0.01


def test_other_noises_have_a_weight_too():
    models, base, data = problem(200, noise=Gaussian())
    found = stack(scores(models[:1], base, data), Gaussian())
    values = found.log_likelihoods
    assert values.mean() > found.of_frequencies.mean() + 0.1
    assert values.mean() >= found.alone[0].mean() - 1e-6


# Rows that are held out


def rows_of(n, n_classes=3, n_features=4, seed=0):
    rng = np.random.default_rng(seed)
    return TrainingData(
        rng.standard_normal((n, n_features)), rng.integers(0, n_classes, n), np.ones(n)
    )


def test_small_data_are_predicted_once_each_and_others_hold_out_a_part():
    folds = split(rows_of(500), np.random.RandomState(0))
    held = np.concatenate([fold.held_out for fold in folds])
    assert np.array_equal(np.sort(held), np.arange(500))
    for n, expected in ((15_000, 1_000), (60_000, 3_000), (300_000, 5_000)):
        (fold,) = split(rows_of(n, n_features=1), np.random.RandomState(0))
        assert len(fold.held_out) == expected
        assert len(fold.kept) == n - expected


def test_rows_of_a_class_without_others_are_dropped_and_not_moved():
    data = rows_of(20_000)
    labels = data.labels.copy()
    labels[:400] = 3 + np.arange(400)  # one row each
    (fold,) = split(data._replace(labels=labels), np.random.RandomState(0))
    assert not (labels[fold.held_out] >= 3).any()
    missing = np.setdiff1d(np.arange(20_000), np.concatenate([fold.kept, fold.held_out]))
    assert len(missing) > 0
    assert (labels[missing] >= 3).all()


def test_duplicates_are_rows_of_larger_weight_and_categories_are_not():
    data = rows_of(100)
    order = np.random.default_rng(0).permutation(300) // 3
    merged = without_duplicates(TrainingData(data.X[order], data.labels[order], np.ones(300)))
    assert merged.n_rows == 100
    assert (merged.row_weights == 3.0).all()
    once = without_duplicates(data)
    assert np.array_equal(merged.X, once.X)  # in an order that depends on the values alone
    rng = np.random.default_rng(0)
    one_hot = scipy.sparse.csr_array(np.eye(4)[rng.integers(0, 4, 300)])
    data = TrainingData(one_hot, rng.integers(0, 2, 300), np.ones(300))
    assert without_duplicates(data).n_rows == 300


# The defaults


def test_noise_is_no_worse_than_class_frequencies():
    rng = np.random.default_rng(0)
    for n, d, k in ((200, 10, 3), (3_000, 40, 40)):
        X, y = rng.standard_normal((n, d)), rng.integers(0, k, n)
        X_new, y_new = rng.standard_normal((2_000, d)), rng.integers(0, k, 2_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearClassifier(random_state=0).fit(X, y)
        loss = -np.log(k) - model.log_proba_of(X_new, y_new).mean()
        assert loss < 0.03


MEMBERS: dict[str, dict[str, Any]] = {"auto": {}, "low": {"rank": 64}, "full": {"rank": None}}


def test_the_defaults_are_as_good_as_their_own_members():
    """On kinds of rows that favour low rank, full rank, and a ridge."""
    rng = np.random.default_rng(1)
    n, d, k = 2_000, 30, 20
    low = rng.standard_normal((k, 4)) @ rng.standard_normal((4, d)) / 2.0
    full = rng.standard_normal((k, d)) / 3.0
    for W in (low, full):
        X = rng.standard_normal((2 * n, d))
        y = (X @ W.T + rng.gumbel(size=(2 * n, k))).argmax(axis=1)
        X_new, y_new = (a[n:][np.isin(y[n:], y[:n])] for a in (X, y))
        fits = {
            name: LinearClassifier(random_state=0, **options).fit(X[:n], y[:n])
            for name, options in MEMBERS.items()
        }
        values = {name: fit.log_proba_of(X_new, y_new) for name, fit in fits.items()}
        for name in ("low", "full"):
            gain = values["auto"] - values[name]
            assert gain.mean() >= -2.0 * gain.std() / len(gain) ** 0.5


def test_a_named_rank_is_never_below_class_frequencies():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 30))
    y = rng.integers(0, 3, 150)
    model = LinearClassifier(rank=2, random_state=0).fit(X[:100], y[:100])
    assert model.log_proba_of(X[100:], y[100:]).mean() > -np.log(3) - 0.1
    groups = np.arange(100) // 10
    other = LinearClassifier(rank=2, random_state=0).fit(X[:100], y[:100], groups=groups)
    values = [m.selection_.candidates[0].log_likelihood for m in (model, other)]
    assert values[0] != values[1]  # groups are other folds


def test_the_selection_tells_candidates_weights_and_validation_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 40)).astype(np.float32)
    y = rng.integers(0, 40, 600)
    X[np.arange(600), y] += 4.0
    model = LinearClassifier(random_state=0).fit(X, y)
    found = model.selection_
    assert found.n_validation_rows == 600
    assert found.refitted
    assert found.log_likelihood > found.frequency_log_likelihood + 1.0
    assert all(c.standard_error > 0.0 for c in found.candidates)
    assert sum(c.weight for c in found.candidates) > 0.5
    text = repr(found)
    for candidate in found.candidates:
        assert candidate.name in text
    assert "stacked" in text
    assert type(found).from_dict(found.to_dict()) == found
    stages = {(row["stage"], row["candidate"].split(",")[0]) for row in model.history_}
    weighted = {("refit", c.name) for c in found.candidates if c.weight > 0.0}
    assert {pair for pair in stages if pair[0] == "refit"} == weighted


def test_quick_fits_hold_rows_out_once():
    X, y, *_ = rows_of(2_000, 40, 40)
    X[np.arange(2_000), y] += 3.0
    model = LinearClassifier(effort="quick", rank=8, random_state=0).fit(X, y)
    assert model.selection_.n_validation_rows == 400
    assert not model.selection_.refitted
    assert {row["stage"] for row in model.history_} == {"validation"}


def test_callbacks_receive_stage_candidate_and_epoch():
    seen = []
    X, y, *_ = rows_of(2_000, 40, 40)
    X[np.arange(2_000), y] += 3.0
    callbacks = [lambda info: seen.append((info["stage"], info["candidate"], info["epoch"]))]
    LinearClassifier(rank=8, random_state=0, progress=callbacks).fit(X, y)
    assert seen[0] == ("validation", "low rank, fold 1 of 5", 1)
    assert next(s for s in seen if s[0] == "refit") == ("refit", "low rank", 1)


def test_a_candidate_that_diverges_is_left_out(monkeypatch):
    from bigcat.training import fit

    run = fit.Fit.run

    def diverging(self, *given, **options):
        if self.stage.candidate.startswith("rank 64"):
            raise fit.DivergedFit("too fast", None)
        return run(self, *given, **options)

    monkeypatch.setattr(fit.Fit, "run", diverging)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((500, 40)), rng.integers(0, 40, 500)
    X[np.arange(500), y] += 3.0
    model = LinearClassifier(random_state=0).fit(X, y)
    weights = {c.name: c.weight for c in model.selection_.candidates}
    assert weights["rank 64"] == 0.0
    assert sum(weights.values()) > 0.5


def test_an_interrupted_fit_keeps_what_there_is():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3_000, 40)), rng.integers(0, 40, 3_000)
    X[np.arange(3_000), y] += 3.0
    for stage in ("validation", "refit"):

        def interrupt(info, stage=stage):
            if info["stage"] == stage and info["epoch"] == 3:
                raise KeyboardInterrupt

        model = LinearClassifier(random_state=0, progress=[interrupt])
        with pytest.raises(KeyboardInterrupt, match="weights of that moment"):
            model.fit(X, y)
        assert model.score(X, y) > 0.3


def test_a_named_rank_is_as_good_as_many_more_epochs():
    rng = np.random.default_rng(0)
    n, d, k = 6_000, 50, 60
    W = rng.standard_normal((k, 8)) @ rng.standard_normal((8, d)) / 2.0
    X = rng.standard_normal((n + 1_000, d)).astype(np.float32)
    y = (X @ W.T + rng.gumbel(size=(len(X), k))).argmax(axis=1)
    X_new, y_new = (a[n:][np.isin(y[n:], y[:n])] for a in (X, y))
    options: list[dict[str, Any]] = [{}, {"max_epochs": 60}]
    fits = (LinearClassifier(rank=8, random_state=0, **o).fit(X[:n], y[:n]) for o in options)
    usual, long = (fit.log_proba_of(X_new, y_new) for fit in fits)
    assert (usual - long).mean() > -0.02 * (long.mean() + np.log(k))
