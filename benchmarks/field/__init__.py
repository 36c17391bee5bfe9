"""The defaults in the field: how far from the best of a grid, on hundreds of small problems?

Problems come in families (`benchmarks.field.families`), and those in two halves: defaults may be
chosen on the development half, and are reported on the other.  Of each problem a grid of recipes
(`benchmarks.field.grid`) is fitted to training rows and judged by validation rows.  The best of
them, the default ``LinearClassifier()`` and class frequencies then get training and validation
rows, and are measured on test rows, which nobody has seen.  `benchmarks.field.measure` says what
regret is, `benchmarks.field.summary` what is told of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks._report import RESULTS


def add_to(commands) -> None:
    """The command and its options."""
    command = commands.add_parser(
        "field", help="the defaults beside the best of a grid, on hundreds of small problems"
    )
    command.add_argument("--half", choices=("development", "reporting"), default="development")
    command.add_argument("--only", nargs="+", metavar="WORD", help="cases whose names hold a word")
    command.add_argument("--limit", type=int, metavar="N", help="at most so many, spread out")
    command.add_argument("--list", action="store_true", help="print the cases, and run none")
    command.add_argument("--output", type=Path, metavar="FILE", help="where results are appended")
    command.add_argument("--resume", action="store_true", help="leave out what FILE has already")
    command.add_argument(
        "--grid", type=Path, metavar="FILE", help="take the best recipes from an earlier run"
    )
    command.add_argument(
        "--most-seconds",
        type=float,
        metavar="S",
        help="of a problem's grid, estimated (default 16); less leaves dear recipes out",
    )
    command.add_argument("--threads", type=int, default=1, help="of all fits (default 1)")
    command.add_argument(
        "--tell-groups", action="store_true", help="the default learns which rows belong together"
    )
    command.add_argument(
        "--summary", type=Path, metavar="FILE", help="run none, tell what FILE has"
    )
    command.add_argument("--beside", type=Path, metavar="FILE", help="an earlier run to compare")
    command.add_argument("--json", action="store_true", help="print the tables as JSON")


def run(args: argparse.Namespace) -> None:
    """Run a half and tell what came out, or tell it of a stored run."""
    from benchmarks.field import families, results, summary

    if args.list:
        for problem in families.problems_of(args.half, args.only, args.limit):
            print(problem.name)
        return
    if args.summary:
        records = results.read(args.summary)
    else:
        records = field(args)
    before = results.read(args.beside) if args.beside else None
    if records:
        summary.tell(records, before, args.json)


def field(args: argparse.Namespace) -> list[dict]:
    """Run the cases that are asked for and not done; gives all of them that are done now."""
    from benchmarks.field import families, measure, results
    from bigcat.data import DataError

    problems = families.problems_of(args.half, args.only, args.limit)
    path = args.output or RESULTS / f"field_{args.half}.jsonl"
    path.parent.mkdir(exist_ok=True)
    done = {record["case"]: record for record in results.begin(path, args.resume)}
    chosen = {r["case"]: r["recipe"] for r in results.read(args.grid)} if args.grid else {}
    for number, problem in enumerate(problems, 1):
        if problem.name in done:
            continue
        try:
            known = chosen.get(problem.name)
            record = measure.run(problem, args.threads, known, args.most_seconds, args.tell_groups)
        except DataError as error:
            print(f"{problem.name} is skipped: {error}", file=sys.stderr)
            continue
        done[problem.name] = record
        results.append(path, record)
        if sys.stderr.isatty():
            text = f"{number}/{len(problems)} {problem.name}: {record['regret']:.1%}"
            print(f"{text}, {record['seconds']:.1f} s", file=sys.stderr)
    return [done[problem.name] for problem in problems if problem.name in done]
