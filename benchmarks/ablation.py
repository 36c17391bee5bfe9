"""The defaults with each ingredient removed, and with ingredients added.

Every candidate is fitted once to the rows without the validation rows, and once to all rows.  All
variants are sums of these scores, so that they differ in nothing else.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from benchmarks import _report, second
from benchmarks.field import families
from bigcat import LinearClassifier
from bigcat.auto import Parameters, plan_for
from bigcat.auto import candidates as table
from bigcat.linear import LinearModel
from bigcat.noise import Gumbel
from bigcat.rows import Sizes
from bigcat.training.config import Candidate, FitPlan
from bigcat.training.data import TrainingData, without_duplicates
from bigcat.training.ensemble import base_scores, train
from bigcat.training.stacking import MIN_WEIGHT, ValidationScores, stack
from bigcat.training.validation import split

MAX_TEST_ROWS, MAX_TEST_SCORES = 2_000, 8_000_000
SECOND = "second"


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "ablation", help="the defaults without each of their ingredients, and with others"
    )
    command.add_argument("--only", nargs="+", metavar="WORD", help="problems whose names hold one")
    command.add_argument(
        "--field", type=int, default=40, metavar="N", help="problems of the development half"
    )
    command.add_argument("--seed", type=int, default=0)
    command.add_argument(
        "--stored", action="store_true", help="print the table of the last run only"
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Measure all problems, keep what was found, and print the table."""
    if not args.stored:
        for name, rows in problems(args.only, args.field):
            try:
                found = measure(rows, args.seed)
            except Exception as error:  # a finding, not the end of the run
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            _report.append("ablation", {"problem": name, "seed": args.seed} | found)
    _report.show(summary(_report.saved("ablation")), args.json)


