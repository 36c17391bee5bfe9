"""Ways to combine what lanes changed, beside one process: each at several rates.

``python -m benchmarks.distributed combining SET [--rank 64] [--lanes 4] [--rounds 16 ...]``
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.distributed.sets import Set, read
from bigcat import LinearClassifier
from bigcat.auto import Parameters, plan_for_rounds
from bigcat.dask.fit import know_classes, know_whole
from bigcat.dask.lanes import Change, Trained, Turn, begin, combine, model_of, train_lane
from bigcat.dask.rounds import cut_rows
from bigcat.dask.survey import no_rows, survey_rows
from bigcat.linear import LinearModel
from bigcat.training.data import TrainingData

Combine = Callable[[Trained, Sequence[Change]], Trained]


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--lanes", type=int, nargs="*", default=[4])
    parser.add_argument("--rounds", type=int, nargs="*", default=[64])
    parser.add_argument("--rates", type=float, nargs="*", default=[1.0, 2.0, 4.0])
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))


def summed(before: Trained, changes: Sequence[Change], share: float = 1.0) -> Trained:
    """All changes times a share, of weights and of what the solver remembers."""
    now = before.copy()
    for change in changes:
        now.weights[change.where] += share * change.weights
        now.weights_state[change.where] += share * change.weights_state
        now.intercepts += share * change.intercepts
        now.intercepts_state += share * change.intercepts_state
    return now


def averaged(before: Trained, changes: Sequence[Change]) -> Trained:
    return summed(before, changes, 1.0 / len(changes))


class OuterMomentum:
    """The mean change as a gradient, for Nesterov's steps."""

    def __init__(self, momentum: float = 0.9, rate: float = 0.7) -> None:
        self.momentum, self.rate = momentum, rate
        self.velocity: tuple[np.ndarray, ...] | None = None

    def __call__(self, before: Trained, changes: Sequence[Change]) -> Trained:
        now = averaged(before, changes)
        steps = (now.weights - before.weights, now.intercepts - before.intercepts)
        kept = self.velocity or tuple(np.zeros_like(step) for step in steps)
        self.velocity = tuple(self.momentum * v + step for v, step in zip(kept, steps))
        weights, intercepts = (
            self.rate * (self.momentum * v + step) for v, step in zip(self.velocity, steps)
        )
        now.weights, now.intercepts = before.weights + weights, before.intercepts + intercepts
        return now


WAYS: dict[str, Callable[[], Combine]] = {
    "adagrad": lambda: combine,
    "sum": lambda: summed,
    "average": lambda: averaged,
    "momentum": OuterMomentum,
}


def run(arguments: argparse.Namespace) -> None:
    rows = read(arguments.set, arguments.rows)
    for rate in arguments.rates:
        value, _ = fit(rows, arguments, rate, 1, 1, combine)
        print(f"{'one process':12} rate x {rate:g}: {value:.4f}", flush=True)
        for n_lanes in arguments.lanes:
            for n_rounds in arguments.rounds:
                for way in arguments.ways:
                    value, moved = fit(rows, arguments, rate, n_lanes, n_rounds, WAYS[way]())
                    print(
                        f"{way:12} rate x {rate:g}: {value:.4f}  {n_lanes} lanes, "
                        f"{n_rounds} rounds, {moved / 2**20:.2f} MiB per change",
                        flush=True,
                    )


def fit(
    rows: Set, arguments: argparse.Namespace, rate: float, n_lanes: int, n_rounds: int, how: Combine
) -> tuple[float, float]:
    """Log-likelihood of the test rows, and bytes of a change in the last round."""
    survey = survey_rows(rows.X, rows.y, np.ones(len(rows.y)))
    known = know_classes(survey, None)
    estimator = LinearClassifier(rank=arguments.rank, max_epochs=arguments.passes, random_state=0)
    config = plan_for_rounds(Parameters.of(estimator.get_params()), survey.sizes).first
    config = config.with_solver(config.parts.solver.at_part_of_rate(rate))
    whole = know_whole(survey, known, [], n_lanes, np.empty(0, np.int64))
    form = TrainingData(no_rows(survey), np.empty(0, np.int64), np.empty(0))
    places = np.searchsorted(survey.classes, rows.y)
    sample = known.sample(rows.X, places, np.ones(len(places)))
    now = begin(config, whole, form, 0)
    n, steps = sample.n_rows, -(-whole.extent.rows_per_epoch // config.batch_size)
    wanted = max(1, round(n_rounds / config.max_epochs))
    for epoch in range(config.max_epochs):
        lanes = np.array_split(np.arange(n), n_lanes)
        shuffled = [
            np.random.RandomState([epoch, i]).permutation(lane) for i, lane in enumerate(lanes)
        ]
        cuts = cut_rows(len(lanes[-1]), len(lanes[-1]) // wanted, config.batch_size)
        per_pass = len(cuts)
        orders = [[lane[a:b] for a, b in cuts] for lane in shuffled]
        for number in range(per_pass):
            made = epoch * steps + steps * number // per_pass
            lanes_changes = [
                train_lane(
                    config,
                    whole,
                    sample.take(order[number]),
                    [now],
                    Turn(hash((epoch, number, i)) % (1 << 31), epoch, made),
                )
                for i, order in enumerate(orders)
            ]
            changes = [lane.slices[0] for lane in lanes_changes]
            now = how(now, changes)
    model = LinearModel(*model_of(config, whole, form, now), config.parts.noise)
    labels = known.number[np.searchsorted(survey.classes, rows.y_test)]
    value = model.mean_log_likelihood(rows.X_test, labels, np.ones(len(labels)))
    return value, float(np.mean([change.nbytes for change in changes]))
