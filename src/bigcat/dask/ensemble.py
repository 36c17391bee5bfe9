"""A plan on a cluster: each candidate in rounds, stacking, all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from distributed import Future

from bigcat.dask.blocks import Block, Known, held_rows, labels_at_end, one_below_the_other
from bigcat.dask.cluster import Cluster
from bigcat.dask.fit import RoundsFit, hold_classes, model_after, order_of
from bigcat.dask.lanes import Whole
from bigcat.dask.rounds import Combined
from bigcat.dask.source import Lanes
from bigcat.dask.survey import Survey
from bigcat.linear import Weights, weighted_sum
from bigcat.training.config import FitConfig, FitPlan
from bigcat.training.data import TrainingData, n_validation_rows
from bigcat.training.ensemble import candidate_results, numbering, selection_of
from bigcat.training.fit import Callbacks, FitResult, InterruptedFit, StoppedFit
from bigcat.training.history import History
from bigcat.training.record import Before, Stage
from bigcat.training.stacking import Stacked, ValidationScores, max_rows_scored, stack
from bigcat.training.start import scores_of_frequencies

# What tasks do


def stacked_on(
    configs: list[FitConfig],
    wholes: list[Whole],
    form: TrainingData,
    states: list[list[Combined]],
    held: list[TrainingData],
    seed: int,
) -> tuple[Stacked, TrainingData]:
    """Return stacking weights, and the validation rows without their values."""
    models = [
        model_after(config, whole, form, state)
        for config, whole, state in zip(configs, wholes, states)
    ]
    base = base_scores(configs[0], wholes[0].class_weights)
    rows = one_below_the_other(held)
    found = ValidationScores.of(models, base, rows, np.random.RandomState(seed))
    return stack(found, configs[0].parts.noise), found.data._replace(X=None)


def base_scores(config: FitConfig, class_weights: np.ndarray) -> np.ndarray:
    """Return the scores of the class frequencies."""
    if not config.fit_intercept:
        return np.zeros(len(class_weights))
    return scores_of_frequencies(class_weights, config.parts.noise)


@dataclass
class ClusterFit:
    """A plan with rows on a cluster.

    Parameters
    ----------
    lanes : Lanes
    survey, known : Future
        Of `Survey` and `Known`.
    found : Survey
        The survey itself.
    validation : list of Future of TrainingData or None
        Validation rows, where the user gave some.
    """

    cluster: Cluster
    plan: FitPlan
    lanes: Lanes
    survey: Future[Survey]
    known: Future[Known]
    found: Survey
    seed: int
    rows_per_round: int | None
    validation: list[Future[TrainingData]] | None
    callbacks: Callbacks
    history: History = field(default_factory=History)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.callbacks = self.callbacks.watched_by(self._stop)

    def _stop(self) -> None:
        self.stopped = True

    def run(self, start: tuple[Weights, np.ndarray] | None) -> FitResult:
        """Carry out the plan, or its first candidate from given weights."""
        try:
            return self._run(start)
        except StoppedFit as stop:
            return stop.result

    def _run(self, start: tuple[Weights, np.ndarray] | None) -> FitResult:
        plan, stacks = self.plan, self.plan.stacks and start is None
        blocks, known, held = self._all_rows(), self.known, list[Future[TrainingData]]()
        if self.validation is None and (stacks or plan.first.validation_fraction):
            blocks, known, held = self._held_out()
        judges = self.validation or held
        if not (stacks and judges):
            candidates = plan.candidates if stacks else plan.candidates[:1]
            share = 1.0 / len(candidates)
            fits = [
                self._fit(i, "fit", blocks, known, held, judges, start)
                for i in range(len(candidates))
            ]
            result = self._sum([(share, fit) for fit in fits], 1.0)
            seconds = np.array([fit.record.seconds for fit in fits])
            nothing = candidate_results(candidates, np.full(len(fits), share), seconds)
            result.selection = selection_of(plan, nothing)
            return result
        trials = [
            self._fit(i, "validation", blocks, known, held, judges, None)
            for i in range(len(plan.candidates))
        ]
        arguments = (
            [fit.config for fit in trials],
            [fit.whole for fit in trials],
            trials[0].form,
            [fit.state for fit in trials],
            self._few_enough(judges),
            self.seed,
        )
        stacked, rows = self.cluster.result(self.cluster.submit("stack", stacked_on, *arguments))
        refits = plan.refits and self.validation is None
        chosen = [i for i, weight in enumerate(stacked.weights) if weight > 0.0]
        fits = [trials[i] for i in chosen]
        if refits:
            fits = [
                self._fit(i, "refit", self._all_rows(), self.known, [], [], None) for i in chosen
            ]
        parts = [(float(stacked.weights[i]), fit) for i, fit in zip(chosen, fits)]
        result = self._sum(parts or [(0.0, trials[0])], stacked.frequency_weight)
        seconds = np.array([fit.record.seconds for fit in trials])
        table = candidate_results(plan.candidates, stacked.weights, seconds, stacked, rows)
        result.selection = selection_of(plan, table, stacked, rows, refits)
        return result

    def _fit(
        self,
        number: int,
        stage: str,
        blocks: list[list[Block]],
        known: Future[Known],
        held: list[Future[TrainingData]],
        judges: list[Future[TrainingData]],
        start: tuple[Weights, np.ndarray] | None,
    ) -> RoundsFit:
        """Fit a candidate in rounds."""
        candidate, order = self.plan.candidates[number], order_of(self.found)
        number_of = numbering(self.found.classes[order])
        head = candidate.config.parts.sampler.head_of(self.found.weights[order], number_of)
        fit = RoundsFit(
            self.cluster,
            candidate.config,
            blocks,
            held,
            self.survey,
            known,
            self.found,
            self.seed + number,
            self.rows_per_round,
            head,
            self.callbacks,
            Stage(stage, candidate.name),
            Before.after(self.history),
            judges,
            self.validation is not None,
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
        order = order_of(self.found)
        base = np.zeros(len(order))
        base[order] = base_scores(self.plan.first, self._class_weights(parts[0][1]))
        intercept = frequency_weight * base
        for weight, result in zip(weights, results):
            intercept = intercept + weight * (result.intercept - base)
        return replace(
            results[0],
            weights=weighted_sum(weights, [result.weights for result in results]),
            intercept=np.asarray(intercept, np.float32),
            history=self.history,
        )

    def _class_weights(self, fit: RoundsFit) -> np.ndarray:
        found: np.ndarray = self.cluster.fetch(fit.whole).class_weights
        return found

    # Rows

    def _all_rows(self) -> list[list[Block]]:
        return [[Block(rows, n, n) for rows, n in lane] for lane in self.lanes]

    def _few_enough(self, judges: list[Future[TrainingData]]) -> list[Future[TrainingData]]:
        """Return some of the groups of validation rows, where scoring all would take long."""
        counts = self.cluster.results([self.cluster.submit("n", _n_rows, j) for j in judges])
        softmax = self.plan.first.parts.noise.softmax
        most = max_rows_scored(len(self.found.classes), softmax)
        before = np.cumsum([0, *counts[:-1]])
        return [judge for judge, n in zip(judges, before) if n < most]

    def _held_out(
        self,
    ) -> tuple[list[list[Block]], Future[Known], list[Future[TrainingData]]]:
        """Hold out the last rows of every block, but no class loses all its rows."""
        n, config = self.found.n_rows, self.plan.first
        wanted = min(n_validation_rows(n), n // 5)
        if config.validation_fraction is not None:
            wanted = round(config.validation_fraction * n)
        blocks = [
            [Block(rows, m, m - min(-(-wanted * m // n), m)) for rows, m in lane]
            for lane in self.lanes
        ]
        each = [(i, block) for i, lane in enumerate(blocks) for block in lane]

        def at_ends(function: Callable[..., Any], known: Future[Known]) -> list[Future[Any]]:
            return [
                self.cluster.submit("ends", function, b.rows, known, b.end, b.n_rows, lane=i)
                for i, b in each
                if b.end < b.n_rows
            ]

        ends = at_ends(labels_at_end, self.known)
        known = self.cluster.submit("known", hold_classes, self.known, self.survey, ends)
        held = at_ends(held_rows, known)
        counts = self.cluster.results([self.cluster.submit("n", _n_rows, h) for h in held])
        if not sum(counts):
            if config.validation_fraction is not None:
                raise ValueError(
                    "no validation row has a class that is left in the training rows; give X_val "
                    "and y_val or set early_stopping=False"
                )
            return self._all_rows(), self.known, []
        return blocks, known, held


def _n_rows(sample: TrainingData) -> int:
    return sample.n_rows
