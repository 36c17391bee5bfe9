"""``method="auto"``: the table of candidates.

============  =============================================  =========================
candidate     settings                                       where
============  =============================================  =========================
low rank      vectors of length 256, two starts; AdaGrad     32 classes and features
ridge path    full rank by L-BFGS, ridge by folds            where that takes a second
full rank     damped steps, one row at a time                elsewhere
rank 64       as low rank, shorter vectors                   16 classes and features
============  =============================================  =========================

A parameter that the user sets removes candidates and changes nothing else: a solver trains all
those that it can train, and a sampler whose draws batches do not share leaves full rank.  A number
for `l2`, or early stopping, is an objective of the user's: the first candidate maximises it as it
stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bigcat.auto.parameters import MAX_EPOCHS, Parameters
from bigcat.combinations import check_parts_for_rows
from bigcat.linear import kind_of_rank
from bigcat.rows import Sizes
from bigcat.samplers import CoOccurrence, Everything, Frequency, Sampler, Shared, Stratified
from bigcat.solvers import LBFGS, AdaGrad, Damped, Solver
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.preprocess import MANY_CLASSES
from bigcat.training.stacking import PRODUCTS_OF_NODES
from bigcat.training.stopping import EarlyStopping

# Small problems, for which L-BFGS takes about a second.  In the span of the rows a class has as
# many weights as there are features, or rows if these are fewer.
MAX_SMALL_WEIGHTS, MAX_SMALL_PRODUCTS = 1 << 14, 1 << 27
#: Weights of L-BFGS at most, in float64 and some thirty times.
MAX_LBFGS_WEIGHTS = 1 << 20
MAX_ITERATIONS, TOL_OF_PATH = 200, 1e-5

#: Rows visited in all, within some epochs, and steps at least.
ROWS_VISITED, EPOCHS, MIN_STEPS = 600_000, (3, 7), 200

# Low rank.
RANK, SMALL_RANK, BATCH_SIZE = 256, 64, 128
#: Least numbers of classes and of features for vectors of either length.
MIN_SIDE, MIN_SIDE_OF_SMALL_RANK = 32, 16
#: Rows visited per class.
VISITS_PER_CLASS = 40
#: Learning rates of vectors of length `RANK` with all classes and with drawn ones, and the part for
#: noises of light tails.  A score is a sum over the length: shorter vectors need larger numbers.
RATE, RATE_OF_DRAWN, PART_OF_LIGHT_TAILS, RATE_POWER = 0.05, 0.065, 0.6, 1.25
#: Rate of the shorter vectors beside others: slower learning overfits less.
PART_OF_SMALL_RANK = 0.5

#: Passes of an update over its new rows: more, up to the second number, for `MIN_STEPS` steps.
UPDATE_EPOCHS = (10, 200)

# Full rank.
#: Learning rate times epochs: fewer epochs take longer steps.
FULL_RATE_OF_ALL_EPOCHS = 32.0
#: Most weights of full rank beside low rank: of a matrix, else of pairs of class and feature.
MAX_FULL_WEIGHTS = 1 << 24

#: Most rows for which rank 64 takes part, and candidates are fitted again to all rows.  Beyond,
#: rank 64 gains nothing, and validation rows are less than 2 %.
MAX_ROWS_REFITTED = 250_000


class Effort(NamedTuple):
    """Number of models, and their length."""

    n_low_rank: int
    part_of_visits: float
    beside: bool  # full rank beside low rank
    refits: bool


EFFORTS = {
    "quick": Effort(1, 0.5, False, False),
    "balanced": Effort(2, 1.0, True, True),
    "best": Effort(4, 1.5, True, True),
}


def plan_for(parameters: Parameters, sizes: Sizes, window: int | None = None) -> FitPlan:
    """Return the plan of a fit to data of these sizes, checked against them.

    `window` is the number of rows to visit at a time, where they are mapped to files.
    """
    plan = _plan(parameters, sizes, window is not None)
    if window is not None:
        plan = plan.mapped(lambda config: config.in_windows(window))
        reason = f"{plan.reason}; rows come from files, {window:,} at a time"
        plan = replace(plan, scales_columns=False, reason=reason)
    return _checked(plan, parameters, sizes)


def plan_for_rounds(parameters: Parameters, sizes: Sizes) -> FitPlan:
    """Return the plan of a fit to rows of several machines, whose steps are AdaGrad's.

    Full rank takes part only where it is asked for, or alone.
    """
    plan = _plan(parameters, sizes, True, rounds=True)
    plan = plan.mapped(
        lambda config: replace(config.in_windows(sizes.n_rows), window=None, n_threads=1)
    )
    plan = replace(plan, scales_columns=False, reason=f"{plan.reason}; rows of several machines")
    return _checked(plan, parameters, sizes)


def config_for_stream(parameters: Parameters, sizes: Sizes, window: int | None = None) -> FitConfig:
    """Return the settings of a pass that any number of others may follow.

    A stream has one model and no stacking.
    """
    if parameters.method is not None:
        config = parameters.config(parameters.method)
    else:
        config = _stream(parameters, sizes)
    if window is not None:
        config = config.in_windows(window)
    _check_path(parameters, config)
    check_parts_for_rows(config.parts, sizes.sparse)
    return config.with_solver(config.parts.solver.with_constant_rate())


def config_for_update(parameters: Parameters, sizes: Sizes, window: int | None = None) -> FitConfig:
    """Return the settings of passes over new rows that start from a fitted model."""
    sampler = parameters.sampler
    if sampler is None:
        drawn = Shared() if parameters.kind.has_vectors or not sizes.sparse else Frequency()
        sampler = Everything() if sizes.n_classes <= MANY_CLASSES else drawn
    rate = RATE if parameters.kind.has_vectors else "auto"
    solver = AdaGrad(rate, schedule="constant")
    epochs = int(np.clip(MIN_STEPS * solver.batch_size // sizes.n_rows, *UPDATE_EPOCHS))
    config = _for_passes(parameters, sampler, solver, epochs)
    if window is not None:
        config = config.in_windows(window)
    check_parts_for_rows(config.parts, sizes.sparse)
    return replace(config, early_stopping=None)


def _checked(plan: FitPlan, parameters: Parameters, sizes: Sizes) -> FitPlan:
    for candidate in plan.candidates:
        _check_path(parameters, candidate.config)
        check_parts_for_rows(candidate.config.parts, sizes.sparse)
    return plan


def _check_path(parameters: Parameters, config: FitConfig) -> None:
    """Raise ValueError for a ridge path with a solver that makes stochastic passes."""
    if parameters.l2 == "path" and config.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{config.parts.solver.name!r}; set solver='lbfgs' or give l2 a number"
        )


def _plan(parameters: Parameters, sizes: Sizes, streams: bool, rounds: bool = False) -> FitPlan:
    if parameters.method is not None:
        config = parameters.config(parameters.method)
        candidate = Candidate(parameters.method.name, config, parameters.l2 == "path")
        return FitPlan((candidate,), reason="the method as given")
    if parameters.l2 == "path" and parameters.solver is None and parameters.sampler is None:
        parameters = replace(parameters, solver=LBFGS(tol=TOL_OF_PATH))
    effort, solver = EFFORTS[parameters.effort], parameters.solver
    if solver is not None and not solver.stochastic:
        candidates = [_ridge_path(parameters, sizes)]
    else:
        candidates = _candidates(parameters, sizes, effort, streams, rounds)
    reason = f"{sizes.n_classes:,} classes and {sizes.n_features:,} features"
    as_given = parameters.l2 != "auto" or isinstance(parameters.early_stopping, EarlyStopping)
    if as_given:
        small = [c for c in candidates if not c.config.parts.solver.stochastic]
        candidates, reason = (small or candidates)[:1], "an objective as given"
    few = all(c.searches_ridge for c in candidates)
    return FitPlan(
        tuple(candidates),
        stacks=not as_given,
        refits=not as_given and (few or (effort.refits and sizes.n_rows <= MAX_ROWS_REFITTED)),
        scales_columns=parameters.l2 in ("auto", 0.0),
        reason=reason,
    )


def _candidates(
    parameters: Parameters, sizes: Sizes, effort: Effort, streams: bool, rounds: bool
) -> list[Candidate]:
    """Return low rank, full rank, or both: those that the solver can train."""
    noise, sampler = parameters.noise, parameters.sampler
    n_low = effort.n_low_rank if noise.softmax else 1
    if parameters.rank != "auto":
        low, full, n_low = parameters.rank is not None, parameters.rank is None, 1
        short = False
    else:
        vectors = (sampler is None or sampler.shared) and _can_train(parameters, RANK)
        side = min(sizes.n_features, sizes.n_classes) if vectors else 0
        low = side >= MIN_SIDE
        short = n_low > 1 and sizes.n_rows <= MAX_ROWS_REFITTED
        short = short and side >= (MIN_SIDE if rounds else MIN_SIDE_OF_SMALL_RANK)
        beside = effort.beside and not rounds and noise.softmax
        beside = beside and (_has_matrix(sizes) or (_has_pairs(sizes) and not streams))
        full = not low or (beside and _can_train(parameters, None))
    in_pairs = low and not _has_matrix(sizes)
    candidates = []
    if low:
        rank = RANK if parameters.rank == "auto" else parameters.rank
        assert rank is not None
        config = _low_rank(parameters, rank, sizes, effort)
        for number in range(n_low):
            name = f"low rank {number + 1} of {n_low}" if n_low > 1 else "low rank"
            candidates.append(Candidate(name, config))
    full_rank = replace(parameters, rank=None)
    if full and _is_small(parameters, sizes, streams):
        candidates.append(_ridge_path(full_rank, sizes))
    elif full and not (in_pairs and parameters.solver and not parameters.solver.linear):
        config = _full_rank(full_rank, sizes, effort, streams, in_pairs, rounds)
        candidates.append(Candidate("full rank", config, in_pairs=in_pairs))
    if short:
        config = _low_rank(parameters, SMALL_RANK, sizes, effort, PART_OF_SMALL_RANK)
        candidates.append(Candidate(f"rank {SMALL_RANK}", config))
    return candidates


def _can_train(parameters: Parameters, rank: int | None) -> bool:
    """Return True if the user's solver, where there is one, is for weights of that rank."""
    if parameters.solver is None:
        return True
    try:
        kind_of_rank(rank).check_solver(parameters.solver)
    except ValueError:
        return False
    return True


