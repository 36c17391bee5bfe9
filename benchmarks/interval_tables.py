"""Tables and figure of interval coverage in docs/, from the measured data sets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks._report import FIGURES, markdown, place, written_between

LEVEL, LOWEST, HIGHEST = 0.9, 0.87, 0.93
#: The `form` of a row that NUTS has made.
NUTS = "NUTS"
DOCS = FIGURES.parent
PAGES = ("bayesian.md", "results/posterior.md")
#: Kinds of true data of a case beyond those of the first table.
KINDS = {
    "weights": {"laplace": "Laplace-distributed weights"},
    "rows": {
        "sparse": "sparse rows",
        "correlated": "correlated features",
        "heavy": "heavy-tailed features",
    },
    "noise": {"gaussian": "probit", "logistic": "logistic"},
    "scales": {"prior": "scales from the fit's own prior"},
    "frequencies": {"skewed": "skewed class frequencies"},
}


class Cell(NamedTuple):
    """Coverage of intervals over the data sets of one shape."""

    classes: int
    rows_per_class: int
    features: int
    kind: str
    coverage: float
    error: float
    sets: int
    scale: float
    seconds: float

    def __str__(self) -> str:
        error = "" if np.isnan(self.error) else f" +- {self.error:.3f}"
        text = f"{self.coverage:.3f}{error}"
        if not LOWEST <= round(self.coverage, 3) <= HIGHEST:
            text = f"**{text}**"
        return f"{text} ({self.sets})"


def cells(rows: Iterable[dict[str, Any]]) -> list[Cell]:
    """Return one cell per shape and kind of data, ordered by size."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        kind = ", ".join(KINDS[n][row[n]] for n in KINDS if row[n] in KINDS[n])
        key = (row["n_classes"], row["rows_per_class"], row["n_features"], kind)
        found.setdefault(key, []).append(row)
    return [_cell(key, found[key]) for key in sorted(found)]


def _cell(key: tuple[Any, ...], sets: list[dict[str, Any]]) -> Cell:
    classes, rows_per_class, features, kind = key
    covered = [r["coverage"] for r in sets]
    return Cell(
        classes,
        rows_per_class,
        features,
        kind,
        coverage=float(np.mean(covered)),
        error=float(np.std(covered, ddof=1) / np.sqrt(len(sets))) if len(sets) > 1 else np.nan,
        sets=len(sets),
        scale=float(np.exp(np.mean(np.log([r["scale"] for r in sets])))),
        seconds=float(np.median([r["CPU seconds"] for r in sets])),
    )


def write(rows: list[dict[str, Any]]) -> None:
    """The tables into the pages, and the figure."""
    for page in PAGES:
        path = DOCS / page
        path.write_text(with_tables(path.read_text(), rows))
    draw(plain_cells(rows), FIGURES / "interval_coverage.png")


def with_tables(page: str, rows: list[dict[str, Any]]) -> str:
    """Return the page with its tables replaced."""
    ours = cells(row for row in rows if row["form"] != NUTS)
    tables = {
        "interval-coverage": _by_features(plain_cells(rows)),
        "interval-coverage of other data": _others(ours),
        "interval-coverage beside NUTS": _beside_nuts(rows),
    }
    for name, table in tables.items():
        if place(name)[0] in page:
            page = written_between(page, name, markdown(table))
    return page


def plain_cells(rows: list[dict[str, Any]]) -> list[Cell]:
    """Dense rows, normal weights, the softmax."""
    return [cell for cell in cells(r for r in rows if r["form"] != NUTS) if not cell.kind]


def _by_features(plain: list[Cell]) -> list[dict[str, Any]]:
    """Numbers of features side by side."""
    widths = sorted({cell.features for cell in plain})
    table = []
    for classes, rows in sorted({cell[:2] for cell in plain}):
        row: dict[str, Any] = {"classes": f"{classes:,}", "rows per class": rows}
        own = {cell.features: str(cell) for cell in plain if cell[:2] == (classes, rows)}
        table.append(row | {f"{d} features": own.get(d, "not run") for d in widths})
    return table


def _others(found: list[Cell]) -> list[dict[str, Any]]:
    """Numbers of classes side by side."""
    others = [cell for cell in found if cell.kind]
    numbers = sorted({cell.classes for cell in others})
    table = []
    for kind, rows, features in sorted({(c.kind, c.rows_per_class, c.features) for c in others}):
        row: dict[str, Any] = {"data": kind, "rows per class": rows, "features": features}
        own = {c.classes: str(c) for c in others if (c.kind, *c[1:3]) == (kind, rows, features)}
        table.append(row | {f"K = {k:,}": own.get(k, "") for k in numbers})
    return table


def _beside_nuts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return common data sets, and widths of our intervals relative to those of NUTS."""
    shapes: dict[tuple[Any, ...], dict[bool, dict[str, Any]]] = {}
    for row in rows:
        key = tuple(
            row[name] for name in ("n_classes", "rows_per_class", "n_features", *KINDS, "seed")
        )
        shapes.setdefault(key, {})[row["form"] == NUTS] = row
    pairs = [pair for pair in shapes.values() if len(pair) == 2]
    table = []
    ours, theirs = (cells(pair[by_nuts] for pair in pairs) for by_nuts in (False, True))
    for mine, other in zip(ours, theirs):
        own = [pair for pair in pairs if cells([pair[True]])[0][:4] == mine[:4]]
        differences = [pair[False]["coverage"] - pair[True]["coverage"] for pair in own]
        gap = _cell(mine[:4], [pair[False] | {"coverage": d} for pair, d in zip(own, differences)])
        table.append(
            {
                "data": mine.kind,
                "classes": mine.classes,
                "rows per class": mine.rows_per_class,
                "features": mine.features,
                "data sets": mine.sets,
                "the default": f"{mine.coverage:.3f} +- {mine.error:.3f}",
                "NUTS": f"{other.coverage:.3f} +- {other.error:.3f}",
                "difference": f"{gap.coverage:+.3f} +- {gap.error:.3f}",
                "width, relative": f"{_relative_width(own):.2f}",
            }
        )
    return table


def _relative_width(pairs: list[dict[bool, dict[str, Any]]]) -> float:
    logs = [np.log(pair[False]["width"] / pair[True]["width"]) for pair in pairs]
    return float(np.exp(np.mean(logs)))


def draw(plain: list[Cell], path: Path) -> None:
    """Coverage against rows per class, a panel per number of features."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    widths = sorted({cell.features for cell in plain})
    numbers = sorted({cell.classes for cell in plain})
    figure, panels = plt.subplots(1, len(widths), figsize=(10, 3.5), sharey=True, squeeze=False)
    for panel, features in zip(panels[0], widths):
        for i, classes in enumerate(numbers):
            own = [c for c in plain if (c.features, c.classes) == (features, classes)]
            panel.errorbar(
                [c.rows_per_class * 1.12 ** (i - len(numbers) / 2) for c in own],
                [c.coverage for c in own],
                [2.0 * c.error for c in own],
                fmt="o-",
                capsize=2,
                label=f"K = {classes:,}",
            )
        panel.axhspan(LOWEST, HIGHEST, color="0.9", zorder=0)
        panel.axhline(LEVEL, color="0.5", linewidth=1)
        panel.set(xscale="log", xlabel="rows per class", title=f"{features} features")
    panels[0, 0].set(ylabel="held by 90 % intervals", ylim=(0.7, 1.0))
    panels[0, -1].legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
