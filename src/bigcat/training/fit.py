"""One run of a solver: from a recipe and a problem to fitted weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat.caller import warn_caller
from bigcat.linear import LinearModel, Weights, weights_from
from bigcat.rows import Columns, Problem, is_sparse
from bigcat.solvers import DivergedError
from bigcat.storage import MEMORY, Storage
from bigcat.training import progress
from bigcat.training.history import History
from bigcat.training.lbfgs import run_lbfgs
from bigcat.training.loop import KEEPS_NOTHING, Keeper, run_epochs
from bigcat.training.now import ModelOfNow
from bigcat.training.passes import Passes
from bigcat.training.recipe import Recipe
from bigcat.training.record import Before, Record
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Sample
from bigcat.training.snapshot import Snapshot
from bigcat.training.sparse_columns import SparseColumns
from bigcat.training.start import initial_weights
from bigcat.training.state import State

#: Scores that one look at the training log-likelihood may cost, and the fewest rows it takes.
MOST_SCORES = 1 << 22
LEAST_ROWS = 100
#: Scores that one look at held-out rows may cost; other noises than the softmax's cost more each.
MOST_HELD_OUT_SCORES, COST_OF_NODES = 1 << 28, 64

#: Bytes of weights up to which those of the last finite epoch are kept, for a fit that diverges.
MOST_BYTES_KEPT = 1 << 24

#: Weights and intercepts that a fit starts from.
Start = tuple[Weights, np.ndarray]


class Tell(Protocol):
    """Is told an epoch's row of the history, and the model of now; a true answer stops the fit."""

    def __call__(self, row: dict[str, Any], now: ModelOfNow) -> bool: ...


def nobody(row: dict[str, Any], now: ModelOfNow) -> bool:
    """A `Tell` that lets every fit go on."""
    return False


@dataclass(frozen=True)
class Audience:
    """Who looks on: nothing here changes a fit, but that it may be stopped."""

    tell: Tell = nobody
    progress: bool | str = False
    #: Turns labels as people have them into the problem's numbers.
    number_of: Callable[[Any], np.ndarray] = np.asarray
    #: Labels by number.
    classes: np.ndarray | None = None
    #: What was done to the columns of rows before the fit.
    columns: Columns | SparseColumns | None = None
    #: In coordinates of which the fit is made, after that.
    space: RowSpace | None = None
    #: Who writes down how far it has come.
    keeper: Keeper = KEEPS_NOTHING

    def rows_of(self, X: Any) -> Any:
        """Rows as people have them, in the columns of the fit."""
        if self.columns is not None:
            X = self.columns.turned(X if scipy.sparse.issparse(X) else np.asarray(X))
        return X if self.space is None else self.space.turned(X)


@dataclass
class Outcome:
    """What a finished fit hands over."""

    weights: Weights
    intercept: np.ndarray
    history: History
    head: np.ndarray
    resume: State | None = None
    best_epoch: int = 0

    @classmethod
    def checked(
        cls,
        weights: Weights,
        intercept: np.ndarray,
        history: History,
        advice: str,
        *,
        storage: Storage = MEMORY,
        **more: Any,
    ) -> Outcome:
        """In float32; DivergedError where that is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            weights = weights.astype(np.float32, storage)
            intercept = intercept.astype(np.float32, copy=False)
            finite = weights.is_finite and np.isfinite(intercept.sum(dtype=np.float64))
        if not finite:
            when = f"after epoch {len(history)}" if history else "before the first epoch"
            raise DivergedError(f"the weights were infinite or NaN {when}; {advice}")
        return cls(weights, intercept, history, **more)


class InterruptedFit(KeyboardInterrupt):
    """Ctrl-C after an epoch or more: what there is by then."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("the fit was interrupted")
        self.outcome = outcome


class DivergedFit(DivergedError):
    """Numbers that are not finite, and what there was before; None where that is not known.

    `last_model` is that as a fitted estimator.
    """

    def __init__(self, message: str, outcome: Outcome | None) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.last_model: Any = None


