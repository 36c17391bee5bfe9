"""What the measurement commands compute themselves: data, curves, exponents, summaries."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks import (
    _report,
    cost_against_classes,
    fasttext_speed,
    first_fit,
    million_classes,
    noises,
    threads,
)
from benchmarks._curves import Curve, exponent, seconds_to_reach, watched_fit
from benchmarks._report import show
from benchmarks.cost_against_classes import GROUPS, SYMBOLS, coded_classes, true_log_probabilities
from benchmarks.peers import configuration
from bigcat import LinearClassifier

# Curves


def test_a_target_is_reached_between_two_points():
    seconds, values = [1.0, 3.0, 4.0], [-5.0, -3.0, -3.5]
    assert seconds_to_reach(-4.0, seconds, values) == pytest.approx(2.0)
    assert seconds_to_reach(-3.0, seconds, values) == 3.0
    assert seconds_to_reach(-6.0, seconds, values) == 1.0
    assert seconds_to_reach(-2.0, seconds, values) is None


def test_the_first_crossing_counts():
    assert seconds_to_reach(0.5, [1, 2, 3, 4], [0.0, 1.0, 0.0, 1.0]) == pytest.approx(1.5)


def test_exponents_of_powers():
    x = [10.0, 100.0, 1000.0]
    assert exponent(x, [3 * v**0.7 for v in x]) == pytest.approx(0.7)
    assert exponent(x, [2.0, None, 200.0]) == pytest.approx(1.0)
    assert exponent([10.0, 10.0], [1.0, 2.0]) is None
    assert exponent(x, [None, 1.0, None]) is None


def test_the_fastest_epoch_does_not_count_what_came_before():
    curve = Curve(None, np.array([3.0, 5.0, 6.5]), np.zeros(3), before=2.0)
    assert curve.epoch_seconds == pytest.approx(1.0)


@pytest.mark.slow
def test_a_watched_fit_stops_at_its_target():
    data = coded_classes(20, 2_500, 50)
    options: dict[str, Any] = {"method": "augment-reduce", "max_epochs": 5, "random_state": 0}
    whole = watched_fit(LinearClassifier(**options), data.X, data.y, data.held_out)
    assert len(whole.seconds) == 5
    assert (np.diff(whole.seconds) > 0).all()
    assert 0.0 <= whole.before <= whole.seconds[0]
    assert data.quality(whole.values[-1]) > 0.5
    target = whole.values[1]
    cut = watched_fit(LinearClassifier(**options), data.X, data.y, data.held_out, target)
    assert len(cut.seconds) == 2


# Coded classes


def test_rows_show_a_symbol_a_group():
    data = coded_classes(30, 90, 10)
    assert data.X.shape == (90, GROUPS * SYMBOLS)
    assert data.X.dtype == np.float32
    groups = data.X.indices.reshape(90, GROUPS) // SYMBOLS
    assert (groups == np.arange(GROUPS)).all()
    assert np.allclose(data.X.multiply(data.X).sum(axis=1), 1.0)
    assert len(np.unique(data.y)) == 30
    assert data.held_out[0].shape[0] == len(data.held_out[1]) == 10


def test_every_class_needs_a_row():
    with pytest.raises(ValueError, match="need more than 5 rows"):
        coded_classes(10, 5)


def test_true_probabilities_are_those_of_bayes():
    rng = np.random.default_rng(0)
    codes = rng.integers(SYMBOLS, size=(7, GROUPS), dtype=np.uint8)
    prior = np.log(rng.dirichlet(np.ones(7)))
    symbols = rng.integers(SYMBOLS, size=(4, GROUPS), dtype=np.uint8)
    symbols[:3] = codes[:3]
    replaced = cost_against_classes.REPLACED
    expected = np.empty((4, 7))
    for i, row in enumerate(symbols):
        for k, code in enumerate(codes):
            chance = replaced / SYMBOLS + (1 - replaced) * (row == code)
            expected[i, k] = np.exp(prior[k]) * np.prod(chance)
    expected /= expected.sum(axis=1, keepdims=True)
    for k in range(7):
        ours = true_log_probabilities(codes, prior, symbols, np.full(4, k))
        assert np.allclose(np.exp(ours), expected[:, k])


def test_the_possible_gain_is_known_and_grows_with_the_classes():
    few, many = coded_classes(100, 1_000), coded_classes(5_000, 50_000)
    for data in (few, many):
        assert data.baseline < data.best < 0.0
        assert data.quality(data.baseline) == 0.0
        assert data.quality(data.best) == 1.0
        assert data.quality(data.log_likelihood(0.8)) == pytest.approx(0.8)
    assert many.best - many.baseline > few.best - few.baseline


def test_costs_in_words():
    rows: list[dict[str, Any]] = [
        {"method": "defaults", "classes": k, "rows": 10 * k, "microseconds per row": 2.0}
        | {"seconds to quality": 1e-3 * k}
        for k in (1_000, 10_000)
    ]
    (line,) = cost_against_classes.in_words(rows, 0.8)
    assert "80% of the possible gain grow like K^1.00 where rows grow like K^1.00" in line
    assert "a row 1.0 times" in line
    rows[1]["seconds to quality"] = None
    (line,) = cost_against_classes.in_words(rows, 0.8)
    assert line.endswith("not reached at K = 10,000.")


# Low rank


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Results and figures go to a folder of the test."""
    monkeypatch.setattr(_report, "RESULTS", tmp_path)
    monkeypatch.setattr(million_classes, "FIGURES", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_an_epoch_is_held_against_its_forecasts(elsewhere, capsys):
    million_classes.million_classes(2_500, 10_000, 8, as_json=True)
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["classes"], row["rows"], row["rank"]) == (2_500, 10_000, 8)
    assert row["of its forecast"] == pytest.approx(row["epoch, s"] / row["epoch forecast, s"])
    assert 0.0 < row["epoch, s"] < row["whole fit, s"]
    assert row["log-likelihood"] > row["of class frequencies"]
    assert row["memory forecast, GiB"] > 2 * 4 * 8 * 2_500 / 2**30
    assert _report.saved("million_classes") == [row]


