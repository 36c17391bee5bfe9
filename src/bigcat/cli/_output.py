"""Output: text on a terminal, JSON for programs."""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from bigcat.data import Dataset, Shards
    from bigcat.estimators import BayesianClassifier, LinearClassifier

#: Lines of a table: name, value, remark.
Facts = list[tuple[str, str, str]]

#: Messages for the person at the terminal that are no part of the results.
log = logging.getLogger("bigcat.cli")


def console() -> Console:
    """Return a console: colours on a terminal, else plain text in long lines."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=160)


def show(arguments: argparse.Namespace, report: Mapping[str, Any], rows: Facts) -> None:
    """Print a report: as JSON, or as lines."""
    if arguments.json:
        print_json(report)
    else:
        console().print(facts(rows), soft_wrap=True)


@contextmanager
def rows_bar(label: str, wanted: bool = True) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with (rows done, all rows), which moves a bar on a terminal."""
    if not (wanted and sys.stderr.isatty() and log.isEnabledFor(logging.INFO)):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    text = "{task.completed:,.0f}/{task.total:,.0f} rows"
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn(text))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(label, total=0)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def facts(rows: Iterable[tuple[str, str, str]]) -> Text:
    """Return lines of (name, value, remark), the values below each other."""
    from rich.text import Text

    rows = list(rows)
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    lines = []
    for name, value, remark in rows:
        line = Text(f"{name:<{name_width}}  ").append(f"{value:>{value_width}}", style="bold")
        lines.append(line.append(f"  {remark}", style="dim") if remark else line)
    return Text("\n").join(lines)


def evaluation_rows(report: Mapping[str, Any]) -> Facts:
    """Return the lines that `fit --test` and `evaluate` show of an evaluation."""
    dropped = report["rows_dropped_unseen"]
    remark = f"{dropped:,} more dropped: their class is unknown to the model" if dropped else ""
    return [
        ("log-likelihood", f"{report['log_likelihood']:.4f}", "nats per row"),
        ("accuracy", f"{report['accuracy']:.4f}", ""),
        ("hit@5", f"{report['hit_at_5']:.4f}", "the class is among the five most probable"),
        ("rows", f"{report['rows']:,}", remark),
        ("seconds", f"{report['seconds']:.2f}", ""),
    ]


def as_json(value: object) -> str:
    """Return a JSON document; NaN becomes null."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def print_json(value: object) -> None:
    print(as_json(value))


def write_json(value: object, path: Path) -> None:
    path.write_text(as_json(value) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Return Python's own types of NumPy's, for JSON."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    match value:
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case float():
            return value if math.isfinite(value) else None
        case str() | bool() | int() | None:
            return value
    return str(value)


def forecast(
    estimator: LinearClassifier | BayesianClassifier, data: Dataset | Shards, n_classes: int
) -> int:
    """Return the bytes that fitting data will take besides them."""
    from bigcat.estimators import BayesianClassifier

    X, window = data.X, getattr(data, "window_rows", None)
    shape, sparse = (*X.shape, n_classes), hasattr(X, "indptr")
    if window is not None and not isinstance(estimator, BayesianClassifier):
        n_values = X.nnz if sparse else X.size
        return estimator.memory_forecast(*shape, sparse=sparse, nnz=n_values, window=window)
    if not sparse:
        return estimator.memory_forecast(*shape, sparse=False)
    if isinstance(estimator, BayesianClassifier):
        mean = X.nnz / max(X.shape[0], 1)
        return estimator.memory_forecast(*shape, row_nonzeros=mean, dtype=X.dtype)
    longest = int((X.indptr[1:] - X.indptr[:-1]).max(initial=0))
    return estimator.memory_forecast(*shape, max_row_nonzeros=longest)


def size(n_bytes: float) -> str:
    """Return bytes in words.

    >>> size(1234567)
    '1.2 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
