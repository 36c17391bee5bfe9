"""A fit on a cluster: each candidate in rounds, stacking, all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
from distributed import Future

from bigcat.dask.cluster import Cluster
from bigcat.dask.local_sgd import GlobalStatistics, TrainedWeights
from bigcat.dask.rounds import Rounds
from bigcat.dask.rows import (
    Block,
    ClassNumbers,
    concatenated,
    held_rows,
    labels_at_end,
    training_rows,
)
from bigcat.dask.survey import Survey
from bigcat.linear import LinearModel, Weights, weighted_sum
from bigcat.solvers import DivergedError
from bigcat.training import progress
from bigcat.training.config import FitConfig, FitPlan
from bigcat.training.data import TrainingData
from bigcat.training.ensemble import candidate_results, numbering, selection_of
from bigcat.training.fit import (
    Callbacks,
    DivergedFit,
    FitResult,
    InterruptedFit,
    StoppedFit,
    rows_per_look,
)
from bigcat.training.history import History
from bigcat.training.loop import Listener, run_epochs
from bigcat.training.model_view import ModelView
from bigcat.training.record import Record, Stage
from bigcat.training.snapshot import Snapshot
from bigcat.training.stacking import Stacked, ValidationScores, max_rows_scored, stack
from bigcat.training.state import scores_of_frequencies
from bigcat.training.validation import n_validation_rows

#: Rounds of a fit, and of one with two workers at most; fewer rounds cost quality.
ROUNDS, ROUNDS_OF_TWO_WORKERS = 256, 128

Start = tuple[Weights, np.ndarray]
N_ROWS = attrgetter("n_rows")


# Tasks


def hold_out(numbers: ClassNumbers, survey: Survey, at_ends: list[np.ndarray]) -> ClassNumbers:
    """Return the numbers with the classes that keep a row without the ends of all blocks."""
    left = survey.counts[survey.order] - np.sum(at_ends, axis=0)
    return replace(numbers, may_be_held=left > 0)


def log_likelihoods(
    config: FitConfig,
    statistics: GlobalStatistics,
    trained: TrainedWeights,
    samples: list[TrainingData],
) -> tuple[float, float]:
    """Return the log-likelihood of rows, and their weight."""
    model = trained.model(config, statistics)
    weights = [float(data.row_weights.sum()) for data in samples]
    found = [w * model.mean_log_likelihood(*data[:3]) for w, data in zip(weights, samples) if w]
    return sum(found), sum(weights)


def stacked_on(
    configs: list[FitConfig],
    statistics: list[GlobalStatistics],
    trained: list[TrainedWeights],
    held: list[TrainingData],
    seed: int,
) -> tuple[Stacked, TrainingData]:
    """Return stacking weights, and the validation rows without their values."""
    models = [one.model(*its) for one, its in zip(trained, zip(configs, statistics))]
    base = base_scores(configs[0], statistics[0].class_weights)
    found = ValidationScores.of(models, base, concatenated(held), np.random.RandomState(seed))
    return stack(found, configs[0].parts.noise), found.data._replace(X=None)


def base_scores(config: FitConfig, class_weights: np.ndarray) -> np.ndarray:
    """Return the scores of the class frequencies."""
    if not config.fit_intercept:
        return np.zeros(len(class_weights))
    return scores_of_frequencies(class_weights, config.parts.noise)


def added(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the sums of the items of tuples."""
    return tuple(sum(some) for some in zip(*parts))


