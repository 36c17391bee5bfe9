"""``l2="path"``: the ridge that predicts held-out rows best, from strong to weak.

Each fit is the one that the ridge as a number would give: to start where the last one ended would
be quicker, but ends elsewhere, since a fit also stops for want of progress.  The path ends when two
ridges in a row were no better.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bigcat.linear import LinearModel
from bigcat.training.blend import part_to_trust
from bigcat.training.fit import Outcome, Start
from bigcat.training.recipe import Recipe
from bigcat.training.row_space import RowSpace
from bigcat.training.sample import Kinds, Sample, hold_out, rows_together, standard_error
from bigcat.training.start import log_frequencies

#: Times 1, the ridge of scikit-learn's C = 1: from here down by this factor, to this.
STRONGEST, FACTOR, WEAKEST = 100.0, 10.0**0.5, 1e-4
#: Of the rows, where none are given to choose by.
HELD_OUT = 0.2
#: Rows that a quick choice fits to, for each weight, and at least: the best ridge on a sum hardly
#: depends on how long the sum is, since it says how large weights are.
ROWS_PER_WEIGHT, LEAST_FITTED = 8, 1_000
#: Sparse rows whose squared length this part of them stays below, if that is shorter than this.
TYPICAL, SHORT = 0.95, 0.1
#: Held-out rows that are enough to choose by; where one fold has fewer there are several, but not
#: more than so many, or with many weights, where each fit takes long, so many.
ENOUGH_HELD_OUT, FOLDS, MANY_WEIGHTS, FOLDS_OF_MANY = 250, 5, 1 << 14, 3
#: The same of groups of rows, which say more than a row.
ENOUGH_GROUPS_HELD_OUT = 50
PATIENCE = 2
#: A ridge is clearly worse than another by so many standard errors of the difference, of as many
#: rows: it is not fitted to the folds that are left.
CLEARLY, ENOUGH_TO_DECIDE = 4.0, 50
#: A quick choice begins with 1, goes by tens to the best on either side, and then looks beside it;
#: its fits begin where the last one ended, and end soon.
QUICK_TOL, QUICK_ENOUGH, QUICK_ITERATIONS = 1e-5, 1e-6, 60
#: A ridge that leaves class frequencies, for data that know no more.
QUICK_STRONGEST = 1e5


def check(recipe: Recipe) -> None:
    if recipe.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{recipe.parts.solver.name!r}; set solver='lbfgs' (the default for few rows), or "
            "give l2 a number"
        )


class Fold(NamedTuple):
    """Rows to fit to, different rows to judge by, and which share of all rows the former are.

    A ridge on a sum is the stronger the shorter the sum is.
    """

    kept: Sample
    held_out: Sample
    share: float

    def turned(self, by: RowSpace) -> Fold:
        return self._replace(kept=self.kept.turned(by), held_out=self.held_out.turned(by))


def folds_of(
    data: Sample,
    n_classes: int,
    random_state: np.random.RandomState,
    remedy: str,
    quickly: bool = False,
    kinds: Kinds | None = None,
) -> list[Fold]:
    """One fold, or as many as say enough, which share all rows where these are very few.

    Rows of one kind stay together, which are groups or copies unless you know more.
    """
    kinds = rows_together(data) if kinds is None else kinds
    kind = kinds.of_row
    n = int(kind.max()) + 1
    enough_held = ENOUGH_GROUPS_HELD_OUT if kinds.depend else ENOUGH_HELD_OUT
    if n * HELD_OUT >= enough_held:
        kept, held_out = hold_out(data, n_classes, HELD_OUT, random_state, remedy, kinds)
        held_out = held_out.distinct()
        enough = max(ROWS_PER_WEIGHT * n_classes * (data.X.shape[1] + 1), LEAST_FITTED)
        if not quickly or kept.n_rows <= enough:
            return [Fold(kept, held_out, kept.row_weights.sum() / data.row_weights.sum())]
        some = random_state.permutation(kept.n_rows)[:enough]
        kept = kept.take(np.sort(some))
        known = np.isin(held_out.labels, kept.labels)
        return [Fold(kept, held_out.take(np.flatnonzero(known)), 1.0)]
    folds = []
    n_folds = FOLDS if data.X.shape[1] * n_classes <= MANY_WEIGHTS else FOLDS_OF_MANY
    fold_of = (random_state.permutation(n) % n_folds)[kind]
    for fold in np.unique(fold_of)[: -(-enough_held * n_folds // n)]:
        kept = data.take(np.flatnonzero(fold_of != fold))
        held = np.flatnonzero(fold_of == fold)
        held = held[np.isin(data.labels[held], kept.labels)]
        if len(held) and len(np.unique(kept.labels)) > 1:
            share = kept.row_weights.sum() / data.row_weights.sum()
            folds.append(Fold(kept, data.take(held).distinct(), share))
    if not folds:
        raise ValueError(f"no row can be held out to choose the ridge by; {remedy}")
    return folds


def choose(
    recipe: Recipe, fit: Callable[[Recipe, Sample, Start | None], Outcome], folds: list[Fold]
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe with the best ridge, and a report for people.

    Parameters
    ----------
    fit : callable
        Called with a recipe, the rows to fit, and where to start.
    folds : list of Fold
        To choose by.
    """
    started = time.perf_counter()
    best = l2 = STRONGEST
    tried: dict[float, float] = {}
    worse = 0
    while worse < PATIENCE and l2 >= 0.999 * WEAKEST:
        values = []
        for fold in folds:
            trial = replace(recipe, l2=fold.share * l2, early_stopping=False)
            values.append(_judged(_fitted(trial, fit, fold, None), recipe, fold))
        tried[l2] = _mean(values, folds)
        worse = worse + 1 if tried[l2] < tried[best] else 0
        best = best if worse else l2
        l2 /= FACTOR
    return replace(recipe, l2=best), _report(tried, started)


