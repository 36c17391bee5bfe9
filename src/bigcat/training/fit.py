"""One run of a solver for an estimator: state, memory, validation, stopping."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat.linear.labels import encode
from bigcat.linear.prediction import Scorer
from bigcat.linear.weights import as_public, as_trained, trained_shape
from bigcat.noise import Gumbel
from bigcat.numerics import random as _random
from bigcat.rows import Problem, class_major, is_sparse
from bigcat.solvers import DivergedError
from bigcat.training import memory as _memory
from bigcat.training import progress as _progress
from bigcat.training import start as _start
from bigcat.training.history import History
from bigcat.training.lbfgs import run_lbfgs
from bigcat.training.loop import Settings, run_epochs
from bigcat.training.recipe import Recipe, Sizes
from bigcat.training.state import Average, State

#: Scores that one look at the training log-likelihood may cost, and the fewest rows it takes.
MOST_SCORES = 1 << 22
LEAST_ROWS = 100
#: Scores that one look at held-out rows may cost; other noises than the softmax's cost more each.
MOST_HELD_OUT_SCORES, COST_OF_NODES = 1 << 28, 64
#: Seconds of training after which the rest is forecast, the first of which do not count: memory
#: that is touched for the first time is slow.
FORECAST_AFTER, WARMING_UP = 4.0, 2.0


def mean_log_likelihood(noise: Any, sample: Any, weights, intercepts) -> float:
    """Of rows, labels and row weights at given weights (n_classes, n_features), mean a row."""
    X, labels, row_weights = sample
    values = Scorer(weights, intercepts, noise, how="quick").log_proba_of(X, labels)
    return float(row_weights @ values / row_weights.sum())


class Outcome:
    """What a finished fit hands to its estimator."""

    def __init__(self, coef, intercept, history, resume, problem: Problem, advice: str) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.coef = coef.astype(np.float32, copy=False)
            self.intercept = intercept.astype(np.float32, copy=False)
            total = self.coef.sum(dtype=np.float64) + self.intercept.sum(dtype=np.float64)
        if not np.isfinite(total):
            raise DivergedError(f"the weights became infinite or NaN; {advice}")
        self.history = history
        self.resume = resume
        self.head = problem.head


class Before(NamedTuple):
    """What went on before a run, to be counted in its history."""

    epochs: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0


NOTHING_BEFORE = Before()


class Fit:
    """One run of a solver for an estimator, which it reads but does not change."""

    def __init__(
        self,
        estimator,
        recipe: Recipe,
        problem: Problem,
        classes: np.ndarray,
        validation,
        random_state,
        before: Before = NOTHING_BEFORE,
    ):
        """`classes` are the labels in the order of the problem's numbers."""
        self.estimator = estimator
        self.recipe = recipe
        self.parts: Any = recipe.parts
        self.problem = problem
        self.classes = classes
        self.before = before
        self.validation = validation and self._few_enough(validation)
        self.random_state = random_state
        self.training_sample = self._sample_for_log_likelihood()
        self.history = History()
        self.compile_seconds = 0.0
        self.training_since = 0.0
        self.warm_at = (0.0, 0.0)  # seconds and part of the first epoch
        self.stop = recipe.stop()
        # Of the epoch with the highest value: value, epoch, weights, intercepts.
        self.best: tuple[float, int, Any, Any] = (-np.inf, 0, None, None)

    def run(self, start, resume: State | None = None, one_pass: bool = False) -> Outcome:
        e = self.estimator
        p = self.problem
        self._check_memory()
        if start is None:
            start = _start.initial_weights(e.init, p, self.parts, self.random_state)
        bound, epochs = self.parts.bound, self.recipe.max_epochs
        with _progress.reporter(e.progress, epochs, bound.name, bound.word) as report:
            if self.parts.solver.stochastic:
                return self._run_stochastic(start, resume, one_pass, report)
            return self._run_lbfgs(start, report)

    def _run_stochastic(self, start, resume, one_pass, report) -> Outcome:
        e, p = self.estimator, self.problem
        state = self._state(start, resume)
        settings = Settings(
            batch_size=self.recipe.batch_size,
            max_epochs=1 if one_pass else self.recipe.max_epochs,
            shuffle=bool(e.shuffle),
            fresh_rows=one_pass,
            n_threads=self.recipe.n_threads,
        )
        fitted: Any = state.average or state

        def on_chunk(done: float, value: float) -> None:
            report(len(self.history) + done, value)
            self._forecast(done, settings.max_epochs)

        run_epochs(
            p,
            self.parts,
            state,
            settings,
            self.random_state,
            on_compiled=self._on_compiled,
            on_epoch=lambda value, seconds: self._on_epoch(
                value, seconds, as_public(fitted.weights, p), fitted.intercepts
            ),
            on_chunk=on_chunk,
        )
        public = as_public(fitted.weights, p, for_good=True)
        weights, intercepts = self._best_or(public, fitted.intercepts)
        state.local, state.average = np.empty((0, 0)), None
        if p.rank is None:
            state.weights_state = class_major(state.weights_state, p.rows)
        resume = State(**{**vars(state), "weights": np.empty(0), "intercepts": np.empty(0)})
        advice = self.parts.solver.if_diverged
        return Outcome(weights, intercepts, self.history, resume, p, advice)

    def _run_lbfgs(self, start, report) -> Outcome:
        e, p = self.estimator, self.problem

        def public(weights):
            return weights if p.rank is None else as_public(weights, p)

        def on_epoch(value, seconds, weights, intercepts):
            report(len(self.history) + 1, value)
            return self._on_epoch(value, seconds, public(weights), intercepts)

        weights = start[0].astype(np.float64)
        if p.rank is not None:
            weights = as_trained(weights, p, np.float64)

        weights, intercepts, converged = run_lbfgs(
            p,
            self.parts.bound,
            self.parts.noise,
            self.parts.solver,
            weights,
            start[1].astype(np.float64),
            max_iterations=self.recipe.max_epochs,
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
        weights, intercepts = self._best_or(public(weights), intercepts)
        advice = self.parts.solver.if_diverged
        return Outcome(weights, intercepts, self.history, None, p, advice)

    def _best_or(self, weights, intercepts):
        if self.recipe.early_stopping and self.best[2] is not None:
            return self.best[2], self.best[3]
        return weights, intercepts

    def _state(self, start, resume: State | None) -> State:
        """Weights in the rows' layout and working precision, and what the solver remembers."""
        p = self.problem
        dtype = p.rows.values.dtype
        shape = trained_shape(p)
        weights = as_trained(start[0], p, dtype)
        solver = self.parts.solver
        state = State(
            weights=weights,
            intercepts=np.ascontiguousarray(start[1], dtype=dtype),
            weights_state=np.zeros((shape[0], solver.state_width(shape[1])), dtype),
            intercepts_state=np.zeros(p.n_classes if solver.has_state else 0, dtype),
            local=self.parts.bound.initial_local(self.parts.noise, start[1])[p.labels],
            rng=_random.new_state(self.random_state),
        )
        if getattr(solver, "average", False):
            state.average = Average(weights.copy(), state.intercepts.copy())
        if resume is not None:
            state.iteration, state.epoch, state.rng = resume.iteration, resume.epoch, resume.rng
            before = resume.weights_state
            if p.rank is None and is_sparse(p.rows):
                before = before.T
            if before.shape == state.weights_state.shape:  # not after a change of solver
                state.weights_state = np.ascontiguousarray(before, dtype=dtype)
                state.intercepts_state = resume.intercepts_state.astype(dtype, copy=False)
            state.sweep_cursor = resume.sweep_cursor % shape[0]
        return state

    def _check_memory(self) -> None:
        p = self.problem
        rows = p.rows
        nonzeros = int(np.diff(rows.indptr).max(initial=1)) if is_sparse(rows) else 0
        sizes = Sizes(p.n_rows, p.n_features, p.n_classes, rows.values.size, is_sparse(rows))
        needed = _memory.needed(self.recipe, sizes, nonzeros, rows.values.dtype)
        remedy = "drop rare features or classes, or take solver='sgd', which needs the weights only"
        if self.recipe.rank is None:
            remedy += ", or a rank, with which a class has as many weights as that"
        _memory.check(needed, (p.n_classes, p.n_features), remedy)

    def _on_compiled(self, seconds: float) -> None:
        self.compile_seconds = self.before.compile_seconds + seconds
        self.training_since = time.perf_counter()

    def _forecast(self, part: float, n_epochs: int) -> None:
        """Once, from the first part of the first epoch."""
        if self.history.forecast_seconds is not None:
            return
        seconds = time.perf_counter() - self.training_since
        if seconds < WARMING_UP:
            self.warm_at = (seconds, part)
        if seconds >= FORECAST_AFTER or part == 1.0:
            begun, done = self.warm_at if seconds >= FORECAST_AFTER else (0.0, 0.0)
            an_epoch = (seconds - begun) / (part - done)
            left = (n_epochs - part) * an_epoch
            self.history.forecast_seconds = self.before.seconds + seconds + left

    def _on_epoch(self, value: float, seconds: float, weights, intercepts) -> bool:
        """Record an epoch; true when the fit should stop."""
        e = self.estimator
        score = self._log_likelihood(self.validation, weights, intercepts)
        before = self.history[-1]["seconds"] if self.history else self.before.seconds
        row = {
            "epoch": self.before.epochs + len(self.history) + 1,
            "seconds": before + seconds,
            "compile_seconds": self.compile_seconds,
            "objective": float(value),
            "bound": float(value) if self.parts.bound.is_bound else float("nan"),
            "log_likelihood": self._log_likelihood(self.training_sample, weights, intercepts),
            "validation_log_likelihood": score,
        }
        self.history.append(row)
        told = {
            **row,
            "estimator": e,
            "log_likelihood_of": lambda X, y: self._log_likelihood_of(X, y, weights, intercepts),
        }
        stop = any([bool(callback(told)) for callback in e.callbacks or ()])
        return self._no_gain(value, score, weights, intercepts) or stop

    def _log_likelihood_of(self, X, y, weights, intercepts) -> float:
        """Mean log-probability of labels a row, at the weights of now."""
        order = np.argsort(self.classes, kind="stable")
        labels = order[encode(y, self.classes[order])]
        sample = (X, labels, np.ones(len(labels)))
        return mean_log_likelihood(self.parts.noise, sample, weights, intercepts)

    def _no_gain(self, value: float, score: float, weights, intercepts) -> bool:
        keeps = self.recipe.early_stopping
        watched = score if keeps else value
        if watched > self.best[0]:
            kept = (weights.copy(order="K"), intercepts.copy()) if keeps else (None, None)
            self.best = (watched, len(self.history), *kept)
        stops_itself = not self.parts.solver.stochastic and not keeps
        return self.stop(watched) and not stops_itself

    def _few_enough(self, held_out):
        """Held-out rows to look at after each epoch: all, or as many as the classes allow.

        What these say is exact for them, so the same rows of two epochs can be compared; estimates
        of all rows from a few classes each are off by more than an epoch gains
        (``docs/serving.md``).
        """
        X, labels, row_weights = held_out
        most = MOST_HELD_OUT_SCORES // self.problem.n_classes
        if not isinstance(self.parts.noise, Gumbel):
            most //= COST_OF_NODES
        most = max(most, LEAST_ROWS)
        if len(labels) <= most:
            return held_out
        chosen = np.sort(np.random.RandomState(0).permutation(len(labels))[:most])
        return X[chosen], labels[chosen], row_weights[chosen]

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
        return mean_log_likelihood(self.parts.noise, sample, weights, intercepts)