@dataclass
class RoundsFit:
    """A fit of one configuration in rounds.

    Parameters
    ----------
    blocks : list of lists of Block
        Of each worker.
    held : list of Future of TrainingData
        Rows of the blocks that are held out.
    validation : list of Future of TrainingData
        Validation rows, which are scored after each epoch if `watches`.
    """

    cluster: Cluster
    config: FitConfig
    blocks: list[list[Block]]
    held: list[Future[TrainingData]]
    survey: Future[Survey]
    numbers: Future[ClassNumbers]
    found: Survey
    seed: int
    rows_per_round: int | None
    callbacks: Callbacks
    stage: Stage
    before: History
    validation: list[Future[TrainingData]]
    watches: bool

    def run(self, start: Start | None) -> bool:
        """Make the rounds; return False after an interruption."""
        cluster, config, found = self.cluster, self.config, self.found
        n_workers = len(self.blocks)
        number_of = numbering(found.classes[found.order])
        self.head = config.parts.sampler.head_of(found.weights[found.order], number_of)
        known = (self.survey, self.numbers, self.held, n_workers, self.head)
        self.statistics = cluster.submit("statistics", GlobalStatistics.of, *known)
        given = None if start is None else cluster.put(start)
        self.rounds = Rounds(
            cluster,
            config,
            self.blocks,
            self.statistics,
            self.numbers,
            cluster.result(cluster.submit("weight", attrgetter("weight"), self.statistics)),
            self._rows_per_round(n_workers),
            cluster.submit(
                "start", TrainedWeights.start, config, self.statistics, self.seed, given
            ),
            self.seed,
        )
        bound = config.parts.bound
        label = self.stage.label(bound.name)
        how = (self.callbacks.progress, config.max_epochs, label, bound.word)
        with progress.reporter(*how) as report:
            self.record = Record(config.stop(), report, config.max_epochs, self.before, self.stage)
            try:
                checkpointer = self.callbacks.checkpointer
                run_epochs(self.rounds, config.max_epochs, RoundsListener(self), checkpointer)
            except KeyboardInterrupt:
                if not self.record.history:
                    raise
                return False
            except DivergedError as error:
                raise DivergedFit(str(error), None) from None
        return True

    def _rows_per_round(self, n_workers: int) -> int:
        if self.rows_per_round is not None:
            return self.rows_per_round
        n_rounds = ROUNDS_OF_TWO_WORKERS if n_workers <= 2 else ROUNDS
        per_epoch = -(-n_rounds // self.config.max_epochs)
        return max(self.found.n_rows // (n_workers * per_epoch), self.config.batch_size)

    def log_likelihood(
        self, samples: list[Future[TrainingData]], trained: Future[TrainedWeights]
    ) -> float:
        """Return the mean over rows, some of which each worker scores."""
        n = self.cluster.n_workers
        model = (self.config, self.statistics, trained)
        sums = [
            self.cluster.submit("score", log_likelihoods, *model, samples[i::n], worker=i)
            for i in range(min(n, len(samples)))
        ]
        total, weight = added(self.cluster.results(sums)) if sums else (0.0, 0.0)
        return total / weight if weight else float("nan")

    def training_sample(self) -> list[Future[TrainingData]]:
        """Return some training rows if the objective says nothing about the log-likelihood."""
        if self.config.parts.bound.is_bound:
            return []
        block = self.blocks[0][0]
        n = min(block.n_rows, rows_per_look(len(self.found.classes)))
        arguments = (block.rows, self.numbers, 0, n, block.end, 0)
        return [self.cluster.submit("sample", training_rows, *arguments, worker=0)]

    @property
    def trained(self) -> Future[TrainedWeights]:
        """Weights of the last round, or of the best epoch."""
        kept = self.record.best.kept
        return self.rounds.now if kept is None else kept

    def model(self, trained: Future[TrainedWeights]) -> LinearModel:
        """Return weights in this process."""
        statistics = self.cluster.fetch(self.statistics)
        found: LinearModel = self.cluster.fetch(trained).model(self.config, statistics)
        return found

    def result(self) -> FitResult:
        """Return the fit result."""
        model = self.model(self.trained)
        return FitResult.checked(
            model.weights,
            model.intercept,
            self.record.history,
            self.config.parts.solver.divergence_remedy,
            exact_classes=self.head,
            seconds=self.record.seconds,
        )


class RoundsListener(Listener):
    """Listener that forwards events of the loop to the record of a fit."""

    def __init__(self, fit: RoundsFit) -> None:
        self.fit, self.record = fit, fit.record
        self.training = fit.training_sample()

    def compiled(self, seconds: float) -> None:
        self.record.compiled(seconds)

    def chunk_done(self, part: float, value: float) -> None:
        self.record.chunk_done(part, value)

    def epoch_done(self, value: float, seconds: float) -> bool:
        fit, now, keeps = self.fit, self.fit.rounds.now, self.fit.config.validation_fraction
        watched = fit.watches or keeps
        score = fit.log_likelihood(fit.validation, now) if watched else float("nan")
        columns = {
            "objective": float(value),
            "bound": float(value) if fit.config.parts.bound.is_bound else float("nan"),
            "log_likelihood": fit.log_likelihood(self.training, now),
            "validation_log_likelihood": score,
        }
        stop = self.record.add(
            seconds,
            columns,
            watched=score if keeps else value,
            keep=(lambda: now) if keeps else None,
        )
        classes = fit.found.classes[fit.found.order]
        view = ModelView(lambda: fit.model(now), lambda X: X, classes)
        return fit.callbacks.on_epoch_end(self.record.history[-1], view) or stop

    def snapshot(self) -> Snapshot:
        kept = self.record.snapshot()
        best = self.record.best.kept
        if best is not None:
            kept.put("best", self.fit.cluster.fetch(best).snapshot())
        return kept

    def restore(self, kept: Snapshot) -> None:
        best, of_best = kept.part("best"), None
        if best.arrays:
            of_best = self.fit.cluster.put(TrainedWeights.restored(best))
        self.record.restore(kept, of_best)


@dataclass
class ClusterFit:
    """A plan carried out on the rows of a cluster.

    Parameters
    ----------
    blocks : list of lists of Block
        Of each worker.
    survey, numbers : Future
        Of `Survey` and `ClassNumbers`.
    found : Survey
        The survey itself.
    given : list of Future of TrainingData or None
        Validation rows of the user.
    """

    cluster: Cluster
    plan: FitPlan
    blocks: list[list[Block]]
    survey: Future[Survey]
    numbers: Future[ClassNumbers]
    found: Survey
    seed: int
    rows_per_round: int | None
    given: list[Future[TrainingData]] | None
    callbacks: Callbacks
    history: History = field(default_factory=History)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.callbacks = self.callbacks.watched_by(self._stop)

    def _stop(self) -> None:
        self.stopped = True

    def run(self, start: Start | None) -> FitResult:
        """Carry out the plan; fit its first candidate alone from given weights."""
        if start is not None:
            start = start[0].take(self.found.order), start[1][self.found.order]
        try:
            result = self._in_rounds(start)
        except StoppedFit as stop:
            result = stop.result
        except InterruptedFit as interruption:
            raise InterruptedFit(self._in_order_of_labels(interruption.result)) from None
        return self._in_order_of_labels(result)

    def _in_order_of_labels(self, result: FitResult) -> FitResult:
        number = np.argsort(self.found.order)
        result.weights = result.weights.take(number)
        result.intercept = result.intercept[number]
        result.exact_classes = np.sort(self.found.order[result.exact_classes])
        return result

    def _in_rounds(self, start: Start | None) -> FitResult:
        plan, stacks = self.plan, self.plan.stacks and start is None
        blocks, numbers, held = self.blocks, self.numbers, list[Future[TrainingData]]()
        if self.given is None and (stacks or plan.first.validation_fraction is not None):
            blocks, numbers, held = self._held_out()
        validation = self.given or held
        candidates = plan.candidates if stacks else plan.candidates[:1]
        stage = "validation" if stacks and validation else "fit"
        fits = [
            self._fit(i, stage, blocks, numbers, held, validation, start)
            for i in range(len(candidates))
        ]
        seconds = np.array([fit.record.seconds for fit in fits])
        if stage == "fit":
            shares = np.full(len(fits), 1.0 / len(fits))
            result = self._sum(list(zip(shares, fits)), 1.0)
            result.selection = selection_of(plan, candidate_results(candidates, shares, seconds))
            return result
        arguments = (
            [fit.config for fit in fits],
            [fit.statistics for fit in fits],
            [fit.trained for fit in fits],
            self._few_enough(validation),
            self.seed,
        )
        stacked, rows = self.cluster.result(self.cluster.submit("stack", stacked_on, *arguments))
        table = candidate_results(candidates, stacked.weights, seconds, stacked, rows)
        chosen = [i for i, weight in enumerate(stacked.weights) if weight > 0.0]
        refits = plan.refits and self.given is None
        if refits:
            for i in chosen:
                fits[i] = self._fit(i, "refit", self.blocks, self.numbers, [], [], None)
        parts = [(float(stacked.weights[i]), fits[i]) for i in chosen]
        result = self._sum(parts or [(0.0, fits[0])], stacked.frequency_weight)
        result.selection = selection_of(plan, table, stacked, rows, refits)
        return result

    def _fit(
        self,
        number: int,
        stage: str,
        blocks: list[list[Block]],
        numbers: Future[ClassNumbers],
        held: list[Future[TrainingData]],
        validation: list[Future[TrainingData]],
        start: Start | None,
    ) -> RoundsFit:
        """Fit a candidate in rounds."""
        candidate = self.plan.candidates[number]
        fit = RoundsFit(
            self.cluster,
            candidate.config,
            blocks,
            held,
            self.survey,
            numbers,
            self.found,
            self.seed + number,
            self.rows_per_round,
            self.callbacks,
            Stage(stage, candidate.name),
            self.history,
            validation,
            self.given is not None,
        )
        went_on = fit.run(start)
        self.history.extend(fit.record.history)
        if self.history.forecast_seconds is None:
            self.history.forecast_seconds = fit.record.history.forecast_seconds
        if self.stopped or not went_on:
            result = self._sum([(1.0, fit)], 1.0)
            result.selection = selection_of(self.plan, [])
            raise StoppedFit(result) if went_on else InterruptedFit(result)
        return fit

    def _sum(self, parts: list[tuple[float, RoundsFit]], frequency_weight: float) -> FitResult:
        """Return the model whose scores are the weighted sum."""
        results = [fit.result() for _, fit in parts]
        weights = [weight for weight, _ in parts]
        statistics: GlobalStatistics = self.cluster.fetch(parts[0][1].statistics)
        base = base_scores(self.plan.first, statistics.class_weights)
        intercept = frequency_weight * base
        for weight, result in zip(weights, results):
            intercept = intercept + weight * (result.intercept - base)
        return replace(
            results[0],
            weights=weighted_sum(weights, [result.weights for result in results]),
            intercept=np.asarray(intercept, np.float32),
            history=self.history,
        )

    def _few_enough(self, validation: list[Future[TrainingData]]) -> list[Future[TrainingData]]:
        """Return some of the groups of validation rows if scoring all would take long."""
        submit = self.cluster.submit
        counts = self.cluster.results([submit("n", N_ROWS, rows) for rows in validation])
        softmax = self.plan.first.parts.noise.softmax
        most = max_rows_scored(len(self.found.classes), softmax)
        before = np.cumsum([0, *counts[:-1]])
        return [rows for rows, n in zip(validation, before) if n < most]

    def _held_out(
        self,
    ) -> tuple[list[list[Block]], Future[ClassNumbers], list[Future[TrainingData]]]:
        """Hold out the last rows of every block, but no class loses all its rows."""
        n, config = self.found.n_rows, self.plan.first
        wanted = min(n_validation_rows(n), n // 5)
        if config.validation_fraction is not None:
            wanted = round(config.validation_fraction * n)
        blocks = [
            [replace(b, end=b.n_rows - min(-(-wanted * b.n_rows // n), b.n_rows)) for b in some]
            for some in self.blocks
        ]

        def at_ends(
            function: Callable[..., Any], numbers: Future[ClassNumbers]
        ) -> list[Future[Any]]:
            submit = self.cluster.submit
            return [
                submit("end", function, b.rows, numbers, b.end, b.n_rows, worker=worker)
                for worker, some in enumerate(blocks)
                for b in some
                if b.end < b.n_rows
            ]

        submit, ends = self.cluster.submit, at_ends(labels_at_end, self.numbers)
        numbers = submit("numbers", hold_out, self.numbers, self.survey, ends)
        held = at_ends(held_rows, numbers)
        if not sum(self.cluster.results([submit("n", N_ROWS, rows) for rows in held])):
            if config.validation_fraction is not None:
                raise ValueError(
                    "no validation row has a class that is left in the training rows; give X_val "
                    "and y_val or set early_stopping=False"
                )
            return self.blocks, self.numbers, []
        return blocks, numbers, held
