"""Fits in rounds: parts of the rows are trained on apart, and what they change is combined.

In a round every *lane* makes steps over some rows of its own, all from the same weights, and gives
back what changed.  A lane's change is a function of the weights, its rows and a seed, and the next
weights are one of the weights and the changes: who works any of them out does not matter, nor how
often.

Changes are combined as AdaGrad would have made them.  A lane moved a weight by about
``rate * sum of its gradients / sqrt(s)``, where s are the squares that it knew of by then; with the
squares of all lanes the step is ``sqrt(s / s of all)`` times that.  So a weight that one lane alone
has touched moves as far as that lane moved it, and of one that all have touched nobody's step is
lost or counted twice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from bigcat.dask.spare import Spare
from bigcat.linear import Weights
from bigcat.numerics.random import new_state
from bigcat.rows import Problem, as_rows
from bigcat.solvers import AdaGrad
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.passes import Passes
from bigcat.training.plan import Extent
from bigcat.training.snapshot import Snapshot
from bigcat.training.start import initial_weights
from bigcat.training.state import State

#: What keeps a factor finite where no square is known.
_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Whole:
    """What a lane has to know of all rows, beside its own.

    It is with a worker as long as the fit is, and so is the memory that rounds use again.

    Parameters
    ----------
    n_rows : int
    weight : float
        Sum of the rows' weights.
    n_features : int
    sparse : bool
    class_weights : array
        The sum of the rows' weights, a class each, in the order in which classes are trained.
    mean_size, usual_size, typical_size : float
        As in `bigcat.rows.Problem`.
    n_lanes : int
    head : array
        Classes that are kept exact.
    """

    n_rows: int
    weight: float
    n_features: int
    sparse: bool
    class_weights: np.ndarray
    mean_size: float
    usual_size: float
    typical_size: float
    n_lanes: int
    head: np.ndarray

    @functools.cached_property
    def spare(self) -> Spare:
        return Spare()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "spare"}

    @property
    def extent(self) -> Extent:
        """Of what a lane trains on: in an epoch its part of the rows, on average."""
        return Extent(self.n_rows, self.weight, -(-self.n_rows // self.n_lanes))


@dataclass(frozen=True)
class PartOfProblem(Problem):
    """Some rows of a problem whose others are elsewhere."""

    whole: Whole | None = None

    @property
    def mean_size(self) -> float:
        return self._whole.mean_size

    @property
    def usual_size(self) -> float:
        return 1.0 if self.unit_rows else self._whole.usual_size

    @property
    def typical_size(self) -> float:
        return 1.0 if self.unit_rows else self._whole.typical_size

    def class_weights(self) -> np.ndarray:
        return self._whole.class_weights

    @property
    def _whole(self) -> Whole:
        assert self.whole is not None
        return self.whole


class Turn(NamedTuple):
    """Which steps a lane makes: all that decides them beside weights and rows."""

    seed: int
    epoch: int
    #: Steps that a lane has made before, for rates that fall.
    iteration: int


class Slices(NamedTuple):
    """Weights cut into runs of their major rows, which different machines may combine."""

    n_majors: int
    n_classes: int
    n_slices: int

    def majors(self, number: int) -> slice:
        return _run(self.n_majors, self.n_slices, number)

    def classes(self, number: int) -> slice:
        """Of the intercepts."""
        return _run(self.n_classes, self.n_slices, number)


def _run(n: int, n_parts: int, number: int) -> slice:
    return slice(n * number // n_parts, n * (number + 1) // n_parts)


@dataclass
class Trained:
    """Weights in the layout of training, and what the solver remembers of each."""

    weights: np.ndarray
    intercepts: np.ndarray
    weights_state: np.ndarray
    intercepts_state: np.ndarray

    @classmethod
    def of(cls, state: State) -> Self:
        return cls(state.weights, state.intercepts, state.weights_state, state.intercepts_state)

    def copy(self, spare: Spare | None = None) -> Trained:
        return Trained.joined([self], spare)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in vars(self).values())

    def __sizeof__(self) -> int:
        return self.nbytes

    def part(self, slices: Slices, number: int) -> Trained:
        """A view of one of the slices."""
        majors, classes = slices.majors(number), slices.classes(number)
        return Trained(
            self.weights[majors],
            self.intercepts[classes],
            self.weights_state[majors],
            self.intercepts_state[classes],
        )

    @classmethod
    def joined(cls, parts: Sequence[Trained], spare: Spare | None = None) -> Trained:
        """All slices as one, which is a copy."""
        spare, found = spare or Spare(), {}
        for name, first in vars(parts[0]).items():
            arrays = [getattr(part, name) for part in parts]
            out = spare.empty_like(first, sum(map(len, arrays)))
            found[name] = np.concatenate(arrays, out=out)
        return cls(**found)

    def snapshot(self) -> Snapshot:
        return Snapshot(arrays=dict(vars(self)))

    @classmethod
    def restored(cls, kept: Snapshot) -> Self:
        return cls(**{name: array.copy() for name, array in kept.arrays.items()})


@dataclass(frozen=True)
class Change:
    """What a lane has changed of a slice: differences, of those major rows that moved.

    `majors` is None where nearly all moved: then there is a difference for every one.
    """

    majors: np.ndarray | None
    weights: np.ndarray
    weights_state: np.ndarray
    intercepts: np.ndarray
    intercepts_state: np.ndarray

    @classmethod
    def between(cls, before: Trained, now: Trained) -> Change:
        """`now` is used up."""
        moved = np.empty(len(now.weights), bool)
        for some in in_cache(now.weights):
            weights, squares = now.weights[some], now.weights_state[some]
            weights -= before.weights[some]
            squares -= before.weights_state[some]
            moved[some] = weights.any(axis=1) | squares.any(axis=1)
        now.intercepts -= before.intercepts
        now.intercepts_state -= before.intercepts_state
        others = (now.intercepts, now.intercepts_state)
        if moved.mean() > NEARLY_ALL:
            return cls(None, now.weights, now.weights_state, *others)
        majors = np.flatnonzero(moved)
        return cls(majors, now.weights[majors], now.weights_state[majors], *others)

    @property
    def where(self) -> np.ndarray | slice:
        """Places of the major rows."""
        return slice(None) if self.majors is None else self.majors

    def runs(self) -> Iterator[tuple[slice, np.ndarray | slice]]:
        """Some of the rows at a time, and their places."""
        for some in in_cache(self.weights):
            yield some, some if self.majors is None else self.majors[some]

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in vars(self).values() if a is not None)

    def __sizeof__(self) -> int:
        """For schedulers that ask how large things are before they move them."""
        return self.nbytes


#: Where more than this part of the rows moved, differences of all are quicker than picking some.
NEARLY_ALL = 0.8
#: Numbers that stay in a core's cache.  Dask has its workers give back to the system whatever takes
#: more than 128 KiB, so that larger temporaries would be new memory each time.
CACHED = 1 << 14


def in_cache(array: np.ndarray) -> Iterator[slice]:
    """Runs of rows whose temporaries a core's cache holds: memory is what a round waits for."""
    step = max(1, CACHED // max(array.shape[1], 1))
    return (slice(first, first + step) for first in range(0, len(array), step))


class LaneChanges(NamedTuple):
    """What a lane has changed in a round, slice by slice."""

    slices: list[Change]
    #: Sum of the values of the rows.
    value: float
    #: Of all slices.
    n_bytes: int

    def only(self, number: int) -> LaneChanges:
        """One of the slices, for who combines it."""
        return self._replace(slices=[self.slices[number]])


def check_config(config: FitConfig) -> None:
    """Raise for parts whose changes cannot be combined."""
    solver, bound = config.parts.solver, config.parts.bound
    if not isinstance(solver, AdaGrad):
        raise ValueError(
            f"solver={solver.name!r} does not say how to combine the steps of several machines; "
            "take solver='adagrad' or 'auto'"
        )
    if bound.n_local:
        raise ValueError(
            f"method={bound.name!r} keeps numbers of its own for each row, and rows have none "
            "between rounds; take method='auto', 'exact' or 'complementary'"
        )


def problem_of(config: FitConfig, sample: TrainingData, whole: Whole) -> PartOfProblem:
    """Some rows, in the form that kernels take."""
    n_features, n_classes = whole.n_features, len(whole.class_weights)
    dtype = config.kind.working_dtype(sample.X.dtype, n_features, n_classes)
    return PartOfProblem(
        as_rows(sample.X, dtype),
        sample.labels,
        sample.row_weights,
        n_features,
        n_classes,
        l2=config.l2,
        fit_intercept=config.fit_intercept,
        unit_rows=config.kind.scales_rows,
        head=whole.head,
        whole=whole,
    )


def begin(
    config: FitConfig,
    whole: Whole,
    no_rows: TrainingData,
    seed: int,
    start: tuple[Weights, np.ndarray] | None = None,
) -> Trained:
    """Where a fit starts: given weights, or the config's own; `no_rows` are of the right form."""
    random_state = np.random.RandomState(seed)
    problem = problem_of(config, no_rows, whole)
    if start is None:
        start = initial_weights(problem, config.parts, config.kind, random_state)
    return Trained.of(State.new(problem, config.parts, config.kind, start, random_state))


def model_of(
    config: FitConfig, whole: Whole, no_rows: TrainingData, trained: Trained
) -> tuple[Weights, np.ndarray]:
    """Weights and intercepts as models have them."""
    problem = problem_of(config, no_rows, whole)
    return config.kind.as_weights(trained.weights, problem), trained.intercepts


def train_lane(
    config: FitConfig, whole: Whole, sample: TrainingData, before: Sequence[Trained], turn: Turn
) -> LaneChanges:
    """One pass over some rows, in random order, from weights in slices."""
    problem = problem_of(config, sample, whole)
    random_state = np.random.RandomState(turn.seed)
    now = Trained.joined(before, whole.spare)
    initial_local = config.parts.bound.initial_local(config.parts.noise, now.intercepts)
    state = State(
        **vars(now),
        local=initial_local[problem.labels],
        rng=new_state(random_state),
        iteration=turn.iteration,
        epoch=turn.epoch,
    )
    passes = Passes(
        problem,
        config.parts,
        config.kind,
        state,
        batch_size=config.batch_size,
        max_epochs=config.max_epochs,
        random_state=random_state,
        extent=whole.extent,
    )
    passes.begin_epoch(turn.epoch, config.max_epochs)
    value = passes.train(0, problem.n_rows)
    passes.end_epoch()
    slices = Slices(len(now.weights), len(now.intercepts), len(before))
    parts = (now.part(slices, number) for number in range(slices.n_slices))
    changes = [Change.between(b, n) for b, n in zip(before, parts)]
    return LaneChanges(changes, value, sum(change.nbytes for change in changes))


def combine(before: Trained, changes: Sequence[Change], spare: Spare | None = None) -> Trained:
    """The weights after a round, or a slice of them."""
    now = before.copy(spare)
    for change in changes:
        for some, where in change.runs():
            now.weights_state[where] += change.weights_state[some]
        now.intercepts_state += change.intercepts_state
    for change in changes:
        for some, where in change.runs():
            known = before.weights_state[where] + change.weights_state[some]
            share = _share(known, now.weights_state[where])
            now.weights[where] += change.weights[some] * share
        known = before.intercepts_state + change.intercepts_state
        now.intercepts += change.intercepts * _share(known, now.intercepts_state)
    return now


def _share(known: np.ndarray, of_all: np.ndarray) -> np.ndarray:
    """What a step by the squares that a lane knew of is worth by those of all."""
    tiny = known.dtype.type(_TINY)
    share: np.ndarray = np.sqrt((known + tiny) / (of_all + tiny))
    return share
