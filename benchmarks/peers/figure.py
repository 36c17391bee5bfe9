"""Held-out log-likelihood against seconds of training, one panel per problem."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from benchmarks.peers.campaign import Record
from benchmarks.peers.configuration import Campaign
from benchmarks.peers.report import in_order, latest


def draw(
    records: list[Record], campaign: Campaign, path: Path, facts: dict[str, dict[str, Any]]
) -> None:
    """Held-out log-likelihood against seconds of training, one panel per problem.

    Curves where there are epochs, else a point where the fit ended; ours are drawn thick.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = latest(records)
    names = [name for name in campaign.problems if name in found]
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(4.2 * columns + 2.2, max(3.4 * lines, 5.5)),
        squeeze=False,
        layout="constrained",
    )
    style = _styles(campaign)
    for axis, name in zip(axes.flat, names):
        values = []
        for record in in_order(found[name].values()):
            seconds, value = _points(record)
            if seconds:
                values.append(value[-1])
                axis.plot(seconds, value, label=record["contender"], **style[record["contender"]])
        axis.set_xscale("log")
        axis.set_title(name)
        if values:
            best, floor = max(values), facts.get(name, {}).get("baseline", min(values))
            axis.set_ylim(min(floor, best), best + 0.05 * max(best - floor, 0.1))
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.supxlabel("seconds of training")
    figure.supylabel("held-out log-likelihood, nats per row")
    shown: dict[str, Any] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels()):
            shown.setdefault(label, handle)
    order = [label for label in campaign.contenders if label in shown]
    handles = [shown[label] for label in order]
    figure.legend(handles, order, loc="outside right upper", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _points(record: Record) -> tuple[list[float], list[float]]:
    if record["curve"]:
        return [p[1] for p in record["curve"]], [p[2] for p in record["curve"]]
    if record["status"] == "ok":
        return [record["fit_seconds"]], [record["log_likelihood"]]
    return [], []


def _styles(campaign: Campaign) -> dict[str, dict[str, Any]]:
    """Return line styles: ours thick; the marks of others show their model."""
    from matplotlib import colormaps

    marks = {"full-rank": "s", "low-rank": "v", "tree": "^"}
    palettes: Any = colormaps  # lists of colours, which their stub does not know
    strong, weak = (itertools.cycle(palettes[name].colors) for name in ("tab10", "tab20b"))
    styles = {}
    for contender in campaign.contenders.values():
        ours = contender.environment is None
        styles[contender.name] = {
            "color": next(strong if ours else weak),
            "linewidth": 2.4 if ours else 1.2,
            "marker": "o" if ours else marks[contender.kind],
            "markersize": 3 if ours else 5,
            "zorder": 3 if ours else 2,
        }
    return styles
