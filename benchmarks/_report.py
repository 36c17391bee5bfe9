"""Shared tools of benchmarks: data, clocks, and results as JSON lines beside a printed table."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def save(name: str, rows: list[dict[str, Any]]) -> None:
    """Keep rows as JSON lines under benchmarks/results, replacing an earlier run's."""
    RESULTS.mkdir(exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (RESULTS / f"{name}.jsonl").write_text(lines)


def append(name: str, row: dict[str, Any]) -> None:
    """Add a row, with the present commit, to those of earlier runs."""
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(row | {"commit": commit()}) + "\n")


@cache
def commit() -> str:
    """Return the commit of the library's source, with a plus if files were changed since."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=RESULTS.parent, capture_output=True, text=True)

    changed = git("diff", "--quiet", "HEAD", "--", "../src").returncode
    return git("rev-parse", "--short=9", "HEAD").stdout.strip() + "+" * changed


def saved(name: str) -> list[dict[str, Any]]:
    """Return the rows of the last run of that name; empty if there was none."""
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def show(rows: list[dict[str, Any]], as_json: bool = False) -> None:
    """Print rows as a Markdown table, or as JSON."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(markdown(rows), flush=True)


def markdown(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(row.get(c, "")) for c in columns) + " |")
    return "\n".join(lines)


def place(name: str) -> tuple[str, str]:
    """Comments of a page between which something is generated."""
    return f"<!-- begin: {name} -->", f"<!-- end: {name} -->"


def written_between(page: str, name: str, text: str) -> str:
    """Return the page with `text` between its two comments of that name."""
    begin, end = place(name)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page needs one line {begin!r} and, after it, one line {end!r}")
    before, after = page.split(begin)[0], page.split(end)[1]
    return f"{before}{begin}\n{text}\n{end}{after}"


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) >= 1e4 or 0 < abs(value) < 1e-3 else f"{value:.4f}"
    return str(value)


@contextmanager
def figure_file(path: Path, n_columns: int = 1):
    """Yield axes side by side, and write them to a file when the block is left."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (max(7.0, 3.6 * n_columns), 3.6)
    figure, axes = plt.subplots(1, n_columns, figsize=size, layout="constrained", squeeze=False)
    yield list(axes[0])
    path.parent.mkdir(exist_ok=True, parents=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


@contextmanager
def clock():
    """Yield a dict that holds wall and CPU seconds when the block is left."""
    times: dict[str, float] = {}
    wall, cpu = time.perf_counter(), time.process_time()
    yield times
    times["wall"] = time.perf_counter() - wall
    times["cpu"] = time.process_time() - cpu


def clipped_log_likelihood(model, X, y, floor: float = -26.0) -> float:
    """Mean test log-likelihood with the clip of the authors' code."""
    return float(np.maximum(model.log_proba_of(X, y), floor).mean())


def epoch_seconds(history) -> float:
    """Return the seconds of the fastest epoch, the one least disturbed by other processes."""
    seconds = history["seconds"]
    return float(np.diff(seconds, prepend=0.0).min())
