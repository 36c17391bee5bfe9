"""Unbiased softmax: Table 3, Figures 2 and 3, and the cost of an implicit step.

The setting is the paper's: rows of unit norm, W = 0, no intercepts, no ridge, 50 epochs, the
rate times 0.9 an epoch, and its Table 2 for the rates.  `start="zero"` is u = 0, as in the
authors' code.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from benchmarks._models import linear
from benchmarks._report import FIGURES, clock, epoch_seconds, save, show
from benchmarks.datasets import load
from benchmarks.published import published
from bigcat import LinearClassifier, Method
from bigcat.bounds import (
    AugmentReduce,
    Bound,
    Complementary,
    ImportanceSampling,
    NoiseContrastive,
    OneVsEach,
    Raman,
)
from bigcat.samplers import Uniform
from bigcat.solvers import SGD, DivergedError, Implicit, Solver, UMax, Vanilla

EPOCHS = 50
DECAY = 0.9
DOUBLE_SUM = {"vanilla": Vanilla, "umax": UMax, "implicit": Implicit}
RAMAN = "umax, Raman's form"
#: Those of its Table 3.
ESTIMATORS = ("one-vs-each", "nce", "importance")
BIASED: dict[str, type[Bound]] = {
    "one-vs-each": OneVsEach,
    "nce": NoiseContrastive,
    "importance": ImportanceSampling,
    "complementary": Complementary,
}
#: Table 2 there.
RATES: dict[str, dict[str, float]] = {}
for (_data, _method), (_rate,) in published("us-table2").rows():
    RATES.setdefault(_data, {})[_method] = _rate
#: Training log-loss after 50 epochs: Table 3 times the log-loss of implicit SGD.
PUBLISHED: dict[str, dict[str, float]] = {}
for (_data, _method), (_loss, _) in published("us-table3").rows():
    if _loss is not None:
        PUBLISHED.setdefault(_data, {})[_method] = _loss


def load_rows(name: str):
    """Training rows of unit length, and their labels."""
    train = load(name).train
    return normalize(train.X).astype(np.float32), train.y


def classifier(
    method: str, rate: float, n_negatives: int, max_epochs: int = EPOCHS
) -> LinearClassifier:
    """The model of a method's name here."""
    batch_size = 1
    bound: Bound
    solver: Solver
    if method in DOUBLE_SUM:
        bound, solver = AugmentReduce(start="zero"), DOUBLE_SUM[method](rate, DECAY)
    elif method == RAMAN:
        bound, solver = Raman(start="zero"), UMax(rate, DECAY)
    else:  # the paper's batches for the competitors
        bound, solver, batch_size = BIASED[method](), SGD(rate, DECAY), 100
    return linear(
        method=Method(method, bound),
        solver=solver.with_options(batch_size=batch_size, init="zero"),
        sampler=Uniform(n_negatives),
        max_epochs=max_epochs,
        fit_intercept=False,
    )


def table3_row(X, y, name: str, method: str, n_negatives: int) -> dict[str, Any]:
    """Return the training log-loss of a method at its published rate, and its curve."""
    figure, rate = PUBLISHED[name].get(method), RATES[name][method]
    with clock() as times:
        curve = loss_curve(X, y, method, rate, n_negatives)
    loss = None if curve is None else float(curve[-1])
    return {
        "data": name,
        "method": method,
        "rate": rate,
        "classes per step": n_negatives,
        "log-loss": "overflow" if loss is None else loss,
        "published": figure,
        "ratio": loss / figure if figure and loss else None,
        "CPU seconds": times["cpu"],
        "curve": None if curve is None else curve.tolist(),
    }


def table3(data: list[str]) -> None:
    """Training log-loss with one and with five sampled classes per step."""
    rows = []
    for name in data:
        X, y = load_rows(name)
        for method in (*DOUBLE_SUM, *ESTIMATORS):
            for n_negatives in (1, 5):
                row = table3_row(X, y, name, method, n_negatives)
                rows.append({key: value for key, value in row.items() if key != "curve"})
                show(rows[-1:])
                save("unbiased_table3_" + "_".join(data), rows)
    show(rows)


def loss_curve(X, y, method: str, rate: float, n_negatives: int) -> np.ndarray | None:
    """Training log-loss after each epoch; None where it overflowed."""
    model = classifier(method, rate, n_negatives)
    try:
        with warnings.catch_warnings():  # a rate that is far too large is a result here
            warnings.filterwarnings("ignore", "the fit is worse than no fit")
            model.fit(X, y, X_val=X, y_val=y)
    except DivergedError:
        return None
    return -model.history_["validation_log_likelihood"]


def _curves(X, y, methods, rates, n_negatives: int, name: str) -> dict:
    curves, rows = {}, []
    for method in methods:
        for rate in rates:
            curve = loss_curve(X, y, method, rate, n_negatives)
            curves[method, rate] = curve
            loss = "overflow" if curve is None else float(curve[-1])
            rows.append({"method": method, "rate": rate, "log-loss": loss})
            show(rows[-1:])
    table = [
        {
            "method": m,
            **{
                f"{r:g}": row["log-loss"]
                for row in rows
                if row["method"] == m
                for r in [row["rate"]]
            },
        }
        for m in methods
    ]
    show(table)
    save(name, rows)
    return curves