def unit_of(data: Sample) -> float:
    """A power of ten to count ridges in: sparse values are as people have them.

    1 for dense columns, which are scaled, and for values up to 1, such as words and categories; for
    larger values their usual square, and for rows that are all short, that of their length.
    """
    if not scipy.sparse.issparse(data.X) or not data.X.nnz:
        return 1.0
    X = data.distinct().X
    square = float(np.median(np.abs(X.data[X.data != 0.0]).astype(np.float64)) ** 2)
    if square <= 1.0:
        lengths = np.asarray(X.multiply(X).sum(axis=1), np.float64)
        square = float(np.quantile(lengths, TYPICAL))
        if square >= SHORT or square == 0.0:
            return 1.0
    return float(10.0 ** np.clip(np.round(np.log10(square)), -30, 30))


class Judge(Protocol):
    """Says of any ridge how well it predicts rows that its fits have not seen."""

    def of_frequencies(self) -> np.ndarray:
        """Log-likelihoods of these rows by class frequencies, (n,)."""
        ...

    @property
    def weights(self) -> np.ndarray:
        """Of these rows, (n,)."""
        ...

    @property
    def groups(self) -> np.ndarray | None:
        """Of these rows, where they are not for themselves, (n,)."""
        ...

    def log_likelihoods(self, l2: float, best: np.ndarray | None = None) -> np.ndarray:
        """Of these rows, (n,); they may be guesses where `best` are clearly better."""
        ...


class Folds:
    """Fits without each fold, of few iterations, which begin where those of the last ridge ended.

    Parameters
    ----------
    recipe : Recipe
    fit : callable
        Called with a recipe, the rows to fit, and where to start.
    folds : list of Fold
    """

    def __init__(
        self,
        recipe: Recipe,
        fit: Callable[[Recipe, Sample, Start | None], Outcome],
        folds: list[Fold],
    ) -> None:
        few = min(QUICK_ITERATIONS, recipe.max_epochs)
        self.recipe = replace(
            recipe, early_stopping=False, tol=QUICK_TOL, enough=QUICK_ENOUGH, max_epochs=few
        )
        self.fit, self.folds = fit, folds
        self.ends: list[Start | None] = [None for _ in folds]
        #: Where the fits of each ridge ended.
        self.ends_of: dict[float, list[Start | None]] = {}

    @property
    def weights(self) -> np.ndarray:
        return np.concatenate([fold.held_out.row_weights for fold in self.folds])

    @property
    def groups(self) -> np.ndarray | None:
        found = [f.held_out.groups for f in self.folds if f.held_out.groups is not None]
        return np.concatenate(found) if found else None

    def of_frequencies(self) -> np.ndarray:
        values = []
        for kept, held_out, _ in self.folds:
            counts = np.bincount(kept.labels, kept.row_weights)
            values.append(log_frequencies(counts)[held_out.labels])
        return np.concatenate(values)

    def log_likelihoods(self, l2: float, best: np.ndarray | None = None) -> np.ndarray:
        """Folds that are left, once the best is clearly better, count as those before them do."""
        values: list[np.ndarray] = []
        for i, fold in enumerate(self.folds):
            lost = self._clearly_lost(values, best)
            if best is not None and lost > 0.0:
                done = sum(map(len, values))
                return np.concatenate([*values, best[done:] - lost])
            trial = replace(self.recipe, l2=fold.share * l2)
            outcome = _fitted(trial, self.fit, fold, self.ends[i])
            self.ends[i] = outcome.weights, outcome.intercept
            model = LinearModel(outcome.weights, outcome.intercept, self.recipe.parts.noise)
            values.append(model.log_proba_of(fold.held_out.X, fold.held_out.labels))
        self.ends_of[l2] = list(self.ends)
        return np.concatenate(values)

    def _clearly_lost(self, values: list[np.ndarray], best: np.ndarray | None) -> float:
        """How far rows of some folds are behind the best, in the mean; 0 where it may be none."""
        n = sum(map(len, values))
        if best is None or n < ENOUGH_TO_DECIDE:
            return 0.0
        lost, weights = best[:n] - np.concatenate(values), self.weights[:n]
        groups = None if self.groups is None else self.groups[:n]
        mean = float(np.average(lost, weights=weights))
        return mean if mean > CLEARLY * standard_error(lost, weights, groups) else 0.0

    def end(self, l2: float) -> Start | None:
        """Where a fit to all rows may begin."""
        return self.ends_of[l2][0]


