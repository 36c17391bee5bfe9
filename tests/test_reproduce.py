"""`python -m benchmarks reproduce`: what it lists, how it compares, and that it goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import reproduce
from benchmarks.__main__ import make_parser
from benchmarks.published import Quantity, known, published
from benchmarks.reproduce import experiment

ROOT = Path(__file__).resolve().parents[1]
PAPERS = {
    "augment and reduce": {"Section 4.1", "Table 1", "Table 2", "Table 3", "Figure 2"},
    "one-vs-each": {"Figure 1", "Figure 2", "Figure 3", "Table 2", "Section 4.2"},
    "unbiased softmax": {"Table 2", "Table 3", "Figure 1", "Figure 2", "Figure 3"},
    "categorical from binary": {
        *("Figures 1 and G.1", "Figure 2, Table G.2", "Figures 3 and G.2", "Figure B.1"),
        *("Figure G.3", "Table G.1", "Table G.3", "Section 5"),
    },
}


def name(part: Any) -> str:
    return part if isinstance(part, str) else part.name


def test_every_table_and_figure_is_listed(capsys):
    listed: dict[str, set[str]] = {}
    for e in reproduce.EXPERIMENTS.values():
        listed.setdefault(e.paper, set()).add(e.where)
        assert e.status
        assert e.pieces(True)
        assert len(e.pieces(False)) >= len(e.pieces(True))
        assert set(e.quick_data) <= set(e.data)
    assert listed == PAPERS
    reproduce.run(make_parser().parse_args(["reproduce", "--list"]))
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in reproduce.EXPERIMENTS)


def test_an_unknown_name_is_refused_before_any_work():
    with pytest.raises(SystemExit, match="no experiment ar-table9; choose of ar-section41, "):
        reproduce.run(make_parser().parse_args(["reproduce", "ar-table9", "ar-table3"]))


def test_published_figures_have_an_experiment_that_measures_them():
    assert set(known()) <= set(reproduce.EXPERIMENTS)
    for name in known():
        table, listed = published(name), reproduce.EXPERIMENTS[name]
        assert (table.paper, table.where.split(",")[0]) == (listed.paper, listed.where)
        keys = [key for key, _ in table.rows()]
        assert len(set(keys)) == len(keys)
        for _, figures in table.rows():
            assert len(figures) == len(table.quantities)
            assert any(isinstance(f, (int, float)) for f in figures)


@pytest.mark.parametrize(
    ("better", "published", "ours", "verdict"),
    [
        ("larger", -3.3, -3.305, "as published"),
        ("larger", -3.3, -3.2, "better"),
        ("larger", -3.3, -3.4, "worse"),
        ("smaller", 0.3, 0.2, "better"),
        ("smaller", 0.3, 0.4, "worse"),
        ("equal", 0.3, 0.4, "differs"),
        ("smaller", 0.3, np.nan, "overflow"),
    ],
)
def test_verdicts(better, published, ours, verdict):
    assert Quantity("x", 0.01, better).verdict(published, ours) == verdict


def made_up(pieces: dict[str, Any], **more: Any) -> experiment.Experiment:
    return experiment.Experiment(
        "ar-table3", "augment and reduce", "Table 3", "t", "s", lambda quick: pieces, **more
    )


def test_a_run_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "FOLDER", tmp_path)
    calls = []

    def piece(name: str, fails: bool = False):
        def rows():
            calls.append(name)
            if fails:
                raise KeyboardInterrupt
            return [{"data": name, "method": "exact", "log-likelihood": np.float64(-3.19)}]

        return rows

    with pytest.raises(KeyboardInterrupt):
        made_up({"bibtex": piece("bibtex"), "mnist": piece("mnist", fails=True)}).run(True)
    whole = made_up({"bibtex": piece("bibtex"), "mnist": piece("mnist")})
    rows = whole.run(True)
    assert calls == ["bibtex", "mnist", "mnist"]
    assert [row["data"] for row in rows] == ["bibtex", "mnist"]
    assert whole.run(True) == rows
    assert calls == ["bibtex", "mnist", "mnist"]
    whole.run(True, again=True)
    assert calls[3:] == ["bibtex", "mnist"]
    assert whole.done(False) == {}  # a whole run takes nothing from a quick one
    lines = (tmp_path / "ar-table3-quick.jsonl").read_text().splitlines()
    assert [json.loads(line)["piece"] for line in lines] == ["bibtex", "mnist"]


def test_data_that_are_not_there_are_named(monkeypatch, capsys):
    monkeypatch.setenv("BIGCAT_DATA", "/nowhere")
    reproduce.reproduce(reproduce.EXPERIMENTS["ar-table3"], quick=True)
    assert "ar-table3: skipped, BIGCAT_DATA has no bibtex" in capsys.readouterr().out


# Recipes


def test_published_losses_of_biased_methods_are_of_a_softmax_of_probabilities():
    """They lie just above the least that such an evaluation can give (docs/results/papers.md)."""
    page = (ROOT / "docs" / "results" / "papers.md").read_text()
    classes = {"mnist": 10, "bibtex": 147, "delicious": 350}
    table = published("us-table3")
    relative, absolute = table.values("relative log-loss"), table.values("log-loss")
    for data, n_classes in classes.items():
        least = np.log(math.e + n_classes - 1) - 1
        implicit = absolute[data, "implicit"]
        losses = [relative[data, m] * implicit for m in ("one-vs-each", "nce", "importance")]
        assert least < min(losses) < max(losses) < 1.2 * least
        row = f"| {data.capitalize()} | {n_classes} | {least:.2f} | "
        row += f"{min(losses):.2f} to {max(losses):.2f} |"
        assert row.lower() in page.lower()
