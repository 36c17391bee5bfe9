"""Rounds on a cluster, as a process that the one loop of every fit drives.

A round is a few tasks: each lane trains on some of its rows, and one more task combines what they
changed.  Weights stay with the workers; they pass neither the scheduler nor this process, but for
checkpoints and at the end.  Whatever a lost worker held, Dask works out again, and comes to the
same bits, since every task is a function of its arguments alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from distributed import Future

from bigcat.dask.blocks import Block, Known, Numbered, Run, kept_rows
from bigcat.dask.cluster import Cluster
from bigcat.dask.lanes import (
    LaneChanges,
    Slices,
    Trained,
    Turn,
    Whole,
    combine,
    train_lane,
)
from bigcat.training.config import FitConfig
from bigcat.training.snapshot import Place, Snapshot


class Piece(NamedTuple):
    """What a lane visits in a round: rows of a block."""

    block: int
    first: int
    last: int
    seed: int


@dataclass(frozen=True)
class Combined:
    """A slice of the weights after a round; the first tells what the rows of the round said."""

    trained: Trained
    value: float = 0.0
    #: Bytes of the changes of all lanes and slices.
    moved: int = 0

    def __sizeof__(self) -> int:
        """What Dask goes by when it decides where tasks run, and what to write to the disk."""
        return self.trained.nbytes


#: The weights after a round: a task for each slice.
State = list[Future[Combined]]


class Round(NamedTuple):
    """A round that was handed to the cluster."""

    after: State
    told: Future[tuple[float, int]]


# What tasks do


def train_piece(
    config: FitConfig,
    whole: Whole,
    known: Known,
    rows: Numbered | Run,
    before: list[Combined],
    piece: Piece,
    end: int,
    turn: Turn,
) -> LaneChanges | None:
    sample = kept_rows(rows, known, piece.first, piece.last, end, piece.seed)
    if not sample.n_rows:
        return None
    return train_lane(config, whole, sample, [part.trained for part in before], turn)


def joined(state: list[Combined]) -> Trained:
    """All weights."""
    return Trained.joined([combined.trained for combined in state])


def one_slice(changes: LaneChanges | None, number: int) -> LaneChanges | None:
    return changes and changes.only(number)


def combine_changes(
    whole: Whole, before: Combined, lanes: Sequence[LaneChanges | None]
) -> Combined:
    """What lanes have changed of one slice, which is the only one that each of them has here."""
    made = [lane for lane in lanes if lane is not None]
    return Combined(
        combine(before.trained, [lane.slices[0] for lane in made], whole.spare),
        sum(lane.value for lane in made),
        sum(lane.n_bytes for lane in made),
    )


def part_of_start(trained: Trained, slices: Slices, number: int) -> Combined:
    return Combined(trained.part(slices, number).copy())


def told_of(combined: Combined) -> tuple[float, int]:
    """What this process wants to know of a round."""
    return combined.value, combined.moved


def cut(cluster: Cluster, trained: Future[Trained], slices: Slices) -> State:
    """Weights that one task gave, as slices."""
    return [
        cluster.submit("slice", part_of_start, trained, slices, number)
        for number in range(slices.n_slices)
    ]


class Rounds:
    """A `bigcat.training.loop.Process`: what an epoch is on a cluster.

    Parameters
    ----------
    cluster : Cluster
    lanes : list of lists of Block
    whole, known : Future of Whole, of Known
        Large where there are many classes.
    weight : float
        Of the rows that are trained on.
    rows_per_round : int
        That a lane visits in one.
    start : Future of Trained
    slices : Slices
        Of the weights, each of which is combined by itself.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: FitConfig,
        lanes: list[list[Block]],
        whole: Future[Whole],
        known: Future[Known],
        weight: float,
        rows_per_round: int,
        start: Future[Trained],
        slices: Slices,
        seed: int,
    ) -> None:
        self.cluster, self.config, self.lanes = cluster, config, lanes
        self.whole, self.known, self.seed = whole, known, seed
        self.rows_per_round = rows_per_round
        self.n_rows = sum(block.n_rows for lane in lanes for block in lane)
        self.total_weight, self.epochs_made, self.remembers = weight, 0, False
        rows_of_lane = -(-self.n_rows // len(lanes))
        self.steps_per_epoch = -(-rows_of_lane // config.batch_size)
        self.slices = slices
        self.now: State = cut(cluster, start, slices)
        #: From which `now` is soon made again if it is lost.
        self.before: State = []
        #: The next round of this epoch, where it was handed out already.
        self.ahead: Round | None = None
        self.bytes_moved: list[int] = []

    # What the loop calls

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        self.epoch, self.ahead = epoch, None
        self.pieces = [self._pieces_of(lane) for lane in range(len(self.lanes))]
        self.n_rounds = max(map(len, self.pieces))
        rows = [
            sum(p[r].last - p[r].first for p in self.pieces if r < len(p))
            for r in range(self.n_rounds)
        ]
        self.edges = [0, *np.cumsum(rows).tolist()]

    def chunk(self, first: int, seconds: float | None) -> int:
        return int(self.edges[self.edges.index(first) + 1])

    def train(self, first: int, last: int) -> float:
        if last == 0:  # the workers compile by themselves; the weights to begin with are no pass
            self.cluster.wait(self.now)
            return 0.0
        number = self.edges.index(first)
        this = self.ahead or self._submit(number, self.now)
        # Workers that are done with this round need not wait for somebody to ask for the next.
        self.ahead = None
        if number + 1 < self.n_rounds:
            self.ahead = self._submit(number + 1, this.after)
        value, moved = self.cluster.result(this.told)
        self.before, self.now = self.now, this.after
        self.bytes_moved.append(moved)
        return float(value)

    def _submit(self, number: int, before: State) -> Round:
        """The tasks of a round of this epoch."""
        changes = {
            lane: self._train(lane, pieces[number], number, before)
            for lane, pieces in enumerate(self.pieces)
            if number < len(pieces)
        }
        after = [self._combine(i, before[i], changes) for i in range(self.slices.n_slices)]
        told = self.cluster.submit("told", told_of, after[0], lane=0)
        return Round(after, told)

    def _combine(
        self, number: int, before: Future[Combined], changes: dict[int, Future[LaneChanges | None]]
    ) -> Future[Combined]:
        """A slice of the next weights, on a lane of its own.

        Each lane cuts its own changes, so that only what is combined elsewhere goes elsewhere.
        """
        parts = list(changes.values())
        if self.slices.n_slices > 1:
            parts = [
                self.cluster.submit("part", one_slice, change, number, lane=lane)
                for lane, change in changes.items()
            ]
        lane = number * len(self.lanes) // self.slices.n_slices
        return self.cluster.submit("combine", combine_changes, self.whole, before, parts, lane=lane)

    def _train(
        self, lane: int, piece: Piece, number: int, before: State
    ) -> Future[LaneChanges | None]:
        block = self.lanes[lane][piece.block]
        made = self.epoch * self.steps_per_epoch + self.steps_per_epoch * number // self.n_rounds
        turn = Turn(_seed(self.seed, self.epoch, lane, 0, number), self.epoch, made)
        arguments = (self.whole, self.known, block.rows, before, piece, block.end, turn)
        return self.cluster.submit("train", train_piece, self.config, *arguments, lane=lane)

    def end_epoch(self) -> None:
        self.ahead = None  # of an epoch that was interrupted

    def diverged(self, value: float) -> str:
        bound, solver = self.config.parts.bound, self.config.parts.solver
        return (
            f"the {bound.name} {bound.word} became {value} in epoch {self.epochs_made + 1}; "
            f"{solver.if_diverged}"
        )

    def snapshot(self, ended: bool) -> Snapshot:
        kept = Snapshot({"epochs_made": self.epochs_made})
        return kept.put("trained", self.trained().snapshot())

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        self.epochs_made = kept.numbers["epochs_made"]
        trained = self.cluster.put(Trained.restored(kept.part("trained")))
        self.now = cut(self.cluster, trained, self.slices)
        if place.epoch < n_epochs:
            self.begin_epoch(place.epoch, n_epochs)

    # Inside

    def trained(self) -> Trained:
        """The weights of now, in this process."""
        return self.fetched(self.now)

    def fetched(self, state: State) -> Trained:
        """Weights of any round."""
        return joined([self.cluster.fetch(part) for part in state])

    def _pieces_of(self, lane: int) -> list[Piece]:
        """An epoch of a lane: its blocks in random order, each cut into rounds."""
        order = np.random.RandomState(_seed(self.seed, self.epoch, lane))
        found: list[Piece] = []
        for i in order.permutation(len(self.lanes[lane])):
            n = self.lanes[lane][i].n_rows
            seed = _seed(self.seed, self.epoch, lane, int(i))
            cuts = cut_rows(n, self.rows_per_round, self.config.batch_size)
            for j in order.permutation(len(cuts)):
                first, last = cuts[j]
                found.append(Piece(int(i), first, last, seed))
        return found


def cut_rows(n: int, per_round: int, batch_size: int) -> list[tuple[int, int]]:
    """Rounds of whole batches: a step on the few rows of a last one would be as long as any."""
    per_round = batch_size * max(1, round(per_round / batch_size))
    starts = list(range(0, max(n - per_round // 2, 1), per_round))
    return list(pairwise([*starts, n]))


def _seed(*numbers: int) -> int:
    """One for each place of a fit."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
