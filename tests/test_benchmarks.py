"""Benchmark commands start: their help, the smallest runs, and the commands of the pages."""

from __future__ import annotations

import argparse
import itertools
import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from benchmarks import _report, cost_against_classes, million_classes
from benchmarks.__main__ import main, make_parser
from benchmarks.against.checkouts import ROOT
from benchmarks.field import families

SMALLEST = {
    "reproduce": "--list",
    "ove-figure1": "",
    "million-classes": "--classes 2500 --rows 10000 --rank 8 --json",
    "cost-against-classes": "--classes 20 40",
    "serving": "--classes 1000 --rank 8",
    "conversions": "csv --megabytes 1",
    "against": f"{ROOT} --answers --only categorical\\ exact",
}
if find_spec("torch"):
    SMALLEST["torch-step"] = "--classes 1000 2000 --steps 2 --json"
    SMALLEST["torch-bias"] = "--classes 1000 --draws 3 --json"
    SMALLEST["torch-posterior"] = "--classes 30 --features 4 --rows-per-class 5 --epochs 2 --json"


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Return a parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def commands() -> list[str]:
    """Return all that follows ``python -m benchmarks`` on the pages."""
    found: dict[str, None] = {}
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for words in re.findall(r"python -m benchmarks ([^`\n]*)", page.read_text()):
            found[words.partition(">")[0].strip()] = None
    return [words for words in found if words not in ("...", "--help", "peers")]


@pytest.mark.parametrize("parser", [*parsers(make_parser())], ids=lambda parser: parser.prog)
def test_help(parser: argparse.ArgumentParser, capsys):
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {parser.prog}")


@pytest.mark.parametrize("words", commands())
def test_commands_of_the_documentation_exist(words):
    # argparse ends the process at an unknown command.
    found = make_parser().parse_args(shlex.split(words, comments=True))
    assert (found.command or "") == words.partition(" ")[0]


@pytest.mark.slow
@pytest.mark.parametrize("command", SMALLEST)
def test_smallest_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    for module in (cost_against_classes, million_classes):
        monkeypatch.setattr(module, "FIGURES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["benchmarks", command, *shlex.split(SMALLEST[command])])
    main()
    written = capsys.readouterr()
    assert written.out + written.err
    if command == "against":
        (row,) = _report.saved("against_answers")
        assert (row["digests"], row["different"]) == (5, "")
    if command == "million-classes":
        (row,) = json.loads(written.out)
        assert row["log-likelihood"] > row["of class frequencies"]


def test_halves_have_no_family_in_common():
    halves = {half: families.problems_of(half) for half in families.HALVES}
    assert list(halves) == ["development", "reporting"]
    first, second = ({problem.family for problem in problems} for problems in halves.values())
    assert not first & second
    for problems in halves.values():
        assert 60 <= len(problems) <= 600
        names = [problem.name for problem in problems]
        assert len(set(names)) == len(names)
        in_order = [problem.family for problem in problems]
        changes = sum(a != b for a, b in itertools.pairwise(in_order))
        assert changes == len(set(in_order)) - 1  # a set that is read once serves its family
