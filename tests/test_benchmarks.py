"""Benchmark commands start: their help, the smallest runs, and the commands of the pages."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import _report, cost_against_classes, million_classes
from benchmarks.__main__ import main, make_parser
from benchmarks.against.checkouts import ROOT
from benchmarks.peers import campaign, configuration, problems, report
from benchmarks.peers.configuration import Contender
from bigcat.data import Dataset

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
# A contender of the peers that predicts class frequencies.
STAND_IN = """
import numpy as np
from scoring import Model

def fit(rows, watch, extra=1.0):
    p = np.bincount(rows.y, minlength=rows.n_classes) + extra
    return Model(lambda X: np.tile(np.log(p / p.sum()), (X.shape[0], 1)))
"""


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


def test_smallest_run_of_the_peers(tmp_path: Path):
    """A setting is chosen on validation rows, measured on the test rows and reported."""

    def rows(n: int, seed: int) -> Dataset:
        X = sp.random(n, 9, 0.4, "csr", dtype=np.float32, random_state=seed)
        return Dataset(X, np.random.default_rng(seed).choice(6, n, p=np.arange(1, 7) / 21))

    matrices, facts = problems.prepare(rows(200, 0), rows(80, 1))
    problems.write(tmp_path / "cache" / "small", matrices, facts)
    problem = problems.Problem("small", "nothing to load")
    adapter = tmp_path / "stand_in.py"
    adapter.write_text(STAND_IN)
    settings = {"any": [{"extra": 300.0}, {"extra": 1.0}]}
    contender = Contender("stand-in", adapter, "full-rank", settings)
    runner = campaign.Runner(
        limit=20.0, threads=1, records=tmp_path / "records", cache=tmp_path / "cache"
    )
    record = runner.run(problem, contender)
    assert record["status"] == "ok", record.get("error")
    assert record["settings"] == {"extra": 1.0}
    assert record["log_likelihood"] == pytest.approx(facts["baseline"])
    stages = [kept["stage"] for kept in campaign.read_all(tmp_path / "records")]
    assert stages == ["validation", "validation", "test"]
    assert runner.run(problem, contender) == record
    known = configuration.Campaign({"small": problem}, {"stand-in": contender}, [], {})
    assert "| stand-in | full-rank |" in report.markdown([record], known)


def test_the_campaign_of_the_peers_is_complete():
    known = configuration.read()
    assert {*known.default_problems, *known.quick["problems"]} <= {*known.problems}
    assert {*known.quick["contenders"]} <= {*known.contenders}
    for contender in known.contenders.values():
        assert contender.adapter.exists()
        assert {*contender.settings} - {"any"} <= {*known.problems}
        assert all(contender.settings_for(problem) for problem in known.problems)
