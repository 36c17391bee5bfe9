"""What a person reads, and what a program reads."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    from rich.console import Console
    from rich.text import Text

    from bigcat.data import Dataset, Shards
    from bigcat.estimators import BayesianClassifier, LinearClassifier

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def console() -> Console:
    """Colours and the terminal's width on a terminal; else plain text in long lines."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=160)


def note(text: str) -> None:
    """A line for the person at the terminal that is no part of the results."""
    print(f"bigcat: note: {text}", file=sys.stderr)


@contextmanager
def rows_bar(label: str, wanted: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A function to call with (rows done, all rows), which moves a bar on a terminal."""
    if not (wanted and sys.stderr.isatty()):
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
    """Lines of (name, value, remark), the values one below the other."""
    from rich.text import Text

    rows = list(rows)
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    lines = []
    for name, value, remark in rows:
        line = Text(f"{name:<{name_width}}  ").append(f"{value:>{value_width}}", style="bold")
        lines.append(line.append(f"  {remark}", style="dim") if remark else line)
    return Text("\n").join(lines)


def evaluation_rows(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The lines that `fit --test`, `evaluate` and `demo` show of an evaluation."""
    dropped = report["rows_dropped_unseen"]
    remark = f"{dropped:,} more dropped: their class is unknown to the model" if dropped else ""
    return [
        ("log-likelihood", f"{report['log_likelihood']:.4f}", "nats per row"),
        ("accuracy", f"{report['accuracy']:.4f}", ""),
        ("hit@5", f"{report['hit_at_5']:.4f}", "the class is among the five most probable"),
        ("rows", f"{report['rows']:,}", remark),
        ("seconds", f"{report['seconds']:.2f}", ""),
    ]


def print_json(value: object) -> None:
    """One JSON document on stdout; NaN becomes null."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def write_json(value: object, path: Path) -> None:
    """The same, to a file."""
    path.write_text(json.dumps(plain(value), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """Python's own types of NumPy's, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)


def forecast(
    estimator: LinearClassifier | BayesianClassifier, data: Dataset | Shards, n_classes: int
) -> int:
    """Bytes that fitting data will take besides them."""
    from bigcat.estimators import BayesianClassifier

    X, window = data.X, getattr(data, "window_rows", None)
    n_rows, n_features = X.shape
    if window is not None and not isinstance(estimator, BayesianClassifier):
        sparse = hasattr(X, "indptr")
        n_values = X.nnz if sparse else X.size
        return estimator.memory_forecast(
            n_rows, n_features, n_classes, sparse=sparse, nnz=n_values, window=window
        )
    if not hasattr(X, "indptr"):
        return estimator.memory_forecast(n_rows, n_features, n_classes, sparse=False)
    if isinstance(estimator, BayesianClassifier):
        mean = X.nnz / max(n_rows, 1)
        return estimator.memory_forecast(
            n_rows, n_features, n_classes, row_nonzeros=mean, dtype=X.dtype
        )
    longest = int((X.indptr[1:] - X.indptr[:-1]).max(initial=0))
    return estimator.memory_forecast(n_rows, n_features, n_classes, max_row_nonzeros=longest)


def size(n_bytes: float) -> str:
    """Bytes in words.

    >>> size(1234567)
    '1.2 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
