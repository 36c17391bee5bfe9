"""Grid of explicit settings, and the part of it that a problem can afford.

Costs are estimated from the sizes alone, so that every run tries the same settings. The most
different settings come first. Dense rows have each setting twice: with columns scaled to mean zero
and variance one (by the training rows), and as they are. A setting is left out if it would take
more than `MAX_SECONDS_PER_FIT`, or more than `MAX_SECONDS` together with those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks._models import linear
from bigcat import EarlyStopping
from bigcat.samplers import CoOccurrence, Shared, Stratified
from bigcat.solvers import LBFGS, AdaGrad, Damped

#: Estimates for one core of the reference machine.
MAX_SECONDS_PER_FIT = 6.0
MAX_SECONDS = 16.0
#: Maximal weights of full rank; L-BFGS keeps some thirty copies in double precision.
MAX_WEIGHTS, MAX_WEIGHTS_OF_LBFGS = 100_000_000, 3_000_000

RATES = (1.0, 0.125, 8.0)
RIDGES = (1.0, 0.01, 100.0)
LOW_RANK_RATES, LOW_RANK_PASSES = (0.03, 0.1), (7, 3)
MAX_EPOCHS, FALLING_EPOCHS, ITERATIONS = 50, 8, 200
N_DRAWN = 24
#: Settings with few drawn classes apply above this number of classes.
MAX_EXACT_CLASSES, MAX_EXACT_CLASSES_OF_LOW_RANK = 512, 2_048
#: Minimal rows per pass of low rank; smaller data are repeated.
ROWS_OF_A_PASS = 5_000


class Shape(NamedTuple):
    """Sizes that determine the cost of a setting."""

    n_rows: int
    n_features: int
    n_classes: int
    per_row: float  # values that are not zero
    sparse: bool

    @classmethod
    def of(cls, X: Any, y: np.ndarray) -> Shape:
        sparse = scipy.sparse.issparse(X)
        n, d = X.shape
        return cls(n, d, len(np.unique(y)), X.nnz / n if sparse else float(d), sparse)


@dataclass(frozen=True)
class Setting:
    """A model with a name; `make` gives one that is not fitted, for so many threads."""

    name: str
    seconds: float  # estimated
    make: Callable[[int], Any]
    scaled: bool = False

    def with_scaled_columns(self) -> Setting:
        return Setting(f"{self.name}, scaled", self.seconds, self.make, True)

    def fit(self, X: Any, y: np.ndarray, n_threads: int, **given: Any) -> Fitted:
        scaler = StandardScaler().fit(X) if self.scaled else None
        model = self.make(n_threads).fit(X if scaler is None else scaler.transform(X), y, **given)
        return Fitted(model, scaler)


@dataclass(frozen=True)
class Fitted:
    """Fitted model that scales its rows if its setting does."""

    model: Any
    scaler: StandardScaler | None = None

    def log_proba_of(self, X: Any, y: np.ndarray) -> np.ndarray:
        return np.asarray(self.model.log_proba_of(self._rows(X), y), np.float64)

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(self._rows(X))

    def _rows(self, X: Any) -> Any:
        return X if self.scaler is None else self.scaler.transform(X)


# Models that are not ours


class Frequencies:
    """Class frequencies with one added to every count; ignores X."""

    def fit(self, X: Any, y: np.ndarray) -> Frequencies:
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_proba = np.log((counts + 1.0) / (counts + 1.0).sum())
        return self

    def log_proba_of(self, X: Any, y: np.ndarray) -> np.ndarray:
        return self.log_proba[np.searchsorted(self.classes_, y)]

    def predict(self, X: Any) -> np.ndarray:
        return np.full(X.shape[0], self.classes_[self.log_proba.argmax()])


class Logistic:
    """scikit-learn's `LogisticRegression`; log-probabilities from its scores, never -inf."""

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, X: Any, y: np.ndarray) -> Logistic:
        self.model = LogisticRegression(C=self.C, max_iter=ITERATIONS).fit(X, y)
        return self

    def log_proba_of(self, X: Any, y: np.ndarray) -> np.ndarray:
        scores = self.model.decision_function(X)
        if scores.ndim == 1:  # two classes: the second one's
            scores = np.column_stack([np.zeros_like(scores), scores])
        scores = scores - scores.max(axis=1, keepdims=True)
        own = scores[np.arange(len(y)), np.searchsorted(self.model.classes_, y)]
        return own - np.log(np.exp(scores).sum(axis=1))

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(X)


def _logistic(C: float, n_threads: int) -> Logistic:
    """Return a logistic regression; it always runs on one thread."""
    return Logistic(C)


# Ours


def _early(rate: float, sampler: Any, n_threads: int) -> Any:
    """Damped steps at one rate with averaging, stopped early by a held-out tenth of the rows."""
    return linear(
        method="exact" if sampler == "everything" else "complementary",
        sampler=sampler,
        solver=Damped(rate, schedule="constant", average=True, batch_size=1),
        max_epochs=MAX_EPOCHS,
        early_stopping=EarlyStopping(tol=1e-4),
        n_threads=n_threads,
    )


def _falling(rate: float, sampler: Any, n_threads: int) -> Any:
    """Damped steps whose rate falls to zero."""
    return linear(
        method="exact" if sampler == "everything" else "complementary",
        sampler=sampler,
        solver=Damped(rate, schedule="linear", batch_size=1),
        max_epochs=FALLING_EPOCHS,
        n_threads=n_threads,
    )


