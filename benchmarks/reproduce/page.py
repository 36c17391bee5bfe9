"""One page with all tables and figures that runs have left, in ``benchmarks/results``."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version

from benchmarks._report import markdown
from benchmarks.reproduce.experiment import FOLDER, Experiment, Row

PAGE = FOLDER / "all.md"
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn")
HEAD = """# Every table and figure of the papers, run again

`python -m benchmarks reproduce --all` runs them and `python -m benchmarks reproduce --page` writes
this page. A *quick* run (`--all --quick`) has smaller or fewer pieces than the paper, so its figures
need not be the published ones; where both are there, the page shows the whole run.
"""


def write(experiments: Iterable[Experiment]) -> None:
    """Write the page, which shows the pictures beside it."""
    overview, sections, pieces = [], [], []
    for experiment in experiments:
        quick = _shown(experiment)
        overview.append(_line(experiment, quick))
        if quick is not None:
            pieces += list(experiment.done(quick).values())
            sections.append(_section(experiment, quick))
    facts = _provenance(pieces)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join([HEAD, facts, markdown(overview), "", *sections]))


def _shown(experiment: Experiment) -> bool | None:
    """Whether the quick run is the one to show; None where neither has all of its pieces."""
    for quick in (False, True):
        if set(experiment.pieces(quick)) <= set(experiment.done(quick)):
            return quick
    return None


def _rows(experiment: Experiment, quick: bool) -> list[Row]:
    done = experiment.done(quick)
    return [row for piece in experiment.pieces(quick) for row in done[piece]["rows"]]


def _line(experiment: Experiment, quick: bool | None) -> Row:
    """Of the table at the head of the page."""
    line = {"paper": experiment.paper, "where": experiment.where, "command": f"`{experiment.name}`"}
    if quick is None:
        return line | {"run": "not run", "verdicts": "", "CPU seconds": ""}
    verdicts = Counter(c["verdict"] for c in experiment.compared(_rows(experiment, quick)))
    seconds = sum(piece["CPU seconds"] for piece in experiment.done(quick).values())
    return line | {
        "where": f"[{experiment.where}](#{experiment.name})",
        "run": "quick" if quick else "whole",
        "verdicts": ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items()) or "a picture",
        "CPU seconds": f"with `{experiment.shares}`" if experiment.shares else f"{seconds:.0f}",
    }


def _section(experiment: Experiment, quick: bool) -> str:
    lines = experiment.compared(_rows(experiment, quick))
    text = f"## {experiment.name}\n\n{experiment.paper}, {experiment.where}: {experiment.title}"
    text += ", a quick run.\n\n" if quick else ".\n\n"
    if lines:
        text += markdown(lines) + "\n"
    picture = experiment.file(quick, "png")
    if picture.exists():
        text += f"\n![{experiment.title}]({picture.name})\n"
    return text


def _provenance(pieces: list[Row]) -> str:
    if not pieces:
        return "Nothing was run yet.\n"
    dates = sorted({piece["date"] for piece in pieces})
    commits = sorted({piece["commit"] for piece in pieces})
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return (
        f"Run on {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}, on one core of an "
        f"{platform.machine()} machine with {platform.system()}.\n"
        f"Commits {', '.join(commits)}.\n"
        f"Python {platform.python_version()}, {libraries}.\n"
    )


__all__ = ["PAGE", "write"]
