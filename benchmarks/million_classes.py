"""One epoch of low rank over a million classes: memory and seconds, beside their forecasts.

The rank is given; the rest is left to the defaults, whose forecasts these are.

Data are those of `coded_classes`: Zipf frequencies, eight non-zeros a row.  Memory is the most that
the process had during the fit over what it had before, when data and compiled code were there; the
forecast is `memory_forecast`.  Seconds are those of the epoch; the forecast is the one that the
library makes from its first seconds, ``history_.forecast_seconds``.

"Cores at work" is processor time over time: below the number of threads these had to take turns
with others, and seconds say little.

The cost of a row against the number of classes is that of the fastest of some passes over the same
rows, in batches of 64 that share 512 drawn classes, with AdaGrad.  Labels are evenly distributed,
so that caches help as little as they can.
"""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from benchmarks._curves import exponent
from benchmarks._models import linear
from benchmarks._peak import forget_peak, memory
from benchmarks._report import FIGURES, clock, epoch_seconds, save, show
from benchmarks.cost_against_classes import GROUPS, SYMBOLS, coded_classes
from bigcat import LinearClassifier
from bigcat.samplers import Shared
from bigcat.solvers import AdaGrad

N_CLASSES, N_ROWS, RANK = 10**6, 5 * 10**6, 64
N_THREADS = 2
WARM_UP_CLASSES, WARM_UP_ROWS = 5_000, 50_000

STEP_CLASSES = (10**4, 10**5, 10**6)
STEP_ROWS, STEP_PASSES = 100_000, 4


def million_classes(
    n_classes: int = N_CLASSES, n_rows: int = N_ROWS, rank: int = RANK, as_json: bool = False
) -> None:
    """Print forecasts and measurements, and their ratios."""
    few = _rows(min(n_classes, WARM_UP_CLASSES), min(n_rows, WARM_UP_ROWS))
    classifier(rank).fit(*few)  # compiles
    X, y = _rows(n_classes, n_rows)
    forecast = classifier(rank).memory_forecast(
        n_rows, X.shape[1], n_classes, max_row_nonzeros=GROUPS, nnz=X.nnz
    )
    gc.collect()
    before = forget_peak()
    with clock() as times:
        model = classifier(rank).fit(X, y)
    needed = None if before is None else memory("VmHWM") - before
    seconds, promised = model.history_[-1]["seconds"], model.history_.forecast_seconds
    row = {
        "classes": n_classes,
        "rows": n_rows,
        "rank": rank,
        "memory forecast, GiB": forecast / 2**30,
        "memory, GiB": needed and needed / 2**30,
        "of forecast": needed and needed / forecast,
        "epoch forecast, s": promised,
        "epoch, s": seconds,
        "of its forecast": seconds / promised,
        "microseconds per row": 1e6 * seconds / n_rows,
        "whole fit, s": times["wall"],
        "cores at work": times["cpu"] / times["wall"],
        "log-likelihood": model.history_[-1]["log_likelihood"],
        "of class frequencies": _of_frequencies(y),
    }
    save("million_classes", [row])
    show([row], as_json)


def low_rank_step_cost(
    classes: list[int], rank: int = RANK, as_json: bool = False, n_rows: int = STEP_ROWS
) -> None:
    """Print microseconds per row against the number of classes, and draw them."""
    rng = np.random.default_rng(0)
    X, _ = _rows(1, n_rows)
    labels = {n_classes: rng.integers(0, n_classes, n_rows) for n_classes in classes}
    models = {n_classes: step_classifier(rank) for n_classes in classes}
    for _ in range(STEP_PASSES):  # in turn, so that all have the same neighbours on the machine
        for n_classes, model in models.items():
            model.partial_fit(X, labels[n_classes], classes=np.arange(n_classes))
    costs = {k: 1e6 * epoch_seconds(model.history_) / n_rows for k, model in models.items()}
    rows = [
        {
            "classes": n_classes,
            "rank": rank,
            "microseconds per row": cost,
            f"of K = {classes[0]:,}'s": cost / costs[classes[0]],
            "vectors, MB": 4e-6 * rank * (n_classes + X.shape[1]),
        }
        for n_classes, cost in costs.items()
    ]
    save("low_rank_step_cost", rows)
    show(rows, as_json)
    if not as_json:
        print(in_words(rows))
    _draw(rows)


def in_words(rows: list[dict]) -> str:
    """Describe how the cost of a row grows."""
    power = exponent([r["classes"] for r in rows], [r["microseconds per row"] for r in rows])
    if power is None:
        return "One number of classes only: nothing to compare."
    return (
        f"Seconds of a row grow like K^{power:.2f}: "
        f"ten times the classes take {10**power:.2f} times as long."
    )


def _rows(n_classes: int, n_rows: int) -> tuple[Any, np.ndarray]:
    data = coded_classes(n_classes, n_rows, n_held_out=1)
    return data.X, data.y


def classifier(rank: int) -> LinearClassifier:
    """The defaults of a rank, for one epoch."""
    return LinearClassifier(rank=rank, max_epochs=1, n_threads=N_THREADS, progress=False)


def step_classifier(rank: int) -> LinearClassifier:
    """Return the model whose passes are timed."""
    return linear(
        method="complementary",
        rank=rank,
        sampler=Shared(n_negatives=512),
        solver=AdaGrad(
            learning_rate=0.1,
            schedule="constant",
            per="coordinate",
            batch_size=64,
        ),
        max_epochs=1,
        random_state=None,
        n_threads=N_THREADS,
    )


def _of_frequencies(y: np.ndarray) -> float:
    p = np.bincount(y) / len(y)
    return float(p[p > 0] @ np.log(p[p > 0]))


def _draw(rows: list[dict]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    axes.plot([r["classes"] for r in rows], [r["microseconds per row"] for r in rows], "o-")
    axes.set(xscale="log", xlabel="classes", ylabel="microseconds per row", ylim=(0, None))
    axes.set_title(f"rank {rows[0]['rank']}, {GROUPS * SYMBOLS} features")
    FIGURES.mkdir(exist_ok=True, parents=True)
    figure.savefig(FIGURES / "low_rank_step_cost.png", dpi=120)
    plt.close(figure)