class Fit:
    """One run, on rows that were held out already.

    Parameters
    ----------
    validation : Sample or None
        Rows to judge epochs by.
    before : Before
        What went on before, to be counted in the history.
    """

    def __init__(
        self,
        recipe: Recipe,
        problem: Problem,
        validation: Sample | None,
        random_state: np.random.RandomState,
        audience: Audience,
        before: Before | None = None,
    ) -> None:
        self.recipe, self.problem = recipe, problem
        self.parts, self.kind = recipe.parts, recipe.kind
        self.random_state, self.audience, self.before = random_state, audience, before
        self.validation = validation and self._few_enough(validation)
        self.training_sample = self._sample_for_log_likelihood()

    def run(
        self, start: Start | None, resume: State | None = None, one_pass: bool = False
    ) -> Outcome:
        """Fit from given weights or from the recipe's own; `one_pass` over rows never seen."""
        recipe, bound = self.recipe, self.parts.bound
        if one_pass:
            recipe = self.recipe = replace(recipe, max_epochs=1)
        how = (self.audience.progress, recipe.max_epochs, bound.name, bound.word)
        with progress.reporter(*how) as report:
            self.stop = recipe.stop()
            self.record = Record(self.stop, report, recipe.max_epochs, self.before)
            self.last_finite: Start | None = None
            try:
                if self.parts.solver.stochastic:
                    return self._run_stochastic(start, resume, one_pass)
                return self._run_lbfgs(start)
            except DivergedError as error:
                last = self.last_finite and self._outcome(*self.last_finite, None)
                raise DivergedFit(str(error), last) from None

    def _run_stochastic(self, start: Start | None, resume: State | None, one_pass: bool) -> Outcome:
        recipe, problem, kind = self.recipe, self.problem, self.kind
        keeps = one_pass and start is not None
        given = (problem, self.parts, kind)
        state = State.new(*given, start or self._begin(), self.random_state, keeps_start=keeps)
        if resume is not None:
            state.resume(resume, problem, kind)
        passes = Passes(
            problem,
            self.parts,
            kind,
            state,
            batch_size=recipe.batch_size,
            max_epochs=recipe.max_epochs,
            random_state=self.random_state,
            shuffle=recipe.shuffle,
            fresh_rows=one_pass,
            n_threads=recipe.n_threads,
            window=recipe.window,
        )
        interrupted = False
        try:
            run_epochs(passes, recipe.max_epochs, _Watched(self, state), self.audience.keeper)
        except KeyboardInterrupt:
            if not self.record.history:
                raise
            interrupted = True
        if not one_pass and len(self.record.history) == recipe.max_epochs:
            self._warn_if_moving()
        fitted = state.fitted
        kind.storage.settle(fitted.weights)
        weights = kind.as_weights(fitted.weights, problem, for_good=True)
        outcome = self._outcome(weights, fitted.intercepts, state.to_resume(problem, kind))
        if interrupted:
            raise InterruptedFit(outcome)
        return outcome

    def _begin(self) -> Start:
        """The recipe's own weights; who calls should not keep them beside those in training."""
        parts, kind, problem = self.parts, self.kind, self.problem
        return initial_weights(self.recipe.init, problem, parts, kind, self.random_state)

    def _warn_if_moving(self) -> None:
        if self.stop.moving:
            watched = "held-out log-likelihood" if self.recipe.early_stopping else "objective"
            warn_caller(
                f"the {watched} was still growing by more than tol={self.recipe.tol} an epoch when "
                f"max_epochs={self.recipe.max_epochs} ended the fit; raise max_epochs, or set "
                "tol=None if that is as intended",
                ConvergenceWarning,
            )

    def _run_lbfgs(self, start: Start | None) -> Outcome:
        recipe, problem, kind = self.recipe, self.problem, self.kind
        start = start or self._begin()

        def on_iteration(
            value: float, seconds: float, matrix: np.ndarray, intercepts: np.ndarray
        ) -> bool:
            self.record.report(len(self.record.history) + 1, value)
            return self.epoch_done(value, seconds, kind.of_matrix(matrix, problem), intercepts)

        matrix, intercepts, converged = run_lbfgs(
            problem,
            self.parts,
            kind,
            kind.as_matrix(start[0], problem),
            start[1].astype(np.float64),
            max_iterations=recipe.max_epochs,
            tol=recipe.tol,
            enough=recipe.enough,
            on_compiled=self.record.compiled,
            on_iteration=on_iteration,
        )
        if not converged:
            made = len(self.record.history)
            remedy = "raise max_epochs, or scale the columns of X"
            if made < recipe.max_epochs:  # no step along its line is better, in these numbers
                remedy = (
                    f"{recipe.max_epochs} were allowed, but rounding hides any further gain, so "
                    "that more would not help: scale the columns of X, or raise tol"
                )
            warn_caller(
                f"L-BFGS stopped after {made} iterations without reaching tol={recipe.tol}; "
                f"{remedy}",
                ConvergenceWarning,
            )
        return self._outcome(kind.of_matrix(matrix, problem), intercepts, None)

    def _outcome(self, weights: Weights, intercepts: np.ndarray, resume: State | None) -> Outcome:
        best = self.record.best
        if best.kept is not None:
            weights, intercepts = best.kept
        return Outcome.checked(
            weights,
            intercepts,
            self.record.history,
            self.parts.solver.if_diverged,
            storage=self.kind.storage,
            head=self.problem.head,
            resume=resume,
            best_epoch=best.epoch,
        )

    # After each epoch

    def epoch_done(
        self, value: float, seconds: float, weights: Weights, intercepts: np.ndarray
    ) -> bool:
        """Record an epoch; true when the fit should stop."""
        model = LinearModel(weights, intercepts, self.parts.noise)
        score = _log_likelihood(model, self.validation)
        columns = {
            "objective": float(value),
            "bound": float(value) if self.parts.bound.is_bound else float("nan"),
            "log_likelihood": _log_likelihood(model, self.training_sample),
            "validation_log_likelihood": score,
        }
        keeps, storage = self.recipe.early_stopping, self.kind.storage
        stop = self.record.add(
            seconds,
            columns,
            watched=score if keeps else value,
            keep=(lambda: (weights.copy(storage), intercepts.copy())) if keeps else None,
        )
        if not self.parts.solver.stochastic and not keeps:
            stop = False  # it stops by itself
        classes = self.audience.classes
        labels = np.arange(model.n_classes) if classes is None else classes
        now = ModelOfNow(lambda: model, self.audience.rows_of, labels)
        return self.audience.tell(self.record.history[-1], now) or stop

    # What is looked at

    def _few_enough(self, held_out: Sample) -> Sample:
        """Held-out rows to look at after each epoch: all, or as many as the classes allow.

        What these say is exact for them, so the same rows of two epochs can be compared; estimates
        of all rows from a few classes each are off by more than an epoch gains
        (``docs/serving.md``).
        """
        most = MOST_HELD_OUT_SCORES // self.problem.n_classes
        if not self.parts.noise.softmax:
            most //= COST_OF_NODES
        most = max(most, LEAST_ROWS)
        if self.recipe.window is not None:
            most = min(most, self.recipe.window)
        if held_out.n_rows <= most:
            return held_out
        return held_out.take(_some(held_out.n_rows, most))

    def _sample_for_log_likelihood(self) -> Sample | None:
        """Training rows for the true log-likelihood, where the objective says nothing about it.

        An estimator's value is not on the scale of log-probabilities; so some rows are evaluated
        exactly after each epoch, few enough that this costs little beside the epoch.
        """
        p = self.problem
        if self.parts.bound.is_bound:
            return None
        n = min(p.n_rows, max(MOST_SCORES // p.n_classes, LEAST_ROWS))
        if self.recipe.window is not None:
            n = min(n, self.recipe.window)
        X: Any = p.rows.values
        if is_sparse(p.rows):
            shape = (p.n_rows, p.n_features)
            X = scipy.sparse.csr_array((X, p.rows.indices, p.rows.indptr), shape=shape)
        sample = Sample(X, p.labels, p.row_weights)
        return sample if n == p.n_rows else sample.take(_some(p.n_rows, n))  # all: no copy


class _Watched:
    """Tells a fit what the loop tells."""

    def __init__(self, fit: Fit, state: State) -> None:
        self.fit, self.fitted = fit, state.fitted
        self.compiled, self.chunk_done = fit.record.compiled, fit.record.chunk_done

    def epoch_done(self, value: float, seconds: float) -> bool:
        weights = self.fit.kind.as_weights(self.fitted.weights, self.fit.problem)
        if self.fitted.weights.nbytes <= MOST_BYTES_KEPT and weights.is_finite:
            copied = weights.copy(self.fit.kind.storage)
            self.fit.last_finite = copied, self.fitted.intercepts.copy()
        return self.fit.epoch_done(value, seconds, weights, self.fitted.intercepts)

    def snapshot(self) -> Snapshot:
        kept = self.fit.record.snapshot()
        if self.fit.record.best.kept is not None:
            weights, intercepts = self.fit.record.best.kept
            kept.put("best", Snapshot(arrays={**weights.arrays(), "intercepts": intercepts}))
        return kept

    def restore(self, kept: Snapshot) -> None:
        best = kept.part("best").arrays
        of_best = None
        if best:
            weights = weights_from(best.get).copy(self.fit.kind.storage)
            of_best = weights, best["intercepts"].copy()
        self.fit.record.restore(kept, of_best)


def _log_likelihood(model: LinearModel, sample: Sample | None) -> float:
    return float("nan") if sample is None else model.mean_log_likelihood(*sample[:3])


def _some(n: int, most: int) -> np.ndarray:
    """Rows to look at, always the same: not from `random_state`, since that would change a fit."""
    return np.sort(np.random.RandomState(0).permutation(n)[:most])