def _has_matrix(sizes: Sizes) -> bool:
    """Return True if full rank is a matrix of moderate size."""
    return sizes.n_features * sizes.n_classes <= MAX_FULL_WEIGHTS


def _has_pairs(sizes: Sizes) -> bool:
    """Return True if pairs of class and feature that occur together are as few."""
    return sizes.sparse and sizes.n_values <= MAX_FULL_WEIGHTS


def _is_small(parameters: Parameters, sizes: Sizes, streams: bool) -> bool:
    """Return True if L-BFGS takes about a second, and no parameter requires stochastic passes."""
    asks = parameters.solver or parameters.sampler
    if streams or asks or parameters.rank not in ("auto", None):
        return False
    if isinstance(parameters.early_stopping, EarlyStopping):
        return False
    products = sizes.n_values * sizes.n_classes
    if not parameters.noise.softmax:
        products *= PRODUCTS_OF_NODES
    if sizes.n_features * sizes.n_classes > MAX_LBFGS_WEIGHTS or products > MAX_SMALL_PRODUCTS:
        return False
    return sizes.n_classes * min(sizes.n_features, sizes.n_rows) <= MAX_SMALL_WEIGHTS


def _ridge_path(parameters: Parameters, sizes: Sizes) -> Candidate:
    searches = parameters.l2 in ("auto", "path")
    parameters = replace(
        parameters,
        solver=parameters.solver or LBFGS(tol=TOL_OF_PATH if searches else LBFGS.tol),
        max_epochs=parameters.max_epochs or MAX_ITERATIONS,
        n_threads=1,
    )
    name = "ridge path" if searches else "maximum likelihood"
    return Candidate(name, parameters.config("exact"), searches)


