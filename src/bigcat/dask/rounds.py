"""Rounds of local SGD on a cluster, driven by the one loop of every fit.

In a round each worker trains on some of its rows, and one more task combines their steps.  Weights
stay with the workers; they come here for checkpoints and at the end alone.  Dask repeats the tasks
of a worker that was lost, with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from distributed import Future

from bigcat.dask.cluster import Cluster
from bigcat.dask.local_sgd import (
    STEPS_PER_TASK,
    GlobalStatistics,
    RoundSeed,
    Steps,
    TrainedWeights,
    stepped,
    sum_steps,
    train_part,
)
from bigcat.dask.rows import Block, ClassNumbers, FolderRows, MemoryRows, training_rows
from bigcat.training.config import FitConfig
from bigcat.training.loop import Process
from bigcat.training.snapshot import Place, Snapshot


class Piece(NamedTuple):
    """Rows of a block that a worker visits in a round."""

    block: int
    first: int
    last: int
    seed: int


class Round(NamedTuple):
    """Results of a round that the cluster works on."""

    weights: Future[TrainedWeights]
    value: Future[float]


# Tasks


def train_piece(
    config: FitConfig,
    statistics: GlobalStatistics,
    numbers: ClassNumbers,
    rows: MemoryRows | FolderRows,
    before: TrainedWeights,
    piece: Piece,
    end: int,
    turn: RoundSeed,
) -> Steps | None:
    """Train on a piece of a block; return None for a piece without rows."""
    data = training_rows(rows, numbers, piece.first, piece.last, end, piece.seed)
    return train_part(config, statistics, data, before, turn) if data.n_rows else None


class Rounds(Process):
    """A `bigcat.training.loop.Process`: an epoch on a cluster.

    Parameters
    ----------
    blocks : list of lists of Block
        Of each worker.
    statistics, numbers : Future
        Large if there are many classes.
    weight : float
        Of the training rows.
    rows_per_round : int
        Rows that each worker visits in a round.
    start : Future of TrainedWeights
    """

    def __init__(
        self,
        cluster: Cluster,
        config: FitConfig,
        blocks: list[list[Block]],
        statistics: Future[GlobalStatistics],
        numbers: Future[ClassNumbers],
        weight: float,
        rows_per_round: int,
        start: Future[TrainedWeights],
        seed: int,
    ) -> None:
        self.cluster, self.config, self.blocks = cluster, config, blocks
        self.statistics, self.numbers, self.seed = statistics, numbers, seed
        self.rows_per_round = rows_per_round
        self.n_rows = sum(block.n_rows for some in blocks for block in some)
        self.total_weight, self.epochs_made, self.remembers = weight, 0, False
        rows_per_worker = -(-self.n_rows // len(blocks))
        self.steps_per_epoch = -(-rows_per_worker // config.batch_size)
        self.now = start
        #: Keeps what `now` is computed from, in case the worker that has it is lost.
        self.before: Future[TrainedWeights] | None = None
        #: The next round of this epoch, which is handed out before this one has ended.
        self.ahead: Round | None = None

    # Called by the loop

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        self.epoch, self.ahead = epoch, None
        self.pieces = [self._pieces_of(worker) for worker in range(len(self.blocks))]
        self.n_rounds = max(map(len, self.pieces))
        rows = [
            sum(p[r].last - p[r].first for p in self.pieces if r < len(p))
            for r in range(self.n_rounds)
        ]
        self.edges = [0, *np.cumsum(rows).tolist()]

    def chunk(self, first: int, seconds: float | None) -> int:
        return int(self.edges[self.edges.index(first) + 1])

    def train(self, first: int, last: int) -> float:
        if last == 0:  # the workers compile by themselves
            self.cluster.wait([self.now])
            return 0.0
        number = self.edges.index(first)
        this = self.ahead or self._submit(number, self.now)
        self.ahead = None
        if number + 1 < self.n_rounds:
            self.ahead = self._submit(number + 1, this.weights)
        value = self.cluster.result(this.value)
        self.before, self.now = self.now, this.weights
        return float(value)

    def end_epoch(self) -> None:
        self.ahead = None  # of an epoch that was interrupted

    def diverged(self, value: float) -> str:
        bound, solver = self.config.parts.bound, self.config.parts.solver
        return (
            f"the {bound.name} {bound.word} became {value} in epoch {self.epochs_made + 1}; "
            f"{solver.divergence_remedy}"
        )

    def snapshot(self, ended: bool) -> Snapshot:
        kept = Snapshot({"epochs_made": self.epochs_made})
        return kept.put("trained", self.cluster.fetch(self.now).snapshot())

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        self.epochs_made = kept.numbers["epochs_made"]
        self.now = self.cluster.put(TrainedWeights.restored(kept.part("trained")))
        if place.epoch < n_epochs:
            self.begin_epoch(place.epoch, n_epochs)

    # Tasks of a round

    def _submit(self, number: int, before: Future[TrainedWeights]) -> Round:
        submit = self.cluster.submit
        steps: Sequence[Future[Steps | None]] = [
            self._train(worker, pieces[number], number, before)
            for worker, pieces in enumerate(self.pieces)
            if number < len(pieces)
        ]
        while True:
            groups = [steps[i : i + STEPS_PER_TASK] for i in range(0, len(steps), STEPS_PER_TASK)]
            steps = [
                submit("sum", sum_steps, before, group, worker=i * STEPS_PER_TASK)
                for i, group in enumerate(groups)
            ]
            if len(steps) == 1:
                break
        weights = submit("step", stepped, before, steps[0], worker=0)
        return Round(weights, submit("value", attrgetter("value"), steps[0], worker=0))

    def _train(
        self, worker: int, piece: Piece, number: int, before: Future[TrainedWeights]
    ) -> Future[Steps | None]:
        block = self.blocks[worker][piece.block]
        made = self.epoch * self.steps_per_epoch + self.steps_per_epoch * number // self.n_rounds
        turn = RoundSeed(_seed(self.seed, self.epoch, worker, 0, number), self.epoch, made)
        arguments = (self.statistics, self.numbers, block.rows, before, piece, block.end, turn)
        return self.cluster.submit("train", train_piece, self.config, *arguments, worker=worker)

    def _pieces_of(self, worker: int) -> list[Piece]:
        """Return an epoch of a worker: its blocks in random order, each cut into rounds."""
        order = np.random.RandomState(_seed(self.seed, self.epoch, worker))
        found: list[Piece] = []
        for i in order.permutation(len(self.blocks[worker])):
            n = self.blocks[worker][i].n_rows
            seed = _seed(self.seed, self.epoch, worker, int(i))
            cuts = cut_rows(n, self.rows_per_round, self.config.batch_size)
            for j in order.permutation(len(cuts)):
                first, last = cuts[j]
                found.append(Piece(int(i), first, last, seed))
        return found


def cut_rows(n: int, per_round: int, batch_size: int) -> list[tuple[int, int]]:
    """Cut rows into rounds of whole batches; the last may have half as many more, or half."""
    per_round = batch_size * max(1, round(per_round / batch_size))
    starts = list(range(0, max(n - per_round // 2, 1), per_round))
    return list(pairwise([*starts, n]))


def _seed(*numbers: int) -> int:
    """Return a seed for each place of a fit."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
