"""Rows by data set, for claims and for panels of a figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._report import figure_file
from benchmarks.reproduce.experiment import Row


def by_data(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of each data set, in their order."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["data"], []).append(row)
    return found


def draw_curves(rows: list[Row], path: Path, finish: Callable[[Any, list[Row]], None]) -> None:
    """A panel per data set with the curve of each method; `finish` gets axes and rows of one."""
    sets = by_data(rows)
    with figure_file(path, n_columns=len(sets)) as axes:
        for place, (name, mine) in zip(axes, sets.items()):
            for row in mine:
                if row["curve"]:
                    epochs = np.arange(1, len(row["curve"]) + 1)
                    place.plot(epochs, row["curve"], label=row["method"])
            place.set(title=name, xlabel="epoch")
            finish(place, mine)
            place.legend()