def choose_quickly(
    recipe: Recipe, judge: Judge, unit: float = 1.0, caution: float = 0.0
) -> tuple[Recipe, dict[str, Any]]:
    """As `choose`, but with fewer and rougher trials.

    Parameters
    ----------
    unit : float
        Of ridges (`unit_of`).
    caution : float
        A stronger ridge than the best is taken that is worse by no more than this part of the
        difference's standard error.
    """
    started = time.perf_counter()
    weights, groups = judge.weights / judge.weights.sum(), judge.groups
    rows: dict[float, np.ndarray] = {}
    tried: dict[float, float] = {}

    def l2_of(half_decades: int) -> float:
        return float(unit * 10.0 ** (half_decades / 2))

    def value(l2: float) -> float:
        best = rows[max(tried, key=tried.__getitem__)] if tried else None
        rows[l2] = judge.log_likelihoods(l2, best)
        tried[l2] = float(weights @ rows[l2])
        return tried[l2]

    at = 0
    value(l2_of(at))
    for step in (-2, 2):
        while (
            WEAKEST <= l2_of(at + step) / unit <= QUICK_STRONGEST and l2_of(at + step) not in tried
        ):
            if value(l2_of(at + step)) <= tried[l2_of(at)]:
                break
            at += step
    for beside in (at - 1, at + 1):
        if l2_of(beside) not in tried and value(l2_of(beside)) > tried[l2_of(at)]:
            at = beside
            break
    best = l2_of(at)

    def is_as_good(l2: float) -> bool:
        lost = rows[best] - rows[l2]
        return bool(weights @ lost <= caution * standard_error(lost, weights, groups))

    chosen = max(l2 for l2 in tried if is_as_good(l2))
    lost = judge.of_frequencies() - rows[chosen]
    mean, error = float(weights @ lost), standard_error(lost, weights, groups)
    report = _report(tried, started)
    report |= {"gain": -mean, "gain_error": error, "factor": part_to_trust(-mean, error, len(lost))}
    return replace(recipe, l2=chosen), report


def _fitted(
    trial: Recipe,
    fit: Callable[[Recipe, Sample, Start | None], Outcome],
    fold: Fold,
    start: Start | None,
) -> Outcome:
    with warnings.catch_warnings():  # the fit that counts may still give it
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(trial, fold.kept, start)


def _judged(outcome: Outcome, recipe: Recipe, fold: Fold) -> float:
    model = LinearModel(outcome.weights, outcome.intercept, recipe.parts.noise)
    return model.mean_log_likelihood(*fold.held_out[:3])


def _mean(values: list[float], folds: list[Fold]) -> float:
    return float(np.average(values, weights=[f.held_out.row_weights.sum() for f in folds]))


def _report(tried: dict[float, float], started: float) -> dict[str, Any]:
    trials = [{"l2": l2, "log_likelihood": tried[l2]} for l2 in sorted(tried, reverse=True)]
    return {"tried": trials, "seconds": time.perf_counter() - started}
