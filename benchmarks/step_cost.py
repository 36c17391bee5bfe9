"""Cost of a training row against the number of classes."""

from __future__ import annotations

import numpy as np

from benchmarks._models import linear
from benchmarks._report import FIGURES, epoch_seconds, save, show
from bigcat import LinearClassifier
from bigcat.samplers import Uniform
from bigcat.solvers import SGD

SIZES = (10**3, 10**4, 10**5, 10**6)
METHODS = ("augment-reduce", "one-vs-each", "exact")
#: Number of classes up to which all of them are visited too, for comparison.
EXACT_UP_TO = 10**4
N_NEGATIVES = 20


def classifier(method: str, n_negatives: int = N_NEGATIVES) -> LinearClassifier:
    """Return plain steps row by row, of full rank; the exact likelihood visits all classes."""
    return linear(
        method=method,
        sampler="everything" if method == "exact" else Uniform(n_negatives),
        solver=SGD(learning_rate=1e-3, decay=0.9, batch_size=1, init="zero"),
        max_epochs=1,
    )


def step_cost(n_rows: int = 200_000, n_features: int = 64, n_negatives: int = N_NEGATIVES) -> None:
    """Measure microseconds per dense row: each size in turn, the best of three rounds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    best: dict[tuple[str, int], float] = {}
    for _ in range(3):
        for n_classes in SIZES:
            y = rng.integers(0, n_classes, n_rows)
            for method in METHODS if n_classes <= EXACT_UP_TO else METHODS[:-1]:
                model = classifier(method, n_negatives)
                model.partial_fit(X, y, classes=np.arange(n_classes))
                model.partial_fit(X, y)
                key = (method, n_classes)
                best[key] = min(best.get(key, np.inf), epoch_seconds(model.history_))
    rows = [
        {
            "method": method,
            "classes": k,
            "microseconds per row": 1e6 * seconds / n_rows,
            "against K = 1,000": seconds / best[method, SIZES[0]],
            "weights, MB": 4e-6 * k * n_features,
        }
        for (method, k), seconds in best.items()
    ]
    show(rows)
    save("step_cost", rows)
    _draw(rows)


def _draw(rows) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for method in dict.fromkeys(r["method"] for r in rows):
        mine = [r for r in rows if r["method"] == method]
        axes.plot(
            [r["classes"] for r in mine],
            [r["microseconds per row"] for r in mine],
            "o-",
            label=method,
        )
    axes.set(xscale="log", xlabel="classes", ylabel="microseconds per row", ylim=(0, None))
    axes.legend()
    FIGURES.mkdir(exist_ok=True, parents=True)
    figure.savefig(FIGURES / "step_cost.png", dpi=120)
    plt.close(figure)
