"""One run of a solver for an estimator: state, memory, validation, stopping."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat import _random
from bigcat._weights import class_major, is_sparse, weights_shape
from bigcat.estimators import _memory, _progress, _start
from bigcat.estimators._history import History
from bigcat.estimators._predict import Scorer
from bigcat.solvers import DivergedError
from bigcat.solvers._loop import Settings, run_epochs
from bigcat.solvers._state import Problem, State
from bigcat.solvers.lbfgs import run_lbfgs

#: Scores that one look at the training log-likelihood may cost, and the fewest rows it takes.
MOST_SCORES = 1 << 22
LEAST_ROWS = 100


def working_dtype(dtype: Any, n_weights: int) -> type:
    """float32 where X is or the weights are many; float64 otherwise. `coef_` is always float32."""
    return np.float32 if dtype == np.float32 or n_weights > 1 << 24 else np.float64


class Outcome:
    """What a finished fit hands to its estimator."""

    def __init__(self, coef, intercept, history, resume, head, advice: str) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.coef = coef.astype(np.float32, copy=False)
            self.intercept = intercept.astype(np.float32, copy=False)
            total = self.coef.sum(dtype=np.float64) + self.intercept.sum(dtype=np.float64)
        if not np.isfinite(total):
            raise DivergedError(f"the weights became infinite or NaN; {advice}")
        self.history = history
        self.resume = resume
        self.head = head


class Fit:
    """One run of a solver for an estimator, which it reads but does not change."""

    def __init__(self, estimator, parts: Any, problem: Problem, validation, random_state) -> None:
        self.estimator = estimator
        self.parts = parts
        self.problem = problem
        self.validation = validation
        self.random_state = random_state
        self.training_sample = self._sample_for_log_likelihood()
        self.history = History()
        self.compile_seconds = 0.0
        self.best: tuple[float, Any, Any] = (-np.inf, None, None)  # value, weights, intercepts
        self.stale = 0

    def run(self, start, resume: State | None = None, one_pass: bool = False) -> Outcome:
        e = self.estimator
        p = self.problem
        self._check_memory()
        if start is None:
            start = _start.initial_weights(e.init, p, self.parts, self.random_state)
        bound = self.parts.bound
        with _progress.reporter(e.progress, e.max_epochs, bound.name, bound.word) as report:
            if self.parts.solver.stochastic:
                return self._run_stochastic(start, resume, one_pass, report)
            return self._run_lbfgs(start, report)

    def _run_stochastic(self, start, resume, one_pass, report) -> Outcome:
        e, p = self.estimator, self.problem
        state = self._state(start, resume)
        settings = Settings(
            batch_size=self.parts.solver.batch_size(e.batch_size),
            max_epochs=1 if one_pass else int(e.max_epochs),
            shuffle=bool(e.shuffle),
            fresh_rows=one_pass,
        )
        run_epochs(
            p,
            self.parts,
            state,
            settings,
            self.random_state,
            on_compiled=self._on_compiled,
            on_epoch=lambda value, seconds: self._on_epoch(
                value, seconds, class_major(state.weights, p.rows), state.intercepts
            ),
            on_chunk=lambda done, value: report(len(self.history) + done, value),
        )
        weights, intercepts = class_major(state.weights, p.rows), state.intercepts
        if e.early_stopping and self.best[1] is not None:
            weights, intercepts = self.best[1], self.best[2]
        state.local = np.empty((0, 0))
        state.weights_state = class_major(state.weights_state, p.rows)
        resume = State(**{**vars(state), "weights": np.empty(0), "intercepts": np.empty(0)})
        advice = self.parts.solver.if_diverged
        return Outcome(weights, intercepts, self.history, resume, p.head, advice)

    def _run_lbfgs(self, start, report) -> Outcome:
        e, p = self.estimator, self.problem

        def on_epoch(value, seconds, weights, intercepts):
            report(len(self.history) + 1, value)
            return self._on_epoch(value, seconds, weights, intercepts)

        weights, intercepts, converged = run_lbfgs(
            p,
            self.parts.bound,
            self.parts.noise,
            self.parts.solver,
            start[0].astype(np.float64),
            start[1].astype(np.float64),
            max_iterations=int(e.max_epochs),
            tol=0.0 if e.tol is None else float(e.tol),
            on_compiled=self._on_compiled,
            on_epoch=on_epoch,
        )
        if not converged:
            warnings.warn(
                f"L-BFGS stopped after {len(self.history)} iterations without reaching "
                f"tol={e.tol}; raise max_epochs or scale the columns of X",
                ConvergenceWarning,
                stacklevel=4,
            )
        if e.early_stopping and self.best[1] is not None:
            weights, intercepts = self.best[1], self.best[2]
        advice = self.parts.solver.if_diverged
        return Outcome(weights, intercepts, self.history, None, p.head, advice)

    def _state(self, start, resume: State | None) -> State:
        """Weights in the rows' layout and working precision, and what the solver remembers."""
        p = self.problem
        dtype = p.rows.values.dtype
        shape = weights_shape(p.rows, p.n_features, p.n_classes)
        weights = start[0].T if is_sparse(p.rows) else start[0]
        weights = np.ascontiguousarray(weights, dtype=dtype)
        has_state = self.parts.solver.has_state
        state = State(
            weights=weights,
            intercepts=np.ascontiguousarray(start[1], dtype=dtype),
            weights_state=np.zeros(shape if has_state else (shape[0], 0), dtype),
            intercepts_state=np.zeros(p.n_classes if has_state else 0, dtype),
            local=self.parts.bound.initial_local(self.parts.noise, start[1])[p.labels],
            rng=_random.new_state(self.random_state),
        )
        if resume is not None:
            state.iteration, state.epoch, state.rng = resume.iteration, resume.epoch, resume.rng
            before = resume.weights_state.T if is_sparse(p.rows) else resume.weights_state
            if before.shape == shape and has_state:  # not after a change of solver
                state.weights_state = np.ascontiguousarray(before, dtype=dtype)
                state.intercepts_state = resume.intercepts_state.astype(dtype, copy=False)
            state.sweep_cursor = resume.sweep_cursor % shape[0]
        return state

    def _check_memory(self) -> None:
        p, e = self.problem, self.estimator
        rows = p.rows
        nonzeros = int(np.diff(rows.indptr).max(initial=1)) if is_sparse(rows) else 0
        needed = e.memory_forecast(
            p.n_rows,
            p.n_features,
            p.n_classes,
            sparse=is_sparse(rows),
            max_row_nonzeros=nonzeros,
            nnz=len(rows.indices) if is_sparse(rows) else None,
            dtype=rows.values.dtype,
        )
        remedy = "drop rare features or classes, or take solver='sgd', which needs the weights only"
        _memory.check(needed, (p.n_classes, p.n_features), remedy)

    def _on_compiled(self, seconds: float) -> None:
        self.compile_seconds = seconds

    def _on_epoch(self, value: float, seconds: float, weights, intercepts) -> bool:
        """Record an epoch; true when the fit should stop."""
        e = self.estimator
        score = self._log_likelihood(self.validation, weights, intercepts)
        before = self.history[-1]["seconds"] if self.history else 0.0
        row = {
            "epoch": len(self.history) + 1,
            "seconds": before + seconds,
            "compile_seconds": self.compile_seconds,
            "objective": float(value),
            "bound": float(value) if self.parts.bound.is_bound else float("nan"),
            "log_likelihood": self._log_likelihood(self.training_sample, weights, intercepts),
            "validation_log_likelihood": score,
        }
        self.history.append(row)
        stop = any([bool(callback({**row, "estimator": e})) for callback in e.callbacks or ()])
        return self._no_gain(value, score, weights, intercepts) or stop

    def _no_gain(self, value: float, score: float, weights, intercepts) -> bool:
        e = self.estimator
        watched = score if e.early_stopping else value
        gained = watched > self.best[0] + (e.tol or 0.0)
        if watched > self.best[0]:
            keep = (
                (weights.copy(order="K"), intercepts.copy()) if e.early_stopping else (None, None)
            )
            self.best = (watched, *keep)
        self.stale = 0 if gained else self.stale + 1
        stops_itself = not self.parts.solver.stochastic and not e.early_stopping
        return e.tol is not None and not stops_itself and self.stale >= e.n_iter_no_change

    def _sample_for_log_likelihood(self):
        """Training rows for the true log-likelihood, where the objective says nothing about it.

        An estimator's value is not on the scale of log-probabilities; so some rows are evaluated
        exactly after each epoch, few enough that this costs little beside the epoch.
        """
        p = self.problem
        if self.parts.bound.is_bound:
            return None
        n = min(p.n_rows, max(MOST_SCORES // p.n_classes, LEAST_ROWS))
        # Not from `random_state`: looking at a fit must not change it.
        chosen = np.sort(np.random.RandomState(0).permutation(p.n_rows)[:n])
        X: Any = p.rows.values
        if is_sparse(p.rows):
            shape = (p.n_rows, p.n_features)
            X = scipy.sparse.csr_array((X, p.rows.indices, p.rows.indptr), shape=shape)
        if n == p.n_rows:  # no copy
            return X, p.labels, p.row_weights
        return X[chosen], p.labels[chosen], p.row_weights[chosen]

    def _log_likelihood(self, sample, weights, intercepts) -> float:
        if sample is None:
            return float("nan")
        X, labels, row_weights = sample
        values = Scorer(weights, intercepts, self.parts.noise).log_proba_of(X, labels)
        return float(row_weights @ values / row_weights.sum())
