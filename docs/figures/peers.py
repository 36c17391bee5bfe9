"""The figure of `docs/results/peers.md`, from its table: `python docs/figures/peers.py`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "results" / "peers.md"
OURS = "bigcat defaults"


def table() -> dict[str, dict[str, float]]:
    """Log-likelihoods by data set and library."""
    found: dict[str, dict[str, float]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 6 or cells[2].strip("-") == "":
            continue
        if cells[0] == "data":
            continue
        data = cells[0] or list(found)[-1]
        found.setdefault(data, {})[cells[1]] = float(cells[2])
    return found


def peers() -> None:
    """Draw how far each library is behind the defaults, in nats per row."""
    found = table()
    libraries = sorted({name for row in found.values() for name in row} - {OURS})
    figure, axes = plt.subplots(figsize=(8, 3.6))
    axes.plot([0.0] * len(found), list(found), alpha=0)  # the order of the table
    for library in libraries:
        behind = [(found[d][OURS] - found[d][library], d) for d in found if library in found[d]]
        axes.plot(*zip(*behind), "o", markersize=7, alpha=0.85, label=library)
    axes.axvline(0, color="black", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlabel("nats per row behind the defaults of bigcat")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(FOLDER / "peers.png", dpi=150, bbox_inches="tight")


if __name__ == "__main__":
    peers()
