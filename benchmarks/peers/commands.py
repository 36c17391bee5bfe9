"""``python -m benchmarks peers ...``: run, report, environments."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.peers import comparison, configuration, figure, problems, report
from benchmarks.peers.campaign import LIMIT, RECORDS, Runner, read_all
from benchmarks.peers.configuration import Campaign
from bigcat.data import DataError


def add_to(commands: Any) -> None:
    """Add the command ``peers`` to a parser's commands."""
    parser = commands.add_parser("peers", help="other libraries side by side: docs/benchmarks.md")
    parts = parser.add_subparsers(dest="part", required=True)
    run = parts.add_parser("run", help="fit and measure; what has a result already is passed over")
    run.add_argument("--problems", nargs="+", metavar="NAME")
    run.add_argument("--peers", nargs="+", metavar="NAME", help="a name, or the start of several")
    run.add_argument("--limit", type=float, help=f"seconds a fit (default {LIMIT:g})")
    run.add_argument("--threads", type=int, default=2)
    run.add_argument("--fixed", action="store_true", help="the first setting of each: no tuning")
    run.add_argument("--quick", action="store_true", help="few problems and peers, and --fixed")
    run.add_argument("--all", action="store_true", help="also what campaign.toml skips")
    run.add_argument("--again", action="store_true", help="also what has a result already")
    shown = parts.add_parser("report", help="tables and a figure of the results that are there")
    shown.add_argument("--json", action="store_true", help="the records as JSON, and no figure")
    shown.add_argument(
        "--beside-defaults", action="store_true", help="one table: the defaults less each peer"
    )
    shown.add_argument(
        "--time-to-quality", action="store_true", help="one table: defaults and exact softmax"
    )
    shown.add_argument("--figure", type=Path, default=RECORDS / "peers.png", metavar="FILE")
    parts.add_parser("environments", help="make the peers' virtual environments")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    campaign = configuration.read()
    if arguments.part == "run":
        _run(campaign, arguments)
    elif arguments.part == "report":
        _report(campaign, arguments)
    else:
        _make_environments(campaign)


def _run(campaign: Campaign, arguments: argparse.Namespace) -> None:
    quick = campaign.quick if arguments.quick else {}
    chosen = arguments.problems or quick.get("problems") or campaign.default_problems
    unknown = set(chosen) - set(campaign.problems)
    if unknown:
        known = ", ".join(campaign.problems)
        sys.exit(f"unknown problem {', '.join(sorted(unknown))}; known: {known}")
    contenders = matching(campaign, arguments.peers or quick.get("contenders"))
    runner = Runner(
        limit=arguments.limit or quick.get("limit", LIMIT),
        threads=arguments.threads,
        fixed=arguments.fixed or arguments.quick,
        again=arguments.again,
    )
    for problem in chosen:
        try:
            problems.folder_of(campaign.problems[problem])
        except DataError as error:
            print(f"{problem}: {error}", file=sys.stderr)
            continue
        for name in contenders:
            if arguments.all or problem not in campaign.contenders[name].skip:
                runner.run(campaign.problems[problem], campaign.contenders[name])


def matching(campaign: Campaign, wanted: list[str] | None) -> list[str]:
    """Return the contenders whose names begin with one of the given names, in any case."""
    if not wanted:
        return list(campaign.contenders)
    starts = [name.lower() for name in wanted]
    found = [name for name in campaign.contenders if name.lower().startswith(tuple(starts))]
    lost = [s for s in starts if not any(name.lower().startswith(s) for name in found)]
    if lost:
        sys.exit(f"unknown peer {', '.join(lost)}; known: {', '.join(campaign.contenders)}")
    return found


def _report(campaign: Campaign, arguments: argparse.Namespace) -> None:
    records = read_all()
    if arguments.json:
        print(json.dumps(records, indent=1))
        return
    if not records:
        sys.exit("no results yet; start with: python -m benchmarks peers run --quick")
    if arguments.beside_defaults:
        print(comparison.beside_defaults(records, campaign))
        return
    if arguments.time_to_quality:
        print(comparison.time_to_quality(records, campaign))
        return
    facts = {}
    for name in report.latest(records):
        path = problems.CACHE / name / "facts.json"
        if path.exists():
            facts[name] = json.loads(path.read_text())
    print(report.markdown(records, campaign, facts))
    figure.draw(records, campaign, arguments.figure, facts)
    print(f"figure: {arguments.figure}", file=sys.stderr)


def _make_environments(campaign: Campaign) -> None:
    needed = dict.fromkeys(c.environment for c in campaign.contenders.values() if c.environment)
    for requirements in needed:
        print(environments.python_of(requirements))
