"""Regret of the defaults against the best of a grid of settings, on hundreds of small problems.

Problems come in families (`benchmarks.field.families`), in two halves: defaults may be tuned on the
development half, and are reported on the other. For each problem a grid of settings
(`benchmarks.field.grid`) is fitted to training rows and scored on validation rows. The best
setting, the default ``LinearClassifier()`` and class frequencies are then fitted to training and
validation rows, and measured on test rows. `benchmarks.field.measure` defines regret, and
`benchmarks.field.summary` prints tables of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks._report import RESULTS

if TYPE_CHECKING:
    from benchmarks.field.problem import Problem


def add_to(commands) -> None:
    """The command and its options."""
    command = commands.add_parser(
        "field", help="the defaults beside the best of a grid, on hundreds of small problems"
    )
    command.add_argument("--half", choices=("development", "reporting"), default="development")
    command.add_argument(
        "--only", nargs="+", metavar="WORD", help="cases whose names contain a word"
    )
    command.add_argument(
        "--limit", type=int, metavar="N", help="at most N cases, evenly spaced in the list"
    )
    command.add_argument(
        "--part",
        default="1/1",
        metavar="I/N",
        help="every N-th case from the I-th on; N processes, each with its own --output",
    )
    command.add_argument("--list", action="store_true", help="print the cases, and fit nothing")
    command.add_argument("--output", type=Path, metavar="FILE", help="file to append results to")
    command.add_argument("--resume", action="store_true", help="skip cases that FILE contains")
    command.add_argument(
        "--grid", type=Path, metavar="FILE", help="take the best settings from an earlier run"
    )
    command.add_argument(
        "--max-seconds",
        type=float,
        metavar="S",
        help="maximal estimated seconds of a problem's grid (default 16)",
    )
    command.add_argument("--threads", type=int, default=1, help="threads per fit (default 1)")
    command.add_argument(
        "--groups", action="store_true", help="pass groups= to the default where rows have them"
    )
    command.add_argument(
        "--summary",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="print stored runs as one, and fit nothing",
    )
    command.add_argument("--beside", type=Path, metavar="FILE", help="an earlier run to compare")
    command.add_argument("--json", action="store_true", help="print the tables as JSON")


def run(args: argparse.Namespace) -> None:
    """Run a half and print a summary, or print that of a stored run."""
    from benchmarks.field import results, summary

    if args.list:
        for problem in _problems(args):
            print(problem.name)
        return
    if args.summary:
        records = [record for path in args.summary for record in results.read(path)]
    else:
        records = field(args)
    before = results.read(args.beside) if args.beside else None
    if records:
        summary.print_tables(records, before, args.json)


def field(args: argparse.Namespace) -> list[dict]:
    """Run the selected cases that are not done; return all that are done now."""
    from benchmarks.field import measure, results
    from bigcat.data import DataError

    problems = _problems(args)
    path = args.output or RESULTS / f"field_{args.half}.jsonl"
    path.parent.mkdir(exist_ok=True)
    done = {record["case"]: record for record in results.begin(path, args.resume)}
    chosen = {r["case"]: r["setting"] for r in results.read(args.grid)} if args.grid else {}
    for number, problem in enumerate(problems, 1):
        if problem.name in done:
            continue
        try:
            known = chosen.get(problem.name)
            record = measure.run(problem, args.threads, known, args.max_seconds, args.groups)
        except DataError as error:
            print(f"{problem.name} is skipped: {error}", file=sys.stderr)
            continue
        done[problem.name] = record
        results.append(path, record)
        if sys.stderr.isatty():
            text = f"{number}/{len(problems)} {problem.name}: {record['regret']:.1%}"
            print(f"{text}, {record['seconds']:.1f} s", file=sys.stderr)
    return [done[problem.name] for problem in problems if problem.name in done]


def _problems(args: argparse.Namespace) -> list[Problem]:
    """Return the cases to run."""
    from benchmarks.field import families

    first, step = (int(number) for number in args.part.split("/"))
    return families.problems_of(args.half, args.only, args.limit)[first - 1 :: step]
