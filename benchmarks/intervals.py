"""What 90 % intervals of the default posterior hold, over numbers of classes, rows and features."""

from __future__ import annotations

import argparse
import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from benchmarks._models import laplace
from benchmarks._report import FIGURES, clock, save, saved, show
from bigcat import noise as noises
from bigcat.probabilities import log_probabilities

LEVEL = 0.9
TEST_ROWS = 100
#: Standard deviations of scores among rows, and of intercepts: each data set has its own, drawn
#: evenly in logarithms from these, which the fit does not know.
SCORE_SCALES, INTERCEPT_SCALES = (0.7, 4.0), (0.2, 1.5)
#: Degrees of freedom and width of the half-t distribution that the fit's own prior has for both.
FREEDOM, WIDTH = 4.0, 2.0
#: Data sets of a case: at least, at most, and processor seconds after which no other is begun.
LEAST_SETS, MOST_SETS, SECONDS = 10, 60, 60.0
#: A case whose fits take many times its seconds has to do with fewer data sets.
TOO_LONG = 5.0
NAME = "interval_coverage"


class Case(NamedTuple):
    """A shape of data.

    `weights` is the distribution of the true ones, `rows` dense or sparse, `scales` those that are
    drawn evenly, or from the fit's own prior.
    """

    n_classes: int
    rows_per_class: int
    n_features: int
    weights: str = "normal"
    rows: str = "dense"
    noise: str = "gumbel"
    scales: str = "even"

    @property
    def plain(self) -> bool:
        return self[3:] == Case(*self[:3])[3:]


def cases() -> list[Case]:
    """Those of docs/results.md."""
    sizes = itertools.product((2, 5, 20, 200, 1_000), (5, 20, 200), (5, 50, 200))
    found = [Case(*size) for size in sizes if size[:2] != (1_000, 200)]
    found += [Case(1_000, 50, d) for d in (5, 50)]  # 200 rows per class take minutes
    found += [Case(2, r, d, scales="prior") for r in (5, 20) for d in (5, 50, 200)]
    found += [Case(5, r, 200, scales="prior") for r in (5, 20)]
    found += [Case(k, 20, 5, "laplace") for k in (2, 5, 20, 200, 1_000)]
    found += [Case(k, 20, 50, "laplace") for k in (2, 5, 20, 200)]
    found += [Case(k, 5, 50, "laplace") for k in (5, 20, 200, 1_000)]
    found += [Case(k, 20, 50, rows="sparse") for k in (2, 5, 20, 200, 1_000)]
    found += [Case(k, 20, 5, noise=n) for n in ("gaussian", "logistic") for k in (5, 20)]
    return found


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
    if case.weights == "normal":
        weights = rng.standard_normal((k, d))
    else:
        weights = rng.laplace(size=(k, d)) / np.sqrt(2.0)
    scores = X @ (weights.T * scale / np.sqrt(length)) + intercept_scale * rng.standard_normal(k)
    noise = noises.resolve(case.noise)
    logs = log_probabilities(noise, scores)
    y = np.argmax(logs + rng.gumbel(size=logs.shape), axis=1)
    rows: Any = scipy.sparse.csr_array(X) if case.rows == "sparse" else X
    return Data(rows[:n], y[:n], rows[n:], np.exp(logs[n:]), scale)


def measure(case: Case, seed: int) -> dict[str, Any]:
    """One data set: what the intervals hold, their width, the learnt scale, seconds of the fit."""
    data = draw(case, seed)
    model = laplace(noise=case.noise, random_state=seed)
    with clock() as times:
        model.fit(data.X, data.y, classes=np.arange(case.n_classes))
    low, high = model.predict_interval(data.X_test, LEVEL)
    assert model.history_.choice is not None
    prior = model.posterior_.prior
    assert prior is not None
    learnt = np.exp(-0.5 * np.log(prior.precision[:, :-1] / _units(data.X)).mean())
    return case._asdict() | {
        "seed": seed,
        "coverage": float(((low <= data.truth) & (data.truth <= high)).mean()),
        "width": float((high - low).mean()),
        "scale": float(learnt / data.scale),
        "form": model.history_.choice["covariance"],
        "CPU seconds": times["cpu"],
    }


