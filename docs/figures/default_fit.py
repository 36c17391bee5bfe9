"""The picture of a default fit in `docs/choosing.md`: `python docs/figures/default_fit.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

FOLDER = Path(__file__).parent
BLUE, ORANGE, GREY = "#1f5fbf", "#d9730d", "#9a9a9a"
WIDTH, HEIGHT, GAP = 2.75, 1.7, 0.5
STEPS = [
    ("validate", BLUE, "check X and y;\nhold out 5 % of the rows,\nor whole groups"),
    ("candidates", BLUE, "low rank, several times;\nfull rank: a ridge path,\nor damped steps"),
    ("stack", ORANGE, "a weight for each,\nand one for the class\nfrequencies, by log score"),
    ("refit", BLUE, "candidates with\na weight, now\non all rows"),
    ("model", ORANGE, "one weighted sum;\nselection_ has\nthe table"),
]


def default_fit() -> None:
    """Draw the five steps from left to right."""
    length = len(STEPS) * WIDTH + (len(STEPS) - 1) * GAP
    figure, axes = plt.subplots(figsize=(length * 0.78, HEIGHT * 0.95))
    for number, (name, colour, text) in enumerate(STEPS):
        left = number * (WIDTH + GAP)
        box = FancyBboxPatch(
            (left, 0.0),
            WIDTH,
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.15",
            facecolor="white",
            edgecolor=colour,
            linewidth=1.8,
        )
        axes.add_patch(box)
        middle = left + WIDTH / 2
        axes.text(middle, 1.36, name, ha="center", va="center", weight="bold", color=colour)
        axes.text(middle, 0.62, text, ha="center", va="center", fontsize=8.5, linespacing=1.5)
        if number:
            arrow = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.6}
            axes.annotate("", (left, HEIGHT / 2), (left - GAP, HEIGHT / 2), arrowprops=arrow)
    axes.set_xlim(-0.1, length + 0.1)
    axes.set_ylim(-0.1, HEIGHT + 0.1)
    axes.axis("off")
    figure.savefig(FOLDER / "default_fit.png", dpi=120, bbox_inches="tight")
    plt.close(figure)


if __name__ == "__main__":
    default_fit()
