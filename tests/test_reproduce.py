"""`python -m benchmarks reproduce`: what it lists, how it compares, and that it goes on."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bigcat
from benchmarks import reproduce
from benchmarks.__main__ import make_parser
from benchmarks.published import Quantity, known, published
from benchmarks.reproduce import categorical_from_binary as cfb
from benchmarks.reproduce import experiment, one_vs_each, page, unbiased_softmax
from bigcat import LinearClassifier
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, SGD

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
BOUNDS = {method["name"]: method["bound"] for method in bigcat.methods()}


def name(part: Any) -> str:
    return part if isinstance(part, str) else part.name


def bound_of(method: Any) -> str:
    """The name of what a method maximises; "auto" has none."""
    return BOUNDS[method] if isinstance(method, str) else getattr(method, "bound", method).name


def parts(model: Any) -> tuple[str, str, str, str]:
    """Noise, bound, sampler and solver."""
    p = model.get_params()
    return name(p["noise"]), bound_of(p["method"]), name(p["sampler"]), name(p["solver"])


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def check_nothing_is_left_open(model: LinearClassifier) -> None:
    """No parameter is "auto" that the fit would read, and the parts go together."""
    p = model.get_params()
    assert [key for key, value in p.items() if is_auto(value)] == []
    assert name(p["sampler"]) == "everything" or not isinstance(p["sampler"], str)
    assert not isinstance(p["solver"], str)
    assert p["n_threads"] is not None
    model.memory_forecast(1_000, 10, 20)  # raises for parts that do not


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


def test_the_table_has_published_ours_difference_and_verdict(tmp_path):
    one = made_up({}, claims=lambda rows: [experiment.Claim("it is so", "1 of 2", False)])
    rows = [{"data": "bibtex", "method": "exact", "log-likelihood": -3.0, "accuracy": 0.2}]
    lines = one.compared(rows)
    assert [line["verdict"] for line in lines] == ["better", "worse", "does not hold"]
    assert lines[0]["published"] == -3.188
    assert lines[0]["difference"] == pytest.approx(0.188)
    text = experiment.as_markdown(one, lines, quick=True)
    assert "| bibtex, exact, log-likelihood | -3.1880 | -3.0000 | 0.1880 | better |" in text
    assert "quick" in text.splitlines()[0]


def test_the_page_shows_whole_runs_before_quick_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "FOLDER", tmp_path)
    monkeypatch.setattr(page, "PAGE", tmp_path / "all.md")
    found = {"data": "bibtex", "method": "exact", "accuracy": 0.2}

    def of(value: float) -> experiment.Experiment:
        return made_up({"bibtex": lambda: [found | {"log-likelihood": value}]})

    page.write([of(-3.0)])
    assert "Nothing was run yet" in page.PAGE.read_text()
    of(-3.0).run(quick=True)
    of(-3.0).file(True, "png").write_bytes(b"a picture")
    page.write([of(-3.0)])
    text = page.PAGE.read_text()
    assert "| quick | 1 better, 1 worse | " in text
    assert "bibtex, exact, log-likelihood | -3.1880 | -3.0000" in text
    assert "(ar-table3-quick.png)" in text
    of(-3.19).run(quick=False)
    page.write([of(-3.19)])
    text = page.PAGE.read_text()
    assert "| whole | 1 as published, 1 worse | " in text
    assert "png" not in text  # the picture was the quick run's


def test_data_that_are_not_there_are_named(monkeypatch, capsys):
    monkeypatch.setenv("BIGCAT_DATA", "/nowhere")
    reproduce.reproduce(reproduce.EXPERIMENTS["ar-table3"], quick=True)
    assert "ar-table3: skipped, BIGCAT_DATA has no bibtex" in capsys.readouterr().out


# Recipes


@pytest.mark.parametrize("method", one_vs_each.METHODS)
def test_the_plane_of_one_vs_each(method):
    model = one_vs_each.plane_classifier(method)
    assert parts(model) == ("gumbel", method, "everything", "lbfgs")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert p["solver"] == LBFGS(tol=1e-6, init="zero")
    assert (p["fit_intercept"], p["l2"]) == (False, 1e-3)


def test_the_stochastic_distribution_of_one_vs_each():
    p = one_vs_each.stochastic_distribution(200_000, 10**6, 10_000).get_params()
    assert p["method"] == "one-vs-each"
    rate = 0.5 * 10 / 9_999
    assert p["solver"] == SGD(learning_rate=rate, decay=0.9, batch_size=100, init="zero")
    assert (p["sampler"], p["max_epochs"], p["early_stopping"]) == (Uniform(10), 20, False)


def test_the_large_run_of_one_vs_each():
    model = one_vs_each.large_classifier(n_classes=10_000)
    assert parts(model) == ("gumbel", "one-vs-each", "uniform", "sgd")
    check_nothing_is_left_open(model)
    p = model.get_params()
    rate = 0.3 * 5 / 9_999
    assert p["solver"] == SGD(learning_rate=rate, decay=0.5, batch_size=1, init="zero")
    assert (p["sampler"], p["max_epochs"], p["rank"]) == (Uniform(5), 5, None)


def test_maximum_likelihood_beside_a_posterior():
    model = cfb.softmax_mle()
    assert parts(model) == ("gumbel", "exact", "everything", "lbfgs")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert p["solver"] == LBFGS(tol=1e-6, init="zero")
    assert (p["l2"], p["rank"]) == (1e-8, None)


def test_rates_and_classes_per_step_of_unbiased_softmax():
    assert unbiased_softmax.GRID == [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
    assert unbiased_softmax.N_CLASSES == 5


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


@pytest.mark.parametrize("kind", ["CBC", "CBM", "IB"])
def test_the_optimum_of_figure_b1_is_one(kind):
    """No small step in any direction is better; and two classes of IB are two probits."""
    from scipy.special import log_ndtr

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
    weights = cfb.probit_mle(X, y, 3, kind)
    with_ones = np.column_stack([X, np.ones(300)])

    def value(w):
        scores = with_ones @ w.T
        if kind == "IB":
            return log_ndtr((2 * np.eye(3)[y] - 1) * scores).sum()
        odds = log_ndtr(scores) - (log_ndtr(-scores) if kind == "CBC" else 0.0)
        return (odds[np.arange(300), y] - np.logaddexp.reduce(odds, axis=1)).sum()

    best = value(weights)
    for _ in range(20):
        assert value(weights + 0.05 * rng.normal(size=weights.shape)) < best