def problems(only: list[str] | None, n_field: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield names and rows of the second collection and of the development half."""
    for name in second.names():
        if not only or any(word in f"{SECOND}/{name}" for word in only):
            yield f"{SECOND}/{name}", second.load(name)
    for problem in families.problems_of("development", only, n_field):
        data = problem.data()
        yield problem.name, (data.X, data.y, data.X_test, data.y_test)


@dataclass(frozen=True)
class Fitted:
    """A candidate: scores of test rows, less those of class frequencies."""

    name: str
    first_fold: np.ndarray  # of test rows, by the fit without the first fold
    refitted: np.ndarray


def measure(rows: tuple[Any, ...], seed: int) -> dict[str, Any]:
    """Return the log-likelihood of each variant, and paired differences to the defaults."""
    X, y, X_test, y_test = rows
    classes, labels = np.unique(y, return_inverse=True)
    n = min(MAX_TEST_ROWS, MAX_TEST_SCORES // len(classes), len(y_test))
    chosen = np.sort(np.random.default_rng(seed).permutation(len(y_test))[:n])
    X_test, truth = X_test[chosen], np.searchsorted(classes, np.asarray(y_test)[chosen])
    X = X.astype(np.float32)
    data = without_duplicates(TrainingData(X, labels.astype(np.int64), np.ones(len(labels))))
    sizes = Sizes.of(data.X, len(classes))
    parameters = Parameters.of(LinearClassifier(n_threads=1, random_state=0).get_params(False))
    plan = plan_for(parameters, sizes)
    everything = [*plan.candidates, *_others(parameters, sizes, plan)]
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted, folds = _fits(everything, data, len(classes), X_test, seed)
    base = base_scores(plan.first, data, len(classes))
    names = [candidate.name for candidate in plan.candidates]
    values = {}
    for variant, how in VARIANTS.items():
        found = how(names, [f.name for f in fitted])
        if found is not None:
            values[variant] = _log_p(found, fitted, folds, base, truth)
    ours = values["the defaults"]
    frequencies = base[truth] - logsumexp(base)
    gain = max(float((ours - frequencies).mean()), 0.05)
    return {
        "rows": sizes.n_rows,
        "classes": sizes.n_classes,
        "log_likelihood": float(ours.mean()),
        "frequencies": float(frequencies.mean()),
        "differences": {v: float((r - ours).mean()) for v, r in values.items()},
        "errors": {v: float((r - ours).std() / np.sqrt(n)) for v, r in values.items()},
        "parts_of_gain": {v: float((r - ours).mean()) / gain for v, r in values.items()},
    }


def _others(parameters: Parameters, sizes: Sizes, plan: FitPlan) -> list[Candidate]:
    """Return candidates that the defaults do not have here."""
    found, names = [], [candidate.name for candidate in plan.candidates]
    low = next((c for c in plan.candidates if c.name.startswith("low rank")), None)
    if low is not None:
        solver = low.config.parts.solver
        slower = low.config.with_solver(solver.with_scaled_rate(0.5))
        found += [Candidate("low rank 3", low.config), Candidate("at half the rate", slower)]
    effort = table.EFFORTS["balanced"]
    config = table._full_rank(replace(parameters, rank=None), sizes, effort, False, False, False)
    if "ridge path" in names:
        found.append(Candidate("full rank", config))
    elif "full rank" in names and not any(c.in_pairs for c in plan.candidates):
        solver = config.parts.solver
        faster = config.with_solver(solver.with_scaled_rate(4.0))
        found.append(Candidate("full rank, faster", faster))
    return found


def _fits(
    everything: list[Candidate], data: TrainingData, n_classes: int, X_test: Any, seed: int
) -> tuple[list[Fitted], list[ValidationScores]]:
    random_state, classes = np.random.RandomState(seed), np.arange(n_classes)

    def fit(candidate: Candidate, rows: TrainingData) -> LinearModel:
        plan = FitPlan((candidate,), scales_columns=True)
        result = train(plan, rows, classes, random_state)
        return LinearModel(result.weights, result.intercept, candidate.config.parts.noise)

    def of_test(model: LinearModel, rows: TrainingData) -> np.ndarray:
        scores = np.concatenate([s for _, s in model.score_blocks(X_test)]).astype(np.float32)
        base = base_scores(everything[0].config, rows, n_classes)
        return scores - base.astype(np.float32)

    first, found = [], []
    for number, fold in enumerate(split(data, random_state)):
        kept, held = data.take(fold.kept), data.take(fold.held_out)
        models = [fit(candidate, kept) for candidate in everything]
        base = base_scores(everything[0].config, kept, n_classes)
        found.append(ValidationScores.of(models, base, held, random_state))
        if number == 0:
            first = [of_test(model, kept) for model in models]
    again = [of_test(fit(candidate, data), data) for candidate in everything]
    fitted = [Fitted(c.name, a, b) for c, a, b in zip(everything, first, again)]
    return fitted, found


@dataclass(frozen=True)
class Variant:
    """Members by name, and how they are combined."""

    members: list[str]
    refits: bool = True
    stacks: bool = True
    weighs_frequencies: bool = True
    first_fold_only: bool = False
    shrinks_uncertain_gains: bool = False


def _log_p(
    variant: Variant,
    fitted: list[Fitted],
    folds: list[ValidationScores],
    base: np.ndarray,
    truth: np.ndarray,
) -> np.ndarray:
    """Return the log-probabilities of the test rows' labels."""
    names = [f.name for f in fitted]
    places = [names.index(name) for name in variant.members]
    folds = folds[:1] if variant.first_fold_only else folds
    scores = ValidationScores.joined(folds)
    some = scores._replace(scores=scores.scores[[*places, -1]])
    if variant.stacks:
        stacked = stack(some, Gumbel())
        weights, of_base = stacked.weights, stacked.frequency_weight
        if not variant.weighs_frequencies:
            weights, of_base = _with_frequencies_as_they_are(some), 1.0
        if variant.shrinks_uncertain_gains:
            gains = stacked.log_likelihoods - stacked.of_frequencies
            error = gains.std() / np.sqrt(len(gains))
            evidence = (gains.mean() / max(error, 1e-12)) ** 2
            part = 0.0 if gains.mean() <= error else evidence / (1.0 + evidence)
            part = 1.0 if gains.mean() >= 3.0 * error else part
            weights, of_base = part * weights, 1.0 + part * (of_base - 1.0)
    else:
        weights, of_base = np.full(len(places), 1.0 / len(places)), 1.0
    total = np.float32(of_base) * base.astype(np.float32)
    for weight, place in zip(weights, places):
        member = fitted[place]
        scored = member.refitted if variant.refits else member.first_fold
        total = total + np.float32(weight) * scored
    found: np.ndarray = total[np.arange(len(truth)), truth] - logsumexp(total, axis=1)
    return found


def _with_frequencies_as_they_are(some: ValidationScores) -> np.ndarray:
    """Return stacking weights where that of the class frequencies is 1."""
    departures, base = some.scores[:-1], some.scores[-1] + some.log_counts
    own = departures[:, :, 0]
    share = some.data.row_weights / some.data.row_weights.sum()

    def loss(w: np.ndarray) -> float:
        total = base + np.tensordot(w.astype(np.float32), departures, 1)
        values = w @ own + some.scores[-1][:, 0] - logsumexp(total, axis=1)
        return -float(share @ values)

    start = np.full(len(departures), 1.0 / len(departures))
    found = minimize(loss, start, bounds=[(0.0, None)] * len(start), method="L-BFGS-B").x
    return np.where(found < MIN_WEIGHT, 0.0, found)


def _without(*words: str) -> Callable[[list[str], list[str]], Variant | None]:
    """Return a variant without the members whose names hold a word, if others are left."""

    def how(names: list[str], known: list[str]) -> Variant | None:
        left = [name for name in names if not any(word in name for word in words)]
        return Variant(left) if 0 < len(left) < len(names) else None

    return how


def _with(*more: str) -> Callable[[list[str], list[str]], Variant | None]:
    def how(names: list[str], known: list[str]) -> Variant | None:
        return Variant([*names, *more]) if all(name in known for name in more) else None

    return how


def _changed(**options: bool) -> Callable[[list[str], list[str]], Variant | None]:
    return lambda names, known: Variant(names, **options)


def _passes_for_the_path(names: list[str], known: list[str]) -> Variant | None:
    if "ridge path" not in names:
        return None
    passes = [name for name in known if name.startswith("full rank")]
    return Variant([name for name in names if name != "ridge path"] + passes)


VARIANTS: dict[str, Callable[[list[str], list[str]], Variant | None]] = {
    "the defaults": _changed(),
    "without refit": _changed(refits=False),
    "without stacking (equal weights)": _changed(stacks=False),
    "without a weight for class frequencies": _changed(weighs_frequencies=False),
    "weights from one fold": _changed(first_fold_only=True),
    "without the second of rank 256": _without("2 of 2"),
    "without rank 64": _without("rank 64"),
    "without low rank": _without("low rank", "rank 64"),
    "without full rank": _without("full rank", "ridge path"),
    "passes for the ridge path": _passes_for_the_path,
    "with a third of rank 256": _with("low rank 3"),
    "with full rank at four times the rate": _with("full rank, faster"),
    "with low rank at half the rate": _with("at half the rate"),
    "with uncertain gains shrunk": _changed(shrinks_uncertain_gains=True),
}


def summary(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per variant: parts of the gain over class frequencies that it adds."""
    last = {(r["problem"], r["seed"]): r for r in records}.values()
    rows = []
    for variant in VARIANTS:
        parts = np.array([r["parts_of_gain"][variant] for r in last if variant in r["errors"]])
        if not len(parts):
            continue
        parts = np.clip(parts, -1.0, 1.0)
        differences = [r["differences"][variant] for r in last if variant in r["errors"]]
        rows.append(
            {
                "variant": variant,
                "problems": len(parts),
                "mean change, % of gain": 100.0 * float(parts.mean()),
                "standard error": 100.0 * float(parts.std() / np.sqrt(len(parts))),
                "mean change, nats": float(np.mean(differences)),
                "worst": 100.0 * float(parts.min()),
                "best": 100.0 * float(parts.max()),
            }
        )
    return rows
