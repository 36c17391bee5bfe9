"""Train the candidates of a plan, stack them on validation rows, and fit them to all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bigcat.caller import warn_caller
from bigcat.linear import LinearModel, Pairs, weighted_sum
from bigcat.linear.labels import encode
from bigcat.rows import Problem, as_rows
from bigcat.training import ridge
from bigcat.training.advice import warn_if_useless, warn_of_unscaled
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.data import (
    Fold,
    TrainingData,
    n_validation_rows,
    split,
    split_off_end,
)
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
from bigcat.training.record import Before, Stage
from bigcat.training.selection import CandidateResult, Selection
from bigcat.training.stacking import Stacked, ValidationScores, stack
from bigcat.training.start import scores_of_frequencies
from bigcat.training.state import State


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

    Parameters
    ----------
    classes : array
        The labels that the numbers in `data` stand for, sorted.
    validation : TrainingData, optional
        Validation rows; without them the plan may hold some out.
    start : optional
        Weights and intercepts, in the order of `classes`, to go on from.  They stay as they are,
        and only the first candidate is fitted.
    callbacks : Callbacks, optional
    """
    config, callbacks = plan.first, callbacks or Callbacks()
    scales = plan.scales_columns and start is None
    if not scales:
        warn_of_unscaled(data, config.parts.solver, streams=config.window is not None)
    prepared = Preprocessing.of(data, len(classes), scales, config.fit_intercept)
    data, validation = prepared.data(data), validation and prepared.data(validation)
    if start is not None:
        start = prepared.start(start, config.kind.storage)
    classes = prepared.classes(classes)
    callbacks = replace(
        callbacks, number_of=numbering(classes), classes=classes, columns=prepared.columns
    )
    training = _Training(plan, data, len(classes), random_state, callbacks)
    try:
        result = training.run(validation, start)
    except KeyboardInterrupt as interruption:
        partial = interruption.result if isinstance(interruption, InterruptedFit) else None
        if partial is None and not training.done:
            raise
        result = training.so_far(partial)
        raise InterruptedFit(prepared.result(result, config.kind.storage)) from None
    except DivergedFit as divergence:
        if divergence.result is not None:
            divergence.result = prepared.result(divergence.result, config.kind.storage)
        raise
    parts = config.parts
    warn_if_useless(result, data, len(classes), parts.noise, parts.solver.if_diverged, config.l2)
    return prepared.result(result, config.kind.storage)


def train_on_more(
    config: FitConfig,
    data: TrainingData,
    classes: np.ndarray,
    random_state: np.random.RandomState,
    *,
    start: Start | None,
    resume: State | None,
    callbacks: Callbacks,
) -> FitResult:
    """Make one pass over rows that were never seen; `start` and `resume` stay as they are."""
    callbacks = replace(callbacks, number_of=numbering(classes), classes=classes)
    problem = problem_of(config, data, len(classes), callbacks)
    fit = Fit(config, problem, None, random_state, callbacks)
    return fit.run(start, resume=resume, one_pass=True)


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


@dataclass
class _Trials:
    """Fits without the validation rows.

    Parameters
    ----------
    rows : TrainingData
        The validation rows, without their values where there were folds.
    weights : array
        A stacking weight per candidate, NaN for one that diverged.
    results : dict
        Fits of the last fold, by the number of the candidate.
    """

    stacked: Stacked
    rows: TrainingData
    weights: np.ndarray
    seconds: np.ndarray
    results: dict[int, FitResult]


