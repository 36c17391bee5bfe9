"""Charts of hits, calibration and confusions.

Each function takes a fitted model with held-out rows; what it draws it takes from
`bigcat.metrics`, so that a number in a picture is the number of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bigcat import inspection, metrics
from bigcat.inspection.predictions import bin_name
from bigcat.pipelines import apart
from bigcat.plots.style import BLUE, DASHED, GREY, ORANGE, legend, prepared, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bigcat.metrics import Model

#: Characters of a class name that a chart shows.
MAX_NAME_LENGTH = 28


def reliability(
    model: Model, X: Any, y: ArrayLike, *, k: int = 1, n_bins: int = 10, ax: Axes | None = None
) -> Axes:
    """Draw how often the k best classes contain the observed one, against the stated probability.

    Parameters
    ----------
    model : fitted classifier
    X, y : held-out rows and their labels
        Rows that the model has not seen: of its own rows every figure is too good.
    k : int, default=1
    n_bins : int, default=10
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes
    """
    rows = metrics.measure(model, X, y, k)
    found = metrics.reliability(rows.confidence(k), rows.hit(k), n_bins)
    return draw_reliability(found, k, ax=ax)


def draw_reliability(found: dict[str, Any], k: int = 1, *, ax: Axes | None = None) -> Axes:
    """Draw a result of `bigcat.metrics.calibration` or `reliability`."""
    what = "the predicted class" if k == 1 else f"the {k} most probable classes"
    ax = prepared(
        ax,
        f"probability of {what}",
        "share of rows " + ("where it is right" if k == 1 else "whose class is among them"),
        size=(5, 5.2),
    )
    count = np.asarray(found["count"], dtype=float)
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=DASHED, linewidth=1.3, label="perfect")
    ax.scatter(
        found["confidence"],
        found["accuracy"],
        s=20 + 280 * count / count.max(),
        color=BLUE,
        alpha=0.8,
        linewidth=0,
        zorder=3,
        label="rows, larger where there are more",
    )
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    title(ax, f"expected calibration error {found['ece']:.3f}")
    legend(ax, 2)
    return ax


def hit_at_k(
    model: Model, X: Any, y: ArrayLike, *, max_k: int = 100, ax: Axes | None = None
) -> Axes:
    """Draw the share of rows whose class is among the k most probable ones, for k up to `max_k`.

    Parameters
    ----------
    model : fitted classifier
    X, y : held-out rows and their labels
        Rows that the model has not seen: of its own rows every figure is too good.
    max_k : int, default=100
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes
    """
    rows = metrics.measure(model, X, y, min(max_k, len(model.classes_)))
    return draw_hits(inspection.hit_curve(rows), ax=ax)


def draw_hits(curve: Sequence[dict[str, float]], *, ax: Axes | None = None) -> Axes:
    """Draw a result of `bigcat.inspection.hit_curve`."""
    ax = prepared(ax, "k, of the most probable classes", "share of rows")
    k = [point["k"] for point in curve]
    ax.plot(
        k, [p["hit"] for p in curve], color=BLUE, linewidth=1.8, marker="o", markersize=4,
        label="the observed class is among them",
    )  # fmt: skip
    ax.plot(
        k, [p["confidence"] for p in curve], color=ORANGE, linestyle=DASHED, linewidth=1.5,
        label="the model says so",
    )  # fmt: skip
    ax.set_xscale("log")
    ticks = [value for value in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if value <= max(k)]
    ax.set_xticks(ticks, [str(value) for value in ticks])
    ax.minorticks_off()
    ax.set_ylim(0, 1)
    legend(ax, 2)
    return ax


def by_frequency(
    model: Model, X: Any, y: ArrayLike, counts: ArrayLike | None = None, *, ax: Axes | None = None
) -> Axes:
    """Draw accuracy and hit@5 of frequent and of rare classes.

    Parameters
    ----------
    model : fitted classifier
    X, y : held-out rows and their labels
        Rows that the model has not seen: of its own rows every figure is too good.
    counts : array of shape (n_classes,), optional
        Training rows of each class; those that the model remembers by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes
    """
    counts = apart(model).classifier.class_count_ if counts is None else counts
    return draw_frequencies(metrics.by_frequency(model, X, y, counts), ax=ax)


def draw_frequencies(bins: Sequence[dict[str, float]], *, ax: Axes | None = None) -> Axes:
    """Draw a result of `bigcat.metrics.by_frequency`."""
    ax = prepared(ax, "training rows of the class", "share of rows")
    hits = next(name for name in bins[0] if name.startswith("hit_at_"))
    place = np.arange(len(bins))
    ax.bar(place - 0.2, [b["accuracy"] for b in bins], 0.4, color=BLUE, label="accuracy")
    ax.bar(
        place + 0.2, [b[hits] for b in bins], 0.4, color=ORANGE,
        label=hits.replace("hit_at_", "hit@"),
    )  # fmt: skip
    ax.set_xticks(place, [bin_name(b) for b in bins], rotation=30, ha="right")
    ax.set_xlim(-0.9, max(len(bins), 3) - 0.1)  # few bars are not wider than many
    ax.grid(False, axis="x")
    ax.set_ylim(0, 1)
    legend(ax, 2)
    return ax


def confusions(
    model: Model, X: Any, y: ArrayLike, *, top: int = 15, ax: Axes | None = None
) -> Axes:
    """Draw the pairs of classes that are most often taken for each other.

    Parameters
    ----------
    model : fitted classifier
    X, y : held-out rows and their labels
        Rows that the model has not seen: of its own rows every figure is too good.
    top : int, default=15
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes
    """
    rows = metrics.measure(model, X, y, 1)
    return draw_confusions(inspection.confusions(model, rows, top=top), ax=ax)


def draw_confusions(pairs: Sequence[dict[str, Any]], *, ax: Axes | None = None) -> Axes:
    """Draw a result of `bigcat.inspection.confusions`."""
    height = 1.2 + 0.26 * max(len(pairs), 3)
    ax = prepared(ax, "rows", "truth, and what was predicted", size=(7, height))
    place = np.arange(len(pairs))[::-1]
    ax.barh(place, [pair["rows"] for pair in pairs], color=BLUE, height=0.6)
    names = [f"{_short(pair['truth'])} → {_short(pair['predicted'])}" for pair in pairs]
    ax.set_yticks(place, names, fontsize=8, parse_math=False)
    ax.locator_params(axis="x", integer=True)  # rows are whole
    ax.grid(False, axis="y")
    return ax


def _short(name: Any) -> str:
    text = " ".join(str(name).split())
    return text if len(text) <= MAX_NAME_LENGTH else text[: MAX_NAME_LENGTH - 1] + "…"
