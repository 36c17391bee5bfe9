"""The grid: recipes that name all they depend on, and which of them a problem can pay for.

What a recipe costs is estimated from the sizes alone, so that every run tries the same ones.  They
come in an order: what is most unlike comes first, and dense rows have every recipe twice, with
columns scaled to mean zero and variance one (by the rows trained on) and as they are.  One that
would take more than `MOST_SECONDS_OF_ONE` by itself, or `MOST_SECONDS` together with those before
it, is left out.
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

#: Estimated, on one core of the machine that the estimates were made on.
MOST_SECONDS_OF_ONE = 6.0
MOST_SECONDS = 16.0
#: Weights of full rank, at most; and where some thirty copies of them in double precision are kept.
MOST_WEIGHTS, MOST_WEIGHTS_OF_LBFGS = 100_000_000, 3_000_000

RATES = (1.0, 0.125, 8.0)
RIDGES = (1.0, 0.01, 100.0)
LOW_RANK_RATES, LOW_RANK_PASSES = (0.03, 0.1), (7, 3)
MOST_EPOCHS, FALLING_EPOCHS, ITERATIONS = 50, 8, 200
N_DRAWN = 24
#: Few classes are drawn only where there are more than so many to draw from.
FEW_CLASSES, FEW_CLASSES_OF_LOW_RANK = 512, 2_048
#: Passes of low rank are over at least so many rows: data of fewer come several times.
ROWS_OF_A_PASS = 5_000


class Shape(NamedTuple):
    """What the cost of a recipe depends on."""

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
class Recipe:
    """A model with a name; `make` gives one that is not fitted, for so many threads."""

    name: str
    seconds: float  # estimated
    make: Callable[[int], Any]
    scaled: bool = False

    def with_scaled_columns(self) -> Recipe:
        return Recipe(f"{self.name}, scaled", self.seconds, self.make, True)

    def fit(self, X: Any, y: np.ndarray, n_threads: int, **told: Any) -> Fitted:
        scaler = StandardScaler().fit(X) if self.scaled else None
        model = self.make(n_threads).fit(X if scaler is None else scaler.transform(X), y, **told)
        return Fitted(model, scaler)


@dataclass(frozen=True)
class Fitted:
    """A fitted model that scales its rows where the recipe does."""

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
    """Class frequencies, with one added to every count: what can be said without a look at X."""

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
    """It runs on one thread in any case."""
    return Logistic(C)


# Ours


def _early(rate: float, sampler: Any, n_threads: int) -> Any:
    """Damped steps at one rate with an average, until a tenth of the rows no longer gains."""
    return linear(
        method="exact" if sampler == "everything" else "complementary",
        sampler=sampler,
        solver=Damped(rate, schedule="constant", average=True, batch_size=1),
        max_epochs=MOST_EPOCHS,
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


def affordable(shape: Shape, most_seconds: float = MOST_SECONDS) -> tuple[list[Recipe], list[str]]:
    """Recipes to try, and the names of those that would take too long."""
    tried: list[Recipe] = []
    skipped: list[str] = []
    spent = 0.0
    for recipe in grid(shape):
        if recipe.seconds <= MOST_SECONDS_OF_ONE and spent + recipe.seconds <= most_seconds:
            tried.append(recipe)
            spent += recipe.seconds
        else:
            skipped.append(recipe.name)
    return tried, skipped


def grid(shape: Shape) -> list[Recipe]:
    """All recipes that make sense for a shape, the most unlike first."""
    recipes = [Recipe("frequencies", 0.0, lambda n_threads: Frequencies())]
    kinds = (_lbfgs_kind, _early_kind, _low_rank_kind, _falling_kind, _logistic_kind)
    for in_turn in zip_longest(*(kind(shape) for kind in kinds)):
        recipes += [recipe for recipe in in_turn if recipe is not None]
    if shape.sparse:
        return recipes
    both: list[Recipe] = []
    for recipe in recipes:
        if recipe.name != "frequencies":
            both.append(recipe.with_scaled_columns())
        if not recipe.name.startswith("LogisticRegression"):  # always on scaled columns
            both.append(recipe)
    return both


# What they cost: processor seconds, fitted by eye to fits of 2,000 to 20,000 rows


def _lbfgs_kind(shape: Shape) -> Iterator[Recipe]:
    n, d, k, per_row, sparse = shape
    if k * d > MOST_WEIGHTS_OF_LBFGS:
        return
    a_score = 5e-9 * per_row if sparse else 1.5e-8 + 5e-11 * per_row
    iteration = 3e-4 + a_score * n * k + 1.5e-8 * k * d
    for l2 in RIDGES:
        seconds = 80 * iteration * (2.0 if l2 < 1.0 else 1.0)
        yield Recipe(f"lbfgs l2={l2:g}", seconds, partial(_lbfgs, l2))
    yield Recipe("lbfgs l2=path", 600 * iteration, partial(_lbfgs, "path"))


def _logistic_kind(shape: Shape) -> Iterator[Recipe]:
    for recipe, l2 in zip(_lbfgs_kind(shape), RIDGES):
        C = 1.0 / l2
        seconds = 1.5 * recipe.seconds
        yield Recipe(f"LogisticRegression C={C:g}", seconds, partial(_logistic, C))


def _samplers(shape: Shape) -> list[tuple[str, Any, float]]:
    """Ways to look at classes of full rank: name, sampler, seconds per row and pass."""
    _, d, k, per_row, sparse = shape
    if k * d > MOST_WEIGHTS:
        return []
    a_score, a_draw = 5e-9 + 1e-9 * per_row, 2.5e-7 + 1e-9 * per_row
    ways: list[tuple[str, Any, float]] = [("exact", "everything", 2e-6 + k * a_score)]
    if k > FEW_CLASSES and sparse:
        ways.append(("sampled", CoOccurrence(N_DRAWN), 2e-6 + N_DRAWN * a_draw))
    elif k > FEW_CLASSES:
        sampler = Stratified(n_head=FEW_CLASSES, n_negatives=N_DRAWN)
        ways.append(("sampled", sampler, 2e-6 + FEW_CLASSES * a_score + N_DRAWN * a_draw))
    return ways


def _early_kind(shape: Shape) -> Iterator[Recipe]:
    """Averaging triples the work of a row, and all weights are looked at after each pass."""
    n_weights = shape.n_features * shape.n_classes
    for rate in RATES:
        for name, sampler, a_row in _samplers(shape):
            yield Recipe(
                f"{name} rate={rate:g}, early stopping",
                25 * (3.0 * shape.n_rows * a_row + 2.5e-8 * n_weights),
                partial(_early, rate, sampler),
            )


def _falling_kind(shape: Shape) -> Iterator[Recipe]:
    n_weights = shape.n_features * shape.n_classes
    for rate in RATES:
        for name, sampler, a_row in _samplers(shape):
            yield Recipe(
                f"{name} rate={rate:g}, {FALLING_EPOCHS} passes",
                FALLING_EPOCHS * shape.n_rows * a_row + 1e-8 * n_weights,
                partial(_falling, rate, sampler),
            )


def _low_rank_kind(shape: Shape) -> Iterator[Recipe]:
    n, d, k, per_row, sparse = shape
    rank = 256 if min(k, d) > 256 else 32
    if min(k, d) <= rank:
        return
    drawn = k > FEW_CLASSES_OF_LOW_RANK
    a_row = 1e-6 + rank * (2e-10 * (512 if drawn else k) + (1e-9 if sparse else 2e-10) * per_row)
    times = max(1, round(ROWS_OF_A_PASS / n))
    for passes in LOW_RANK_PASSES:
        for rate in LOW_RANK_RATES:
            many = passes * times
            yield Recipe(
                f"rank={rank} rate={rate:g}, {many} passes",
                many * n * a_row,
                partial(_low_rank, rate, many, rank, drawn),
            )