@dataclass
class _Training:
    """One call of `train`, on data as fits see them."""

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

    def _stop(self) -> None:
        self.stopped = True

    def run(self, validation: TrainingData | None, start: Start | None) -> FitResult:
        try:
            if start is not None or not self.plan.stacks:
                return self._alone(self.plan.candidates[0], validation, start)
            return self._stacked(validation)
        except StoppedFit as stop:
            return self.so_far(stop.result)

    def so_far(self, interrupted: FitResult | None) -> FitResult:
        """Combine what there is after an interruption."""
        if not self.done:
            assert interrupted is not None
            interrupted.selection = selection_of(self.plan, [])
            interrupted.history = self.history
            return interrupted
        total = sum(weight for weight, _ in self.done)
        result = self._sum([(w / total, r) for w, r in self.done], 1.0)
        result.selection = selection_of(self.plan, [])
        return result

    # One fit

    def _fit(
        self,
        config: FitConfig,
        data: TrainingData,
        stage: Stage,
        *,
        in_pairs: bool = False,
        validation: TrainingData | None = None,
        start: Start | None = None,
        silent: bool = False,
    ) -> FitResult:
        callbacks = self.callbacks.silent() if silent else self.callbacks
        if in_pairs:
            config = replace(config, kind=Pairs.of(data.X, data.labels, self.n_classes))
        problem = problem_of(config, data, self.n_classes, callbacks)
        before = Before.after(self.history)
        fit = Fit(config, problem, validation, self.random_state, callbacks, before, stage)
        try:
            result = fit.run(start)
        except InterruptedFit as interruption:
            self.history.extend(interruption.result.history)
            interruption.result.history = self.history
            raise
        if not silent:
            self.history.extend(result.history)
            if self.history.forecast_seconds is None:
                self.history.forecast_seconds = result.history.forecast_seconds
            if self.stopped:
                raise StoppedFit(result)
        return result

    def _alone(
        self, candidate: Candidate, validation: TrainingData | None, start: Start | None
    ) -> FitResult:
        """Fit one candidate as it stands."""
        config, data = candidate.config, self.data
        if candidate.searches_ridge:
            folds = self._folds(validation)
            if not folds:
                raise ValueError(
                    "no row can be held out to choose the ridge by; give X_val and y_val, or l2 a "
                    "number"
                )
            config = replace(config, l2=self._ridge_path(config, folds, validation).l2)
        elif config.validation_fraction is not None and validation is None:
            data, validation = self._held_out(config, config.validation_fraction)
        result = self._fit(
            config,
            data,
            Stage("fit", candidate.name),
            in_pairs=candidate.in_pairs,
            validation=validation,
            start=start,
        )
        candidate = replace(candidate, config=config)
        table = candidate_results([candidate], np.ones(1), np.array([result.seconds]))
        result.selection, result.history = selection_of(self.plan, table), self.history
        return result

    def _held_out(self, config: FitConfig, fraction: float) -> tuple[TrainingData, TrainingData]:
        n = self.data.n_rows
        if config.window is None:
            folds = split(self.data, self.random_state, fraction)
        else:
            folds = split_off_end(self.data, min(round(fraction * n), config.window))
        if not folds:
            raise ValueError(
                "no validation row has a class that is left in the training rows; give X_val and "
                "y_val or set early_stopping=False"
            )
        return self._pieces(folds[0], None)

    # All candidates

    def _folds(self, validation: TrainingData | None) -> list[Fold]:
        if validation is not None:
            return [Fold(np.arange(self.data.n_rows), np.arange(validation.n_rows))]
        window = self.plan.first.window
        n = self.data.n_rows
        if window is not None:
            return split_off_end(self.data, min(n_validation_rows(n), window))
        if self.plan.refits:
            return split(self.data, self.random_state)
        # Folds would leave a fit to four fifths of the rows.
        return split(self.data, self.random_state, min(n_validation_rows(n), n // 5) / n)

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
        self, config: FitConfig, folds: Sequence[Fold], validation: TrainingData | None
    ) -> ridge.Path:
        pieces = [self._pieces(fold, validation) for fold in folds]

        def fit(trial: FitConfig, rows: TrainingData, start: Start | None) -> FitResult:
            return self._fit(trial, rows, Stage(), start=start, silent=True)

        return ridge.search(config, self.data, pieces, fit)

    def _stacked(self, validation: TrainingData | None) -> FitResult:
        plan, folds = self.plan, self._folds(validation)
        candidates = list(plan.candidates)
        if not folds:
            return self._unvalidated(candidates)
        paths: dict[int, ridge.Path] = {}
        for i, candidate in enumerate(candidates):
            if candidate.searches_ridge:
                paths[i] = self._ridge_path(candidate.config, folds, validation)
                config = replace(candidate.config, l2=paths[i].l2)
                candidates[i] = replace(candidate, config=config)
        trials = self._trials(candidates, folds, validation, paths)
        stacked, rows = trials.stacked, trials.rows
        table = candidate_results(candidates, trials.weights, trials.seconds, stacked, rows)
        chosen = [i for i in range(len(candidates)) if trials.weights[i] > 0.0]
        refits = plan.refits and validation is None
        results = trials.results
        if refits or any(i not in results for i in chosen):
            self.done, trials.results = [], {}  # the memory is needed
            results = {}
            for i in chosen:
                results[i] = self._refit(candidates[i])
                self.done.append((float(trials.weights[i]), results[i]))
        if not chosen:
            result = self._frequencies(rows.n_rows)
        else:
            parts = [(float(trials.weights[i]), results[i]) for i in chosen]
            result = self._sum(parts, stacked.frequency_weight)
        result.selection = selection_of(plan, table, stacked, rows, refits)
        return result

    def _trials(
        self,
        candidates: list[Candidate],
        folds: list[Fold],
        validation: TrainingData | None,
        paths: dict[int, ridge.Path],
    ) -> _Trials:
        """Fit the candidates without the validation rows, and find their stacking weights."""
        seconds, failed = np.zeros(len(candidates)), dict[int, DivergedFit]()
        scores: list[tuple[list[int], ValidationScores]] = []
        results: dict[int, FitResult] = {}
        for number, fold in enumerate(folds):
            kept, held = self._pieces(fold, validation)
            models: dict[int, LinearModel] = {}
            results = {}
            for i, candidate in enumerate(candidates):
                if i in paths:
                    models[i] = paths[i].models[number]
                    continue
                of = f", fold {number + 1} of {len(folds)}" if len(folds) > 1 else ""
                try:
                    result = self._fit(
                        candidate.config,
                        kept,
                        Stage("validation", candidate.name + of),
                        in_pairs=candidate.in_pairs,
                        validation=validation,
                    )
                except DivergedFit as error:
                    failed[i] = error
                    continue
                seconds[i] += result.seconds
                noise = candidate.config.parts.noise
                models[i] = LinearModel(result.weights, result.intercept, noise)
                results[i] = result
                if number == 0:
                    self.done.append((1.0, result))
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
        return _Trials(stacked, joined.data, weights, seconds, results)

    def _refit(self, candidate: Candidate) -> FitResult:
        """Fit a candidate to all rows."""
        with warnings.catch_warnings():
            if candidate.searches_ridge:  # a weak ridge is as good before its optimum
                warnings.simplefilter("ignore", ConvergenceWarning)
            stage = Stage("refit", candidate.name)
            return self._fit(candidate.config, self.data, stage, in_pairs=candidate.in_pairs)

    def _unvalidated(self, candidates: list[Candidate]) -> FitResult:
        """Average the candidates where no row can be held out: each has a class of its own."""
        results = []
        for candidate in candidates:
            stage = Stage("fit", candidate.name)
            results.append(
                self._fit(candidate.config, self.data, stage, in_pairs=candidate.in_pairs)
            )
            self.done.append((1.0, results[-1]))
        share = 1.0 / len(results)
        result = self._sum([(share, r) for r in results], 1.0)
        shares, seconds = np.full(len(results), share), np.array([r.seconds for r in results])
        result.selection = selection_of(self.plan, candidate_results(candidates, shares, seconds))
        return result

    def _frequencies(self, n_rows: int) -> FitResult:
        """Return a model that predicts class frequencies, with a warning."""
        warn_caller(
            f"on {n_rows:,} validation rows no candidate gained anything over class frequencies, "
            "so the model predicts those whatever the row; look at the features, or give the fit "
            "more rows"
        )
        candidate = self.plan.candidates[0]
        config, data = candidate.config, self.data
        if candidate.in_pairs:
            config = replace(config, kind=Pairs.of(data.X, data.labels, self.n_classes))
        problem = problem_of(config, data, self.n_classes, self.callbacks)
        start = config.kind.start(problem, False, np.random.RandomState(0))
        base = base_scores(config, data, self.n_classes)
        return FitResult(
            start.astype(np.float32).multiplied(0.0),
            base.astype(np.float32),
            self.history,
            problem.head,
        )

    def _sum(self, parts: list[tuple[float, FitResult]], frequency_weight: float) -> FitResult:
        """Return the model whose scores are the weighted sum."""
        base = base_scores(self.plan.first, self.data, self.n_classes)
        intercept = frequency_weight * base
        for weight, result in parts:
            intercept = intercept + weight * (result.intercept - base)
        first = parts[0][1]
        is_first = len(parts) == 1 and parts[0][0] == 1.0 and frequency_weight == 1.0
        return replace(
            first,
            weights=weighted_sum([w for w, _ in parts], [r.weights for _, r in parts]),
            intercept=np.asarray(intercept, np.float32),
            history=self.history,
            resume=first.resume if is_first else None,
        )


def candidate_results(
    candidates: Sequence[Candidate],
    weights: np.ndarray,
    seconds: np.ndarray,
    stacked: Stacked | None = None,
    rows: TrainingData | None = None,
) -> list[CandidateResult]:
    """Return a row per candidate; NaN in `weights` stands for one that diverged."""
    values = iter(() if stacked is None else stacked.alone)
    found = []
    for candidate, weight, took in zip(candidates, weights, seconds):
        mean, error = np.nan, np.nan
        if rows is not None and not np.isnan(weight):
            of_rows = next(values)
            mean, error = float(rows.mean(of_rows)), rows.standard_error(of_rows)
        settings = candidate.config.settings()
        if candidate.in_pairs:
            settings["in_pairs"] = True
        weight = 0.0 if np.isnan(weight) else float(weight)
        found.append(CandidateResult(candidate.name, mean, error, weight, float(took), settings))
    return found


def selection_of(
    plan: FitPlan,
    candidates: list[CandidateResult],
    stacked: Stacked | None = None,
    rows: TrainingData | None = None,
    refitted: bool = False,
) -> Selection:
    """Return what was selected, for people."""
    found: dict[str, Any] = {}
    if stacked is not None and rows is not None:
        found = {
            "frequency_weight": stacked.frequency_weight,
            "log_likelihood": rows.mean(stacked.log_likelihoods),
            "standard_error": rows.standard_error(stacked.log_likelihoods),
            "frequency_log_likelihood": rows.mean(stacked.of_frequencies),
            "n_validation_rows": rows.n_rows,
        }
    return Selection(tuple(candidates), reason=plan.reason, refitted=refitted, **found)
