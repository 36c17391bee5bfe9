"""Charts of a report: matplotlib's, as SVG text that takes its colours from the page."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat.plots.style import BLUE, DASHED, GREY, GRID, ORANGE, figure_of, legend, prepared

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of a chart, and the page's own that take their place, light or dark.
THEMED = {
    BLUE: "var(--blue)",
    ORANGE: "var(--orange)",
    GREY: "var(--grey)",
    GRID: "var(--grid)",
    "#000000": "var(--ink)",
    "#ffffff": "none",
}


def as_svg(ax: Axes, name: str) -> str:
    """Return the chart as an ``<svg>`` element; `name` keeps its ids apart from those of others."""
    import matplotlib

    out = io.StringIO()
    options: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    with matplotlib.rc_context(options):
        figure_of(ax).savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' id="[a-z0-9]+(?:\.[a-z]+)?_\d+"', "", text)  # of groups: figure_1, axes_1
    text = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"', "", text, count=1)
    for colour, variable in THEMED.items():
        text = text.replace(colour, variable)
    return text.replace("<svg", '<svg aria-hidden="true"', 1)


def draw_log_probabilities(section: dict[str, Any]) -> Axes:
    """Draw a histogram of the log-probabilities of the observed classes."""
    ax = prepared(None, "log-probability of the observed class, nats", "rows")
    edges = section["edges"]
    ax.bar(edges[:-1], section["histogram"], np.diff(edges), align="edge", color=BLUE)
    ax.grid(False, axis="x")
    return ax


def draw_intervals(section: dict[str, Any]) -> Axes:
    """Draw mean intervals of the predicted class's probability, beside how often it is right."""
    ax = prepared(None, "probability of the predicted class", "share of rows")
    bins = section["bins"]
    place = [b["confidence"] for b in bins]
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=DASHED, linewidth=1.3, label="perfect")
    ax.vlines(
        place,
        [b["low"] for b in bins],
        [b["high"] for b in bins],
        color=BLUE,
        linewidth=5,
        alpha=0.5,
        label="mean interval",
    )
    ax.plot(place, [b["right"] for b in bins], "o", color=ORANGE, label="right")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    legend(ax, 3)
    return ax
