"""Rounds without a cluster: changes of lanes, and how they are combined."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from bigcat.auto import Parameters, plan_for_rounds
from bigcat.dask.lanes import (
    Change,
    Trained,
    Turn,
    Whole,
    begin,
    check_config,
    combine,
    train_lane,
)
from bigcat.dask.spare import Spare
from bigcat.estimators import LinearClassifier
from bigcat.rows import Sizes, as_rows, squared_norms
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData

N_CLASSES = 30


@pytest.fixture(scope="module")
def sample() -> TrainingData:
    rng = np.random.RandomState(0)
    X = sp.random(2_000, 80, 0.1, format="csr", random_state=rng, dtype=np.float32)
    scores = X @ rng.standard_normal((80, N_CLASSES)) * 4.0
    return TrainingData(X, scores.argmax(axis=1).astype(np.int64), np.ones(2_000))


def config_of(sample: TrainingData, **parameters: object) -> FitConfig:
    estimator = LinearClassifier(rank=8, max_epochs=3, random_state=0, **parameters)  # type: ignore[arg-type]
    sizes = Sizes.of(sample.X, N_CLASSES)
    return plan_for_rounds(Parameters.of(estimator.get_params()), sizes).first


def whole_of(sample: TrainingData, n_lanes: int) -> Whole:
    size = float(squared_norms(as_rows(sample.X, np.float32)).mean())
    counts = np.bincount(sample.labels, minlength=N_CLASSES).astype(float)
    n, head = sample.n_rows, np.empty(0, np.int64)
    return Whole(n, float(n), sample.X.shape[1], True, counts, size, size, size, n_lanes, head)


def start_of(config: FitConfig, sample: TrainingData, n_lanes: int) -> tuple[Whole, Trained]:
    whole = whole_of(sample, n_lanes)
    return whole, begin(config, whole, sample.take(np.arange(0)), 0)


def changed(
    config: FitConfig, whole: Whole, sample: TrainingData, before: Trained, seed: int
) -> Change:
    """By a lane in a first round, of weights in one slice."""
    (change,) = train_lane(config, whole, sample, [before], Turn(seed, 0, 0)).slices
    return change


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_changes_are_of_the_rows_that_moved(share: float) -> None:
    """Of few of them or of all, also where the numbers are equal and the squares are not."""
    rng = np.random.default_rng(0)
    before = Trained(*(rng.standard_normal(s).astype(np.float32) for s in ((50, 3), 4, (50, 1), 4)))
    now, moved = before.copy(), np.flatnonzero(rng.random(50) < share)
    now.weights[moved[::2]] += 1.0
    now.weights_state[moved[1::2]] += 1.0
    expected = now.copy()
    change = Change.between(before, now)
    found = np.arange(50) if change.majors is None else change.majors
    np.testing.assert_array_equal(found, moved)
    after = before.copy()
    after.weights[change.where] += change.weights
    after.weights_state[change.where] += change.weights_state
    np.testing.assert_allclose(after.weights, expected.weights, rtol=1e-6)
    np.testing.assert_allclose(after.weights_state, expected.weights_state, rtol=1e-6)


def test_a_lane_gives_the_same_bits_and_leaves_the_weights_as_they_were(
    sample: TrainingData,
) -> None:
    config = config_of(sample)
    whole, before = start_of(config, sample, 2)
    kept = before.copy()
    first, second = (changed(config, whole, sample, before, 5) for _ in range(2))
    for name, array in vars(kept).items():
        np.testing.assert_array_equal(array, getattr(before, name))
    np.testing.assert_array_equal(first.weights, second.weights)
    other = changed(config, whole, sample, before, 6)
    assert not np.array_equal(first.weights, other.weights)


def test_one_lane_moves_as_far_as_it_moved(sample: TrainingData) -> None:
    config = config_of(sample)
    whole, before = start_of(config, sample, 1)
    change = changed(config, whole, sample, before, 5)
    after = combine(before, [change])
    moved = before.weights[change.where] + change.weights
    np.testing.assert_allclose(after.weights[change.where], moved, rtol=1e-6, atol=1e-7)


def test_steps_that_were_made_apart_add_up_as_adagrad_would_have_made_them() -> None:
    """Two gradients of one coordinate, and one of another that a single lane has."""
    before = Trained(np.zeros((2, 1)), np.zeros(1), np.full((2, 1), 7.0), np.zeros(1))

    def lane(gradient: float, major: int) -> Change:
        square = np.full((1, 1), gradient**2)
        step = gradient / np.sqrt(7.0 + square)
        return Change(np.array([major]), step, square, np.zeros(1), np.zeros(1))

    after = combine(before, [lane(3.0, 0), lane(1.0, 0), lane(3.0, 1)])
    expected = [(3.0 + 1.0) / np.sqrt(7.0 + 9.0 + 1.0), 3.0 / np.sqrt(7.0 + 9.0)]
    np.testing.assert_allclose(after.weights[:, 0], expected)
    np.testing.assert_allclose(after.weights_state[:, 0], [17.0, 16.0])


def test_runs_of_rows_do_not_matter(sample: TrainingData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to what moved nor to what is combined, of few rows and of all."""
    config = config_of(sample)
    whole, before = start_of(config, sample, 2)
    found = []
    for cached in (1 << 14, 40):
        monkeypatch.setattr("bigcat.dask.lanes.CACHED", cached)
        rows = (sample.take(np.arange(6)), sample)
        changes = [changed(config, whole, some, before, 5) for some in rows]
        assert changes[0].majors is not None
        assert changes[1].majors is None
        found.append(combine(before, changes))
    for name, array in vars(found[0]).items():
        np.testing.assert_array_equal(array, getattr(found[1], name))