@pytest.mark.slow
def test_the_cost_of_a_row_of_low_rank(elsewhere, capsys):
    million_classes.low_rank_step_cost([2_000, 3_000], rank=8, n_rows=2_000)
    table = capsys.readouterr().out
    assert "Seconds of a row grow like K^" in table
    first, second = _report.saved("low_rank_step_cost")
    assert first["of K = 2,000's"] == 1.0
    assert second["microseconds per row"] > 0.0
    assert (elsewhere / "low_rank_step_cost.png").exists()


def test_one_size_has_no_exponent():
    rows = [{"classes": 10, "microseconds per row": 1.0}]
    assert "nothing to compare" in million_classes.in_words(rows)
    rows.append({"classes": 100, "microseconds per row": 10.0})
    assert "K^1.00: ten times the classes take 10.00 times" in million_classes.in_words(rows)


def test_seconds_to_the_log_likelihood_of_fasttext():
    peer = {"settings": {"epoch": 5}, "train_seconds": 2.0, "fit_seconds": 3.0}
    peer["fit_cpu_seconds"] = 3.0
    records = {
        "fastText hs": peer | {"log_likelihood": -6.0},
        "fastText ns": peer | {"log_likelihood": -1.0},
        fasttext_speed.OURS: {
            "curve": [[1, 1.0, -7.0], [2, 2.0, -5.0], [3, 3.0, -4.0]],
            "fit_seconds": 3.5,
            "fit_cpu_seconds": 3.5,
            "log_likelihood": -4.0,
        },
    }
    hs, ns, ours = fasttext_speed.table(records, n_rows=100)
    assert hs["rows per second"] == 5 * 100 / 2.0
    assert (hs["s to fastText hs's"], hs["s to fastText ns's"]) == (3.0, None)
    assert ns["s to fastText ns's"] == 3.0
    assert (ours["epochs"], ours["rows per second"]) == (3, 100.0)
    assert (ours["s to fastText hs's"], ours["s to fastText ns's"]) == (2.0, None)


def test_fasttext_has_its_best_settings_and_our_dimension():
    campaign = configuration.read()
    found = fasttext_speed.contenders(campaign, "beauty", 32, 1)
    asked = {contender.name: settings for contender, settings in found}
    assert list(asked) == [*fasttext_speed.LOSSES, fasttext_speed.OURS]
    assert asked["fastText hs"]["dim"] == asked[fasttext_speed.OURS]["rank"] == 32


# The others


def test_ratios_are_to_the_softmax():
    rows = noises.with_ratios([{"seconds to near": s} for s in (2.0, 5.0, None)])
    assert [row["of softmax's"] for row in rows] == [1.0, 2.5, None]
    assert noises.near(-2.0, 0.02) == pytest.approx(-2.04)


def test_the_median_is_held_against_the_limit():
    runs = [
        {"seconds": {"import": 1.0, "fit": fit, "predict": 0.0}, "processor seconds": fit}
        for fit in (30.0, 9.0, 10.0)
    ]
    row = first_fit.summary("cold", runs)
    assert (row["best"], row["median"], row["within"]) == (10.0, 11.0, True)
    assert row["fit"] == 9.0
    assert not first_fit.summary("warm", runs)["within"]


def test_all_samplers_are_run_on_threads():
    names = [case.name for case in threads.cases()]
    assert names[:2] == ["exact, K = 1,600", "exact, K = 19,000"]
    assert "uniform sampler" in names
    assert not any(name.startswith("everything") for name in names)


def test_rows_are_shown_as_a_table_or_as_json(capsys):
    show([{"a": None, "b": 0.5}])
    assert capsys.readouterr().out.splitlines()[-1] == "| – | 0.5000 |"
    show([{"a": None}], as_json=True)
    assert capsys.readouterr().out == '[\n {\n  "a": null\n }\n]\n'
