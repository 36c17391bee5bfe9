"""Charts of strong weights and of similar classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat import inspection
from bigcat.plots.style import BLUE, GREY, ORANGE, prepared, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def coefficients(
    model: Any,
    label: Any,
    *,
    top: int = 15,
    feature_names: Any = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the features that speak most for and against a class.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    label : a class of the model
    top : int, default=15
    feature_names : sequence of str, optional
        Names of the columns; those that the model was fitted with by default.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bigcat import LinearClassifier, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier(random_state=0).fit(X, y)
    >>> len(plots.coefficients(model, 0).get_yticklabels())
    4
    """
    found = inspection.strongest_features(model, label, top=top, feature_names=feature_names)
    height = 1.2 + 0.26 * max(len(found), 3)
    ax = prepared(ax, "weight, less the mean over classes", "", size=(6.5, height))
    place = np.arange(len(found))[::-1]
    weights = np.array([row["weight"] for row in found])
    ax.barh(place, weights, color=np.where(weights > 0, BLUE, ORANGE), height=0.6)
    names = [str(row["feature"]) for row in found]
    ax.set_yticks(place, names, fontsize=8, parse_math=False)
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.grid(False, axis="y")
    title(ax, str(label))
    return ax


def class_map(model: Any, *, label: int = 20, ax: Axes | None = None) -> Axes:
    """Draw the classes as points in the plane: classes with like weights lie close together.

    Parameters
    ----------
    model : fitted LinearClassifier or BayesianClassifier
    label : int, default=20
        How many of the most frequent classes are named.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes
    """
    numbers, places, share = inspection.class_map(model)
    ax = prepared(ax, f"first component ({share[0]:.0%})", f"second component ({share[1]:.0%})")
    ax.scatter(
        places[:, 0], places[:, 1], s=np.clip(4000 / len(places), 2, 30), color=BLUE, alpha=0.5,
        linewidth=0,
    )  # fmt: skip
    for number, (x, y) in list(zip(numbers, places))[:label]:
        name = str(model.classes_[number])[:24]
        ax.annotate(name, (x, y), fontsize=7, color=GREY, parse_math=False)
    return ax
