"""The pictures: what they show, and what happens without matplotlib."""

import sys

import numpy as np
import pytest

from bigcat import plots
from bigcat.cli import main


def history(bounds, held_out):
    return [
        {"seconds": 2.0 * i, "bound": bound, "validation_log_likelihood": value}
        for i, (bound, value) in enumerate(zip(bounds, held_out), 1)
    ]


def test_learning_curve_shows_all_there_is(tmp_path):
    rows = history([-50.0, -8.0, -6.0, -5.5], [-7.0, -6.0, -5.5, -5.0])
    path = tmp_path / "curve.png"
    figure = plots.learning_curve(rows, path, baseline=-7.5, title="A task")
    (axes,) = figure.axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"held-out log-likelihood", "bound, training rows", "class frequencies"}
    np.testing.assert_array_equal(lines["bound, training rows"].get_xdata(), [2, 4, 6, 8])
    np.testing.assert_array_equal(
        lines["held-out log-likelihood"].get_ydata(), [-7.0, -6.0, -5.5, -5.0]
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("seconds of training", "nats a row")
    assert -20 < axes.get_ylim()[0] < -8, "one early point squeezes the rest"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_learning_curve_without_held_out_rows():
    figure = plots.learning_curve(history([-3.0], [np.nan]))
    assert [line.get_label() for line in figure.axes[0].get_lines()] == ["bound, training rows"]


def test_learning_curve_of_an_estimator_that_is_no_bound():
    """Its objective is on another scale: the log-likelihood of training rows instead."""
    rows = history([np.nan, np.nan], [-5.0, -4.0])
    for row, value in zip(rows, (-4.5, -3.5)):
        row.update(objective=-90.0, log_likelihood=value)
    (axes,) = plots.learning_curve(rows).axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"held-out log-likelihood", "log-likelihood, training rows"}
    curve = lines["log-likelihood, training rows"]
    np.testing.assert_array_equal(curve.get_ydata(), [-4.5, -3.5])
    assert axes.get_ylim()[0] > -10.0


def test_calibration_curve_leaves_out_empty_bins(tmp_path):
    calibration = {
        "confidence": np.array([0.2, np.nan, 0.9]),
        "accuracy": np.array([0.1, np.nan, 0.8]),
        "count": np.array([30, 0, 10]),
        "ece": 0.1,
    }
    figure = plots.calibration_curve(calibration, tmp_path / "calibration.svg")
    assert figure.axes[0].get_title(loc="left") == "expected calibration error 0.100"
    assert (tmp_path / "calibration.svg").stat().st_size > 0


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "bigcat\[plot\]"'):
        plots.learning_curve(history([-3.0], [-2.0]))
    assert main(["demo", "--output", str(tmp_path / "demo")]) == 2
    assert 'pip install "bigcat[plot]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
