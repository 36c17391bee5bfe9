"""A progress bar with the current bound or objective, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bigcat.compile import watching

#: What a bar says while kernels are compiled.
COMPILING = "compiling, first run only"


@contextmanager
def reporter(
    progress: bool | str, total_epochs: int, label: str, word: str = "bound", unit: str = "epoch"
) -> Iterator[Callable[[float, float], None]]:
    """Yield a function to call with (epochs done, current value); silent where not wanted.

    Parameters
    ----------
    progress : {"auto", True, False}
        "auto" shows a bar when standard error is a terminal.
    label, word, unit : str
        What is fitted, what the value is called, and what is counted.
    """
    if progress not in ("auto", True, False):
        raise ValueError(f"progress={progress!r} is not known; choose 'auto', True or False")
    if progress is False or (progress == "auto" and not sys.stderr.isatty()):
        yield lambda epochs_done, value: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(unit + " {task.fields[epoch]}/{task.total:.0f}"),
        TextColumn("{task.fields[word]} {task.fields[value]}"),
        TimeElapsedColumn(),
        TextColumn("of at most"),
        TimeRemainingColumn(),
        TextColumn("more"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total_epochs, epoch=0, word=word, value="...")

        def compiling(kernel: str | None) -> None:
            what = label if kernel is None else f"{label}: {COMPILING} ({kernel})"
            bar.update(task, description=what)

        def report(epochs_done: float, value: float) -> None:
            bar.update(
                task,
                completed=epochs_done,
                epoch=min(int(epochs_done) + 1, total_epochs),
                value=f"{value:.4f}",
            )

        with watching(compiling):
            yield report
