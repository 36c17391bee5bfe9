"""Pictures of a fit. They need matplotlib: ``pip install "bigcat[plot]"``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["calibration_curve", "learning_curve", "require_matplotlib"]

BLUE, ORANGE, GREY = "#1f5fa8", "#d1661a", "#6b6b6b"


def require_matplotlib() -> None:
    """Raise, with what to install, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'drawing needs matplotlib, which is not installed; pip install "bigcat[plot]"'
        ) from error


def learning_curve(
    history: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    baseline: float | None = None,
    title: str | None = None,
) -> Figure:
    """Bound and held-out log-likelihood against the seconds of the fit.

    Parameters
    ----------
    history : History
        ``history_`` of a fitted estimator.
    path : path, optional
        Where to save the picture; its ending decides the format.
    baseline : float, optional
        Log-likelihood of a model that knows the class frequencies only, drawn as a line.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        With one pair of axes, for those who want to change something.

    Examples
    --------
    >>> from bigcat.estimators import History
    >>> rows = [{"seconds": s, "bound": -9 / s, "validation_log_likelihood": -8 / s}
    ...         for s in (1.0, 2.0, 3.0)]
    >>> figure = learning_curve(History(rows), baseline=-7.5)
    >>> figure.axes[0].get_xlabel()
    'seconds of training'
    """
    figure, axes = _axes("seconds of training", "nats a row")
    seconds = _column(history, "seconds")
    bound, label = _column(history, "bound"), "bound, training rows"
    if not np.isfinite(bound).any():  # an estimator's objective is on another scale
        bound, label = _column(history, "log_likelihood"), "log-likelihood, training rows"
    held_out = _column(history, "validation_log_likelihood")
    marker = "o" if len(seconds) <= 40 else ""
    style: dict[str, Any] = {"marker": marker, "markersize": 4, "linewidth": 1.8}
    if np.isfinite(held_out).any():
        axes.plot(seconds, held_out, color=BLUE, label="held-out log-likelihood", **style)
    axes.plot(seconds, bound, color=ORANGE, label=label, **style)
    if baseline is not None:
        axes.axhline(
            baseline, color=GREY, linestyle=(0, (5, 3)), linewidth=1.3, label="class frequencies"
        )
    axes.set_xlim(left=0)
    bottom = _bottom(bound, held_out, baseline)
    if bottom is not None:
        axes.set_ylim(bottom=bottom)
    if title:
        axes.set_title(title, loc="left", fontsize=11)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)  # never over a curve
    return _finished(figure, path)


def calibration_curve(calibration: Any, path: str | os.PathLike[str] | None = None) -> Figure:
    """How often the predicted class is right against its probability.

    Parameters
    ----------
    calibration : dict
        From :func:`bigcat.metrics.calibration`.
    path : path, optional
        Where to save the picture.
    """
    figure, axes = _axes(
        "probability of the predicted class", "share of rows where it is right", size=(5, 5.2)
    )
    count = np.asarray(calibration["count"], dtype=float)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (5, 3)), linewidth=1.3, label="perfect")
    axes.scatter(
        calibration["confidence"],
        calibration["accuracy"],
        s=20 + 280 * count / count.max(),
        color=BLUE,
        alpha=0.8,
        linewidth=0,
        zorder=3,
        label="rows, larger where there are more",
    )
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_title(f"expected calibration error {calibration['ece']:.3f}", loc="left", fontsize=11)
    figure.legend(frameon=False, loc="outside lower center", ncols=2)
    return _finished(figure, path)


def _axes(xlabel: str, ylabel: str, size: tuple[float, float] = (7, 4.2)) -> tuple[Figure, Axes]:
    require_matplotlib()
    # Without pyplot: no window system is looked for and nothing stays in a global list.
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def _finished(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _column(history: Any, name: str) -> np.ndarray:
    return np.array([row[name] for row in history], dtype=float)


def _bottom(bound: np.ndarray, held_out: np.ndarray, baseline: float | None) -> float | None:
    """Lower end of the picture: a bound that starts far below may enter through it."""
    ends = [curve[np.isfinite(curve)] for curve in (bound, held_out)]
    values = np.concatenate(ends)
    if baseline is not None:
        values = np.append(values, baseline)
    if not len(values):
        return None
    top = values.max()
    interesting = [curve[len(curve) // 4 :].min() for curve in ends if len(curve)]
    if baseline is not None:
        interesting.append(baseline)
    reach = top - min(interesting)
    return max(values.min(), top - 2 * reach) - 0.05 * reach if reach > 0 else None
