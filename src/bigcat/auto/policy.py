"""``method="auto"``: which method for which data, and a learning rate that nobody has to choose.

The limits here come from measurements; ``docs/choosing.md`` has the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bigcat import noise as noises
from bigcat.bounds import Complementary, Exact
from bigcat.bounds.exact import FEW_NODES
from bigcat.combinations import Parts
from bigcat.noise import Gaussian, Gumbel
from bigcat.samplers import Shared
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import AdaGrad, Damped
from bigcat.training.loop import AVERAGES
from bigcat.training.memory import n_weights
from bigcat.training.recipe import (
    Recipe,
    Sizes,
    from_parameters,
    n_threads,
    named_parts,
    ridge,
    setting,
    told,
)
from bigcat.training.stopping import GrowingPatience, NoGain

#: Up to here all rows and classes at once, with a ridge as in scikit-learn.
FEW_ROWS = 2_000
FEW_WEIGHTS = 1 << 20
#: Up to here the exact softmax is the fastest way to its own answer.
FEW_CLASSES = 4_096
#: The most epochs where held-out rows say when to stop.
MOST_EPOCHS = 60
#: Epochs over which a rate falls to zero: as many rows in all, but neither few nor many passes.
ROWS_VISITED, LEAST_PASSES, MOST_PASSES = 2_400_000, 4, 8
N_NEGATIVES = 24
#: The rank, where it is chosen; and how many times the weights of full rank it may need.
RANK, MOST_GROWTH = 256, 2.0
#: Of low rank: up to how many classes a batch's products take all of them, and else how many drawn
#: ones; rows a batch.
FEW_FOR_PRODUCTS, SHARED_NEGATIVES, EMBEDDED_BATCH = 2_048, 512, 128
#: Drawn ones in the first third of the passes, up to so many classes and of more.
FIRST_NEGATIVES, MANY_TO_DRAW_FROM = (128, 256), 16_384
#: Rows visited in all, and for each class, within some passes; and the fewest steps.
ROWS_EMBEDDED, VISITS_A_CLASS, EMBEDDED_PASSES, LEAST_STEPS = 600_000, 40, (3, 7), 200
#: The rate with all classes and with drawn ones, and how it falls (decision 18).
EMBEDDED_RATE, SAMPLED_RATE, RATE_POWER = 0.05, 0.065, 1.25
#: Other noises than the softmax's: up to how many classes they take all of them, by a few nodes;
#: and the rates of the Gaussian, whose tails are lighter.
FEW_FOR_NODES, GAUSSIAN_RATES = 2_048, (0.03, 0.04)
#: and up to how many rows their batches are half as large: threads that do not see each other's
#: steps cost them more.
FEW_FOR_BATCHES = 10_000


def choose(estimator: Any, sizes: Sizes) -> Recipe:
    """The recipe for data of these sizes; parameters that the user has set are kept."""
    if estimator.rank == "auto":
        rank, why = _rank_for(estimator, sizes)
        recipe = choose(_With(estimator, rank=rank), sizes)
        choice = {**(recipe.choice or {})}
        choice["reason"] = f"{why}; {choice['reason']}"
        return replace(recipe, choice=choice)
    if estimator.rank is None or _is_whole(estimator, sizes):
        return _of_full_rank(estimator, sizes)
    return _of_low_rank(estimator, sizes, int(estimator.rank))


def _is_whole(estimator: Any, sizes: Sizes) -> bool:
    """All rows and classes at once?"""
    few = sizes.n_rows <= FEW_ROWS and sizes.n_features * sizes.n_classes <= FEW_WEIGHTS
    return estimator.solver == "lbfgs" or (few and not _wants_passes(estimator))


def _rank_for(estimator: Any, sizes: Sizes) -> tuple[int | None, str]:
    """Full or low rank, and why.

    On most data sets of ``docs/results.md`` low rank predicts better than full rank, the more so
    the fewer rows a class has.  What speaks against it is a matrix of weights that is small anyway,
    and parts that were chosen for full rank.
    """
    n_full = sizes.n_features * sizes.n_classes
    given = [name for name in ("solver", "sampler") if getattr(estimator, name) != "auto"]
    if _is_whole(estimator, sizes):
        return None, "few rows"
    if given:
        what = " and ".join(given)
        return None, f"full rank, since {what} {'were' if len(given) > 1 else 'was'} given"
    if n_weights(sizes.n_features, sizes.n_classes, RANK) > MOST_GROWTH * n_full:
        return None, "full rank, which has less than half the weights of low rank"
    return RANK, "low rank, from which rare classes gain"


def _is_softmax(estimator: Any) -> bool:
    return isinstance(noises.resolve(estimator.noise), Gumbel)


def _of_low_rank(estimator: Any, sizes: Sizes, rank: int) -> Recipe:
    """Classes and features get vectors; batches by products of matrices, with AdaGrad."""
    method: str = "exact"
    sampler: Any = "everything"
    if sizes.n_classes > FEW_FOR_PRODUCTS or _wants_samples(estimator):
        method = "complementary"
        sampler = "shared" if estimator.sampler == "auto" else estimator.sampler
        if not _wants_samples(estimator):
            n_first = FIRST_NEGATIVES[sizes.n_classes > MANY_TO_DRAW_FROM]
            sampler = Shared(SHARED_NEGATIVES, n_first=n_first)
    if not _takes_any_bound(estimator.solver):
        method, sampler = "augment-reduce", estimator.sampler
    n_negatives = setting(estimator, "n_negatives", auto=SHARED_NEGATIVES)
    reason = (
        f"vectors of length {rank} for {sizes.n_classes:,} classes and {sizes.n_features:,} "
        "features"
    )
    changed: dict[str, Any] = {"method": method, "sampler": sampler, "n_negatives": n_negatives}
    if estimator.solver != "auto":
        recipe = from_parameters(_With(estimator, **changed))
        return replace(recipe, choice=told(recipe, f"{reason}; the solver was given"))
    rates = EMBEDDED_RATE, SAMPLED_RATE
    if isinstance(noises.resolve(estimator.noise), Gaussian):
        rates = GAUSSIAN_RATES
    rate = rates[method != "exact"]
    if estimator.learning_rate != "auto":
        rate = float(estimator.learning_rate)
    stops = bool(setting(estimator, "early_stopping"))
    batch_size = EMBEDDED_BATCH
    if not _is_softmax(estimator) and sizes.n_rows <= FEW_FOR_BATCHES:
        batch_size //= 2
    if estimator.batch_size != "auto":
        batch_size = int(estimator.batch_size)
    visits = max(ROWS_EMBEDDED, VISITS_A_CLASS * sizes.n_classes)
    passes = int(np.clip(round(visits / sizes.n_rows), *EMBEDDED_PASSES))
    passes = max(passes, -(-LEAST_STEPS * batch_size // sizes.n_rows))
    per = "coordinate" if method == "exact" else "vector"
    solver = AdaGrad(rate, schedule="linear", power=RATE_POWER, per=per)
    changed |= {"solver": solver, "learning_rate": "auto"}
    recipe = replace(
        from_parameters(_With(estimator, **changed)),
        batch_size=batch_size,
        max_epochs=int(setting(estimator, "max_epochs", auto=passes)),
    )
    recipe = replace(recipe, parts=_with_few_nodes(recipe.parts))
    if not stops:
        recipe = replace(recipe, stop=lambda: NoGain(None, 1))
    ends = f"the rate falls to zero over {recipe.max_epochs} epochs"
    return replace(recipe, choice=told(recipe, f"{reason}; {ends}"))


def _of_full_rank(estimator: Any, sizes: Sizes) -> Recipe:
    softmax = _is_softmax(estimator)
    if _is_whole(estimator, sizes):
        return _all_at_once(estimator, sizes)
    if not _takes_any_bound(estimator.solver):
        method, sampler = "augment-reduce", estimator.sampler
        reason = "the bound that the solver is made for"
    elif _few_classes(sizes, softmax) and not _wants_samples(estimator):
        method, sampler = "exact", "everything"
        reason = f"{sizes.n_classes:,} classes are few enough to visit all of them in every step"
    else:
        method = "complementary"
        sampler = estimator.sampler
        if sampler == "auto":
            sampler = "co-occurrence" if sizes.sparse else "stratified"
        reason = f"{sizes.n_classes:,} classes: a few are drawn for each row"
        if sampler == "co-occurrence":
            reason += ", most of them classes that share features with it"
    if estimator.solver != "auto":
        recipe = from_parameters(_With(estimator, method=method, sampler=sampler))
        return replace(recipe, choice=told(recipe, f"{reason}; the solver was given"))
    return _damped(estimator, sizes, method, sampler, reason)


def choose_for_stream(estimator: Any, sizes: Sizes) -> Recipe:
    """The recipe of a pass over some of the rows, of which the rest is not known."""
    few = FEW_CLASSES if _is_softmax(estimator) else FEW_FOR_NODES
    method, sampler = "exact", "everything"
    if sizes.n_classes > few or _wants_samples(estimator):
        method = "complementary"
        sampler = "frequency" if estimator.sampler == "auto" else estimator.sampler
    changed: dict[str, Any] = {"method": method, "sampler": sampler}
    low = estimator.rank not in (None, "auto")
    if estimator.solver == "auto":
        rate = EMBEDDED_RATE if low else 1.0
        if estimator.learning_rate != "auto":
            rate = float(estimator.learning_rate)
        solver = AdaGrad(rate) if low else Damped(rate, schedule="constant")
        changed |= {"solver": solver, "learning_rate": "auto"}
    if low and changed["sampler"] == "frequency":
        n_negatives = setting(estimator, "n_negatives", auto=SHARED_NEGATIVES)
        changed |= {"sampler": "shared", "n_negatives": n_negatives}
    recipe = from_parameters(_With(estimator, **changed))
    recipe = replace(recipe, parts=_with_few_nodes(recipe.parts))
    return replace(recipe, choice=told(recipe, "rows come in parts"))


def _few_classes(sizes: Sizes, softmax: bool) -> bool:
    """Is visiting all classes the fastest way?

    Not where an average of all weights, which that way takes, is more work than the steps.
    """
    average_is_cheap = sizes.n_values >= AVERAGES * sizes.n_features
    return sizes.n_classes <= (FEW_CLASSES if softmax else FEW_FOR_NODES) and average_is_cheap


def _with_few_nodes(parts: Parts) -> Parts:
    """Parts for passes: where the bound needs nodes, fewer of them."""
    if isinstance(parts.noise, Gumbel):
        return parts
    fewer = {Exact: FEW_NODES, Complementary: Complementary(FEW_NODES)}
    return replace(parts, bound=fewer.get(type(parts.bound), parts.bound))


def _takes_any_bound(solver: Any) -> bool:
    kind = SOLVERS.get(solver) if isinstance(solver, str) else solver
    return getattr(kind, "bounds", None) is None


def _wants_samples(estimator: Any) -> bool:
    """Has the user said how classes are to be drawn?"""
    return estimator.sampler != "auto" or estimator.n_negatives != "auto"


def _wants_passes(estimator: Any) -> bool:
    """Has the user set something that only stochastic passes know?"""
    set_ones = (
        getattr(estimator, name)
        for name in ("solver", "sampler", "learning_rate", "n_negatives", "batch_size")
    )
    given = any(not (isinstance(value, str) and value == "auto") for value in set_ones)
    return given or estimator.expectation == "sample"


def _all_at_once(estimator: Any, sizes: Sizes) -> Recipe:
    parts = named_parts(estimator, "exact", solver="lbfgs")
    l2 = ridge(estimator, auto=1.0)
    recipe = Recipe(
        parts,
        rank=None if estimator.rank == "auto" else estimator.rank,
        batch_size=sizes.n_rows,
        max_epochs=int(setting(estimator, "max_epochs", auto=200)),
        l2=l2,
        early_stopping=bool(setting(estimator, "early_stopping")),
        stop=lambda: NoGain(estimator.tol, estimator.n_iter_no_change),
    )
    reason = f"{sizes.n_rows:,} rows are few enough to maximise the penalised likelihood itself"
    return replace(recipe, choice=told(recipe, reason))


def _damped(estimator: Any, sizes: Sizes, method: str, sampler: Any, reason: str) -> Recipe:
    """Damped steps: to a stop on held-out rows with an average, or a rate that falls to zero."""
    searches = estimator.learning_rate == "auto"
    stops = setting(estimator, "early_stopping", auto=method == "exact")
    solver = Damped(
        learning_rate=1.0 if searches else float(estimator.learning_rate),
        schedule="constant" if stops else "linear",
        average=bool(stops),
    )
    parts = named_parts(
        estimator,
        method,
        solver=solver,
        sampler=sampler,
        learning_rate="auto",
        n_negatives=setting(estimator, "n_negatives", auto=N_NEGATIVES),
    )
    parts = _with_few_nodes(parts)
    least = int(np.clip(20_000 // sizes.n_rows, 2, 50))
    passes = int(np.clip(ROWS_VISITED // sizes.n_rows, LEAST_PASSES, MOST_PASSES))
    recipe = Recipe(
        parts,
        batch_size=parts.solver.batch_size(estimator.batch_size),
        max_epochs=int(setting(estimator, "max_epochs", auto=MOST_EPOCHS if stops else passes)),
        l2=ridge(estimator),
        early_stopping=bool(stops),
        searches_rate=searches,
        refits=bool(stops) and estimator.early_stopping == "auto",
        n_threads=n_threads(estimator),
        stop=(lambda: GrowingPatience(least)) if stops else (lambda: NoGain(None, 1)),
    )
    ends = (
        "it ends when held-out rows no longer gain, and is then run on all rows"
        if stops
        else f"the rate falls to zero over {recipe.max_epochs} epochs"
    )
    return replace(recipe, choice=told(recipe, f"{reason}; {ends}"))


def continued(estimator: Any, start: Any) -> Any:
    """The estimator with the rank of the weights that its fit starts from, if there are any."""
    if start is None:
        return estimator
    rank = getattr(start[0], "rank", None)
    if estimator.rank != "auto" and estimator.rank != rank:
        raise ValueError(
            f"rank={estimator.rank} differs from that of the weights to start from, {rank}; set "
            f"rank={rank} or begin anew"
        )
    return _With(estimator, rank=rank)


class _With:
    """An estimator with some parameters changed, to read."""

    def __init__(self, estimator: Any, **changed: Any) -> None:
        self._estimator = estimator
        self.__dict__.update(changed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._estimator, name)
