"""Learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.plots.style import BLUE, COLOURS, DASHED, GREY, LINES, ORANGE, legend, prepared, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points up to which a curve shows each of them.
MAX_MARKED_POINTS = 40


def history(
    history: Any,
    *,
    baseline: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bound and held-out log-likelihood against the seconds of the fit.

    A model file holds no seconds; for a fit from one, passes take their place.

    Parameters
    ----------
    history : History or fitted estimator
        ``history_`` of a fitted estimator, or the estimator.
    baseline : float, optional
        Log-likelihood of a model that knows the class frequencies only, drawn as a line.
    label : str, optional
        A title.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from bigcat import plots
    >>> from bigcat.estimators import History
    >>> rows = [{"seconds": s, "bound": -9 / s, "validation_log_likelihood": -8 / s}
    ...         for s in (1.0, 2.0, 3.0)]
    >>> plots.history(History(rows), baseline=-7.5).get_xlabel()
    'seconds of training'
    """
    rows = getattr(history, "history_", history)
    places, axis = _column(rows, "seconds"), "seconds of training"
    if not np.isfinite(places).any():
        places, axis = np.arange(1.0, len(rows) + 1), "passes over the rows"
    ax = prepared(ax, axis, "nats per row")
    bound, name = _column(rows, "bound"), "bound, training rows"
    if not np.isfinite(bound).any():  # an estimator's objective is on another scale
        bound, name = _column(rows, "log_likelihood"), "log-likelihood, training rows"
    held_out = _column(rows, "validation_log_likelihood")
    marker = "o" if len(places) <= MAX_MARKED_POINTS else ""
    style: dict[str, Any] = {"marker": marker, "markersize": 4, "linewidth": 1.8}
    for number, fit in enumerate(_fits(rows)):  # one curve each; the first has the label
        shown = (lambda text: text) if number == 0 else (lambda text: None)
        if np.isfinite(held_out).any():
            what = shown("held-out log-likelihood")
            ax.plot(places[fit], held_out[fit], color=BLUE, label=what, **style)
        ax.plot(places[fit], bound[fit], color=ORANGE, label=shown(name), **style)
    if baseline is not None:
        ax.axhline(baseline, color=GREY, linestyle=DASHED, linewidth=1.3, label="class frequencies")
    ax.set_xlim(left=0)
    bottom = _bottom(bound, held_out, baseline)
    if bottom is not None:
        ax.set_ylim(bottom=bottom)
    title(ax, label)
    legend(ax, 3)
    return ax


def learning_curves(
    models: Mapping[str, Any],
    *,
    baseline: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the learning curves of several models together.

    A curve shows the log-likelihood of validation rows where each model has one, else the bound or
    log-likelihood of training rows.  Candidates of one model follow each other in its colour.

    Parameters
    ----------
    models : dict of str to fitted estimator or History
        Models by the names in the legend.
    baseline : float, optional
        Log-likelihood of a model that knows the class frequencies only, drawn as a line.
    label : str, optional
        A title.
    ax : matplotlib.axes.Axes, optional
        Where to draw; new axes if you give none.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from bigcat import plots
    >>> from bigcat.estimators import History
    >>> slow = History([{"seconds": s, "bound": -9 / s} for s in (1.0, 2.0, 3.0)])
    >>> quick = History([{"seconds": s, "bound": -5 / s} for s in (0.5, 1.0, 1.5)])
    >>> plots.learning_curves({"slow": slow, "quick": quick}).get_ylabel()
    'nats per row, training rows'
    """
    if not models:
        raise ValueError("models is empty; give a dict of fitted estimators by name")
    histories = {name: getattr(model, "history_", model) for name, model in models.items()}
    held_out = all(
        np.isfinite(_column(rows, "validation_log_likelihood")).any() for rows in histories.values()
    )
    seconds = all(np.isfinite(_column(rows, "seconds")).any() for rows in histories.values())
    ax = prepared(
        ax,
        "seconds of training" if seconds else "passes over the rows",
        f"nats per row, {'validation' if held_out else 'training'} rows",
    )
    curves = []
    for number, (name, rows) in enumerate(histories.items()):
        places = _column(rows, "seconds") if seconds else np.arange(1.0, len(rows) + 1)
        values = _column(rows, "validation_log_likelihood" if held_out else "bound")
        if not np.isfinite(values).any():
            values = _column(rows, "log_likelihood")
        curves.append(values)
        for place, fit in enumerate(_fits(rows)):
            ax.plot(
                places[fit],
                values[fit],
                color=COLOURS[number % len(COLOURS)],
                linestyle=LINES[number // len(COLOURS) % len(LINES)],
                marker="o" if len(places) <= MAX_MARKED_POINTS else "",
                markersize=4,
                linewidth=1.8,
                label=None if place else str(name),
            )
    if baseline is not None:
        ax.axhline(baseline, color=GREY, linestyle=DASHED, linewidth=1.3, label="class frequencies")
    ax.set_xlim(left=0)
    title(ax, label)
    legend(ax, 3)
    return ax


def _fits(rows: Any) -> list[slice]:
    """Return the rows of each fit: candidates are trained one after another."""
    names = [(row.get("stage"), row.get("candidate")) for row in rows]
    edges = [i for i in range(1, len(names)) if names[i] != names[i - 1]]
    return [slice(a, b) for a, b in zip([0, *edges], [*edges, len(names)])]


def _column(rows: Any, name: str) -> np.ndarray:
    return np.array([row.get(name, np.nan) for row in rows], dtype=float)


def _bottom(bound: np.ndarray, held_out: np.ndarray, baseline: float | None) -> float | None:
    """Return the lower end of the axis; a bound that starts far below is cut off."""
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