def _low_rank(
    parameters: Parameters, rank: int, sizes: Sizes, effort: Effort, part_of_rate: float = 1.0
) -> FitConfig:
    """Give classes and features vectors; batches by products of matrices, with AdaGrad."""
    parameters, sampler = replace(parameters, rank=rank), parameters.sampler
    if sampler is None:
        few = sizes.n_classes <= MANY_CLASSES
        sampler = Everything() if few else Shared(n_first=Shared.n_negatives // 3)
    drawn = not sampler.all_classes
    rate = (RATE_OF_DRAWN if drawn else RATE) * part_of_rate * (RANK / rank) ** 0.5
    if parameters.noise.light_tails:
        rate *= PART_OF_LIGHT_TAILS
    solver = parameters.solver or AdaGrad(
        rate,
        schedule="linear",
        power=RATE_POWER,
        per="vector" if drawn else "coordinate",
        batch_size=BATCH_SIZE,
    )
    visits = max(ROWS_VISITED, VISITS_PER_CLASS * sizes.n_classes)
    epochs = _epochs(visits, solver, sizes, effort)
    return _for_passes(parameters, sampler, solver, epochs)


def _full_rank(
    parameters: Parameters,
    sizes: Sizes,
    effort: Effort,
    streams: bool,
    in_pairs: bool,
    rounds: bool,
) -> FitConfig:
    """Give each class a weight per feature; one row at a time, with damped steps."""
    sampler = parameters.sampler
    if sampler is None:
        few = sizes.n_classes <= MANY_CLASSES and not in_pairs
        some: Sampler = CoOccurrence() if sizes.sparse and not streams else Stratified()
        sampler = Everything() if few else some
    usual: Solver = AdaGrad() if rounds else Damped()
    solver = parameters.solver or usual
    epochs = _epochs(ROWS_VISITED, solver, sizes, effort)
    if parameters.solver is None and not rounds:
        solver = Damped(FULL_RATE_OF_ALL_EPOCHS / epochs)
    return _for_passes(parameters, sampler, solver, epochs)


def _epochs(visits: int, solver: Solver, sizes: Sizes, effort: Effort) -> int:
    """Return the epochs of a rate that falls to zero by their end.

    Less effort takes fewer epochs where rows are many, and as many where they are few.
    """
    if not solver.decays_to_zero:
        return MAX_EPOCHS
    part = effort.part_of_visits
    lowest, highest = round(part * EPOCHS[0]), round(max(part, 1.0) * EPOCHS[1])
    epochs = int(np.clip(round(part * visits / sizes.n_rows), lowest, highest))
    return max(epochs, -(-MIN_STEPS * solver.batch_size // sizes.n_rows))


def _stream(parameters: Parameters, sizes: Sizes) -> FitConfig:
    """Return one model for rows that come in parts."""
    low = parameters.rank not in (None, "auto")
    sampler = parameters.sampler
    if sampler is None:
        some = Shared() if low else Frequency()
        sampler = Everything() if sizes.n_classes <= MANY_CLASSES else some
    usual: Solver = AdaGrad(RATE) if low else Damped(schedule="constant")
    return _for_passes(parameters, sampler, parameters.solver or usual, MAX_EPOCHS)


def _for_passes(parameters: Parameters, sampler: Sampler, solver: Solver, epochs: int) -> FitConfig:
    """Return the settings of stochastic passes over the likelihood."""
    method = "exact" if sampler.all_classes else "complementary"
    if not solver.supports_bound(method):
        method = "augment-reduce"
    epochs = parameters.max_epochs or epochs
    parameters = replace(parameters, sampler=sampler, solver=solver, max_epochs=epochs)
    config = parameters.config(method)
    bound = config.parts.bound.for_training(config.parts.noise)
    return replace(config, parts=replace(config.parts, bound=bound))
