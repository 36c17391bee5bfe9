"""The defaults beside their members: low rank, full rank, and two kinds of added scores.

On every problem of the peers' campaign: one fit of low rank and one of full rank, the mean of two
fits of low rank, and low and full rank with weights that one half of the test rows chooses for the
other.  Differences to the default are per row, with their paired standard errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp

from benchmarks import _report
from benchmarks.peers import configuration
from benchmarks.peers.adapters import scoring, watch
from benchmarks.peers.campaign import Runner
from benchmarks.peers.comparison import OURS
from benchmarks.peers.problems import Problem, folder_of
from bigcat import LinearClassifier

MAX_TEST_ROWS, MAX_SCORES = 3_000, 60_000_000
RANK = 256


def members(
    names: list[str] | None = None,
    n_threads: int = 2,
    as_peer: bool = False,
    as_json: bool = False,
) -> None:
    """Print a line per problem and contender, and keep them."""
    campaign = configuration.read()
    rows: list[dict[str, Any]] = []
    for name in names or campaign.default_problems:
        rows += compare(campaign.problems[name], n_threads, as_peer)
        _report.save("members", rows)
    _report.show(rows, as_json)


def compare(problem: Problem, n_threads: int = 2, as_peer: bool = False) -> list[dict[str, Any]]:
    """All contenders on one problem.

    Parameters
    ----------
    as_peer : bool
        Write the default's fit down as that of `bigcat defaults` among the peers, too.
    """
    folder = folder_of(problem)
    X, X_test = (sp.load_npz(folder / f"X_{part}.npz").tocsr() for part in ("train", "test"))
    labels = np.load(folder / "labels.npz")
    y, y_test = labels["y_train"], labels["y_test"]
    n = min(MAX_TEST_ROWS, MAX_SCORES // (int(y.max()) + 1), len(y_test))
    chosen = np.random.default_rng(0).permutation(len(y_test))[:n]
    X_test, y_test = X_test[chosen], y_test[chosen]
    scores: dict[str, np.ndarray] = {}
    seconds: dict[str, float | None] = {}
    contenders: dict[str, tuple[Any, int]] = {
        "default": ("auto", 0),
        "low rank": (RANK, 0),
        "low rank, again": (RANK, 1),
        "full rank": (None, 0),
    }
    for contender, (rank, seed) in contenders.items():
        model = LinearClassifier(rank=rank, n_threads=n_threads, random_state=seed)
        try:
            with _report.clock() as times:
                model.fit(X, y)
        except MemoryError:
            continue
        if as_peer and contender == "default":
            keep_as_peer(problem, model, times, Runner(threads=n_threads, fixed=True))
        scores[contender] = model.predict_log_proba(X_test)
        seconds[contender] = times["cpu"]
    scores["two of low rank"] = (scores["low rank"] + scores.pop("low rank, again")) / 2
    if "full rank" in scores:
        scores["low and full rank"] = weighted(scores["low rank"], scores["full rank"], y_test)
    found = {contender: measures(s, y_test) for contender, s in scores.items()}
    rows = []
    for contender, values in found.items():
        row: dict[str, Any] = {"problem": problem.name, "test rows": n, "contender": contender}
        row["cpu seconds"] = seconds.get(contender)
        for measure, value in values.items():
            difference = found["default"][measure] - value
            row[measure] = float(value.mean())
            row[f"default - {measure}"] = float(difference.mean())
            row[f"error of {measure}"] = float(difference.std() / np.sqrt(n))
        rows.append(row)
    return rows


def keep_as_peer(
    problem: Problem, model: LinearClassifier, times: dict[str, float], runner: Runner
) -> None:
    """Measure a fit as `peers run` does, and keep that; without a curve, which `fit` does not give.

    Compilation does not count there.
    """
    folder = folder_of(problem, runner.cache)
    labels = np.load(folder / "labels.npz")
    X, y = sp.load_npz(folder / "X_test.npz").tocsr(), labels["y_test"]
    compiled = model.history_[-1]["compile_seconds"]
    fit = {
        "status": "ok",
        "settings": {"n_threads": runner.threads},
        "settings_tried": 1,
        "chosen_by": "configuration",
        "compile_seconds": compiled,
        "fit_seconds": times["wall"] - compiled,
        "fit_cpu_seconds": times["cpu"] - compiled,
        "peak_megabytes": watch.peak_megabytes(),
        "stopped_by_limit": False,
        "curve": [],
    }
    peer = scoring.Model(model.predict_log_proba)
    found = scoring.score(peer, X, y, labels["common_rows"], len(model.classes_))
    ours = configuration.read().contenders[OURS]
    runner.keep(problem, ours, "test", fit | found)


def measures(scores: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Return for each row the log-likelihood, and whether its class is the first or in the best
    five.
    """
    own = scores[np.arange(len(y)), y]
    better = (scores > own[:, None]).sum(axis=1)
    return {
        "log-likelihood": own - logsumexp(scores, axis=1),
        "accuracy": (better == 0).astype(float),
        "hit@5": (better < 5).astype(float),
    }


def weighted(first: np.ndarray, second: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return weighted sums of scores, with the two weights fitted on the other half of the rows."""
    total = np.empty_like(first)
    halves = np.arange(len(y)) % 2 == 0
    for scored, fitted_on in ((halves, ~halves), (~halves, halves)):

        def loss(w: np.ndarray, rows: np.ndarray = fitted_on) -> float:
            sums = w[0] * first[rows] + w[1] * second[rows]
            return -float(measures(sums, y[rows])["log-likelihood"].mean())

        w = minimize(loss, [0.5, 0.5], method="Nelder-Mead", options={"xatol": 0.01}).x
        total[scored] = w[0] * first[scored] + w[1] * second[scored]
    return total