def draw_curves(curves: dict, panels: list[tuple[str, list[str]]], top: float, path: Path) -> None:
    """A panel per method, a colour per rate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rates = sorted({rate for _, rate in curves})
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.95, len(rates)))
    n_columns = min(len(panels), 4)
    n_lines = -(-len(panels) // n_columns)
    figure, axes = plt.subplots(
        n_lines,
        n_columns,
        figsize=(3.1 * n_columns, 2.7 * n_lines),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for place, (title, methods) in zip(axes.flat, panels):
        lost = []
        for style, method in zip(("-", "--"), methods):
            for rate, colour in zip(rates, colours):
                curve = curves.get((method, rate))
                if curve is None:
                    lost.append(f"{rate:g}")
                    continue
                epochs = np.arange(1, len(curve) + 1)
                shown = np.minimum(curve, 2 * top)
                place.plot(epochs, shown, style, color=colour, linewidth=1.5)
        place.set_title(title, fontsize=10, loc="left")
        if lost:
            place.text(
                0.97,
                0.95,
                f"overflow: {', '.join(lost)}",
                transform=place.transAxes,
                ha="right",
                va="top",
                fontsize=8,
            )
        place.set_ylim(0, top)
        place.spines[["top", "right"]].set_visible(False)
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    figure.supxlabel("epoch", fontsize=10)
    figure.supylabel("training log-loss", fontsize=10)
    lines = [plt.Line2D([], [], color=colour, label=f"{r:g}") for r, colour in zip(rates, colours)]
    figure.legend(handles=lines, title="learning rate", loc="outside right center", frameon=False)
    path.parent.mkdir(exist_ok=True, parents=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def rates(name: str = "bibtex") -> None:
    """Figure 3: every method with learning rates from 10^-3 to 10^3."""
    X, y = load_rows(name)
    methods = [*DOUBLE_SUM, RAMAN, *BIASED]
    grid = [10.0**p for p in range(-3, 4)]
    curves = _curves(X, y, methods, grid, 5, f"unbiased_rates_{name}")
    top = 1.6 * np.log(len(np.unique(y)))
    draw_curves(curves, [(m, [m]) for m in methods], top, FIGURES / f"unbiased_rates_{name}.png")


def forms(name: str = "bibtex") -> None:
    """Figure 2: U-max with both parameterisations of the double sum."""
    X, y = load_rows(name)
    grid = [10.0**p for p in range(-4, 3)]
    methods = ["umax", RAMAN]
    curves = _curves(X, y, methods, grid, 1, f"unbiased_forms_{name}")
    top = 1.6 * np.log(len(np.unique(y)))
    panels = [("this form", methods[:1]), ("Raman et al.", methods[1:])]
    draw_curves(curves, panels, top, FIGURES / f"unbiased_forms_{name}.png")


def implicit_cost(nonzeros: int = 70, n_rows: int = 50_000, repeats: int = 7) -> None:
    """Compare the best times of an implicit and a vanilla step of one row and one class.

    Weights as in Bibtex, which fit the second-level cache, and larger ones.
    """
    rows = []
    for n_features, n_classes in ((1_836, 146), (5_000, 1_000)):
        X, y = _random_rows(n_rows, n_features, n_classes, nonzeros)
        best: dict[tuple[str, float], float] = {}
        cases = [("vanilla", 1e-3), ("umax", 1e-2), ("implicit", 1e-2), ("implicit", 10.0)]
        for _ in range(repeats):
            for method, rate in cases:
                model = classifier(method, rate, 1, max_epochs=3).fit(X, y)
                seconds = epoch_seconds(model.history_)
                best[method, rate] = min(best.get((method, rate), np.inf), seconds)
        rows += [
            {
                "features": n_features,
                "classes": n_classes,
                "method": method,
                "rate": rate,
                "microseconds per row": 1e6 * seconds / n_rows,
                "against vanilla": seconds / best[cases[0]],
            }
            for (method, rate), seconds in best.items()
        ]
    show(rows)
    save("implicit_cost", rows)


def _random_rows(n_rows: int, n_features: int, n_classes: int, nonzeros: int):
    """Sparse rows of unit norm, and labels that depend on them."""
    rng = np.random.default_rng(0)
    indices = np.concatenate(
        [np.sort(rng.choice(n_features, nonzeros, replace=False)) for _ in range(n_rows)]
    )
    values = np.full(n_rows * nonzeros, nonzeros**-0.5, np.float32)
    indptr = np.arange(n_rows + 1, dtype=np.int32) * nonzeros
    shape = (n_rows, n_features)
    X = scipy.sparse.csr_array((values, indices.astype(np.int32), indptr), shape=shape)
    scores = X @ rng.standard_normal((n_features, n_classes), dtype=np.float32)
    return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
