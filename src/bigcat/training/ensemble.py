"""Train the candidates of a plan, stack them on validation rows, and fit them to all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bigcat._warnings import warn_caller
from bigcat.compile import expect_kernels
from bigcat.linear import CoOccurringPairs, LinearModel, Weights, weighted_sum
from bigcat.linear.labels import encode
from bigcat.rows import Problem, Sizes, as_rows
from bigcat.training import ridge
from bigcat.training.advice import warn_if_useless, warn_of_unscaled
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.data import TrainingData
from bigcat.training.fit import (
    Callbacks,
    DivergedFit,
    Fit,
    FitResult,
    InterruptedFit,
    Start,
    StoppedFit,
)
from bigcat.training.history import History
from bigcat.training.preprocess import Preprocessing
from bigcat.training.record import Stage
from bigcat.training.selection import CandidateResult, Selection
from bigcat.training.stacking import Stacked, ValidationScores, stack
from bigcat.training.state import State, scores_of_frequencies
from bigcat.training.strategies import Workload, kernel_of
from bigcat.training.validation import Fold, n_validation_rows, split, split_off_end


def train(
    plan: FitPlan,
    data: TrainingData,
    classes: np.ndarray,
    random_state: np.random.RandomState,
    *,
    validation: TrainingData | None = None,
    start: Start | None = None,
    callbacks: Callbacks | None = None,
) -> FitResult:
    """Carry out a plan.

    `classes` are the labels that the numbers in `data` stand for, sorted.  Without `validation`
    rows the plan may hold some out.  From `start`, which stays as it is, only the first candidate
    is fitted.
    """
    config, callbacks = plan.first, callbacks or Callbacks()
    scales = plan.scales_columns and start is None
    if not scales:
        warn_of_unscaled(data, config.parts.solver, streams=config.window is not None)
    prepared = Preprocessing.of(data, len(classes), scales, config.fit_intercept)
    data, validation = prepared.data(data), validation and prepared.data(validation)
    if start is not None:
        start = prepared.start(start)
    classes = prepared.classes(classes)
    callbacks = replace(
        callbacks, number_of=numbering(classes), classes=classes, columns=prepared.columns
    )
    training = _Training(plan, data, len(classes), random_state, callbacks)
    try:
        if start is None and plan.stacks:
            result = training.stacked(validation)
        else:
            result = training.each_alone(plan.candidates[:1], validation, start)
    except StoppedFit as stop:
        result = training.so_far(stop.result)
    except KeyboardInterrupt as interruption:
        partial = interruption.result if isinstance(interruption, InterruptedFit) else None
        if partial is None and not training.done:
            raise
        result = training.so_far(partial)
        raise InterruptedFit(prepared.result(result)) from None
    except DivergedFit as divergence:
        if divergence.result is not None:
            divergence.result = prepared.result(divergence.result)
        raise
    parts = config.parts
    warn_if_useless(
        result, data, len(classes), parts.noise, parts.solver.divergence_remedy, config.l2
    )
    return prepared.result(result)


def train_on_more(
    config: FitConfig,
    data: TrainingData,
    classes: np.ndarray,
    random_state: np.random.RandomState,
    *,
    start: Start | None,
    solver_state: State | None,
    callbacks: Callbacks,
    rows_before: np.ndarray | None = None,
) -> FitResult:
    """Train on rows that were never seen; `start` and `solver_state` stay as they are.

    Without `rows_before`, those of each class that `start` was fitted to, that is one pass.
    """
    callbacks = replace(callbacks, number_of=numbering(classes), classes=classes)
    problem = problem_of(config, data, len(classes), callbacks)
    fit = Fit(config, problem, None, random_state, callbacks)
    if rows_before is None:
        return fit.run(start, solver_state, one_pass=True)
    return replace(fit.run(start, rows_before=rows_before), solver_state=None)


def problem_of(
    config: FitConfig, data: TrainingData, n_classes: int, callbacks: Callbacks
) -> Problem:
    """Put data into the form that kernels take."""
    X, labels, weights, _ = data
    frequencies = np.bincount(labels, weights, n_classes)
    return Problem(
        as_rows(X, config.kind.working_dtype(X.dtype, X.shape[1], n_classes)),
        labels,
        weights,
        X.shape[1],
        n_classes,
        l2=config.l2,
        fit_intercept=config.fit_intercept,
        unit_rows=config.kind.scales_rows,
        head=config.parts.sampler.head_of(frequencies, callbacks.number_of),
    )


def numbering(classes: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Return a function from labels to their places in `classes`, in whatever order those are."""
    order = np.argsort(classes, kind="stable")
    known = classes[order]
    return lambda y: order[encode(y, known)]


