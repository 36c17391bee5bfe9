"""Estimates from sampled alternatives, beside those from all alternatives.

`sampled` ends near the maximum of the full likelihood: its distance in standard errors.
`mcfadden` has standard errors of its own: how often its intervals hold the true coefficients, over
simulated data sets, with alternatives drawn uniformly or in proportion to one of their columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks._report import save, show
from benchmarks.choice import COEF, simulate, write_page
from benchmarks.choice.bigcat_adapter import fit_table

#: Cases and alternatives of a data set.
SAMPLED, MCFADDEN = ((2_000, 1_000), (2_000, 10_000)), (1_000, 1_000)


def distances(n_sets: int) -> list[dict[str, Any]]:
    """Return distances of sampled from exact estimates, in standard errors."""
    rows = []
    for n_cases, n_alternatives in SAMPLED:
        gaps, ratios = [], []
        for seed in range(n_sets):
            data = simulate(n_cases, n_alternatives, seed)
            exact, sampled = fit_table(data, "exact"), fit_table(data, "sampled")
            gaps.append((sampled.coef_ - exact.coef_) / exact.std_errors_)
            ratios.append(sampled.std_errors_ / exact.std_errors_)
        rows.append(
            {
                "cases": n_cases,
                "alternatives": n_alternatives,
                "data sets": n_sets,
                "distance, root mean square": float(np.sqrt(np.mean(np.square(gaps)))),
                "largest": float(np.abs(gaps).max()),
                "share above 0.1": float(np.mean(np.abs(gaps) > 0.1)),
                "ratio of standard errors": float(np.mean(ratios)),
            }
        )
    return rows


def coverage(n_sets: int) -> list[dict[str, Any]]:
    """Return how often intervals hold the true coefficients, with standard errors over sets."""
    n_cases, n_alternatives = MCFADDEN
    options: dict[str, dict[str, Any]] = {
        "all alternatives": {},
        "20 drawn uniformly": {"estimation": "mcfadden", "n_sampled": 20},
        "20 drawn by a column": {"estimation": "mcfadden", "n_sampled": 20, "sampling": "drawn"},
    }
    away: dict[str, list[np.ndarray]] = {name: [] for name in options}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in options}
    for seed in range(n_sets):
        data = simulate(n_cases, n_alternatives, 1000 + seed)
        data["drawn"] = np.exp(sum(COEF[k] * data[f"a{k}"] for k in range(3)))
        for name, chosen in options.items():
            model = fit_table(data, random_state=seed, **chosen)
            away[name].append(np.abs(model.coef_ - COEF) / model.std_errors_)
            errors[name].append(model.std_errors_)
    rows = []
    for name in options:
        row: dict[str, Any] = {"alternatives": name, "data sets": n_sets}
        for level in (0.9, 0.95):
            held = np.mean(np.stack(away[name]) < norm.ppf(0.5 + 0.5 * level), axis=1)
            row[f"{level:.0%} intervals hold"] = float(held.mean())
            row[f"+- ({level:.0%})"] = float(held.std(ddof=1) / np.sqrt(n_sets))
        ratio = np.stack(errors[name]) / np.stack(errors["all alternatives"])
        row["standard errors, relative"] = float(ratio.mean())
        rows.append(row)
    return rows


def sampling(n_sets: int, as_json: bool, page: bool) -> None:
    """Show both tables."""
    for name, rows in (
        ("choice-distances", distances(max(1, n_sets // 10))),
        ("choice-coverage", coverage(n_sets)),
    ):
        save(name, rows)
        if page:
            write_page(name, rows)
        show(rows, as_json=as_json)
        print()
