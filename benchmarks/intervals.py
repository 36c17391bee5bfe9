"""Coverage of 90 % intervals of the default posterior, by numbers of classes, rows and features."""

from __future__ import annotations

import argparse
import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import softmax

from benchmarks import interval_tables, yardsticks
from benchmarks._models import laplace
from benchmarks._report import append, clock, saved
from bigcat import noise as noises
from bigcat.probabilities import log_probabilities

LEVEL = interval_tables.LEVEL
TEST_ROWS = 100
#: Standard deviations of scores among rows, and of intercepts: each data set has its own, drawn
#: evenly in logarithms from these, which the fit does not know.
SCORE_SCALES, INTERCEPT_SCALES = (0.7, 4.0), (0.2, 1.5)
#: Degrees of freedom and width of the half-t distribution that the fit's own prior has for both.
FREEDOM, WIDTH = 4.0, 2.0
#: Data sets of a case that there should be, and processor seconds of a run that it may take.
SETS, SECONDS = 10, 60.0
#: NUTS with the prior of the default, in units of centred columns.
NUTS_OPTIONS = {"scale_width": WIDTH, "n_warmup": 400, "n_samples": 800, "thin": 2}
#: Products of a gradient up to which NUTS takes seconds.
MAX_PRODUCTS_OF_NUTS = 400_000
#: The file of all data sets that were ever measured, to which runs add.
NAME = "interval_coverage"


class Case(NamedTuple):
    """A shape of data.

    `weights` is the distribution of the true ones; `rows` are dense, sparse, of correlated features
    or with heavy tails; `scales` are drawn evenly, or from the fit's own prior; `frequencies` of
    the classes are those of the scores alone, or skewed as 1 / rank.
    """

    n_classes: int
    rows_per_class: int
    n_features: int
    weights: str = "normal"
    rows: str = "dense"
    noise: str = "gumbel"
    scales: str = "even"
    frequencies: str = "even"

    @property
    def products(self) -> int:
        """Return the products of a gradient: rows times classes times features."""
        return self.rows_per_class * self.n_classes**2 * self.n_features


def cases() -> list[Case]:
    """Return the cases of docs/results/posterior.md."""
    sizes = itertools.product((2, 5, 20, 200, 1_000), (5, 20, 200), (5, 50, 200))
    found = [Case(*size) for size in sizes if size[:2] != (1_000, 200)]
    found += [Case(1_000, 50, d) for d in (5, 50, 200)]  # 200 rows per class take minutes
    found += [Case(2, r, d, scales="prior") for r in (5, 20) for d in (5, 50, 200)]
    found += [Case(5, r, 200, scales="prior") for r in (5, 20)]
    found += [Case(k, 20, 5, "laplace") for k in (2, 5, 20, 200, 1_000)]
    found += [Case(k, 20, 50, "laplace") for k in (2, 5, 20, 200)]
    found += [Case(k, 5, 50, "laplace") for k in (5, 20, 200, 1_000)]
    found += [Case(k, 20, 50, rows="sparse") for k in (2, 5, 20, 200, 1_000)]
    others = itertools.product(("gaussian", "logistic"), (5, 20), (5, 20))
    found += [Case(k, r, 5, noise=n) for n, k, r in others]
    for kind in ({"rows": "correlated"}, {"rows": "heavy"}, {"frequencies": "skewed"}):
        found += [Case(k, 20, d, **kind) for k in (2, 5, 20, 200, 1_000) for d in (5, 50)]
    return sorted(found, key=lambda case: case.n_classes)  # the quick ones first


def cases_of_nuts() -> list[Case]:
    """Return the cases for NUTS: small, dense rows, softmax."""
    found = [c for c in cases() if c.rows != "sparse" and c.noise == "gumbel"]
    return [c for c in found if c.products <= MAX_PRODUCTS_OF_NUTS]


class Data(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    truth: np.ndarray  # probabilities of the test rows
    scale: float  # of the scores among rows


def _rng(case: Case, seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, *case[:3]])


def draw_scales(case: Case, seed: int) -> tuple[float, float]:
    """Standard deviations of scores among rows, and of intercepts, of such a data set."""
    return _draw_scales(case, _rng(case, seed))


def _draw_scales(case: Case, rng: np.random.Generator) -> tuple[float, float]:
    if case.scales == "prior":
        first, second = np.abs(rng.standard_t(FREEDOM, 2)) * WIDTH
    else:
        bounds = np.log([SCORE_SCALES, INTERCEPT_SCALES])
        first, second = (np.exp(rng.uniform(*some)) for some in bounds)
    return float(first), float(second)


def draw(case: Case, seed: int) -> Data:
    """A data set with its true probabilities."""
    rng = _rng(case, seed)
    k, d, n = case.n_classes, case.n_features, case.n_classes * case.rows_per_class
    scale, intercept_scale = _draw_scales(case, rng)
    X = rng.standard_normal((n + TEST_ROWS, d))
    length = float(d)
    if case.rows == "sparse":
        share = min(0.2, 10.0 / d)
        X *= rng.random(X.shape) < share
        length = max(1.0, d * share)
    if case.rows == "correlated":  # by 0.8 between all pairs of features
        X = np.sqrt(0.2) * X + np.sqrt(0.8) * rng.standard_normal((len(X), 1))
    if case.rows == "heavy":  # Student's t with 3 degrees of freedom, of variance 1
        X = X / np.sqrt(rng.chisquare(3.0, X.shape))
    if case.weights == "normal":
        weights = rng.standard_normal((k, d))
    else:
        weights = rng.laplace(size=(k, d)) / np.sqrt(2.0)
    scores = X @ (weights.T * scale / np.sqrt(length)) + intercept_scale * rng.standard_normal(k)
    if case.frequencies == "skewed":
        scores -= np.log(np.arange(1.0, k + 1.0))
    noise = noises.resolve(case.noise)
    logs = log_probabilities(noise, scores)
    y = np.argmax(logs + rng.gumbel(size=logs.shape), axis=1)
    rows: Any = scipy.sparse.csr_array(X) if case.rows == "sparse" else X
    return Data(rows[:n], y[:n], rows[n:], np.exp(logs[n:]), scale)


