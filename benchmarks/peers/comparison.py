"""The defaults beside each contender, paired by row; seconds to the quality of the exact path."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.peers.adapters.scoring import FLOOR
from benchmarks.peers.campaign import Record
from benchmarks.peers.configuration import Campaign
from benchmarks.peers.report import NEAR, in_order, latest

OURS, EXACT = "bigcat defaults", "bigcat all classes"

Point = tuple[float, float]


def beside_defaults(records: list[Record], campaign: Campaign) -> str:
    """Return one row per contender: the gain of the defaults, and its paired standard error."""
    columns = [
        *("data", "contender", "log-likelihood", "defaults less it", "without floor"),
        *("defaults less it", "accuracy", "defaults less it", "hit@5", "CPU s", "s", "peak MB"),
    ]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    found = latest(records)
    for problem in [name for name in campaign.problems if OURS in found.get(name, {})]:
        mine = {name: r for name, r in found[problem].items() if r["status"] == "ok"}
        ours = mine.pop(OURS)
        for record in [ours, *in_order(mine.values())]:
            cells = _beside(record, ours)
            lines.append("| " + " | ".join([problem if record is ours else "", *cells]) + " |")
    return "\n".join(lines)


def _beside(record: Record, ours: Record) -> list[str]:
    more = ["", "", ""]
    if record is not ours:
        floor = math.log(FLOOR)
        own, its = (np.array(r["log_p_of_rows"]) for r in (ours, record))
        more = [
            paired(np.maximum(own, floor) - np.maximum(its, floor)),
            paired(own - its),
            paired(_right(ours) - _right(record)),
        ]
    return [
        record["contender"],
        f"{record['log_likelihood']:.3f}",
        more[0],
        f"{record['log_likelihood_without_floor']:.3f}",
        more[1],
        f"{record['accuracy']:.3f}",
        more[2],
        f"{record['hit_at_5']:.3f}",
        f"{record['fit_cpu_seconds']:.1f}",
        f"{record['fit_seconds']:.1f}",
        f"{record['peak_megabytes']:,.0f}",
    ]


def _right(record: Record) -> np.ndarray:
    """1.0 for each test row whose class came first."""
    right = np.zeros(record["rows_asked"])
    right[record["rows_right"]] = 1.0
    return right


def paired(differences: np.ndarray) -> str:
    """Return the mean of the differences and its standard error."""
    error = differences.std(ddof=1) / math.sqrt(len(differences))
    return f"{differences.mean():+.3f} +- {error:.3f}"


def time_to_quality(records: list[Record], campaign: Campaign) -> str:
    """Return wall and CPU seconds until the defaults and the exact path are near the path's best.

    Near is as in `report`; between the ends of two epochs a straight line is drawn.
    """
    columns = [
        *("data", "defaults", "CPU s", "s", "peak MB", "all classes, best", "CPU s", "s"),
        *("peak MB", "to 1 %, CPU s: all classes", "defaults", "ratio"),
        *("to 1 %, s: all classes", "defaults", "ratio"),
    ]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    found = latest(records)
    for problem in campaign.problems:
        mine = found.get(problem, {})
        if not all(name in mine and mine[name]["status"] == "ok" for name in (OURS, EXACT)):
            continue
        ours, exact = mine[OURS], mine[EXACT]
        best = max(value for _, _, value in exact["curve"])
        cells = [problem, f"{ours['log_likelihood_without_floor']:.3f}", *_costs(ours)]
        cells += [f"{best:.3f}", *_costs(exact)]
        for seconds in (cpu_curve, wall_curve):
            its, own = (seconds_to(seconds(r), NEAR * best) for r in (exact, ours))
            assert its is not None  # its own best is on its curve
            cells += [f"{its:.1f}"]
            cells += ["–", "–"] if own is None else [f"{own:.1f}", f"{its / own:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _costs(record: Record) -> list[str]:
    seconds = [f"{record[name]:.1f}" for name in ("fit_cpu_seconds", "fit_seconds")]
    return [*seconds, f"{record['peak_megabytes']:,.0f}"]


def cpu_curve(record: Record) -> list[Point]:
    """Processor seconds and log-likelihoods at the ends of epochs, and of the fit."""
    values = [value for _, _, value in record["curve"]]
    end = (record["fit_cpu_seconds"], record["log_likelihood_without_floor"])
    return [*zip(record["cpu_seconds_of_epochs"], values), end]


def wall_curve(record: Record) -> list[Point]:
    """The same in seconds."""
    end = (record["fit_seconds"], record["log_likelihood_without_floor"])
    return [*((seconds, value) for _, seconds, value in record["curve"]), end]


def seconds_to(curve: list[Point], mark: float) -> float | None:
    """Return the seconds until a curve reaches `mark`; None if never."""
    before: Point | None = None
    for seconds, value in curve:
        if value >= mark:
            if before is None:
                return seconds
            share = (mark - before[1]) / (value - before[1])
            return before[0] + share * (seconds - before[0])
        before = (seconds, value)
    return None