def test_memory_is_used_again_when_nobody_holds_it() -> None:
    spare, like = Spare(), np.zeros((3, 2), np.float32)
    first = spare.empty_like(like)
    first[...] = 1.0
    place, view = first.ctypes.data, first[1:, :1]
    del first
    assert spare.empty_like(like).ctypes.data != place
    np.testing.assert_array_equal(view, 1.0)
    del view
    others = [spare.empty_like(like), spare.empty_like(like)]
    assert place in [other.ctypes.data for other in others]
    assert spare.empty_like(like, 7).shape == (7, 2)
    assert spare.empty_like(like, 0).shape == (0, 2)


def test_rounds_leave_no_memory_behind(sample: TrainingData) -> None:
    """It is used again in the next round, and does not go along when a worker sends what it has."""
    config = config_of(sample)
    whole, before = start_of(config, sample, 2)
    size = len(pickle.dumps(whole))
    places = {changed(config, whole, sample, before, i).weights.ctypes.data for i in range(3)}
    assert len(places) == 1
    assert len(pickle.dumps(whole)) == size


@pytest.mark.parametrize("n_lanes", [1, 4])
def test_lanes_learn_as_much_as_one(sample: TrainingData, n_lanes: int) -> None:
    config = config_of(sample)
    whole, now = start_of(config, sample, n_lanes)
    values = []
    for epoch in range(config.max_epochs):
        order = np.random.RandomState(epoch).permutation(sample.n_rows)
        value = 0.0
        for number, rows in enumerate(np.array_split(order, 8)):
            changes = [
                train_lane(config, whole, sample.take(part), [now], Turn(number, epoch, 0))
                for part in np.array_split(rows, n_lanes)
            ]
            value += sum(change.value for change in changes)
            now = combine(now, [change.slices[0] for change in changes])
        values.append(value / sample.n_rows)
    assert values[-1] > values[0] + 0.05


def test_rows_far_away_count_for_ridge_and_rates(sample: TrainingData) -> None:
    """What a lane does must not depend on how many of the rows it has."""
    config = replace(config_of(sample), l2=50.0)
    few = sample.take(np.arange(256))
    whole, before = start_of(config, sample, 2)
    before.weights_state += 1.0  # where nothing is remembered, any ridge shrinks all the way
    larger = replace(whole, n_rows=10 * whole.n_rows, weight=10 * whole.weight)
    changes = [changed(config, w, few, before, 5) for w in (whole, larger)]
    moved = [np.zeros_like(before.weights), np.zeros_like(before.weights)]
    for change, all_moved in zip(changes, moved):
        all_moved[change.where] = change.weights
    features = slice(N_CLASSES, None)  # which start away from zero, so that a ridge shrinks them
    shrunk = [-np.vdot(m[features], before.weights[features]) for m in moved]
    assert shrunk[0] > 2.0 * shrunk[1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"solver": "damped"}, "solver='damped' does not say how to combine"),
        (
            {"method": "augment-reduce", "solver": "adagrad"},
            "keeps numbers of its own for each row",
        ),
    ],
)
def test_parts_whose_changes_cannot_be_combined_are_refused(
    sample: TrainingData, parameters: dict[str, object], message: str
) -> None:
    estimator = LinearClassifier(max_epochs=3, **parameters)  # type: ignore[arg-type]
    sizes = Sizes.of(sample.X, N_CLASSES)
    plan = plan_for_rounds(Parameters.of(estimator.get_params()), sizes)
    with pytest.raises(ValueError, match=message):
        check_config(plan.first)
