"""Rounds on a cluster, as a process that the one loop of every fit drives.

A round is a few tasks: each lane trains on some of its rows, and one more task combines what they
changed.  Weights stay with the workers; they pass neither the scheduler nor this process, but for
checkpoints and at the end.  Whatever a lost worker held, Dask works out again, and comes to the
same bits, since every task is a function of its arguments alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from distributed import Future

from bigcat.dask.blocks import Block, Known, Numbered, Run, kept_rows
from bigcat.dask.cluster import Cluster
from bigcat.training.recipe import Recipe
from bigcat.training.rounds import Change, Trained, Turn, Whole, combine, train_lane
from bigcat.training.snapshot import Place, Snapshot


class Piece(NamedTuple):
    """What a lane visits in a round: rows of a block."""

    block: int
    first: int
    last: int
    seed: int


@dataclass(frozen=True)
class Combined:
    """The weights after a round, and what the rows of the round said."""

    trained: Trained
    value: float = 0.0
    #: Bytes of the changes that were combined.
    moved: int = 0


# What tasks do


def train_piece(
    recipe: Recipe,
    whole: Whole,
    known: Known,
    rows: Numbered | Run,
    before: Combined,
    piece: Piece,
    end: int,
    turn: Turn,
) -> Change | None:
    sample = kept_rows(rows, known, piece.first, piece.last, end, piece.seed)
    if not sample.n_rows:
        return None
    return train_lane(recipe, whole, sample, before.trained, turn)


def combine_changes(before: Combined, changes: Sequence[Change | None]) -> Combined:
    made = [change for change in changes if change is not None]
    return Combined(
        combine(before.trained, made),
        sum(change.value for change in made),
        sum(change.nbytes for change in made),
    )


def told_of(combined: Combined) -> tuple[float, int]:
    """What this process wants to know of a round."""
    return combined.value, combined.moved


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
    start : Future of Combined
    """

    def __init__(
        self,
        cluster: Cluster,
        recipe: Recipe,
        lanes: list[list[Block]],
        whole: Future[Whole],
        known: Future[Known],
        weight: float,
        rows_per_round: int,
        start: Future[Combined],
        seed: int,
    ) -> None:
        self.cluster, self.recipe, self.lanes = cluster, recipe, lanes
        self.whole, self.known, self.seed = whole, known, seed
        self.rows_per_round = rows_per_round
        self.n_rows = sum(block.n_rows for lane in lanes for block in lane)
        self.total_weight, self.epochs_made, self.remembers = weight, 0, False
        rows_of_lane = -(-self.n_rows // len(lanes))
        self.steps_per_epoch = -(-rows_of_lane // recipe.batch_size)
        self.now = start
        self.before: Future[Combined] | None = (
            None  # from which `now` is soon made again if it is lost
        )
        self.bytes_moved: list[int] = []

    # What the loop calls

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        self.epoch = epoch
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
        if last == 0:  # the workers compile by themselves
            return 0.0
        number = self.edges.index(first)
        changes = [
            self._train(lane, pieces[number], number)
            for lane, pieces in enumerate(self.pieces)
            if number < len(pieces)
        ]
        after = self.cluster.submit("combine", combine_changes, self.now, changes)
        value, moved = self.cluster.result(self.cluster.submit("told", told_of, after))
        self.before, self.now = self.now, after
        self.bytes_moved.append(moved)
        return float(value)

    def _train(self, lane: int, piece: Piece, number: int) -> Future[Change | None]:
        block = self.lanes[lane][piece.block]
        made = self.epoch * self.steps_per_epoch + self.steps_per_epoch * number // self.n_rounds
        turn = Turn(_seed(self.seed, self.epoch, lane, 0, number), self.epoch, made)
        arguments = (self.whole, self.known, block.rows, self.now, piece, block.end, turn)
        return self.cluster.submit("train", train_piece, self.recipe, *arguments, lane=lane)

    def end_epoch(self) -> None:
        pass

    def diverged(self, value: float) -> str:
        bound, solver = self.recipe.parts.bound, self.recipe.parts.solver
        return (
            f"the {bound.name} {bound.word} became {value} in epoch {self.epochs_made + 1}; "
            f"{solver.if_diverged}"
        )

    def snapshot(self, ended: bool) -> Snapshot:
        kept = Snapshot({"epochs_made": self.epochs_made})
        return kept.put("trained", self.trained().snapshot())

    def restore(self, kept: Snapshot, place: Place, n_epochs: int) -> None:
        self.epochs_made = kept.numbers["epochs_made"]
        self.now = self.cluster.put(Combined(Trained.restored(kept.part("trained"))))
        if place.epoch < n_epochs:
            self.begin_epoch(place.epoch, n_epochs)

    # Inside

    def trained(self) -> Trained:
        """The weights of now, in this process."""
        found: Combined = self.cluster.fetch(self.now)
        return found.trained

    def _pieces_of(self, lane: int) -> list[Piece]:
        """An epoch of a lane: its blocks in random order, each cut into rounds."""
        order = np.random.RandomState(_seed(self.seed, self.epoch, lane))
        found: list[Piece] = []
        for i in order.permutation(len(self.lanes[lane])):
            n = self.lanes[lane][i].n_rows
            seed = _seed(self.seed, self.epoch, lane, int(i))
            edges = np.linspace(0, n, max(1, round(n / self.rows_per_round)) + 1).astype(int)
            cuts = list(zip(edges.tolist(), edges[1:].tolist()))
            for j in order.permutation(len(cuts)):
                first, last = cuts[j]
                found.append(Piece(int(i), first, last, seed))
        return found


def _seed(*numbers: int) -> int:
    """One for each place of a fit."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])
