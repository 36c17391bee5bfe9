"""What 90 % intervals of the default posterior hold, over numbers of classes, rows and features."""

from __future__ import annotations

import argparse
import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from benchmarks._models import laplace
from benchmarks._report import FIGURES, clock, save, show
from bigcat import noise as noises
from bigcat.probabilities import log_probabilities

LEVEL = 0.9
TEST_ROWS = 100
#: Standard deviations of scores among rows, and of intercepts: each data set has its own, drawn
#: evenly in logarithms from these, which the fit does not know.
SCORE_SCALES, INTERCEPT_SCALES = (0.7, 4.0), (0.2, 1.5)
#: Data sets of a case: at least, at most, and processor seconds after which no other is begun.
LEAST_SETS, MOST_SETS, SECONDS = 10, 60, 60.0


class Case(NamedTuple):
    """A shape of data; `weights` is the distribution of the true ones, `rows` dense or sparse."""

    n_classes: int
    rows_per_class: int
    n_features: int
    weights: str = "normal"
    rows: str = "dense"
    noise: str = "gumbel"


def cases() -> list[Case]:
    """Those of docs/results.md."""
    sizes = itertools.product((2, 5, 20, 200, 1_000), (5, 20, 200), (5, 50, 200))
    found = [Case(*size) for size in sizes if np.prod(size) * size[0] <= 2e9]
    found += [Case(k, 20, 5, "laplace") for k in (2, 5, 20, 200)]
    found += [Case(k, 20, 50, "laplace") for k in (5, 20, 200)]
    found += [Case(k, 20, 50, rows="sparse") for k in (2, 5, 20, 200)]
    found += [Case(k, 20, 5, noise=n) for n in ("gaussian", "logistic") for k in (5, 20)]
    return found


class Data(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    truth: np.ndarray  # probabilities of the test rows


def draw(case: Case, seed: int) -> Data:
    """A data set with its true probabilities."""
    rng = np.random.default_rng([seed, *case[:3]])
    k, d, n = case.n_classes, case.n_features, case.n_classes * case.rows_per_class
    scale, intercept_scale = (
        np.exp(rng.uniform(*np.log(bounds))) for bounds in (SCORE_SCALES, INTERCEPT_SCALES)
    )
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
    return Data(rows[:n], y[:n], rows[n:], np.exp(logs[n:]))


def measure(case: Case, seconds: float = SECONDS, least: int = LEAST_SETS) -> dict[str, Any]:
    """Coverage with its standard error over data sets, width, and seconds of a fit."""
    covered: list[float] = []
    widths: list[float] = []
    spent: list[float] = []
    chosen = ""
    while len(covered) < MOST_SETS and (len(covered) < least or sum(spent) < seconds):
        data = draw(case, len(covered))
        model = laplace(noise=case.noise, random_state=len(covered))
        with clock() as times:
            model.fit(data.X, data.y, classes=np.arange(case.n_classes))
        low, high = model.predict_interval(data.X_test, LEVEL)
        covered.append(float(((low <= data.truth) & (data.truth <= high)).mean()))
        widths.append(float((high - low).mean()))
        spent.append(times["cpu"])
        assert model.history_.choice is not None
        chosen = model.history_.choice["covariance"]
        if sum(spent) > 5.0 * seconds:  # so long that fewer data sets have to do
            break
    error = np.std(covered, ddof=1) / np.sqrt(len(covered)) if len(covered) > 1 else np.nan
    return {
        "classes": case.n_classes,
        "rows per class": case.rows_per_class,
        "features": case.n_features,
        "weights": case.weights,
        "rows": case.rows,
        "noise": case.noise,
        "data sets": len(covered),
        "coverage": float(np.mean(covered)),
        "standard error": float(error),
        "width": float(np.mean(widths)),
        "form": chosen,
        "CPU seconds": float(np.median(spent)),
    }


def interval_coverage(words: list[str], seconds: float, as_json: bool = False) -> None:
    """All cases, or those whose description holds all the words, such as ``n_classes=20``."""
    rows = []
    for case in cases():
        if all(word in repr(case).replace("'", "") for word in words):
            rows.append(measure(case, seconds))
            if not as_json:
                show(rows[-1:])
            save("interval_coverage", rows)
    show(rows, as_json)
    draw_coverage(rows)


def draw_coverage(rows: list[dict[str, Any]]) -> None:
    """Coverage against rows per class, a panel per number of features."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plain = [r for r in rows if r["weights"] == "normal" and r["rows"] == "dense"]
    plain = [r for r in plain if r["noise"] == "gumbel"]
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
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
