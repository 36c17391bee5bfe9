"""Progress of a fit with the current bound or objective: a bar on a terminal, or lines."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bigcat.compile import kernels_left, watching

#: Text of a bar while kernels are compiled.
COMPILING = "compiling, first run only"
DISPLAYS = ("auto", True, False, "lines", "json")
#: Seconds between two lines about iterations, of which there may be thousands.
SECONDS_PER_LINE = 1.0


Display = bool | str
Progress = Display | Callable[[dict[str, Any]], object]


def split(progress: Progress | Sequence[Progress]) -> tuple[Display, list[Callable[..., object]]]:
    """Return the display and the functions of an estimator's `progress`, checked."""
    several = [*progress] if isinstance(progress, list | tuple) else [progress]
    displays = [each for each in several if not callable(each)] or [False]
    if len(displays) > 1 or displays[0] not in DISPLAYS:
        raise ValueError(
            f"progress={progress!r} is not known; choose 'auto', True, False, 'lines' or 'json', "
            "or functions to call after each epoch"
        )
    return displays[0], [each for each in several if callable(each)]


@contextmanager
def reporter(
    progress: Display, total_epochs: int, label: str, word: str = "bound", unit: str = "epoch"
) -> Iterator[Callable[[float, float], None]]:
    """Yield a function to call with (epochs done, current value); silent where not wanted.

    Parameters
    ----------
    progress : {"auto", True, False, "lines", "json"}
        "auto" shows a bar when standard error is a terminal.  "lines" and "json" write a line per
        epoch there, for logs and for programs.
    label, word, unit : str
        Name of the fit, of the value, and of the unit that is counted.
    """
    if progress in ("lines", "json"):
        yield _line_writer(progress == "json", total_epochs, label, word, unit)
        return
    split(progress)
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
            left = f", {n} more expected" if (n := kernels_left()) else ""
            what = label if kernel is None else f"{label}: {COMPILING} ({kernel}{left})"
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


def _line_writer(
    as_json: bool, total: int, label: str, word: str, unit: str
) -> Callable[[float, float], None]:
    started = time.perf_counter()
    last = -SECONDS_PER_LINE

    def report(done: float, value: float) -> None:
        nonlocal last
        seconds = time.perf_counter() - started
        if done != int(done) or (unit != "epoch" and seconds - last < SECONDS_PER_LINE):
            return
        last, left = seconds, seconds / done * (total - done)
        if as_json:
            shown = value if math.isfinite(value) else None
            found = {"fit": label, unit: int(done), "of": total, word: shown}
            found |= {"seconds": round(seconds, 3), "seconds_left": round(left, 3)}
            line = json.dumps(found)
        else:
            line = (
                f"{label}: {unit} {done:.0f} of {total}, {word} {value:.4f}, {seconds:.1f} s, "
                f"at most {left:.1f} s left"
            )
        print(line, file=sys.stderr, flush=True)

    return report
