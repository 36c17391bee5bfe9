"""Records as Markdown tables, one per problem."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from benchmarks.peers.campaign import Record
from benchmarks.peers.configuration import Campaign

NEAR = 1.01  # a log-likelihood of at most this many times the best one's size is near it
SUMS_TO_ONE = 1e-3
COLUMNS = (
    "contender",
    "model",
    "log-likelihood",
    "at floor",
    "row sums",
    "accuracy",
    "hit@5",
    "fit s",
    "CPU s",
    "s to near best",
    "proba s/1k",
    "peak MB",
    "settings (tried)",
)


def latest(records: Iterable[Record]) -> dict[str, dict[str, Record]]:
    """Return the last test record of each problem and contender, from records ordered by time."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        if record["stage"] == "test":
            found.setdefault(record["problem"], {})[record["contender"]] = record
    return found


def in_order(records: Iterable[Record]) -> list[Record]:
    """Sort records: finished ones first, by falling log-likelihood."""

    def key(record: Record) -> tuple[bool, float]:
        finished = record["status"] == "ok"
        return not finished, -record["log_likelihood"] if finished else 0.0

    return sorted(records, key=key)


def seconds_to_near_best(record: Record, best: float) -> float | None:
    """Seconds of training until the log-likelihood is near the best one of the problem."""
    for _, seconds, value in record["curve"]:
        if value >= NEAR * best:
            return seconds
    near = record["status"] == "ok" and record["log_likelihood"] >= NEAR * best
    return record["fit_seconds"] if near else None


def markdown(
    records: list[Record], campaign: Campaign, facts: dict[str, dict[str, Any]] | None = None
) -> str:
    """Return one table per problem, in the order of the configuration.

    Parameters
    ----------
    records : list
        The oldest first.
    campaign : Campaign
        Knows the order of problems, and who is skipped and why.
    facts : dict, optional
        Sizes of problems, to head the tables.
    """
    found = latest(records)
    parts = []
    for problem in [name for name in campaign.problems if name in found]:
        mine = found[problem]
        parts.append(f"### {problem}\n")
        if facts and problem in facts:
            parts.append(_heading(facts[problem]))
        parts.append(_table(in_order(mine.values())))
        parts.append(_notes(problem, mine, campaign))
    return "\n".join(part for part in parts if part)


def _heading(facts: dict[str, Any]) -> str:
    return (
        f"{facts['rows_train']:,} training rows, {facts['features']:,} features "
        f"({facts['nonzeros_a_row']:.1f} per row), {facts['classes']:,} classes; "
        f"{facts['rows_test']:,} test rows ({facts['rows_of_unseen_classes']:,} of unseen classes "
        f"dropped), log-likelihoods on {facts['common_rows']:,} of them. "
        f"Class frequencies alone: {facts['baseline']:.3f}.\n"
    )


def _table(records: list[Record]) -> str:
    values = [r["log_likelihood"] for r in records if r["status"] == "ok"]
    best = max(values) if values else math.nan
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(_cells(record, best)) + " |" for record in records]
    return "\n".join(lines) + "\n"


def _cells(record: Record, best: float) -> list[str]:
    settings = f"{_settings(record['settings'])} ({record['settings_tried']})"
    name = [record["contender"], record["kind"]]
    near = seconds_to_near_best(record, best)
    if record["status"] != "ok":
        middle = [f"**{record['status']}**"] + ["–"] * (len(COLUMNS) - 4)
        if near is not None:
            middle[COLUMNS.index("s to near best") - 2] = _seconds(near)
        return [*name, *middle, settings]
    if record["stopped_by_limit"]:
        settings += f", stopped by the limit after epoch {record['curve'][-1][0]}"
    return [
        *name,
        f"{record['log_likelihood']:.3f}",
        f"{record['rows_at_floor']}/{record['rows_scored']}",
        _row_sums(record),
        f"{record['accuracy']:.3f}",
        f"{record['hit_at_5']:.3f}",
        _seconds(record["fit_seconds"]),
        _seconds(record["fit_cpu_seconds"]),
        "–" if near is None else _seconds(near),
        f"{record['proba_seconds_per_1000']:.2f}",
        f"{record['peak_megabytes']:,.0f}",
        settings,
    ]


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _row_sums(record: Record) -> str:
    mean, low, high = (record[f"row_sum_{which}"] for which in ("mean", "min", "max"))
    if max(abs(low - 1), abs(high - 1)) < SUMS_TO_ONE:
        return "1"
    return f"**{mean:.2f}** [{low:.2g}, {high:.3g}]"


def _settings(settings: dict[str, Any]) -> str:
    parts = []
    for name, value in settings.items():
        if isinstance(value, dict):
            kept = {key: value[key] for key in value if key != "name"}
            parts.append(f"{name}={value.get('name', '')}({_settings(kept)})")
        else:
            parts.append(f"{name}={value}")
    return ", ".join(parts)


def _notes(problem: str, records: dict[str, Record], campaign: Campaign) -> str:
    notes = [
        f"- {name}: {record['status']}, {record['error'].splitlines()[-1]}"
        for name, record in records.items()
        if record["status"] != "ok"
    ]
    reasons: dict[str, list[str]] = {}
    for contender in campaign.contenders.values():
        if problem in contender.skip and contender.name not in records:
            reasons.setdefault(contender.skip[problem], []).append(contender.name)
    notes += [f"- not run ({reason}): {', '.join(names)}" for reason, names in reasons.items()]
    return "\n".join(notes) + "\n" if notes else ""