def _units(X: Any) -> np.ndarray:
    """Precisions of weights whose scores have a variance of 1 among the rows."""
    dense = X.toarray() if scipy.sparse.issparse(X) else X - X.mean(axis=0)
    return np.full(X.shape[1], np.square(dense).sum() / len(dense))


def measure_all(
    words: list[str], seconds: float, least: int, kept: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Data sets of all cases whose description holds all the words, beside those that are kept."""
    found = list(kept)
    for case in cases():
        if not all(word in repr(case).replace("'", "") for word in words):
            continue
        own = [r for r in found if _case(r) == case]
        spent = sum(r["CPU seconds"] for r in own)
        for seed in range(len(own), MOST_SETS):
            if (seed >= least and spent >= seconds) or spent > TOO_LONG * seconds:
                break
            found.append(measure(case, seed))
            spent += found[-1]["CPU seconds"]
            save(NAME, found)
        show(table([r for r in found if _case(r) == case]))
    return found


def _case(row: dict[str, Any]) -> Case:
    return Case(*(row[name] for name in Case._fields))


def table(sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per case: coverage with its standard error over data sets."""
    rows = []
    for case in dict.fromkeys(map(_case, sets)):
        own = [r for r in sets if _case(r) == case]
        covered = [r["coverage"] for r in own]
        error = np.std(covered, ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
        rows.append(
            {
                "classes": case.n_classes,
                "rows per class": case.rows_per_class,
                "features": case.n_features,
                "other": ", ".join(case[3:]) if not case.plain else "",
                "data sets": len(own),
                "coverage": float(np.mean(covered)),
                "standard error": float(error),
                "width": float(np.mean([r["width"] for r in own])),
                "scale, learnt to true": float(np.exp(np.mean([np.log(r["scale"]) for r in own]))),
                "form": own[-1]["form"],
                "CPU seconds": float(np.median([r["CPU seconds"] for r in own])),
            }
        )
    return rows


def interval_coverage(
    words: list[str], seconds: float, least: int, more: bool, as_json: bool = False
) -> None:
    """All cases, or those whose description holds all the words, such as ``n_classes=20``."""
    rows = table(measure_all(words, seconds, least, saved(NAME) if more else []))
    show(rows, as_json)
    draw_coverage(rows)


def draw_coverage(rows: list[dict[str, Any]]) -> None:
    """Coverage against rows per class, a panel per number of features."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plain = [r for r in rows if not r["other"]]
    widths = sorted({r["features"] for r in plain})
    if not widths:
        return
    figure, panels = plt.subplots(1, len(widths), figsize=(10, 3.5), sharey=True, squeeze=False)
    numbers = sorted({r["classes"] for r in plain})
    for panel, n_features in zip(panels[0], widths):
        for place, n_classes in enumerate(numbers):
            own = [r for r in plain if (r["features"], r["classes"]) == (n_features, n_classes)]
            panel.errorbar(
                [r["rows per class"] * 1.12 ** (place - len(numbers) / 2) for r in own],
                [r["coverage"] for r in own],
                [2.0 * r["standard error"] for r in own],
                fmt="o-",
                capsize=2,
                label=f"K = {n_classes:,}",
            )
        panel.axhspan(0.87, 0.93, color="0.9", zorder=0)
        panel.axhline(LEVEL, color="0.5", linewidth=1)
        panel.set(xscale="log", xlabel="rows per class", title=f"{n_features} features")
    panels[0, 0].set(ylabel="held by 90 % intervals", ylim=(0.7, 1.0))
    panels[0, -1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(FIGURES / "interval_coverage.png", dpi=110)
    plt.close(figure)


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "interval-coverage", help="what the default posterior's 90 % intervals hold"
    )
    parser.add_argument("words", nargs="*", help="of cases, such as n_classes=20")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of fits of a case")
    parser.add_argument("--least", type=int, default=LEAST_SETS, help="data sets of a case")
    parser.add_argument("--more", action="store_true", help="keep the data sets of earlier runs")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