def measure(case: Case, seed: int) -> dict[str, Any]:
    """Measure one data set: coverage and width of intervals, learned scale, seconds of the fit."""
    data = draw(case, seed)
    model = laplace(noise=case.noise, random_state=seed)
    with clock() as times:
        model.fit(data.X, data.y, classes=np.arange(case.n_classes))
    intervals = model.predict_interval(data.X_test, LEVEL)
    assert model.history_.selection is not None
    prior, learned = model.posterior_.prior, np.nan
    if prior is not None:
        learned = np.exp(-0.5 * np.log(prior.precision[:, :-1] / _units(data.X)).mean())
    form, mixed = (
        model.history_.selection["covariance"],
        model.history_.selection.get("ess_bulk", np.nan),
    )
    row = _row(case, seed, data, intervals, learned, form, times["cpu"])
    return row | {"effective draws": round(mixed, 1)}


def _row(
    case: Case, seed: int, data: Data, intervals: Any, learned: float, form: str, seconds: float
) -> dict[str, Any]:
    low, high = intervals
    return case._asdict() | {
        "seed": seed,
        "coverage": round(float(((low <= data.truth) & (data.truth <= high)).mean()), 4),
        "width": round(float((high - low).mean()), 5),
        "scale": round(float(learned / data.scale), 3),
        "form": form,
        "CPU seconds": round(seconds, 2),
    }


def measure_by_nuts(case: Case, seeds: list[int], **options: Any) -> list[dict[str, Any]]:
    """The same data sets by NUTS, with the prior of the default; dense rows of the softmax."""
    sets = [draw(case, seed) for seed in seeds]
    trains, tests = [], []
    for data in sets:
        means, units = data.X.mean(axis=0), data.X.std(axis=0) * np.sqrt(case.n_features)
        trains.append((data.X - means) / units)
        tests.append((data.X_test - means) / units)
    labels, unused = np.array([data.y for data in sets]), np.zeros((len(sets), TEST_ROWS), int)
    found = yardsticks.run(
        "nuts",
        np.array(trains),
        labels,
        np.array(tests),
        unused,
        case.n_classes,
        **NUTS_OPTIONS | options,
    )
    rows = []
    for i, (seed, data) in enumerate(zip(seeds, sets)):
        drawn = found["samples"][i]
        scores = np.einsum("skm,nm->snk", drawn[..., 1:], tests[i]) + drawn[:, None, :, 0]
        intervals = np.quantile(softmax(scores, axis=2), [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
        learned = np.exp(0.5 * np.log(np.square(drawn[..., 1:]).mean(axis=(1, 2))).mean())
        rows.append(
            _row(
                case,
                seed,
                data,
                intervals,
                learned,
                interval_tables.NUTS,
                float(found["seconds"][i]),
            )
        )
    return rows


def _units(X: Any) -> np.ndarray:
    """Precisions of weights whose scores have a variance of 1 among the rows."""
    dense = X.toarray() if scipy.sparse.issparse(X) else X - X.mean(axis=0)
    return np.full(X.shape[1], np.square(dense).sum() / len(dense))


def measure_all(words: list[str], seconds: float, n_sets: int) -> None:
    """Add data sets to all cases whose description holds all the words.

    A case gets them until it has `n_sets`, or until this run has spent `seconds` on
    it; so a run that was stopped goes on where it was.
    """
    for case in cases():
        if not _described(case, words):
            continue
        spent = 0.0
        for seed in _missing(case, n_sets, by_nuts=False):
            if spent >= seconds:
                break
            row = measure(case, seed)
            append(NAME, row)
            print(*row.values(), flush=True)
            spent += row["CPU seconds"]


def measure_all_by_nuts(words: list[str], n_sets: int) -> None:
    """Measure all small cases by NUTS."""
    for case in cases_of_nuts():
        missing = _missing(case, n_sets, by_nuts=True)
        if _described(case, words) and missing:
            for row in measure_by_nuts(case, missing):
                append(NAME, row)
                print(*row.values(), flush=True)


def _described(case: Case, words: list[str]) -> bool:
    return all(word in repr(case).replace("'", "") for word in words)


def _missing(case: Case, n_sets: int, by_nuts: bool) -> list[int]:
    """Return the seeds below `n` that no run has measured."""
    own = [
        r
        for r in saved(NAME)
        if case_of(r) == case and (r["form"] == interval_tables.NUTS) == by_nuts
    ]
    return sorted(set(range(n_sets)) - {r["seed"] for r in own})


def case_of(row: dict[str, Any]) -> Case:
    return Case(*(row[name] for name in Case._fields))


def interval_coverage(words: list[str], seconds: float, n_sets: int, nuts: bool) -> None:
    """All cases, or those whose description holds all the words, such as ``n_classes=20``."""
    if nuts:
        measure_all_by_nuts(words, n_sets)
    else:
        measure_all(words, seconds, n_sets)
    interval_tables.write(saved(NAME))


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "interval-coverage", help="what the default posterior's 90 %% intervals hold"
    )
    parser.add_argument("words", nargs="*", help="of cases, such as n_classes=20,")
    parser.add_argument(
        "--sets", type=int, default=SETS, help="data sets of a case; 0: tables only"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of fits of a case, this run"
    )
    parser.add_argument("--nuts", action="store_true", help="the same data sets by NUTS")
