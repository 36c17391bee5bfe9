"""Local SGD with AdaGrad: workers train apart from the same weights, and their steps are combined.

A worker that has moved a weight made the step ``sum of gradients / sqrt(s)``, where s is the sum
of the squared gradients that it knew.  It reports ``step * sqrt(s)`` and how much s grew.  Both
are sums over gradients, so those of all workers add up, and the combined step is
``sum of step * sqrt(s) / sqrt(s of all)``: what AdaGrad would have done with all gradients.  A
weight that one worker alone has touched moves as far as that worker moved it.

The result is a function of weights, rows and seeds, whichever machine computes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bigcat.dask.rows import ClassNumbers
from bigcat.dask.survey import Survey
from bigcat.linear import LinearModel, Weights
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows
from bigcat.solvers import AdaGrad, Solver
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.passes import Passes
from bigcat.training.snapshot import Snapshot
from bigcat.training.state import State, initial_weights
from bigcat.training.strategies import Totals

#: Keeps a quotient finite where no gradient is known.
TINY = np.float32(1e-30)
#: Share of moved vectors from which on sending all steps is faster than selecting them.
DENSE_FROM = 0.8
#: Steps of workers that one task adds up.
STEPS_PER_TASK = 8


@dataclass(frozen=True, eq=False)
class GlobalStatistics:
    """Statistics of all training rows, which workers need beside rows of their own.

    Parameters
    ----------
    n_rows : int
    weight : float
        Sum of the row weights.
    n_features : int
    class_weights : array
        Sum of the row weights of each class, in the order of training.
    mean_size, usual_size, typical_size : float
        As in `bigcat.rows.Problem`.
    n_workers : int
    head : array
        Classes that are kept exact.
    form : array or CSR matrix
        X without any rows.
    """

    n_rows: int
    weight: float
    n_features: int
    class_weights: np.ndarray
    mean_size: float
    usual_size: float
    typical_size: float
    n_workers: int
    head: np.ndarray
    form: object

    @classmethod
    def of(
        cls,
        survey: Survey,
        numbers: ClassNumbers,
        held: Sequence[TrainingData],
        n_workers: int,
        head: np.ndarray,
    ) -> GlobalStatistics:
        """Return those of the surveyed rows, without those that are held out."""
        weights = survey.weights[survey.order].astype(np.float64)
        if numbers.factors is not None:
            weights = weights * numbers.factors
        n_rows, lengths = survey.n_rows, survey.rows_like_these
        for data in held:
            weights = weights - np.bincount(data.labels, data.row_weights, len(weights))
            n_rows -= data.n_rows
        return cls(
            n_rows,
            float(weights.sum()),
            survey.sizes.n_features,
            np.maximum(weights, 0.0),
            lengths.mean_size,
            lengths.usual_size,
            lengths.typical_size,
            n_workers,
            head,
            survey.no_rows(),
        )

    @property
    def totals(self) -> Totals:
        """Rows that a worker trains on in an epoch, on average."""
        return Totals(self.n_rows, self.weight, -(-self.n_rows // self.n_workers))

    def problem(self, config: FitConfig, data: TrainingData | None = None) -> PartOfProblem:
        """Return some rows, or none, in the form that kernels take."""
        data = data or TrainingData(self.form, np.empty(0, np.int64), np.empty(0))
        n_classes = len(self.class_weights)
        dtype = config.kind.working_dtype(data.X.dtype, self.n_features, n_classes)
        return PartOfProblem(
            as_rows(data.X, dtype),
            data.labels,
            data.row_weights,
            self.n_features,
            n_classes,
            l2=config.l2,
            fit_intercept=config.fit_intercept,
            unit_rows=config.kind.scales_rows,
            head=self.head,
            statistics=self,
        )


@dataclass(frozen=True)
class PartOfProblem(Problem):
    """Some rows of a problem whose others are elsewhere."""

    statistics: GlobalStatistics | None = None

    @property
    def mean_size(self) -> float:
        return self._all.mean_size

    @property
    def usual_size(self) -> float:
        return 1.0 if self.unit_rows else self._all.usual_size

    @property
    def typical_size(self) -> float:
        return 1.0 if self.unit_rows else self._all.typical_size

    def class_weights(self) -> np.ndarray:
        return self._all.class_weights

    @property
    def _all(self) -> GlobalStatistics:
        assert self.statistics is not None
        return self.statistics


class RoundSeed(NamedTuple):
    """Seed and place of a round: with weights and rows they decide a worker's steps."""

    seed: int
    epoch: int
    #: Steps that a worker has made before, for rates that fall.
    iteration: int


