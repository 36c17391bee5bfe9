"""Every table and figure of the four papers: ``python -m benchmarks reproduce``.

A run writes three files for each under ``benchmarks/results/reproduce``: raw rows (``.jsonl``), the
table of published figures beside ours (``.md``) and, where there is one, a picture (``.png``).
Pieces that an interrupted run has finished are not run again.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from benchmarks._report import show
from benchmarks.reproduce import (
    augment_reduce,
    categorical_from_binary,
    one_vs_each,
    unbiased_softmax,
)
from benchmarks.reproduce.experiment import FOLDER, Experiment, as_markdown

PAPERS = (augment_reduce, one_vs_each, unbiased_softmax, categorical_from_binary)
EXPERIMENTS = {e.name: e for paper in PAPERS for e in paper.EXPERIMENTS}
#: Experiments that a quick run skips, because they need environments of other samplers.
NOT_QUICK = ("cfb-figure-g3",)


def add_to(commands: Any) -> None:
    """The command and its options."""
    parser = commands.add_parser("reproduce", help="tables and figures of the four papers")
    parser.add_argument("names", nargs="*", metavar="NAME", help="those of --list")
    parser.add_argument("--list", action="store_true", help="all of them, and how they stand")
    parser.add_argument("--all", action="store_true", help="run all")
    parser.add_argument("--quick", action="store_true", help="small or fewer pieces of each")
    parser.add_argument("--again", action="store_true", help="forget what earlier runs finished")


def run(args: argparse.Namespace) -> None:
    """Return the selected experiments."""
    unknown = [name for name in args.names if name not in EXPERIMENTS]
    if unknown:
        raise SystemExit(f"no experiment {', '.join(unknown)}; choose of {', '.join(EXPERIMENTS)}")
    if args.list or not (args.names or args.all):
        show([_listed(e) for e in EXPERIMENTS.values()])
        return
    everything = [n for n in EXPERIMENTS if not args.quick or n not in NOT_QUICK]
    for name in everything if args.all else args.names:
        reproduce(EXPERIMENTS[name], args.quick, args.again)


def reproduce(experiment: Experiment, quick: bool, again: bool = False) -> None:
    """Run missing experiments, and write and print the comparison."""
    missing = experiment.missing(quick)
    if missing:
        print(f"{experiment.name}: skipped, BIGCAT_DATA has no {', '.join(missing)}")
        return
    began = time.process_time()
    rows = experiment.run(quick, again)
    lines = experiment.compared(rows)
    text = as_markdown(experiment, lines, quick)
    experiment.file(quick, "md").write_text(text)
    if experiment.draw is not None:
        experiment.draw(rows, experiment.file(quick, "png"))
    print(
        f"\n{text}\n{experiment.name}: {time.process_time() - began:.1f} CPU seconds\n", flush=True
    )


def _listed(experiment: Experiment) -> dict[str, Any]:
    done = {
        kind: f"{len(experiment.done(quick))} of {len(experiment.pieces(quick))}"
        for kind, quick in {"pieces here": False, "quick pieces here": True}.items()
    }
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "where": experiment.where,
        "shows": experiment.title,
        "status": experiment.status,
        **done,
    }


__all__ = ["EXPERIMENTS", "FOLDER", "add_to", "reproduce", "run"]
