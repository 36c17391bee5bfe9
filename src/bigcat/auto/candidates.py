"""``method="auto"``: the table of candidates.

============  =============================================  =========================
candidate     settings                                       where
============  =============================================  =========================
low rank      vectors of length 256, two starts; AdaGrad     32 classes and features
rank 64       the same, shorter vectors                      there, up to 250,000 rows
ridge path    full rank by L-BFGS, ridge by folds            where that takes a second
full rank     damped steps, one row at a time                elsewhere
============  =============================================  =========================

A parameter that the user sets removes candidates and changes nothing else.  A named method, a
solver or a number for `l2` is an objective of the user's: it is maximised as it stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from bigcat.auto.named import named_config, setting
from bigcat.auto.parameters import Parameters
from bigcat.combinations import check_parts_for_rows
from bigcat.rows import Sizes
from bigcat.samplers import Shared
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import AdaGrad, Damped, Solver
from bigcat.training.config import Candidate, FitConfig, FitPlan
from bigcat.training.stopping import Never
from bigcat.training.streams import for_streams

# Small problems, for which L-BFGS takes about a second.  In the span of the rows a class has as
# many weights as there are features, or rows if these are fewer.
MAX_SMALL_WEIGHTS, MAX_SMALL_PRODUCTS = 1 << 14, 1 << 27
#: Weights of L-BFGS at most, in float64 and some thirty times.
MAX_LBFGS_WEIGHTS = 1 << 20
#: A value costs other noises as many products.
PRODUCTS_OF_NODES = 64
MAX_ITERATIONS, TOL_PART = 200, 0.1

# Low rank.
RANK, SMALL_RANK, BATCH_SIZE = 256, 64, 128
#: Fewer classes or features than this are no matter for vectors.
MIN_SIDE = 32
#: Up to so many classes, all of them are in each step.
MAX_ALL_CLASSES = 2_048
#: Classes drawn for a batch, and in the first third of the epochs.
NEGATIVES, FIRST_NEGATIVES = 384, 128
#: Rows visited in all, and per class; within some epochs, and at least so many steps.
ROWS_VISITED, VISITS_PER_CLASS, EPOCHS, MIN_STEPS = 600_000, 40, (3, 7), 200
#: Learning rates with all classes and with drawn ones, and the part for noises of light tails.
RATE, RATE_OF_DRAWN, PART_OF_LIGHT_TAILS, RATE_POWER = 0.05, 0.065, 0.6, 1.25

# Full rank.
FULL_RATE = 4.0
FULL_NEGATIVES = 16
FULL_EPOCHS = (3, 8)
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
    if parameters.method is not None:
        config = named_config(parameters)
        candidate = Candidate(parameters.method.name, config, parameters.l2 == "path")
        plan = FitPlan((candidate,), reason="the method as given")
    else:
        plan = _plan(parameters, sizes, window is not None)
    if window is not None:
        given = parameters.given("sampler")
        plan = plan.mapped(lambda config: for_streams(config, window, not given))
        reason = f"{plan.reason}; rows come from files, {window:,} at a time"
        plan = replace(plan, scales_columns=False, reason=reason)
    return _checked(plan, parameters, sizes)


def config_for_stream(parameters: Parameters, sizes: Sizes, window: int | None = None) -> FitConfig:
    """Return the settings of a pass of which nobody knows how many more will come.

    A stream has one model and no stacking.
    """
    if parameters.method is not None:
        config = named_config(parameters)
    else:
        config = _stream(parameters, sizes)
    if window is not None:
        config = for_streams(config, window, not parameters.given("sampler"))
    _check_path(parameters, config)
    check_parts_for_rows(config.parts, sizes.sparse)
    return config.with_solver(config.parts.solver.at_constant_rate())


def plan_for_rounds(parameters: Parameters, sizes: Sizes) -> FitPlan:
    """Return the plan of a fit to rows of several machines, whose steps are AdaGrad's.

    Full rank takes part only where it is asked for, or alone.
    """
    if parameters.method is not None:
        plan = plan_for(parameters, sizes)
    else:
        plan = _plan(parameters, sizes, True, rounds=True)
    given = parameters.given("sampler")
    plan = plan.mapped(
        lambda config: replace(
            for_streams(config, sizes.n_rows, not given), window=None, n_threads=1
        )
    )
    plan = replace(plan, scales_columns=False, reason=f"{plan.reason}; rows of several machines")
    return _checked(plan, parameters, sizes)


def _check_path(parameters: Parameters, config: FitConfig) -> None:
    """Raise where a ridge is to be found along a path by passes."""
    if parameters.l2 == "path" and config.parts.solver.stochastic:
        raise ValueError(
            "l2='path' fits all ridges of a path by L-BFGS, and here the solver is "
            f"{config.parts.solver.name!r}; set solver='lbfgs' or give l2 a number"
        )


def _checked(plan: FitPlan, parameters: Parameters, sizes: Sizes) -> FitPlan:
    for candidate in plan.candidates:
        _check_path(parameters, candidate.config)
        check_parts_for_rows(candidate.config.parts, sizes.sparse)
    return plan


def _plan(parameters: Parameters, sizes: Sizes, streams: bool, rounds: bool = False) -> FitPlan:
    effort = EFFORTS[parameters.effort]
    passes = ("learning_rate", "n_negatives", "batch_size", "sampler")
    if parameters.l2 == "path" and not any(map(parameters.given, ("solver", *passes))):
        parameters = replace(parameters, solver="lbfgs")
    as_given = parameters.given("l2") or parameters.given("solver")
    as_given |= bool(parameters.given("early_stopping") and parameters.early_stopping)
    solver = _solver(parameters.solver)
    if solver is not None and not solver.stochastic:
        candidates = [_ridge_path(parameters, sizes)]
    else:
        candidates = _candidates(parameters, sizes, effort, streams, rounds)
    reason = f"{sizes.n_classes:,} classes and {sizes.n_features:,} features"
    if as_given:
        small = [c for c in candidates if not c.config.parts.solver.stochastic]
        candidates, reason = (small or candidates)[:1], "an objective as given"
    few = all(c.searches_ridge for c in candidates)
    return FitPlan(
        tuple(candidates),
        stacks=not as_given,
        refits=not as_given and (few or (effort.refits and sizes.n_rows <= MAX_ROWS_REFITTED)),
        scales_columns=not parameters.given("solver") and parameters.l2 in ("auto", 0.0),
        reason=reason,
    )


def _is_small(parameters: Parameters, sizes: Sizes, streams: bool) -> bool:
    """Return True if L-BFGS takes about a second, and nothing asks for passes."""
    asks = ("sampler", "learning_rate", "n_negatives", "batch_size", "solver")
    if streams or parameters.rank not in ("auto", None) or any(map(parameters.given, asks)):
        return False
    if parameters.given("early_stopping") and parameters.early_stopping:
        return False
    products = sizes.n_values * sizes.n_classes
    if not parameters.noise.softmax:
        products *= PRODUCTS_OF_NODES
    if sizes.n_features * sizes.n_classes > MAX_LBFGS_WEIGHTS or products > MAX_SMALL_PRODUCTS:
        return False
    return sizes.n_classes * min(sizes.n_features, sizes.n_rows) <= MAX_SMALL_WEIGHTS


def _ridge_path(parameters: Parameters, sizes: Sizes) -> Candidate:
    solver = parameters.solver if parameters.given("solver") else "lbfgs"
    searches = parameters.l2 in ("auto", "path")
    given = replace(parameters, max_epochs=setting(parameters, "max_epochs", MAX_ITERATIONS))
    config = named_config(given, "exact", solver=solver)
    config = replace(
        config,
        batch_size=sizes.n_rows,
        tol=config.tol * (TOL_PART if searches else 1.0),
        n_threads=1,
    )
    return Candidate("ridge path" if searches else "maximum likelihood", config, searches)


def _candidates(
    parameters: Parameters, sizes: Sizes, effort: Effort, streams: bool, rounds: bool
) -> list[Candidate]:
    """Return low rank, full rank, or both."""
    small = _is_small(parameters, sizes, streams)
    solver = _solver(parameters.solver)
    full_parts = parameters.given("sampler") or solver is not None
    side = min(sizes.n_features, sizes.n_classes)
    if parameters.rank == "auto":
        low = side >= MIN_SIDE and not full_parts
        n_low = effort.n_low_rank if parameters.noise.softmax else 1
        parameters = replace(parameters, rank=RANK if low else None)
        full = not low or (
            effort.beside
            and not rounds
            and parameters.noise.softmax
            and not parameters.given("learning_rate")
            and (_has_matrix(sizes) or (_has_pairs(sizes) and not streams))
        )
    else:
        low, full, n_low = parameters.rank is not None, parameters.rank is None, 1
    candidates = []
    if low:
        config = _low_rank(parameters, sizes, effort)
        for number in range(n_low):
            name = f"low rank {number + 1} of {n_low}" if n_low > 1 else "low rank"
            candidates.append(Candidate(name, config))
        if n_low > 1 and sizes.n_rows <= MAX_ROWS_REFITTED:
            config = _low_rank(replace(parameters, rank=SMALL_RANK), sizes, effort)
            candidates.append(Candidate(f"rank {SMALL_RANK}", config))
    if full and small:
        candidates.append(_ridge_path(replace(parameters, rank=None), sizes))
    elif full:
        in_pairs = low and not _has_matrix(sizes)
        full_rank = replace(parameters, rank=None)
        config = _full_rank(full_rank, sizes, effort, in_pairs, rounds)
        candidates.append(Candidate("full rank", config, in_pairs=in_pairs))
    return candidates


def _has_matrix(sizes: Sizes) -> bool:
    """Return True if full rank is a matrix of moderate size."""
    return sizes.n_features * sizes.n_classes <= MAX_FULL_WEIGHTS


def _has_pairs(sizes: Sizes) -> bool:
    """Return True if pairs of class and feature that occur together are as few."""
    return sizes.sparse and sizes.n_values <= MAX_FULL_WEIGHTS


def _low_rank(parameters: Parameters, sizes: Sizes, effort: Effort) -> FitConfig:
    """Give classes and features vectors; batches by products of matrices, with AdaGrad."""
    method, sampler, n_negatives = "complementary", parameters.sampler, NEGATIVES
    n_negatives = setting(parameters, "n_negatives", auto=NEGATIVES)
    solver = _solver(parameters.solver)
    asks = parameters.given("sampler") or parameters.given("n_negatives")
    if solver is not None and solver.bounds is not None:
        method = "augment-reduce"
    elif asks:
        sampler = parameters.sampler if parameters.given("sampler") else "shared"
    elif sizes.n_classes <= MAX_ALL_CLASSES:
        method, sampler = "exact", "everything"
    else:
        sampler = Shared(NEGATIVES, n_first=FIRST_NEGATIVES)
    instead: dict[str, Any] = {"sampler": sampler, "n_negatives": n_negatives}
    if parameters.given("solver"):
        return named_config(parameters, method, **instead)
    drawn = method != "exact"
    rate = RATE_OF_DRAWN if drawn else RATE
    if parameters.noise.light_tails:
        rate *= PART_OF_LIGHT_TAILS
    adagrad = AdaGrad(
        _rate(parameters, rate),
        schedule="linear",
        power=RATE_POWER,
        per="vector" if drawn else "coordinate",
    )
    config = named_config(parameters, method, **instead, solver=adagrad, learning_rate="auto")
    batch_size = BATCH_SIZE if parameters.batch_size == "auto" else int(parameters.batch_size)
    visits = effort.part_of_visits * max(ROWS_VISITED, VISITS_PER_CLASS * sizes.n_classes)
    lowest, highest = (max(round(effort.part_of_visits * e), 1) for e in EPOCHS)
    epochs = int(np.clip(round(visits / sizes.n_rows), lowest, highest))
    epochs = max(epochs, -(-MIN_STEPS * batch_size // sizes.n_rows))
    return replace(
        _for_passes(config),
        batch_size=batch_size,
        max_epochs=int(setting(parameters, "max_epochs", auto=epochs)),
        stop=config.stop if config.early_stopping else Never,
    )


def _full_rank(
    parameters: Parameters,
    sizes: Sizes,
    effort: Effort,
    in_pairs: bool,
    rounds: bool,
) -> FitConfig:
    """Give each class a weight per feature; one row at a time, with damped steps."""
    solver = _solver(parameters.solver)
    asks = parameters.given("sampler") or parameters.given("n_negatives")
    sampler = parameters.sampler
    if solver is not None and solver.bounds is not None:
        method = "augment-reduce"
    elif sizes.n_classes <= MAX_ALL_CLASSES and not asks and not in_pairs:
        method, sampler = "exact", "everything"
    else:
        method = "complementary"
        if not parameters.given("sampler"):
            sampler = "co-occurrence" if sizes.sparse else "stratified"
    if parameters.given("solver"):
        return named_config(parameters, method, sampler=sampler)
    if rounds:
        steps: Solver = (
            AdaGrad()
            if parameters.learning_rate == "auto"
            else AdaGrad(float(parameters.learning_rate))
        )
    else:
        steps = Damped(_rate(parameters, FULL_RATE))
    config = named_config(
        parameters,
        method,
        sampler=sampler,
        solver=steps,
        learning_rate="auto",
        n_negatives=setting(parameters, "n_negatives", auto=FULL_NEGATIVES),
    )
    visits = effort.part_of_visits * ROWS_VISITED
    lowest, highest = (max(round(effort.part_of_visits * e), 1) for e in FULL_EPOCHS)
    epochs = int(np.clip(visits // sizes.n_rows, lowest, highest))
    if rounds:
        epochs = max(epochs, -(-MIN_STEPS * config.batch_size // sizes.n_rows))
    return replace(
        _for_passes(config),
        max_epochs=int(setting(parameters, "max_epochs", auto=epochs)),
        stop=config.stop if config.early_stopping else Never,
    )


def _stream(parameters: Parameters, sizes: Sizes) -> FitConfig:
    """Return one model for rows that come in parts."""
    low = parameters.rank not in (None, "auto")
    asks = parameters.given("sampler") or parameters.given("n_negatives")
    instead: dict[str, Any] = {"sampler": "everything"}
    method = "exact"
    if sizes.n_classes > MAX_ALL_CLASSES or asks:
        method = "complementary"
        instead["sampler"] = parameters.sampler if parameters.given("sampler") else "frequency"
        if low and not parameters.given("sampler"):
            n_negatives = setting(parameters, "n_negatives", auto=NEGATIVES)
            instead |= {"sampler": "shared", "n_negatives": n_negatives}
    if not parameters.given("solver"):
        rate = _rate(parameters, RATE if low else 1.0)
        solver = AdaGrad(rate) if low else Damped(rate, schedule="constant")
        instead |= {"solver": solver, "learning_rate": "auto"}
    return _for_passes(named_config(parameters, method, **instead))


def _for_passes(config: FitConfig) -> FitConfig:
    """Return the settings with as few nodes as stochastic passes need."""
    parts = config.parts
    return replace(config, parts=replace(parts, bound=parts.bound.for_passes(parts.noise)))


def _rate(parameters: Parameters, auto: float) -> float:
    return auto if parameters.learning_rate == "auto" else float(parameters.learning_rate)


def _solver(solver: str | Solver) -> type[Solver] | Solver | None:
    """Return the solver that was named or given; None for "auto"."""
    return SOLVERS.get(solver) if isinstance(solver, str) else solver
