"""One fit on a cluster, in rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from distributed import Future
from sklearn.utils.class_weight import compute_class_weight

from bigcat.dask.blocks import Block, Known, Numbered, Run, kept_rows
from bigcat.dask.cluster import Cluster
from bigcat.dask.lanes import Slices, Trained, Whole, begin, model_of
from bigcat.dask.rounds import Combined, Rounds, State, cut, joined
from bigcat.dask.survey import Survey, no_rows
from bigcat.linear import LinearModel, Weights
from bigcat.solvers import DivergedError
from bigcat.training import progress
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.fit import (
    LEAST_ROWS,
    MOST_SCORES,
    Callbacks,
    DivergedFit,
    FitResult,
)
from bigcat.training.loop import run_epochs
from bigcat.training.model_view import ModelView
from bigcat.training.preprocess import MANY_CLASSES, by_frequency
from bigcat.training.record import Before, Record, Stage
from bigcat.training.snapshot import Snapshot

#: Rounds that a fit has at least, and with few lanes; with fewer rounds it costs quality.
ROUNDS, FEW_LANES, ROUNDS_OF_FEW_LANES = 256, 2, 128
#: From so many bytes of weights on they are combined in slices, of which there are so many at most.
BYTES_OF_SLICE, MOST_SLICES = 1 << 24, 16


def least_rounds(n_lanes: int) -> int:
    return ROUNDS_OF_FEW_LANES if n_lanes <= FEW_LANES else ROUNDS


# What tasks do


def know_classes(survey: Survey, class_weight: Any) -> Known:
    """`class_weight` as estimators have it."""
    order, factors = order_of(survey), None
    if isinstance(class_weight, str):
        present = survey.counts > 0
        each = survey.counts.sum() / (present.sum() * np.maximum(survey.counts, 1))
        factors = np.where(present, each, 0.0)[order]
    elif class_weight is not None:
        factors = compute_class_weight(class_weight, classes=survey.classes, y=survey.classes)[
            order
        ]
    return Known(survey.classes, np.argsort(order), factors)


def order_of(survey: Survey) -> np.ndarray:
    """Classes as they are trained."""
    if len(survey.classes) < MANY_CLASSES:
        return np.arange(len(survey.classes))
    return by_frequency(survey.weights)


def hold_classes(known: Known, survey: Survey, at_ends: list[np.ndarray]) -> Known:
    """With the classes that keep a row when all rows at the ends of blocks are held out."""
    left = survey.counts[order_of(survey)] - np.sum(at_ends, axis=0)
    return replace(known, may_be_held=left > 0)


def know_whole(
    survey: Survey, known: Known, held: list[TrainingData], n_lanes: int, head: np.ndarray
) -> Whole:
    weights = survey.weights[order_of(survey)].astype(np.float64)
    if known.factors is not None:
        weights = weights * known.factors
    n_rows = survey.n_rows
    for sample in held:
        weights = weights - np.bincount(sample.labels, sample.row_weights, len(weights))
        n_rows -= sample.n_rows
    return Whole(
        n_rows,
        float(weights.sum()),
        survey.sizes.n_features,
        survey.sizes.sparse,
        np.maximum(weights, 0.0),
        survey.lengths.mean(float(survey.weights.sum())),
        survey.usual_size,
        survey.typical_size,
        n_lanes,
        head,
    )


def model_after(
    config: FitConfig, whole: Whole, form: TrainingData, state: list[Combined]
) -> LinearModel:
    return LinearModel(*model_of(config, whole, form, joined(state)), config.parts.noise)


def log_likelihoods(
    config: FitConfig,
    whole: Whole,
    form: TrainingData,
    state: list[Combined],
    samples: list[TrainingData],
) -> tuple[float, float]:
    """Sum over some rows, and their weight."""
    model = model_after(config, whole, form, state)
    weights = [float(sample.row_weights.sum()) for sample in samples]
    return (
        sum(w * model.mean_log_likelihood(*sample[:3]) for w, sample in zip(weights, samples) if w),
        sum(weights),
    )


def some_kept(rows: Numbered | Run, known: Known, n: int, most: int, end: int) -> TrainingData:
    """Training rows to look at."""
    return kept_rows(rows, known, 0, min(n, most), end, 0)


@dataclass
class RoundsFit:
    """One configuration, on rows of a cluster.

    Parameters
    ----------
    blocks : list of lists of Block
        Of each lane.
    held : list of Future of TrainingData
        Rows of the blocks that are held out.
    head : array
        Classes that are kept exact.
    judges : list of Future of TrainingData
        Validation rows; they are looked at after each epoch if `watches`.
    """

    cluster: Cluster
    config: FitConfig
    blocks: list[list[Block]]
    held: list[Future[TrainingData]]
    survey: Future[Survey]
    known: Future[Known]
    found: Survey
    seed: int
    rows_per_round: int | None
    head: np.ndarray
    callbacks: Callbacks
    stage: Stage
    before: Before
    judges: list[Future[TrainingData]]
    watches: bool

    def run(self, start: tuple[Weights, np.ndarray] | None) -> bool:
        """Make the rounds; return False after an interruption."""
        cluster, config = self.cluster, self.config
        n_lanes = len(self.blocks)
        self.form = TrainingData(no_rows(self.found), np.empty(0, np.int64), np.empty(0))
        self.whole = cluster.submit(
            "whole", know_whole, self.survey, self.known, self.held, n_lanes, self.head
        )
        weight = cluster.result(cluster.submit("weight", _weight, self.whole))
        first = None if start is None else cluster.put(start)
        begun = cluster.submit("start", begin, config, self.whole, self.form, self.seed, first)
        self.rounds = Rounds(
            cluster,
            config,
            self.blocks,
            self.whole,
            self.known,
            weight,
            self._rows_per_round(n_lanes),
            begun,
            self._slices(n_lanes),
            self.seed,
        )
        bound = config.parts.bound
        label = self.stage.label(bound.name)
        how = (self.callbacks.progress, config.max_epochs, label, bound.word)
        with progress.reporter(*how) as report:
            self.record = Record(config.stop(), report, config.max_epochs, self.before, self.stage)
            try:
                keeper = self.callbacks.keeper
                run_epochs(self.rounds, config.max_epochs, _Watched(self), keeper)
            except KeyboardInterrupt:
                if not self.record.history:
                    raise
                return False
            except DivergedError as error:
                raise DivergedFit(str(error), None) from None
        return True

    def _slices(self, n_lanes: int) -> Slices:
        """As many as pay: each has a task for every lane in every round."""
        sizes = self.found.sizes
        n_majors, n_minors = self.config.kind.trained_shape(sizes)
        large = 4 * n_majors * n_minors >= BYTES_OF_SLICE
        return Slices(n_majors, sizes.n_classes, min(n_lanes, MOST_SLICES) if large else 1)

    def _rows_per_round(self, n_lanes: int) -> int:
        if self.rows_per_round is not None:
            return self.rows_per_round
        rounds = -(-least_rounds(n_lanes) // self.config.max_epochs)
        return max(self.found.n_rows // (n_lanes * rounds), self.config.batch_size)

    # After each epoch, and at the end

    def log_likelihood(self, samples: list[Future[TrainingData]], state: State) -> float:
        """Return the mean of rows, each group of which a task looks at."""
        if not samples:
            return float("nan")
        groups = [samples[i :: self.cluster.n_lanes] for i in range(self.cluster.n_lanes)]
        model = (self.config, self.whole, self.form, state)
        sums = self.cluster.results(
            [
                self.cluster.submit("judge", log_likelihoods, *model, group, lane=lane)
                for lane, group in enumerate(groups)
                if group
            ]
        )
        total, weight = np.sum(sums, axis=0)
        return float(total / weight) if weight else float("nan")

    def training_rows(self) -> list[Future[TrainingData]]:
        """Return some, where the objective says nothing about the log-likelihood."""
        if self.config.parts.bound.is_bound:
            return []
        most = max(MOST_SCORES // len(self.found.classes), LEAST_ROWS)
        block = self.rounds.lanes[0][0]
        arguments = (block.rows, self.known, block.n_rows, most, block.end)
        return [self.cluster.submit("some", some_kept, *arguments, lane=0)]

    @property
    def state(self) -> State:
        """Weights of the last round, or of the best epoch."""
        kept = self.record.best.kept
        return self.rounds.now if kept is None else kept

    def model(self, state: State) -> LinearModel:
        """Return the weights of a round, in this process."""
        whole, trained = self.cluster.fetch(self.whole), self.rounds.fetched(state)
        return model_after(self.config, whole, self.form, [Combined(trained)])

    def result(self) -> FitResult:
        """Return the fit, its classes in the order of their labels."""
        model, order = self.model(self.state), order_of(self.found)
        number = np.argsort(order)
        result = FitResult.checked(
            model.weights,
            model.intercept,
            self.record.history,
            self.config.parts.solver.if_diverged,
            head=np.sort(order[self.head]),
            best_epoch=self.record.best.epoch,
            seconds=self.record.seconds,
        )
        result.weights = result.weights.take(number)
        result.intercept = result.intercept[number]
        return result


def _weight(whole: Whole) -> float:
    return whole.weight


class _Watched:
    """Tells the record of a fit what the loop tells."""

    def __init__(self, fit: RoundsFit) -> None:
        self.fit, self.record = fit, fit.record
        self.compiled, self.chunk_done = fit.record.compiled, fit.record.chunk_done
        self.training = fit.training_rows()

    def epoch_done(self, value: float, seconds: float) -> bool:
        fit, now, keeps = self.fit, self.fit.rounds.now, self.fit.config.validation_fraction
        watched = fit.watches or keeps
        score = fit.log_likelihood(fit.judges, now) if watched else float("nan")
        is_bound = fit.config.parts.bound.is_bound
        columns = {
            "objective": float(value),
            "bound": float(value) if is_bound else float("nan"),
            "log_likelihood": fit.log_likelihood(self.training, now),
            "validation_log_likelihood": score,
        }
        stop = self.record.add(
            seconds,
            columns,
            watched=score if keeps else value,
            keep=(lambda: now) if keeps else None,
        )
        classes = fit.found.classes[order_of(fit.found)]
        view = ModelView(lambda: fit.model(now), lambda X: X, classes)
        return fit.callbacks.on_epoch_end(self.record.history[-1], view) or stop

    def snapshot(self) -> Snapshot:
        kept = self.record.snapshot()
        best = self.record.best.kept
        if best is not None:
            kept.put("best", self.fit.rounds.fetched(best).snapshot())
        return kept

    def restore(self, kept: Snapshot) -> None:
        best, of_best = kept.part("best"), None
        if best.arrays:
            cluster, slices = self.fit.cluster, self.fit.rounds.slices
            of_best = cut(cluster, cluster.put(Trained.restored(best)), slices)
        self.record.restore(kept, of_best)
