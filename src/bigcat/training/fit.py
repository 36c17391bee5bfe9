"""Run of a solver, from settings and a problem to fitted weights."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat._warnings import warn_caller
from bigcat.linear import LinearModel, Weights, weights_from
from bigcat.rows import ColumnScaling, Problem, SparseColumnScaling, is_sparse
from bigcat.solvers import LBFGS, DivergedError
from bigcat.training import progress
from bigcat.training.config import FitConfig
from bigcat.training.data import TrainingData
from bigcat.training.history import History
from bigcat.training.lbfgs import run_lbfgs
from bigcat.training.loop import NO_CHECKPOINTS, Checkpointer, run_epochs
from bigcat.training.model_view import ModelView
from bigcat.training.passes import Passes, add_past
from bigcat.training.record import Record, Stage
from bigcat.training.selection import Selection
from bigcat.training.snapshot import Snapshot
from bigcat.training.stacking import max_rows_scored
from bigcat.training.state import State, initial_weights

#: Maximal scores per measurement of the training log-likelihood, and minimal number of rows.
MAX_SCORES_PER_LOOK, MIN_ROWS_PER_LOOK = 1 << 22, 100

#: Largest weights of the last finite epoch, in bytes, that are kept for a fit that diverges.
MAX_BYTES_KEPT = 1 << 24

#: Weights and intercepts that a fit starts from.
Start = tuple[Weights, np.ndarray]


class OnEpochEnd(Protocol):
    """Receives an epoch's row of the history and a view of the model; a true answer stops."""

    def __call__(self, row: dict[str, Any], view: ModelView) -> bool: ...


def noop(row: dict[str, Any], view: ModelView) -> bool:
    """Let every fit go on."""
    return False


@dataclass(frozen=True)
class Callbacks:
    """Observers of a fit.  They may stop it but never alter it."""

    on_epoch_end: OnEpochEnd = noop
    progress: bool | str = False
    #: Turns labels of the user into the problem's numbers.
    number_of: Callable[[Any], np.ndarray] = np.asarray
    #: Labels by number.
    classes: np.ndarray | None = None
    #: The scaling of the columns of the fit.
    columns: ColumnScaling | SparseColumnScaling | None = None
    #: Writes checkpoints.
    checkpointer: Checkpointer = NO_CHECKPOINTS

    def watched_by(self, stopped: Callable[[], None]) -> Callbacks:
        """Return callbacks that also say when one of them stops the fit."""

        def on_epoch_end(row: dict[str, Any], view: ModelView) -> bool:
            stops = self.on_epoch_end(row, view)
            if stops:
                stopped()
            return stops

        return replace(self, on_epoch_end=on_epoch_end)

    def silent(self) -> Callbacks:
        """Return callbacks for trials, which are not reported or written."""
        return replace(self, on_epoch_end=noop, progress=False, checkpointer=NO_CHECKPOINTS)

    def rows_of(self, X: Any) -> Any:
        """Return rows of the user in the columns of the fit."""
        if self.columns is None:
            return X
        return self.columns.turned(X if scipy.sparse.issparse(X) else np.asarray(X))