@dataclass(frozen=True)
class TrainedWeights:
    """Weights in the layout of training, and the sums of squares that AdaGrad keeps of them."""

    weights: np.ndarray
    intercepts: np.ndarray
    weights_state: np.ndarray
    intercepts_state: np.ndarray

    @classmethod
    def of(cls, state: State) -> TrainedWeights:
        """Return the weights of a solver state."""
        return cls(state.weights, state.intercepts, state.weights_state, state.intercepts_state)

    @classmethod
    def start(
        cls,
        config: FitConfig,
        statistics: GlobalStatistics,
        seed: int,
        given: tuple[Weights, np.ndarray] | None = None,
    ) -> TrainedWeights:
        """Return what a fit starts from: given weights, or those of the configuration."""
        random_state, problem = np.random.RandomState(seed), statistics.problem(config)
        if given is None:
            given = initial_weights(problem, config.parts, config.kind, random_state)
        return cls.of(State.new(problem, config.parts, config.kind, given, random_state))

    def copy(self) -> TrainedWeights:
        """Return a copy."""
        return TrainedWeights(**{name: array.copy() for name, array in vars(self).items()})

    def model(self, config: FitConfig, statistics: GlobalStatistics) -> LinearModel:
        """Return the model that predicts with these weights."""
        weights = config.kind.as_weights(self.weights, statistics.problem(config))
        return LinearModel(weights, self.intercepts, config.parts.noise)

    def __sizeof__(self) -> int:
        """Return what Dask goes by when it decides where tasks run and what to spill."""
        return sum(array.nbytes for array in vars(self).values())

    def snapshot(self) -> Snapshot:
        """Return the arrays for a checkpoint."""
        return Snapshot(arrays=dict(vars(self)))

    @classmethod
    def restored(cls, kept: Snapshot) -> TrainedWeights:
        """Return the weights of a checkpoint."""
        return cls(**{name: array.copy() for name, array in kept.arrays.items()})


@dataclass(frozen=True)
class Steps:
    """Steps of workers in a round, times the root of the squares that each of them knew.

    `moved` holds the places of the vectors that moved; None if nearly all did, and then the arrays
    have one for every place.
    """

    moved: np.ndarray | None
    weights: np.ndarray
    weights_state: np.ndarray
    intercepts: np.ndarray
    intercepts_state: np.ndarray
    #: Sum of the values of the rows.
    value: float

    @classmethod
    def between(cls, before: TrainedWeights, now: TrainedWeights, value: float) -> Steps:
        """Return the steps that led from `before` to `now`, which is overwritten."""
        for name in ("weights", "intercepts"):
            step, squares = getattr(now, name), getattr(now, f"{name}_state")
            step -= getattr(before, name)
            step *= np.sqrt(squares + TINY)
            squares -= getattr(before, f"{name}_state")
        steps = cls(
            None,
            now.weights,
            now.weights_state,
            now.intercepts,
            now.intercepts_state,
            value,
        )
        moved = now.weights.any(axis=1) | now.weights_state.any(axis=1)
        return steps if moved.mean() > DENSE_FROM else steps._of(np.flatnonzero(moved))

    def _of(self, moved: np.ndarray) -> Steps:
        weights, squares = self.weights[moved], self.weights_state[moved]
        return Steps(moved, weights, squares, self.intercepts, self.intercepts_state, self.value)

    @property
    def where(self) -> np.ndarray | slice:
        """Places of the vectors that moved, as an index."""
        return slice(None) if self.moved is None else self.moved

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(found.nbytes for found in vars(self).values() if isinstance(found, np.ndarray))

    def __sizeof__(self) -> int:
        return self.nbytes


def train_part(
    config: FitConfig,
    statistics: GlobalStatistics,
    data: TrainingData,
    before: TrainedWeights,
    turn: RoundSeed,
) -> Steps:
    """Make one pass over some rows, in random order."""
    problem = statistics.problem(config, data)
    random_state, parts = np.random.RandomState(turn.seed), config.parts
    now = before.copy()
    state = State(
        **vars(now),
        local=parts.bound.initial_local(parts.noise, now.intercepts)[problem.labels],
        rng=new_state(random_state),
        iteration=turn.iteration,
        epoch=turn.epoch,
    )
    passes = Passes(
        problem,
        parts,
        config.kind,
        state,
        batch_size=config.batch_size,
        max_epochs=config.max_epochs,
        random_state=random_state,
        totals=statistics.totals,
    )
    passes.begin_epoch(turn.epoch, config.max_epochs)
    value = passes.train(0, problem.n_rows)
    passes.end_epoch()
    return Steps.between(before, TrainedWeights.of(state), value)


def sum_steps(before: TrainedWeights, steps: Sequence[Steps | None]) -> Steps:
    """Add up the steps of some workers, each of which may have had no row."""
    made = [one for one in steps if one is not None]
    total = {name: np.zeros_like(array) for name, array in vars(before).items()}
    for one in made:
        for name, array in total.items():
            places = one.where if name.startswith("weights") else slice(None)
            array[places] += getattr(one, name)
    value = sum(one.value for one in made)
    summed = Steps(None, **total, value=value)
    if any(one.moved is None for one in made):
        return summed
    moved = np.unique(np.concatenate([one.where for one in made] or [np.empty(0, np.int64)]))
    return summed._of(moved)


def stepped(before: TrainedWeights, steps: Steps) -> TrainedWeights:
    """Return the weights after the steps of all workers."""
    after = before.copy()
    for name, places in (("weights", steps.where), ("intercepts", slice(None))):
        squares = getattr(after, f"{name}_state")
        squares[places] += getattr(steps, f"{name}_state")
        getattr(after, name)[places] += getattr(steps, name) / np.sqrt(squares[places] + TINY)
    return after


def check_solver(solver: Solver) -> None:
    """Raise for a solver whose steps cannot be combined."""
    if not isinstance(solver, AdaGrad):
        raise ValueError(
            f"solver={solver.name!r} does not say how to combine the steps of several workers; "
            "take solver='adagrad' or 'auto'"
        )


def check_config(config: FitConfig) -> None:
    """Raise for parts whose steps cannot be combined."""
    check_solver(config.parts.solver)
    bound = config.parts.bound
    if bound.n_local:
        raise ValueError(
            f"method={bound.name!r} keeps numbers of its own for each row, and rows have none "
            "between rounds; take method='auto', 'exact' or 'complementary'"
        )
