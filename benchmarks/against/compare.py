"""Differences between two versions: of answers, bit by bit, and of seconds."""

from __future__ import annotations

import math
import statistics
from itertools import chain
from typing import Any

#: Numbers that are sums over parts of an epoch, which depend on the clock, may differ so much.
CLOSE = 1e-9

Rows = list[dict[str, Any]]


def differences(base: Rows, head: Rows) -> Rows:
    """Return one row per case: the number of compared digests, and the differences ("" if none)."""
    ours = {row["name"]: row for row in head}
    theirs = {row["name"]: row for row in base}
    return [
        {
            "case": name,
            "digests": len(theirs.get(name, {}).get("digests", ())),
            "seconds": ours.get(name, theirs.get(name, {})).get("seconds"),
            "different": "; ".join(_different(theirs.get(name), ours.get(name))),
        }
        for name in dict.fromkeys([*theirs, *ours])
    ]


def _different(base: dict[str, Any] | None, head: dict[str, Any] | None) -> list[str]:
    for side, row in (("base", base), ("head", head)):
        if row is None:
            return [f"{side} did not get there"]
        if "error" in row:
            return [f"{side} failed: {row['error'].strip()}"]
    assert base is not None
    assert head is not None
    names = dict.fromkeys([*base["digests"], *head["digests"]])
    found = [n for n in names if base["digests"].get(n) != head["digests"].get(n)]
    columns = dict.fromkeys([*base["close"], *head["close"]])
    return found + [
        f"history {c}" for c in columns if not close(base["close"].get(c), head["close"].get(c))
    ]


def close(base: list[float | None] | None, head: list[float | None] | None) -> bool:
    """Return True if two columns are equal up to the order of a sum."""
    if base is None or head is None or len(base) != len(head):
        return False
    return all(
        a == b or (a is not None and b is not None and math.isclose(a, b, rel_tol=CLOSE))
        for a, b in zip(base, head)
    )


def ratios(case: str, base: Rows, head: Rows) -> Rows:
    """Return one row per timed function, from pairs of dicts, one per process.

    `ratio` is the head's best seconds over the base's, `low` and `high` are the least and the
    largest ratio of a pair's best seconds, `cpu ratio` that of the best processor seconds.
    """
    rows = []
    for label in base[0]["seconds"]:
        wall = [[run["seconds"][label]["wall"] for run in runs] for runs in (base, head)]
        cpu = [[min(run["seconds"][label]["cpu"]) for run in runs] for runs in (base, head)]
        best = [[min(run) for run in runs] for runs in wall]
        pairs = [h / b for b, h in zip(*best)]
        rows.append(
            {
                "case": f"{case}: {label}",
                "base best": min(best[0]),
                "head best": min(best[1]),
                "base median": statistics.median(chain(*wall[0])),
                "head median": statistics.median(chain(*wall[1])),
                "ratio": min(best[1]) / min(best[0]),
                "low": min(pairs),
                "high": max(pairs),
                "cpu ratio": min(cpu[1]) / max(min(cpu[0]), 1e-9),
            }
        )
    return rows