@dataclass
class FitResult:
    """Result of a fit."""

    weights: Weights
    intercept: np.ndarray
    history: History
    exact_classes: np.ndarray
    solver_state: State | None = None
    seconds: float = 0.0
    selection: Selection | None = None

    @classmethod
    def checked(
        cls,
        weights: Weights,
        intercept: np.ndarray,
        history: History,
        advice: str,
        **more: Any,
    ) -> FitResult:
        """Return the result in float32; raise DivergedError if it is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            weights = weights.astype(np.float32)
            intercept = intercept.astype(np.float32, copy=False)
            finite = weights.is_finite and np.isfinite(intercept.sum(dtype=np.float64))
        if not finite:
            when = f"after epoch {len(history)}" if history else "before the first epoch"
            raise DivergedError(f"the weights were infinite or NaN {when}; {advice}")
        return cls(weights, intercept, history, **more)


class InterruptedFit(KeyboardInterrupt):
    """Ctrl-C after an epoch or more, with the result so far."""

    def __init__(self, result: FitResult) -> None:
        super().__init__("the fit was interrupted")
        self.result = result


class StoppedFit(Exception):  # not an error: the user wants the result so far
    """A callback has stopped a fit of several candidates, with the result so far."""

    def __init__(self, result: FitResult) -> None:
        super().__init__("a callback has stopped the fit")
        self.result = result


class DivergedFit(DivergedError):
    """Numbers that are not finite, with the last finite result; None where there is none.

    `last_model` is that result as a fitted estimator.
    """

    def __init__(self, message: str, result: FitResult | None) -> None:
        super().__init__(message)
        self.result = result
        self.last_model: Any = None


class Fit:
    """Run of a solver, on rows without the validation rows.

    The log-likelihood of `validation` rows is recorded after each epoch.  The history also counts
    the seconds of the fits `before`, and says at which `stage` of a larger fit this one stands.
    """

    def __init__(
        self,
        config: FitConfig,
        problem: Problem,
        validation: TrainingData | None,
        random_state: np.random.RandomState,
        callbacks: Callbacks,
        before: History | None = None,
        stage: Stage | None = None,
    ) -> None:
        self.config, self.problem = config, problem
        self.parts, self.kind = config.parts, config.kind
        self.random_state, self.callbacks = random_state, callbacks
        self.before, self.stage = before, stage or Stage()
        self.validation = validation and self._few_enough(validation)
        self.training_sample = self._sample_for_log_likelihood()

    def run(
        self,
        start: Start | None,
        solver_state: State | None = None,
        one_pass: bool = False,
        rows_before: np.ndarray | None = None,
    ) -> FitResult:
        """Fit from given weights or from the usual start.

        `one_pass` goes over rows never seen.  `rows_before` are those of each class that the start
        was fitted to, which steps should not undo.
        """
        if one_pass:
            self.config = replace(self.config, max_epochs=1)
        config, problem, kind = self.config, self.problem, self.kind
        with self._recorded():
            if not self.parts.solver.stochastic:
                return self._run_lbfgs(start)
            keeps = (one_pass or rows_before is not None) and start is not None
            given = (problem, self.parts, kind)
            state = State.new(*given, start or self._begin(), self.random_state, keeps_start=keeps)
            self.state = state
            if solver_state is not None:
                state.resume(solver_state, problem, kind)
            passes = Passes(
                problem,
                self.parts,
                kind,
                state,
                batch_size=config.batch_size,
                max_epochs=config.max_epochs,
                random_state=self.random_state,
                fresh_rows=one_pass,
                n_threads=config.n_threads,
                window=config.window,
            )
            if rows_before is not None:
                add_past(passes, rows_before)
            interrupted = False
            try:
                run_epochs(passes, config.max_epochs, self, self.callbacks.checkpointer)
            except KeyboardInterrupt:
                if not self.record.history:
                    raise
                interrupted = True
            planned = one_pass or rows_before is not None
            if not planned and len(self.record.history) == config.max_epochs:
                self._warn_if_moving()
            fitted = state.fitted
            weights = kind.as_weights(fitted.weights, problem, for_good=True)
            result = self._result(weights, fitted.intercepts, state.to_resume(problem, kind))
            if interrupted:
                raise InterruptedFit(result)
            return result

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """Keep a record, and turn a divergence into one with the last finite result."""
        bound, n_epochs = self.parts.bound, self.config.max_epochs
        label = self.stage.label(bound.name)
        with progress.reporter(self.callbacks.progress, n_epochs, label, bound.word) as report:
            rule = self.config.stop()
            self.record = Record(rule, report, n_epochs, self.before, self.stage)
            self.last_finite: Start | None = None
            try:
                yield
            except DivergedError as error:
                last = self.last_finite and self._result(*self.last_finite, None)
                raise DivergedFit(str(error), last) from None

    def _begin(self) -> Start:
        """Return weights to start from; callers should not keep them beside those in training."""
        parts, kind, problem = self.parts, self.kind, self.problem
        return initial_weights(problem, parts, kind, self.random_state)

    def _warn_if_moving(self) -> None:
        rule = self.record.rule
        if rule is not None and rule.is_moving(self.record.watched):
            held_out = rule.validation_fraction is not None
            watched = "held-out log-likelihood" if held_out else "objective"
            warn_caller(
                f"the {watched} was still growing by more than tol={rule.tol} an epoch when "
                f"max_epochs={self.config.max_epochs} ended the fit; raise max_epochs, or set "
                "early_stopping=False if that is as intended",
                ConvergenceWarning,
            )

    def _run_lbfgs(self, start: Start | None) -> FitResult:
        config, problem, kind = self.config, self.problem, self.kind
        solver = self.parts.solver
        assert isinstance(solver, LBFGS)
        start = start or self._begin()

        def on_iteration(
            value: float, seconds: float, matrix: np.ndarray, intercepts: np.ndarray
        ) -> bool:
            self.record.report(len(self.record.history) + 1, value)
            return self._look(value, seconds, kind.of_matrix(matrix, problem), intercepts)

        matrix, intercepts, converged = run_lbfgs(
            problem,
            self.parts,
            kind,
            kind.as_matrix(start[0], problem),
            start[1].astype(np.float64),
            max_iterations=config.max_epochs,
            on_compiled=self.record.compiled,
            on_iteration=on_iteration,
        )
        if not converged:
            made = len(self.record.history)
            remedy = "raise max_epochs, or scale the columns of X"
            if made < config.max_epochs:  # no step along its line is better, in these numbers
                remedy = (
                    f"{config.max_epochs} were allowed, but rounding hides any further gain, so "
                    "that more would not help: scale the columns of X, or raise tol"
                )
            warn_caller(
                f"L-BFGS stopped after {made} iterations without reaching "
                f"tol={solver.tol}; {remedy}",
                ConvergenceWarning,
            )
        return self._result(kind.of_matrix(matrix, problem), intercepts, None)

    def _result(
        self, weights: Weights, intercepts: np.ndarray, solver_state: State | None
    ) -> FitResult:
        best = self.record.best
        if best.kept is not None:
            weights, intercepts = best.kept
        return FitResult.checked(
            weights,
            intercepts,
            self.record.history,
            self.parts.solver.divergence_remedy,
            exact_classes=self.problem.head,
            solver_state=solver_state,
            seconds=self.record.seconds,
        )

    # Events of the loop

    def compiled(self, seconds: float) -> None:
        """Record the seconds of compilation."""
        self.record.compiled(seconds)

    def chunk_done(self, part: float, value: float) -> None:
        """Report progress within an epoch."""
        self.record.chunk_done(part, value)

    def epoch_done(self, value: float, seconds: float) -> bool:
        """Record an epoch; return True if the fit should stop."""
        fitted = self.state.fitted
        weights = self.kind.as_weights(fitted.weights, self.problem)
        if fitted.weights.nbytes <= MAX_BYTES_KEPT and weights.is_finite:
            self.last_finite = weights.copy(), fitted.intercepts.copy()
        return self._look(value, seconds, weights, fitted.intercepts)

    def snapshot(self) -> Snapshot:
        """Return the record, with the best weights so far."""
        kept = self.record.snapshot()
        if self.record.best.kept is not None:
            weights, intercepts = self.record.best.kept
            kept.put("best", Snapshot(arrays={**weights.arrays(), "intercepts": intercepts}))
        return kept

    def restore(self, kept: Snapshot) -> None:
        """Take over a record and the best weights of a snapshot."""
        best, of_best = kept.part("best").arrays, None
        if best:
            weights = weights_from(best.get).copy()
            of_best = weights, best["intercepts"].copy()
        self.record.restore(kept, of_best)

    def _look(self, value: float, seconds: float, weights: Weights, intercepts: np.ndarray) -> bool:
        """Record an epoch; return True if the fit should stop."""
        model = LinearModel(weights, intercepts, self.parts.noise)
        score = _log_likelihood(model, self.validation)
        columns = {
            "objective": float(value),
            "bound": float(value) if self.parts.bound.is_bound else float("nan"),
            "log_likelihood": _log_likelihood(model, self.training_sample),
            "validation_log_likelihood": score,
        }
        keeps = self.config.validation_fraction is not None
        stop = self.record.add(
            seconds,
            columns,
            watched=score if keeps else value,
            keep=(lambda: (weights.copy(), intercepts.copy())) if keeps else None,
        )
        if not self.parts.solver.stochastic and not keeps:
            stop = False  # it stops by itself
        classes = self.callbacks.classes
        labels = np.arange(model.n_classes) if classes is None else classes
        view = ModelView(lambda: model, self.callbacks.rows_of, labels)
        return self.callbacks.on_epoch_end(self.record.history[-1], view) or stop

    # Rows to look at

    def _few_enough(self, held_out: TrainingData) -> TrainingData:
        """Return the validation rows to score after each epoch: all, or fewer with many classes.

        Their log-likelihood is exact, so epochs can be compared.
        """
        most = max_rows_scored(self.problem.n_classes, self.parts.noise.softmax)
        most = min(most, self.config.window or most)
        return held_out if held_out.n_rows <= most else held_out.take(_some(held_out.n_rows, most))

    def _sample_for_log_likelihood(self) -> TrainingData | None:
        """Return training rows for the true log-likelihood, where the objective is another.

        An estimator's value is not on the scale of log-probabilities; so some rows are evaluated
        exactly after each epoch, few enough that this costs little beside the epoch.
        """
        p = self.problem
        if self.parts.bound.is_bound or not self.kind.quick_scores:
            return None
        n = min(p.n_rows, rows_per_look(p.n_classes))
        n = min(n, self.config.window or n)
        X: Any = p.rows.values
        if is_sparse(p.rows):
            shape = (p.n_rows, p.n_features)
            X = scipy.sparse.csr_array((X, p.rows.indices, p.rows.indptr), shape=shape)
        sample = TrainingData(X, p.labels, p.row_weights)
        return sample if n == p.n_rows else sample.take(_some(p.n_rows, n))  # all: no copy


def rows_per_look(n_classes: int, products_per_score: int = 1) -> int:
    """Return the number of training rows on which the log-likelihood is measured."""
    return max(MAX_SCORES_PER_LOOK // products_per_score // n_classes, MIN_ROWS_PER_LOOK)


def _log_likelihood(model: LinearModel, sample: TrainingData | None) -> float:
    return float("nan") if sample is None else model.mean_log_likelihood(*sample[:3])


def _some(n: int, most: int) -> np.ndarray:
    """Return rows to measure on, independent of `random_state`, so that fits do not change."""
    return np.sort(np.random.RandomState(0).permutation(n)[:most])