def _low_rank(rate: float, passes: int, rank: int, drawn: bool, n_threads: int) -> Any:
    """AdaGrad on batches, whose rate falls to zero."""
    solver = AdaGrad(rate, schedule="linear", power=1.25, per="vector" if drawn else "coordinate")
    return linear(
        method="complementary" if drawn else "exact",
        sampler=Shared(512) if drawn else "everything",
        solver=solver.with_options(batch_size=128),
        max_epochs=passes,
        rank=rank,
        n_threads=n_threads,
    )


def _lbfgs(l2: float | str, n_threads: int) -> Any:
    """The maximum of the penalised likelihood."""
    return linear(
        method="exact",
        sampler="everything",
        solver=LBFGS(tol=1e-4),
        max_epochs=ITERATIONS,
        l2=l2,
        n_threads=n_threads,
    )


# Which are tried


def affordable(shape: Shape, max_seconds: float = MAX_SECONDS) -> tuple[list[Setting], list[str]]:
    """Return the settings to try, and the names of those that would take too long."""
    tried: list[Setting] = []
    skipped: list[str] = []
    spent = 0.0
    for setting in grid(shape):
        if setting.seconds <= MAX_SECONDS_PER_FIT and spent + setting.seconds <= max_seconds:
            tried.append(setting)
            spent += setting.seconds
        else:
            skipped.append(setting.name)
    return tried, skipped


def grid(shape: Shape) -> list[Setting]:
    """Return all settings that suit a shape, the most different ones first."""
    settings = [Setting("frequencies", 0.0, lambda n_threads: Frequencies())]
    kinds = (_lbfgs_kind, _early_kind, _low_rank_kind, _falling_kind, _logistic_kind)
    for in_turn in zip_longest(*(kind(shape) for kind in kinds)):
        settings += [setting for setting in in_turn if setting is not None]
    if shape.sparse:
        return settings
    both: list[Setting] = []
    for setting in settings:
        if setting.name != "frequencies":
            both.append(setting.with_scaled_columns())
        if not setting.name.startswith("LogisticRegression"):  # always on scaled columns
            both.append(setting)
    return both


# Costs: processor seconds, fitted by eye to fits of 2,000 to 20,000 rows


def _lbfgs_kind(shape: Shape) -> Iterator[Setting]:
    n, d, k, per_row, sparse = shape
    if k * d > MAX_WEIGHTS_OF_LBFGS:
        return
    a_score = 5e-9 * per_row if sparse else 1.5e-8 + 5e-11 * per_row
    iteration = 3e-4 + a_score * n * k + 1.5e-8 * k * d
    for l2 in RIDGES:
        seconds = 80 * iteration * (2.0 if l2 < 1.0 else 1.0)
        yield Setting(f"lbfgs l2={l2:g}", seconds, partial(_lbfgs, l2))
    yield Setting("lbfgs l2=path", 600 * iteration, partial(_lbfgs, "path"))


def _logistic_kind(shape: Shape) -> Iterator[Setting]:
    for setting, l2 in zip(_lbfgs_kind(shape), RIDGES):
        C = 1.0 / l2
        seconds = 1.5 * setting.seconds
        yield Setting(f"LogisticRegression C={C:g}", seconds, partial(_logistic, C))


def _samplers(shape: Shape) -> list[tuple[str, Any, float]]:
    """Ways to look at classes of full rank: name, sampler, seconds per row and pass."""
    _, d, k, per_row, sparse = shape
    if k * d > MAX_WEIGHTS:
        return []
    a_score, a_draw = 5e-9 + 1e-9 * per_row, 2.5e-7 + 1e-9 * per_row
    ways: list[tuple[str, Any, float]] = [("exact", "everything", 2e-6 + k * a_score)]
    if k > MAX_EXACT_CLASSES and sparse:
        ways.append(("sampled", CoOccurrence(N_DRAWN), 2e-6 + N_DRAWN * a_draw))
    elif k > MAX_EXACT_CLASSES:
        sampler = Stratified(n_head=MAX_EXACT_CLASSES, n_negatives=N_DRAWN)
        ways.append(("sampled", sampler, 2e-6 + MAX_EXACT_CLASSES * a_score + N_DRAWN * a_draw))
    return ways


def _early_kind(shape: Shape) -> Iterator[Setting]:
    """Return early-stopped settings; averaging triples the work per row."""
    n_weights = shape.n_features * shape.n_classes
    for rate in RATES:
        for name, sampler, a_row in _samplers(shape):
            yield Setting(
                f"{name} rate={rate:g}, early stopping",
                25 * (3.0 * shape.n_rows * a_row + 2.5e-8 * n_weights),
                partial(_early, rate, sampler),
            )


def _falling_kind(shape: Shape) -> Iterator[Setting]:
    n_weights = shape.n_features * shape.n_classes
    for rate in RATES:
        for name, sampler, a_row in _samplers(shape):
            yield Setting(
                f"{name} rate={rate:g}, {FALLING_EPOCHS} passes",
                FALLING_EPOCHS * shape.n_rows * a_row + 1e-8 * n_weights,
                partial(_falling, rate, sampler),
            )


def _low_rank_kind(shape: Shape) -> Iterator[Setting]:
    n, d, k, per_row, sparse = shape
    rank = 256 if min(k, d) > 256 else 32
    if min(k, d) <= rank:
        return
    drawn = k > MAX_EXACT_CLASSES_OF_LOW_RANK
    a_row = 1e-6 + rank * (2e-10 * (512 if drawn else k) + (1e-9 if sparse else 2e-10) * per_row)
    times = max(1, round(ROWS_OF_A_PASS / n))
    for passes in LOW_RANK_PASSES:
        for rate in LOW_RANK_RATES:
            many = passes * times
            yield Setting(
                f"rank={rank} rate={rate:g}, {many} passes",
                many * n * a_row,
                partial(_low_rank, rate, many, rank, drawn),
            )
