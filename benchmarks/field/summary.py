"""Tables of stored results: a half, its families, and two runs side by side."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np

from benchmarks._report import show
from benchmarks.field.measure import Record

#: A regret counts as at most so much in a mean, which else would be that of one case.
MOST = 1.0
NEAR = (0.02, 0.06, 0.10)
FAR = 0.10
#: A change of regret between two runs that is listed.
CHANGED = 0.05


def summary(records: list[Record]) -> dict[str, Any]:
    """The numbers of a run."""
    regrets = np.array([r["regret"] for r in records])
    ratios = [ratio for ratio in map(seconds_ratio, records) if ratio is not None]
    fitted = [r for r in records if r["default"]["cpu"] is not None]
    return {
        "cases": len(records),
        "mean regret": float(np.clip(regrets, -MOST, MOST).mean()),
        "mean regret, none below 0": float(np.clip(regrets, 0.0, MOST).mean()),
        "median regret": float(np.median(regrets)),
        "95th percentile of regret": float(np.quantile(regrets, 0.95)),
        **{f"share with regret up to {x:.0%}": float((regrets <= x).mean()) for x in NEAR},
        f"cases above {FAR:.0%}": int((regrets > FAR).sum()),
        "cases below class frequencies": sum(map(below_frequencies, records)),
        "cases that raised": sum("error" in r["default"] for r in records),
        "mean ratio of seconds": statistics.fmean(ratios) if ratios else None,
        "median ratio of seconds": statistics.median(ratios) if ratios else None,
        "processor seconds of the default": sum(r["default"]["cpu"] for r in fitted),
        "processor seconds of the best": sum(r["best"]["cpu"] for r in fitted),
        "seconds of the run": sum(r["seconds"] for r in records),
    }


def seconds_ratio(record: Record) -> float | None:
    """Return the processor seconds of the default over those of the best setting alone.

    None if the best is class frequencies, or the default raised. Wall seconds depend on other load.
    """
    ours, best = record["default"]["cpu"], record["best"]["cpu"]
    return None if ours is None or record["setting"] == "frequencies" else ours / best


def below_frequencies(record: Record) -> bool:
    """Return True if the default predicts worse than class frequencies by a standard error."""
    over, error = record["over_frequencies"], record["over_frequencies_error"]
    return over is not None and over < -error


def by_family(records: list[Record]) -> list[dict[str, Any]]:
    """A row per family, in the order of the run."""
    rows = []
    for family in dict.fromkeys(r["family"] for r in records):
        mine = [r for r in records if r["family"] == family]
        regrets = [r["regret"] for r in mine]
        ratios = [ratio for ratio in map(seconds_ratio, mine) if ratio is not None]
        rows.append(
            {
                "family": family,
                "cases": len(mine),
                "mean regret": float(np.clip(regrets, -MOST, MOST).mean()),
                "worst regret": max(regrets),
                f"above {FAR:.0%}": sum(regret > FAR for regret in regrets),
                "below frequencies": sum(map(below_frequencies, mine)),
                "median ratio of seconds": statistics.median(ratios) if ratios else None,
            }
        )
    return rows


def far_cases(records: list[Record]) -> list[dict[str, Any]]:
    """Cases of large regret, the worst first."""
    far = [r for r in records if r["regret"] > FAR]
    return [
        {
            "case": r["case"],
            "regret": r["regret"],
            "default": r["default"]["log_likelihood"],
            "best": r["best"]["log_likelihood"],
            "frequencies": r["frequencies"],
            "difference": r["difference"],
            "its error": r["difference_error"],
            "best setting": r["setting"],
            "default is": r["default"].get("error") or r["default"].get("reason", ""),
        }
        for r in sorted(far, key=lambda r: -r["regret"])
    ]


def cases_below(records: list[Record]) -> list[dict[str, Any]]:
    """Cases where class frequencies predict better, the worst first."""
    below = [r for r in records if below_frequencies(r)]
    return [
        {
            "case": r["case"],
            "default less frequencies": r["over_frequencies"],
            "its error": r["over_frequencies_error"],
            "best less frequencies": r["gain"],
        }
        for r in sorted(below, key=lambda r: r["over_frequencies"])
    ]


def beside(before: list[Record], after: list[Record]) -> tuple[list[dict], list[dict]]:
    """Compare two runs on their common cases: their figures, and the cases that differ most."""
    theirs = {r["case"]: r for r in before}
    both = [(theirs[r["case"]], r) for r in after if r["case"] in theirs]
    if not both:
        raise ValueError("the two runs have no case in common")
    first, second = (summary(list(side)) for side in zip(*both))
    numbers = [{"": k, "before": first[k], "after": second[k]} for k in first]
    changed = [
        {
            "case": a["case"],
            "regret before": b["regret"],
            "regret after": a["regret"],
            "seconds before": b["default"]["cpu"],
            "seconds after": a["default"]["cpu"],
        }
        for b, a in both
        if abs(a["regret"] - b["regret"]) > CHANGED
    ]
    return numbers, sorted(changed, key=lambda row: row["regret before"] - row["regret after"])


def print_tables(records: list[Record], before: list[Record] | None, as_json: bool) -> None:
    """Print all tables; with `before`, the other run beside this one."""
    tables = {
        "Summary": [{"": name, "value": value} for name, value in summary(records).items()],
        "By family": by_family(records),
        f"Regret above {FAR:.0%}": far_cases(records),
        "Below class frequencies by more than a standard error": cases_below(records),
    }
    if before is not None:
        numbers, changed = beside(before, records)
        tables["Beside the other run"] = numbers
        tables[f"Regret changed by more than {CHANGED:.0%}"] = changed
    if as_json:
        print(json.dumps(tables, indent=1))
        return
    for title, rows in tables.items():
        print(f"\n### {title}\n")
        if rows:
            show(rows)
        else:
            print("None.")