def base_scores(config: FitConfig, data: TrainingData, n_classes: int) -> np.ndarray:
    """Return the scores of a model that knows the class frequencies only."""
    if not config.fit_intercept:
        return np.zeros(n_classes)
    counts = np.bincount(data.labels, data.row_weights, n_classes)
    return scores_of_frequencies(counts, config.parts.noise)


class _Trials(NamedTuple):
    """Fits without the validation rows."""

    candidates: list[Candidate]  # with their ridges
    weights: np.ndarray  # stacking weights; NaN for a candidate that diverged
    seconds: np.ndarray
    results: dict[int, FitResult]  # of the last fold
    some: Weights  # of any model
    stacked: tuple[Stacked, TrainingData]  # with the validation rows, without their values


@dataclass
class _Training:
    """Call of `train`, on prepared data."""

    plan: FitPlan
    data: TrainingData
    n_classes: int
    random_state: np.random.RandomState
    callbacks: Callbacks
    history: History = field(default_factory=History)
    #: Fits that may be combined, with their weights.
    done: list[tuple[float, FitResult]] = field(default_factory=list)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.callbacks = self.callbacks.watched_by(self._stop)
        self.kernels = {self._kernel(candidate.config) for candidate in self.plan.candidates} - {()}

    def _kernel(self, config: FitConfig) -> tuple[type, ...]:
        sizes = Sizes.of(self.data.X, self.n_classes)
        return kernel_of(Workload(config.parts, config.kind, sizes, config.batch_size))

    def _stop(self) -> None:
        self.stopped = True

    def so_far(self, interrupted: FitResult | None) -> FitResult:
        """Combine what there is after an interruption."""
        if self.done:
            total = sum(weight for weight, _ in self.done)
            self.done = [(weight / total, result) for weight, result in self.done]
            result = self._sum(1.0)
        else:
            assert interrupted is not None
            result = interrupted
        result.selection, result.history = selection_of(self.plan, []), self.history
        return result

    # One fit

    def _fit(
        self,
        candidate: Candidate,
        data: TrainingData,
        stage: Stage,
        *,
        validation: TrainingData | None = None,
        start: Start | None = None,
    ) -> FitResult:
        config, is_trial = candidate.config, not stage.stage
        callbacks = self.callbacks.silent() if is_trial else self.callbacks
        if candidate.in_pairs:
            config = replace(config, kind=CoOccurringPairs.of(data.X, data.labels, self.n_classes))
        self.kernels.discard(self._kernel(candidate.config))
        expect_kernels(len(self.kernels))
        problem = problem_of(config, data, self.n_classes, callbacks)
        fit = Fit(config, problem, validation, self.random_state, callbacks, self.history, stage)
        try:
            result = fit.run(start)
        except InterruptedFit as interruption:
            self.history.extend(interruption.result.history)
            raise
        if not is_trial:
            self.history.extend(result.history)
            if self.history.forecast_seconds is None:
                self.history.forecast_seconds = result.history.forecast_seconds
            if self.stopped:
                raise StoppedFit(result)
        return result

    # Rows to fit and validation rows

    def _folds(self, validation: TrainingData | None, fraction: float | None = None) -> list[Fold]:
        """Hold rows out, once or in folds; a list without any is empty."""
        n, window = self.data.n_rows, self.plan.first.window
        if validation is not None:
            return [Fold(np.arange(n), np.arange(validation.n_rows))]
        if window is not None:
            wanted = n_validation_rows(n) if fraction is None else round(fraction * n)
            return split_off_end(self.data, min(wanted, window))
        if fraction is None and self.plan.stacks and not self.plan.refits:
            # Folds would leave a fit to four fifths of the rows.
            fraction = min(n_validation_rows(n), n // 5) / n
        return split(self.data, self.random_state, fraction)

    def _pieces(
        self, fold: Fold, validation: TrainingData | None
    ) -> tuple[TrainingData, TrainingData]:
        """Return the rows to fit and the validation rows."""
        data = self.data
        if validation is not None:
            return data, validation
        if self.plan.first.window is None:
            return data.take(fold.kept), data.take(fold.held_out)
        # Rows in files are not copied: those that are held out get weight 0.
        weights = data.row_weights.copy()
        weights[fold.held_out] = 0.0
        return data._replace(row_weights=weights), data.take(fold.held_out)

    def _ridge_path(
        self, candidate: Candidate, folds: Sequence[Fold], validation: TrainingData | None
    ) -> ridge.Path:
        pieces = [self._pieces(fold, validation) for fold in folds]

        def fit(trial: FitConfig, rows: TrainingData, start: Start | None) -> FitResult:
            return self._fit(replace(candidate, config=trial), rows, Stage(""), start=start)

        return ridge.search(candidate.config, self.data, pieces, fit)

    # Without stacking

    def each_alone(
        self,
        candidates: Sequence[Candidate],
        validation: TrainingData | None,
        start: Start | None,
    ) -> FitResult:
        """Fit candidates as they stand, and average several."""
        seconds, fitted = list[float](), list[Candidate]()
        for candidate in candidates:
            data, watched, fraction = self.data, validation, candidate.config.validation_fraction
            if self.plan.stacks and start is None:
                pass  # no row could be held out
            elif candidate.searches_ridge:
                folds = self._held_out("l2 a number", validation)
                l2 = self._ridge_path(candidate, folds, validation).l2
                candidate = replace(candidate, config=replace(candidate.config, l2=l2))
            elif fraction is not None:
                fold = self._held_out("early_stopping=False", validation, fraction)[0]
                data, watched = self._pieces(fold, validation)
            stage = Stage("fit", candidate.name)
            result = self._fit(candidate, data, stage, validation=watched, start=start)
            seconds.append(result.seconds)
            fitted.append(candidate)
            self.done.append((1.0 / len(candidates), result))
        shares = np.full(len(fitted), 1.0 / len(fitted))
        result = self._sum(1.0)
        table = candidate_results(fitted, shares, np.array(seconds))
        result.selection = selection_of(self.plan, table)
        return result

    def _held_out(
        self, instead: str, validation: TrainingData | None, fraction: float | None = None
    ) -> list[Fold]:
        folds = self._folds(validation, fraction)
        if not folds:
            raise ValueError(
                "no validation row has a class that is left in the training rows; give X_val and "
                f"y_val or set {instead}"
            )
        return folds

    # With stacking

    def stacked(self, validation: TrainingData | None) -> FitResult:
        """Fit all candidates without validation rows, stack them, and fit them to all rows."""
        plan, folds = self.plan, self._folds(validation)
        if not folds:
            return self.each_alone(plan.candidates, None, None)
        trials = self._trials(folds, validation)
        candidates, weights, stacked, rows = trials.candidates, trials.weights, *trials.stacked
        table = candidate_results(candidates, weights, trials.seconds, stacked, rows)
        chosen = [i for i, weight in enumerate(weights) if weight > 0.0]
        refits = plan.refits and validation is None
        if not chosen:
            result = self._frequencies(trials.some, rows.n_rows)
        else:
            self.done.clear()
            if refits or any(i not in trials.results for i in chosen):
                del trials  # its weights are as many as those of all candidates
                for i in chosen:
                    self.done.append((float(weights[i]), self._refit(candidates[i])))
            else:
                for i in chosen:
                    self.done.append((float(weights[i]), _apart(trials.results.pop(i))))
                del trials
            result = self._sum(stacked.frequency_weight)
        result.selection = selection_of(plan, table, stacked, rows, refits)
        return result

    def _trials(self, folds: Sequence[Fold], validation: TrainingData | None) -> _Trials:
        """Fit candidates without the rows of each fold, and find their stacking weights."""
        candidates = list(self.plan.candidates)
        paths: dict[int, ridge.Path] = {}
        for i, candidate in enumerate(candidates):
            if candidate.searches_ridge:
                paths[i] = self._ridge_path(candidate, folds, validation)
                config = replace(candidate.config, l2=paths[i].l2)
                candidates[i] = replace(candidate, config=config)
        failed, seconds = dict[int, DivergedFit](), np.zeros(len(candidates))
        scores: list[tuple[list[int], ValidationScores]] = []
        results: dict[int, FitResult] = {}
        for number, fold in enumerate(folds):
            kept, held = self._pieces(fold, validation)
            models: dict[int, LinearModel] = {}
            results = {}  # frees the weights of the fold before
            of = f", fold {number + 1} of {len(folds)}" if len(folds) > 1 else ""
            for i, candidate in enumerate(candidates):
                if i in paths:
                    models[i] = paths[i].models[number]
                    continue
                stage = Stage("validation", candidate.name + of)
                try:
                    result = self._fit(candidate, kept, stage, validation=validation)
                except DivergedFit as error:
                    failed[i] = error
                    continue
                noise = candidate.config.parts.noise
                models[i] = LinearModel(result.weights, result.intercept, noise)
                seconds[i] += result.seconds
                results[i] = replace(result, solver_state=None)
                if number == 0:
                    self.done.append((1.0, results[i]))
            if not models:
                raise failed[0]
            base = base_scores(self.plan.first, kept, self.n_classes)
            found = ValidationScores.of([*models.values()], base, held, self.random_state)
            scores.append((list(models), found))
        left = [i for i in range(len(candidates)) if i not in failed]
        joined = ValidationScores.joined(
            [found.only([known.index(i) for i in left]) for known, found in scores]
        )
        stacked = stack(joined, self.plan.first.parts.noise)
        weights = np.full(len(candidates), np.nan)
        weights[left] = stacked.weights
        some = next(iter(models.values())).weights
        rows = joined.data._replace(X=None)
        return _Trials(candidates, weights, seconds, results, some, (stacked, rows))

    def _refit(self, candidate: Candidate) -> FitResult:
        """Fit a candidate to all rows."""
        with warnings.catch_warnings():
            if candidate.searches_ridge:  # a weak ridge is as good before its optimum
                warnings.simplefilter("ignore", ConvergenceWarning)
            return _apart(self._fit(candidate, self.data, Stage("refit", candidate.name)))

    def _frequencies(self, some: Weights, n_rows: int) -> FitResult:
        """Return a model that predicts class frequencies, with a warning."""
        warn_caller(
            f"on {n_rows:,} validation rows no candidate gained anything over class frequencies, "
            "so the model predicts those whatever the row; look at the features, or give the fit "
            "more rows"
        )
        base = base_scores(self.plan.first, self.data, self.n_classes).astype(np.float32)
        none = np.empty(0, np.int64)
        return FitResult(some.multiplied(0.0), base, self.history, none)

    def _sum(self, frequency_weight: float) -> FitResult:
        """Return the model whose scores are the weighted sum of those that are done."""
        factors = [weight for weight, _ in self.done]
        first = self.done[0][1]
        if factors == [1.0] and frequency_weight == 1.0:
            return replace(first, history=self.history)
        base = base_scores(self.plan.first, self.data, self.n_classes)
        intercept = frequency_weight * base
        for weight, result in self.done:
            intercept = intercept + weight * (result.intercept - base)
        exact_classes, weights = first.exact_classes, [result.weights for _, result in self.done]
        self.done.clear()
        del first, result
        total = weighted_sum(factors, weights)
        return FitResult(total, np.asarray(intercept, np.float32), self.history, exact_classes)


def _apart(result: FitResult) -> FitResult:
    """Return a result with arrays of its own, which `weighted_sum` can free one by one."""
    return replace(result, weights=result.weights.copy(), solver_state=None)


def candidate_results(
    candidates: Sequence[Candidate],
    weights: np.ndarray,
    seconds: np.ndarray,
    stacked: Stacked | None = None,
    rows: TrainingData | None = None,
) -> list[CandidateResult]:
    """Return a row per candidate; NaN in `weights` stands for one that diverged."""
    values = iter(() if stacked is None else zip(stacked.alone, stacked.calibration_errors))
    found = []
    for candidate, weight, took in zip(candidates, weights, seconds):
        mean, error, calibration = np.nan, np.nan, np.nan
        if rows is not None and not np.isnan(weight):
            of_rows, calibration = next(values)
            mean, error = float(rows.mean(of_rows)), rows.standard_error(of_rows)
        settings = candidate.config.settings()
        if candidate.in_pairs:
            settings["in_pairs"] = True
        weight = 0.0 if np.isnan(weight) else float(weight)
        found.append(
            CandidateResult(
                candidate.name, mean, error, weight, float(took), settings, float(calibration)
            )
        )
    return found


def selection_of(
    plan: FitPlan,
    candidates: list[CandidateResult],
    stacked: Stacked | None = None,
    rows: TrainingData | None = None,
    refitted: bool = False,
) -> Selection:
    """Return the selection for display."""
    found: dict[str, Any] = {}
    if stacked is not None and rows is not None:
        found = {
            "frequency_weight": stacked.frequency_weight,
            "log_likelihood": rows.mean(stacked.log_likelihoods),
            "standard_error": rows.standard_error(stacked.log_likelihoods),
            "calibration_error": float(stacked.calibration_errors[-1]),
            "frequency_log_likelihood": rows.mean(stacked.of_frequencies),
            "n_validation_rows": rows.n_rows,
        }
    return Selection(tuple(candidates), reason=plan.reason, refitted=refitted, **found)
