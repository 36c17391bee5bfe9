"""Style of all charts: axes without a frame, few colours, a legend that covers nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from bigcat._system import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d1661a", "#6b6b6b"
GRID = "#e4e4e4"
#: Colours of several curves, which differ in print and for colour-blind readers, and line styles
#: for more curves than colours.
COLOURS = (BLUE, ORANGE, "#2b8a5a", "#8a4fa3", "#111111")
LINES: tuple[Any, ...] = ("-", (0, (5, 3)), (0, (1, 2)))
DASHED: Any = (0, (5, 3))
SIZE = (7.0, 4.2)


def require_matplotlib() -> None:
    """Raise ImportError with an installation hint if matplotlib is missing."""
    require("matplotlib", "drawing needs", "plot")


def prepared(ax: Axes | None, xlabel: str, ylabel: str, size: tuple[float, float] = SIZE) -> Axes:
    """Return the given axes, or those of a new figure, in the style of bigcat."""
    require_matplotlib()
    if ax is None:
        # Without pyplot: no window system is looked for and nothing stays in a global list.
        from matplotlib.figure import Figure

        ax = Figure(figsize=size, layout="constrained").subplots()
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


def title(ax: Axes, text: str | None) -> None:
    """Set a title, aligned on the left."""
    if text:
        ax.set_title(text, loc="left", fontsize=11)


def legend(ax: Axes, n_columns: int) -> None:
    """Below the axes, where it never covers a curve."""
    figure = figure_of(ax)
    if len(figure.axes) == 1:
        figure.legend(frameon=False, loc="outside lower center", ncols=n_columns)
    else:  # axes of the caller's own figure
        ax.legend(frameon=False, fontsize="small")


def figure_of(ax: Axes) -> Figure:
    """Return the figure of axes."""
    figure: Any = ax.get_figure()
    return figure  # type: ignore[no-any-return]


def save(ax: Axes, path: str | os.PathLike[str]) -> None:
    """Write the picture that the axes are part of.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        What a function of `bigcat.plots` returned.
    path : path
        Its ending decides the format: png, svg, pdf.
    """
    figure_of(ax).savefig(path, dpi=150)
