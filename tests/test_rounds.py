"""Local SGD without a cluster: steps of workers, and how they are combined."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from bigcat.auto import Parameters, plan_for_rounds
from bigcat.dask.local_sgd import (
    GlobalStatistics,
    RoundSeed,
    Steps,
    TrainedWeights,
    check_config,
    stepped,
    sum_steps,
    train_part,
)
from bigcat.dask.rows import ClassNumbers
from bigcat.dask.survey import merge_surveys, survey_rows
from bigcat.estimators import LinearClassifier
from bigcat.rows import Problem, Sizes, as_rows
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData

K = 30


@pytest.fixture(scope="module")
def data() -> TrainingData:
    rng = np.random.RandomState(0)
    X = sp.random(2_000, 80, 0.1, format="csr", random_state=rng, dtype=np.float32)
    scores = X @ rng.standard_normal((80, K)) * 4.0
    return TrainingData(X, scores.argmax(axis=1).astype(np.int64), np.ones(2_000))


def config_of(data: TrainingData, **parameters: object) -> FitConfig:
    estimator = LinearClassifier(rank=8, max_epochs=3, random_state=0, **parameters)  # type: ignore[arg-type]
    return plan_for_rounds(Parameters.of(estimator.get_params()), Sizes.of(data.X, K)).first


def start_of(
    config: FitConfig, data: TrainingData, n_workers: int
) -> tuple[GlobalStatistics, TrainedWeights]:
    survey = survey_rows(*data[:3])
    numbers, head = ClassNumbers.of(survey, None), np.empty(0, np.int64)
    statistics = GlobalStatistics.of(survey, numbers, [], n_workers, head)
    return statistics, TrainedWeights.start(config, statistics, 0)


def test_combined_steps_are_those_of_adagrad_with_all_gradients() -> None:
    """Two workers with gradients of one coordinate, and one with a gradient of another."""
    zero = np.zeros(1)
    before = TrainedWeights(np.zeros((2, 1)), zero, np.full((2, 1), 7.0), zero)

    def worker(gradient: float, place: int) -> Steps:
        now = before.copy()
        now.weights_state[place] += gradient**2
        now.weights[place] += gradient / np.sqrt(now.weights_state[place])
        return Steps.between(before, now, 1.0)

    workers = [worker(3.0, 0), worker(1.0, 0), None, worker(3.0, 1)]
    steps = sum_steps(before, workers)
    assert steps.value == 3.0
    after = stepped(before, steps)
    expected = [(3.0 + 1.0) / np.sqrt(7.0 + 9.0 + 1.0), 3.0 / np.sqrt(7.0 + 9.0)]
    np.testing.assert_allclose(after.weights[:, 0], expected)
    np.testing.assert_allclose(after.weights_state[:, 0], [17.0, 16.0])
    parts = [sum_steps(before, workers[:2]), sum_steps(before, workers[2:])]
    np.testing.assert_allclose(stepped(before, sum_steps(before, parts)).weights, after.weights)


def test_rows_elsewhere_count_for_ridge_and_rates(data: TrainingData) -> None:
    """Steps of a worker must not depend on how many of the rows it has."""
    config = replace(config_of(data), l2=50.0)
    few = data.take(np.arange(256))
    statistics, before = start_of(config, data, 2)
    before.weights_state[...] += 1.0  # without squares, any ridge shrinks all the way
    larger = replace(statistics, n_rows=20_000, weight=20_000.0)
    features = slice(K, None)  # which start away from zero
    shrunk = []
    for known in (statistics, larger):
        steps = train_part(config, known, few, before, RoundSeed(5, 0, 0))
        moved = stepped(before, steps).weights - before.weights
        shrunk.append(-np.vdot(moved[features], before.weights[features]))
    assert shrunk[0] > 2.0 * shrunk[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "damped"}, "solver='damped' does not say how to combine"),
        ({"method": "augment-reduce", "solver": "adagrad"}, "numbers of its own for each row"),
    ],
)
def test_parts_whose_steps_cannot_be_combined_are_refused(
    data: TrainingData, parameters: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_config(config_of(data, **parameters))


def test_surveys_add_up(data: TrainingData) -> None:
    rng = np.random.RandomState(0)
    order = np.argsort(data.labels, kind="stable")  # so that parts have classes of their own
    X, y, weights = data.X[order], data.labels[order], rng.uniform(0.5, 2.0, data.n_rows)
    whole = survey_rows(X, y, weights)
    parts = [survey_rows(X[i], y[i], weights[i]) for i in np.array_split(np.arange(len(y)), 7)]
    merged = merge_surveys(parts)
    assert merged.classes.tolist() == whole.classes.tolist()
    np.testing.assert_array_equal(merged.counts, whole.counts)
    np.testing.assert_allclose(merged.weights, whole.weights)
    assert merged.sizes == whole.sizes
    exact = Problem(as_rows(X, np.float32), y, weights, X.shape[1], K)
    for name in ("mean_size", "typical_size", "usual_size"):
        assert getattr(merged.rows_like_these, name) == pytest.approx(getattr(exact, name))
