"""The pictures: what they show, and what happens without matplotlib."""

import sys
from typing import Any

import numpy as np
import pytest

from bigcat import LinearClassifier, metrics, plots
from bigcat.cli import main
from bigcat.estimators import History
from tests.test_metrics import make


def history(bounds, held_out):
    return [
        {"seconds": 2.0 * i, "bound": bound, "validation_log_likelihood": value}
        for i, (bound, value) in enumerate(zip(bounds, held_out), 1)
    ]


def lines_of(ax):
    return {line.get_label(): line for line in ax.get_lines()}


def test_history_shows_all_there_is(tmp_path):
    rows = history([-50.0, -8.0, -6.0, -5.5], [-7.0, -6.0, -5.5, -5.0])
    path = tmp_path / "curve.png"
    ax = plots.history(rows, baseline=-7.5, label="A task")
    plots.save(ax, path)
    lines = lines_of(ax)
    assert set(lines) == {"held-out log-likelihood", "bound, training rows", "class frequencies"}
    np.testing.assert_array_equal(lines["bound, training rows"].get_xdata(), [2, 4, 6, 8])
    np.testing.assert_array_equal(
        lines["held-out log-likelihood"].get_ydata(), [-7.0, -6.0, -5.5, -5.0]
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("seconds of training", "nats per row")
    assert -20 < ax.get_ylim()[0] < -8, "one early point squeezes the rest"
    assert path.read_bytes().startswith(b"\x89PNG")


def test_learning_curves_of_several_models_share_axes(tmp_path):
    rows = [
        {"seconds": s, "bound": -9 / s, "validation_log_likelihood": -8 / s} for s in (1.0, 2.0)
    ]
    trained = [{"seconds": s, "bound": -5 / s} for s in (0.5, 1.0)]
    ax = plots.learning_curves({"one": History(rows), "two": History(trained)}, baseline=-7.0)
    assert ax.get_ylabel() == "nats per row, training rows"
    assert [np.asarray(line.get_ydata())[0] for line in ax.lines] == [-9.0, -10.0, -7.0]
    assert [line.get_label() for line in ax.lines] == ["one", "two", "class frequencies"]
    ax = plots.learning_curves({"one": History(rows), "three": History(rows)})
    assert ax.get_ylabel() == "nats per row, validation rows"
    plots.save(ax, tmp_path / "curves.png")
    with pytest.raises(ValueError, match="models is empty"):
        plots.learning_curves({})


def test_history_of_a_model_file_has_passes_for_seconds():
    rows = history([-3.0, -2.0], [-2.5, -2.2])
    for row in rows:
        row["seconds"] = np.nan
    ax = plots.history(rows)
    assert ax.get_xlabel() == "passes over the rows"
    for curve in lines_of(ax).values():
        np.testing.assert_array_equal(curve.get_xdata(), [1.0, 2.0])


def test_reliability_draws_the_numbers_of_the_metrics(tmp_path):
    model, X, y = make()
    found = metrics.calibration(model, X, y)
    ax = plots.reliability(model, X, y)
    filled = found["count"] > 0
    drawn = np.asarray(ax.collections[0].get_offsets())[filled]
    np.testing.assert_allclose(drawn[:, 0], found["confidence"][filled])
    np.testing.assert_allclose(drawn[:, 1], found["accuracy"][filled])
    assert ax.get_title(loc="left") == f"expected calibration error {found['ece']:.3f}"
    assert "5 most probable" in plots.reliability(model, X, y, k=5).get_xlabel()


def test_hits_and_frequencies_are_those_of_the_metrics():
    model, X, y = make()
    curve = lines_of(plots.hit_at_k(model, X, y, max_k=10))["the observed class is among them"]
    assert curve.get_xdata()[-1] == 10
    np.testing.assert_allclose(curve.get_ydata()[-1], metrics.hit_at_k(model, X, y, k=10))
    counts = np.arange(30) + 1
    bars: Any = plots.by_frequency(model, X, y, counts).patches
    table = metrics.by_frequency(model, X, y, counts)
    np.testing.assert_allclose(
        [bar.get_height() for bar in bars[: len(table)]], [b["accuracy"] for b in table]
    )


def test_pictures_of_weights_can_go_on_axes_of_your_own():
    from matplotlib.figure import Figure

    rng = np.random.RandomState(0)
    X = rng.randn(200, 6)
    model = LinearClassifier("gumbel", "exact", l2=1.0).fit(X, X[:, :4].argmax(axis=1))
    left, right = Figure().subplots(1, 2)
    assert plots.coefficients(model, 2, top=3, ax=left) is left
    assert len(left.patches) == 3
    assert left.get_yticklabels()[0].get_text() == "x2", "the largest weight comes first"
    assert plots.class_map(model, ax=right) is right
    assert np.asarray(right.collections[0].get_offsets()).shape == (4, 2)


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "bigcat\[plot\]"'):
        plots.history(history([-3.0], [-2.0]))
    assert main(["demo", "--output", str(tmp_path / "demo")]) == 2
    assert 'pip install "bigcat[plot]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
