"""``method="auto"``: which method for which data, as a table of named defaults.

Each default has the decision or the measurement that it comes from; ``docs/choosing.md`` has the
table for people.  What the user has set is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bigcat.auto.named import common, named_recipe, parts_of, ridge, setting
from bigcat.auto.parameters import Parameters
from bigcat.combinations import Parts
from bigcat.linear import LowRank
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.samplers import Sampler, Shared
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import AdaGrad, Damped, Solver
from bigcat.training import row_space
from bigcat.training.passes import AVERAGES
from bigcat.training.recipe import Recipe
from bigcat.training.stopping import GrowingPatience, Never, NoGain


@dataclass(frozen=True)
class Whole:
    """All rows and classes at once, as scikit-learn does it."""

    most_rows: int = 2_000
    most_weights: int = 1 << 20
    #: Where the ridge is to be found: one look at all rows takes so few products, and a step of
    #: L-BFGS about so many for each weight.  Then more rows are few, too.  With more weights than
    #: this, which includes intercepts, only far fewer are: there passes that held-out rows judge
    #: are as good at a tenth of the time (decision 29).
    most_products: int = 1 << 22
    products_per_weight: int = 10
    few_weights: int = 512
    most_products_of_many_weights: int = 1 << 16
    #: Where passes go on gaining the faster they are, of dense rows: a look at all rows takes so
    #: many products and scores, so that this many looks take about as long as passes.
    most_products_at_length: int = 1 << 28
    most_scores_at_length: int = 1 << 22
    iterations_at_length: int = 60
    #: Where it is not chosen: of low rank, and where no row can be held out.
    l2: float = 1.0
    max_epochs: int = 200
    #: Weak ridges, which only a choice takes, are far from their optimum at gradients that are
    #: small for others.
    share_of_tol: float = 0.1


@dataclass(frozen=True)
class FullRankDefaults:
    """Damped steps (decision 16)."""

    #: Up to so many classes the exact softmax is the fastest way to its own answer;
    few_classes: int = 4_096
    #: and up to so many the likelihood of another noise, by a few nodes (decision 20).
    few_classes_by_nodes: int = 2_048
    n_negatives: int = 24
    #: The most epochs where held-out rows say when to stop, and rows visited before they may.
    most_epochs: int = 60
    least_rows_watched: int = 20_000
    least_epochs_watched: tuple[int, int] = (2, 50)
    #: Epochs over which a rate falls to zero: as many rows in all, but neither few nor many passes.
    rows_visited: int = 2_400_000
    passes: tuple[int, int] = (4, 8)
    #: Before a search; and of a stream, of which nothing can be tried.
    learning_rate: float = 1.0


@dataclass(frozen=True)
class Rates:
    """Learning rates of low rank, with all classes and with drawn ones."""

    all_classes: float
    drawn: float


@dataclass(frozen=True)
class LowRankDefaults:
    """AdaGrad on batches that share their classes (decisions 17 to 19)."""

    rank: int = 256
    #: So many models, trained apart and averaged, since each errs in other places: of half the rank
    #: up to so many rows, while a model has no more numbers than this (decision 26).
    n_apart: int = 2
    few_rows: int = 20_000
    most_weights_apart: int = 1 << 28
    #: How many times the weights of full rank it may need.
    most_growth: float = 1.0
    #: Up to how many classes a batch's products take all of them, and else how many drawn ones;
    #: fewer where rows have few values, so that products with all classes are nearly all the work.
    few_classes: int = 2_048
    few_classes_of_short_rows: int = 1_024
    short_row: int = 32
    n_negatives: int = 512
    #: Drawn ones in the first third of the passes: with up to so many classes, and with more.
    first_negatives: int = 128
    many_to_draw_from: int = 16_384
    first_negatives_of_many: int = 256
    batch_size: int = 128
    #: Other noises: up to so many rows batches are half as large, since threads that do not see
    #: each other's steps cost them more (decision 20).
    few_rows_for_batches: int = 10_000
    #: Rows visited in all, and for each class, within some passes; and the fewest steps.
    rows_visited: int = 600_000
    visits_per_class: int = 40
    passes: tuple[int, int] = (3, 7)
    least_steps: int = 200
    #: The rates (decision 18), those of noises with light tails (decision 20), and how they fall.
    rates: Rates = Rates(all_classes=0.05, drawn=0.065)
    light_tailed_rates: Rates = Rates(all_classes=0.03, drawn=0.04)
    rate_power: float = 1.25
    #: Beside full rank: up to so many rows, from so many features and classes on.
    most_rows_beside: int = 50_000
    least_beside: int = 32


WHOLE, FULL, LOW = Whole(), FullRankDefaults(), LowRankDefaults()


def chosen_recipe(parameters: Parameters, sizes: Sizes) -> Recipe:
    """The recipe for data of these sizes."""
    why, asked_rank, whole = "", parameters.rank, _is_whole(parameters, sizes)
    ours = _is_regularised_by_us(parameters)
    n_apart = 1
    if parameters.rank == "auto":
        rank, why = _rank_for(parameters, sizes, whole)
        if rank is not None and ours and parameters.noise.softmax:
            rank, n_apart = _apart(sizes)
        parameters = replace(parameters, rank=rank)
    if whole:
        recipe = _all_at_once(parameters, sizes)
    elif parameters.rank is None:
        recipe = _of_full_rank(parameters, sizes)
    else:
        recipe = _of_low_rank(parameters, sizes, n_apart)
    if why:
        assert recipe.choice is not None
        recipe = recipe.noting(reason=f"{why}; {recipe.choice['reason']}")
    asked = parameters.given("early_stopping") and bool(parameters.early_stopping)
    blends = ours and recipe.parts.solver.stochastic
    several = blends and asked_rank == "auto" and parameters.noise.softmax
    return replace(
        recipe,
        validation_fraction=None,
        must_hold_out=asked or parameters.l2 == "path",
        blends=blends,
        beside=_beside(parameters, sizes) if several else (),
        otherwise=_otherwise(parameters, sizes) if several else None,
        exactly=_exactly(parameters, sizes) if several else None,
        with_pairs=several and sizes.sparse and (n_apart > 1 or _is_quick(parameters, sizes)),
        scales_columns=not parameters.given("solver") and parameters.l2 in ("auto", 0.0),
    )


def chosen_recipe_for_stream(parameters: Parameters, sizes: Sizes) -> Recipe:
    """The recipe of a pass over some of the rows, of which the rest is not known."""
    method = "exact"
    sampler: str | Sampler = "everything"
    if sizes.n_classes > _few_classes(parameters.noise) or _wants_samples(parameters):
        method = "complementary"
        sampler = parameters.sampler if parameters.given("sampler") else "frequency"
    instead: dict[str, Any] = {"sampler": sampler}
    low = parameters.rank not in (None, "auto")
    if not parameters.given("solver"):
        rate = _rate(parameters, LOW.rates.all_classes if low else FULL.learning_rate)
        solver = AdaGrad(rate) if low else Damped(rate, schedule="constant")
        instead |= {"solver": solver, "learning_rate": "auto"}
    if low and sampler == "frequency":
        n_negatives = setting(parameters, "n_negatives", auto=LOW.n_negatives)
        instead |= {"sampler": "shared", "n_negatives": n_negatives}
    recipe = named_recipe(parameters, method, **instead)
    return _for_passes(recipe).told("rows come in parts")


def _rank_for(parameters: Parameters, sizes: Sizes, whole: bool) -> tuple[int | None, str]:
    """Full or low rank, and why.

    On most data sets of ``docs/results.md`` low rank predicts better than full rank, the more so
    the fewer rows a class has.  What speaks against it is a matrix of weights that is small anyway,
    and parts that were chosen for full rank.
    """
    given = [name for name in ("solver", "sampler") if parameters.given(name)]
    if whole:
        return None, "few rows"
    if given:
        what = " and ".join(given)
        return None, f"full rank, since {what} {'were' if len(given) > 1 else 'was'} given"
    n_low = LowRank(LOW.rank).n_weights(sizes.n_features, sizes.n_classes)
    if n_low > LOW.most_growth * sizes.n_features * sizes.n_classes:
        return None, "full rank, which has fewer weights than low rank"
    return LOW.rank, "low rank, from which rare classes gain"


def _apart(sizes: Sizes) -> tuple[int, int]:
    """The rank of models that are trained apart, and how many."""
    if LowRank(LOW.rank).n_weights(sizes.n_features, sizes.n_classes) > LOW.most_weights_apart:
        return LOW.rank, 1
    few = sizes.n_rows <= LOW.few_rows
    return (LOW.rank // 2 if few else LOW.rank), LOW.n_apart


def _beside(parameters: Parameters, sizes: Sizes) -> tuple[Recipe, ...]:
    """Low rank beside full rank, where both are quick and low rank may know something else."""
    small = min(sizes.n_features, sizes.n_classes) < LOW.least_beside
    if parameters.rank is not None or small or not _is_quick(parameters, sizes):
        return ()
    rank, n_apart = _apart(sizes)
    recipe = _of_low_rank(replace(parameters, rank=rank), sizes, n_apart)
    return (replace(recipe, validation_fraction=None),)


def _is_quick(parameters: Parameters, sizes: Sizes) -> bool:
    """May full rank have others beside it?"""
    return sizes.n_rows <= LOW.most_rows_beside and not _wants_passes(parameters)


# All rows and classes at once.


def _is_whole(parameters: Parameters, sizes: Sizes) -> bool:
    few_weights = sizes.n_features * sizes.n_classes <= WHOLE.most_weights
    few_rows = sizes.n_rows <= WHOLE.most_rows
    full_rank = parameters.rank in ("auto", None)
    if not parameters.given("l2") and parameters.noise.softmax and full_rank:
        few = (sizes.n_features + 1) * sizes.n_classes <= WHOLE.few_weights
        most = WHOLE.most_products if few else WHOLE.most_products_of_many_weights
        few_rows = _products(sizes) <= most
    solver = _kind_of_solver(parameters.solver)
    is_few = few_weights and few_rows
    return (solver is not None and not solver.stochastic) or (
        is_few and not _wants_passes(parameters)
    )


def _products(sizes: Sizes) -> int:
    """What a look at all rows and a step of L-BFGS take, in the row space where that is smaller."""
    n, n_features = sizes.n_rows, sizes.n_features
    products = sizes.n_values + WHOLE.products_per_weight * n_features
    if n * n_features <= row_space.MOST_NUMBERS:
        products = min(products, n * n + WHOLE.products_per_weight * n)
    return sizes.n_classes * products


def _otherwise(parameters: Parameters, sizes: Sizes) -> Recipe | None:
    """The exact fit of dense rows, where it takes less than a second.

    Where a few directions are much longer than all others, passes learn those alone.
    """
    few_weights = sizes.n_features * sizes.n_classes <= WHOLE.most_weights
    few = few_weights and _products(sizes) <= WHOLE.most_products
    if sizes.sparse or not few or _wants_passes(parameters):
        return None
    recipe = _all_at_once(replace(parameters, rank=None), sizes)
    return replace(recipe, must_hold_out=False, validation_fraction=None)


def _exactly(parameters: Parameters, sizes: Sizes) -> Recipe | None:
    """The exact fit of dense rows with a ridge of one, where it takes about as long as passes."""
    is_quick = (
        sizes.n_features * sizes.n_classes <= WHOLE.most_weights
        and sizes.n_rows * sizes.n_classes <= WHOLE.most_scores_at_length
        and sizes.n_values * sizes.n_classes <= WHOLE.most_products_at_length
    )
    if sizes.sparse or _wants_passes(parameters) or not is_quick:
        return None
    given = replace(parameters, rank=None, max_epochs=WHOLE.iterations_at_length)
    return replace(_all_at_once(given, sizes), searches_ridge=False, must_hold_out=False)


def _all_at_once(parameters: Parameters, sizes: Sizes) -> Recipe:
    solver = parameters.solver if parameters.given("solver") else "lbfgs"
    recipe = Recipe(
        parts_of(parameters, "exact", solver=solver),
        kind=parameters.kind,
        batch_size=sizes.n_rows,
        max_epochs=int(setting(parameters, "max_epochs", auto=WHOLE.max_epochs)),
        l2=ridge(parameters, auto=WHOLE.l2),
        early_stopping=bool(setting(parameters, "early_stopping")),
        stop=lambda: NoGain(parameters.tol, parameters.n_iter_no_change),
        **(common(parameters) | {"n_threads": 1}),
    )
    # Of low rank each ridge would have to be fitted from the start: from nothing no way leads up.
    if not parameters.given("l2") and recipe.kind.linear_scores:
        recipe = replace(recipe, searches_ridge=True, tol=WHOLE.share_of_tol * recipe.tol)
    return recipe.told(
        f"{sizes.n_rows:,} rows are few enough to maximise the penalised likelihood itself"
    )


# Low rank.


def _of_low_rank(parameters: Parameters, sizes: Sizes, n_apart: int) -> Recipe:
    """Classes and features get vectors; batches by products of matrices, with AdaGrad."""
    method, sampler = _low_rank_method(parameters, sizes)
    n_negatives = setting(parameters, "n_negatives", auto=LOW.n_negatives)
    assert parameters.kind.rank is not None
    reason = (
        f"vectors of length {parameters.kind.rank} for {sizes.n_classes:,} classes and "
        f"{sizes.n_features:,} features"
    )
    if n_apart > 1:
        reason += f", {n_apart} models that are trained apart"
    instead: dict[str, Any] = {"sampler": sampler, "n_negatives": n_negatives}
    if parameters.given("solver"):
        recipe = named_recipe(parameters, method, **instead)
        return recipe.told(f"{reason}; the solver was given")
    drawn = method != "exact"
    rates = LOW.light_tailed_rates if parameters.noise.light_tails else LOW.rates
    rate = rates.drawn if drawn else rates.all_classes
    batch_size = _low_rank_batch(parameters, sizes)
    passes = _low_rank_passes(sizes, batch_size)
    solver = AdaGrad(
        _rate(parameters, rate),
        schedule="linear",
        power=LOW.rate_power,
        per="vector" if drawn else "coordinate",
    )
    recipe = named_recipe(parameters, method, **instead, solver=solver, learning_rate="auto")
    recipe = replace(
        _for_passes(recipe),
        batch_size=batch_size,
        max_epochs=int(setting(parameters, "max_epochs", auto=passes)),
        n_apart=n_apart,
        slows_down=not parameters.given("learning_rate"),
    )
    if not recipe.early_stopping:
        recipe = replace(recipe, stop=Never)
    return recipe.told(f"{reason}; the rate falls to zero over {recipe.max_epochs} epochs")


def _low_rank_method(parameters: Parameters, sizes: Sizes) -> tuple[str, str | Sampler]:
    solver = _kind_of_solver(parameters.solver)
    if solver is not None and solver.bounds is not None:
        return "augment-reduce", parameters.sampler
    if _wants_samples(parameters):
        return "complementary", parameters.sampler if parameters.given("sampler") else "shared"
    # Of other noises each class costs some nodes in any case.
    short_rows = sizes.n_values <= LOW.short_row * sizes.n_rows and parameters.noise.softmax
    few = LOW.few_classes_of_short_rows if short_rows else LOW.few_classes
    if sizes.n_classes <= few:
        return "exact", "everything"
    many = sizes.n_classes > LOW.many_to_draw_from
    n_first = LOW.first_negatives_of_many if many else LOW.first_negatives
    return "complementary", Shared(LOW.n_negatives, n_first=n_first)


def _low_rank_batch(parameters: Parameters, sizes: Sizes) -> int:
    if parameters.batch_size != "auto":
        return int(parameters.batch_size)
    halves = not parameters.noise.softmax and sizes.n_rows <= LOW.few_rows_for_batches
    return LOW.batch_size // 2 if halves else LOW.batch_size


def _low_rank_passes(sizes: Sizes, batch_size: int) -> int:
    visits = max(LOW.rows_visited, LOW.visits_per_class * sizes.n_classes)
    passes = int(np.clip(round(visits / sizes.n_rows), *LOW.passes))
    return max(passes, -(-LOW.least_steps * batch_size // sizes.n_rows))


# Full rank.


def _of_full_rank(parameters: Parameters, sizes: Sizes) -> Recipe:
    method, sampler, reason = _full_rank_method(parameters, sizes)
    if parameters.given("solver"):
        recipe = named_recipe(parameters, method, sampler=sampler)
        return recipe.told(f"{reason}; the solver was given")
    return _damped(parameters, sizes, method, sampler, reason)


def _full_rank_method(parameters: Parameters, sizes: Sizes) -> tuple[str, str | Sampler, str]:
    solver = _kind_of_solver(parameters.solver)
    if solver is not None and solver.bounds is not None:
        return "augment-reduce", parameters.sampler, "the bound that the solver is made for"
    # Not all classes where an average of all weights, which that way takes, is more work than the
    # steps.
    no_average = _is_regularised_by_us(parameters)
    average_is_cheap = no_average or sizes.n_values >= AVERAGES * sizes.n_features
    few = sizes.n_classes <= _few_classes(parameters.noise) and average_is_cheap
    if few and not _wants_samples(parameters):
        reason = f"{sizes.n_classes:,} classes are few enough to visit all of them in every step"
        return "exact", "everything", reason
    sampler = parameters.sampler
    if not parameters.given("sampler"):
        sampler = "co-occurrence" if sizes.sparse else "stratified"
    reason = f"{sizes.n_classes:,} classes: a few are drawn for each row"
    if sampler == "co-occurrence":
        reason += ", most of them classes that share features with it"
    return "complementary", sampler, reason


def _damped(
    parameters: Parameters, sizes: Sizes, method: str, sampler: str | Sampler, reason: str
) -> Recipe:
    """Damped steps: a rate that falls to zero, or to a stop on held-out rows with an average.

    A planned end is a regulariser as good as the other, at a fifth of the price, where held-out
    rows say at the end how far to trust it.  A ridge that was given says that itself.
    """
    searches = not parameters.given("learning_rate")
    stops = method == "exact" and not _is_regularised_by_us(parameters)
    stops = bool(setting(parameters, "early_stopping", auto=stops))
    solver = Damped(
        learning_rate=_rate(parameters, FULL.learning_rate),
        schedule="constant" if stops else "linear",
        average=stops,
    )
    n_negatives = setting(parameters, "n_negatives", auto=FULL.n_negatives)
    parts = parts_of(
        parameters,
        method,
        solver=solver,
        sampler=sampler,
        learning_rate="auto",
        n_negatives=n_negatives,
    )
    least = int(np.clip(FULL.least_rows_watched // sizes.n_rows, *FULL.least_epochs_watched))
    passes = int(np.clip(FULL.rows_visited // sizes.n_rows, *FULL.passes))
    auto_epochs = FULL.most_epochs if stops else passes
    recipe = Recipe(
        parts,
        kind=parameters.kind,
        batch_size=solver.batch_size(parameters.batch_size),
        max_epochs=int(setting(parameters, "max_epochs", auto=auto_epochs)),
        l2=ridge(parameters),
        early_stopping=stops,
        searches_rate=searches,
        slows_down=searches,
        refits=stops and not parameters.given("early_stopping"),
        stop=(lambda: GrowingPatience(least)) if stops else Never,
        **common(parameters),
    )
    ends = (
        "it ends when held-out rows no longer gain, and is then run on all rows"
        if stops
        else f"the rate falls to zero over {recipe.max_epochs} epochs"
    )
    return _for_passes(recipe).told(f"{reason}; {ends}")


# What several of these ask.


def _few_classes(noise: Noise) -> int:
    """Up to how many classes visiting all of them is the fastest way, of full rank."""
    return FULL.few_classes if noise.softmax else FULL.few_classes_by_nodes


def _for_passes(recipe: Recipe) -> Recipe:
    """Where the bound needs nodes, fewer of them: enough for stochastic passes."""
    parts: Parts = recipe.parts
    return replace(recipe, parts=replace(parts, bound=parts.bound.for_passes(parts.noise)))


def _rate(parameters: Parameters, auto: float) -> float:
    return auto if parameters.learning_rate == "auto" else float(parameters.learning_rate)


def _is_regularised_by_us(parameters: Parameters) -> bool:
    """Do held-out rows say how far to trust a fit, or does a ridge or solver of the user's?"""
    return not (parameters.given("l2") or parameters.given("solver"))


def _kind_of_solver(solver: str | Solver) -> type[Solver] | Solver | None:
    """The solver that was named or given; None for "auto"."""
    return SOLVERS.get(solver) if isinstance(solver, str) else solver


def _wants_samples(parameters: Parameters) -> bool:
    """Has the user said how classes are to be drawn?"""
    return parameters.given("sampler") or parameters.given("n_negatives")


def _wants_passes(parameters: Parameters) -> bool:
    """Has the user set something that only stochastic passes know?"""
    names = ("solver", "sampler", "learning_rate", "n_negatives", "batch_size")
    return any(parameters.given(name) for name in names)
