"""Wojnowicz et al. (2022): Figures 1 to 3, B.1, G.1 to G.3, Tables G.1 to G.3, intrusions."""

from __future__ import annotations

import runpy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_ndtr, log_softmax

from benchmarks import categorical_from_binary as cfb
from benchmarks import yardsticks
from benchmarks._models import linear
from benchmarks._report import figure_file
from benchmarks.datasets import synthetic
from benchmarks.reproduce.experiment import Claim, Experiment, Pieces, Row
from bigcat import LinearClassifier
from bigcat.solvers import LBFGS

PAPER = "categorical from binary"
EXAMPLE = Path(__file__).parents[1] / "intrusion_detection.py"


# Table G.1, Figures 1 and G.1: after the published stop, which is what was published


def _table_g1(quick: bool) -> Pieces:
    cases = [case for case in cfb.TABLE_G1 if case[1] == 3 or not quick]
    return {" ".join(map(str, case)): partial(_g1_rows, case) for case in cases}


def _g1_rows(case: tuple[int, int, int, float]) -> list[Row]:
    row = cfb.table_g1_row(case)
    return [row | {name: row[f"stop {name}"] for name in ("w", "CBM", "CBC", "avg")}]


def _figure1_claims(rows: list[Row]) -> list[Claim]:
    found = []
    for name, text in {"stop": "published stop", "converged": "converged"}.items():
        easy = [row for row in rows if row["sigma_high"] == 2.0]
        wins = sum(row[f"{name} CBC"] < row[f"{name} CBM"] for row in easy)
        text = f"{text}: CBC is nearer to the truth than CBM on predictable data"
        found.append(Claim(text, f"{wins} of {len(easy)} sets", wins == len(easy)))
    return found


def _draw_g1(rows: list[Row], path: Path) -> None:
    with figure_file(path, n_columns=2) as axes:
        for place, sigma in zip(axes, (0.1, 2.0)):
            mine = [row for row in rows if row["sigma_high"] == sigma]
            for name, style in {"CBM": "C0", "CBC": "C1", "avg": "k"}.items():
                place.scatter([r["N"] for r in mine], [r[name] for r in mine], s=14, c=style,
                              label=name)  # fmt: skip
            place.set(title=f"sigma {sigma}", xscale="log", xlabel="rows", ylabel="KL divergence")
            place.legend()


# Figure 2 (and Table G.2, which lists what it compares)


def softmax_mle() -> LinearClassifier:
    """The maximum of the softmax's likelihood, or as near to it as separable rows allow."""
    return linear(
        method="exact",
        sampler="everything",
        solver=LBFGS(init="zero", tol=1e-6),
        max_epochs=2000,
        l2=1e-8,
    )


def _figure2(quick: bool) -> Pieces:
    sigmas = (0.01, 2.0, 20.0) if quick else (0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
    return {
        f"N = {rows} P, sigma {sigma:g}": partial(_figure2_rows, rows, sigma, 3 if quick else 10)
        for rows in (1, 100)
        for sigma in sigmas
    }


def _figure2_rows(rows_per_parameter: int, sigma: float, n_sets: int) -> list[Row]:
    n = rows_per_parameter * 3 * 7
    sums: dict[str, list[float]] = {}
    for seed in range(n_sets):
        drawn = synthetic.predictable_classes(n, 3, 6, sigma, seed=seed)
        n_train = int(0.8 * n)
        X, y = drawn.X[:n_train], drawn.y[:n_train]
        X_test, y_test = drawn.X[n_train:], drawn.y[n_train:]
        places = np.arange(len(y_test)), y_test
        truth = np.log(drawn.probabilities(X_test))
        sums.setdefault("truth", []).append(truth[places].mean())
        frequencies = np.maximum(np.bincount(y, minlength=3) / len(y), 1e-10)
        sums.setdefault("base rates", []).append(np.log(frequencies)[y_test].mean())
        if len(np.unique(y)) == 3:
            mle = softmax_mle().fit(X, y)
            log_p = np.maximum(mle.predict_log_proba(X_test), np.log(1e-10))
            sums.setdefault("softmax, MLE", []).append(log_p[places].mean())
        for kind in ("CBC", "CBM"):
            model = cfb.classifier("probit", cfb.LIKELIHOODS[kind])
            model.fit(X, y, classes=np.arange(3))
            log_p = model.log_proba_of(X_test, y_test, posterior="plug-in")
            sums.setdefault(f"{kind}-probit", []).append(log_p.mean())
    means = {name: float(np.mean(values)) for name, values in sums.items()}
    return [{"rows per parameter": rows_per_parameter, "sigma": sigma, **means}]


def _figure2_claims(rows: list[Row]) -> list[Claim]:
    few = [row for row in rows if row["rows per parameter"] == 1]
    wins = sum(max(r["CBC-probit"], r["CBM-probit"]) > r.get("softmax, MLE", -np.inf) for r in few)
    text = "with a row per parameter a posterior predicts better than maximum likelihood"
    return [Claim(text, f"{wins} of {len(few)} contexts", wins == len(few))]


def _draw_figure2(rows: list[Row], path: Path) -> None:
    with figure_file(path, n_columns=2) as axes:
        for place, many in zip(axes, (1, 100)):
            mine = [row for row in rows if row["rows per parameter"] == many]
            for name in ("truth", "softmax, MLE", "CBC-probit", "CBM-probit", "base rates"):
                points = [(row["sigma"], row[name]) for row in mine if name in row]
                place.plot(*zip(*points), "o-", label=name)
            place.set(title=f"N = {many} P", xscale="log", xlabel="sigma", ylim=(-4, 0.1))
            place.set_ylabel("test log-likelihood per row")
            place.legend(fontsize=8)


# Figure B.1: the optimum of separate binary regressions beside that of the categorical model


def _probit_odds(scores: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantity that CBC or CBM normalises over classes, and its gradient."""
    log_density = -0.5 * scores**2 - 0.5 * np.log(2 * np.pi)
    yes, no = log_ndtr(scores), log_ndtr(-scores)
    gradient = np.exp(log_density - yes)
    if kind == "CBM":
        return yes, gradient
    return yes - no, gradient + np.exp(log_density - no)


def probit_mle(X: np.ndarray, y: np.ndarray, n_classes: int, kind: str) -> np.ndarray:
    """Weights (K, M + 1) at the maximum of the likelihood of CBC, CBM or IB, by L-BFGS."""
    X = np.column_stack([X, np.ones(len(y))])
    labels = np.eye(n_classes)[y]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ flat.reshape(n_classes, -1).T
        if kind == "IB":
            signs = 2 * labels - 1
            value, gradient = _probit_odds(signs * scores, "CBM")
            gradients = signs * gradient
            value = value.sum()
        else:
            odds, gradient = _probit_odds(scores, kind)
            log_p = log_softmax(odds, axis=1)
            value, gradients = log_p[labels == 1].sum(), (labels - np.exp(log_p)) * gradient
        return -value / len(y), -(gradients.T @ X).ravel() / len(y)

    start = np.zeros(n_classes * X.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    return found.x.reshape(n_classes, -1)


def _figure_b1(quick: bool) -> Pieces:
    cases = {"small": (1800, 3, 1)} if quick else {"small": (1800, 3, 1), "large": (12_000, 20, 40)}
    return {name: partial(_b1_rows, name, *case) for name, case in cases.items()}


def _b1_rows(name: str, n: int, k: int, m: int) -> list[Row]:
    drawn = synthetic.predictable_classes(n, k, m, 0.1, seed=0)
    with_ones = np.column_stack([drawn.X, np.ones(n)])
    separate = with_ones @ probit_mle(drawn.X, drawn.y, k, "IB").T
    rows = []
    for kind in ("CBC", "CBM"):
        ideal_scores = with_ones @ probit_mle(drawn.X, drawn.y, k, kind).T
        ideal = np.exp(log_softmax(_probit_odds(ideal_scores, kind)[0], axis=1))
        approximate = np.exp(log_softmax(_probit_odds(separate, kind)[0], axis=1))
        best = approximate.argmax(axis=1)
        places = np.arange(n), best
        errors = approximate[places] - ideal[places]
        rows.append(
            {
                "set": name,
                "target": kind,
                "mean absolute error": float(np.abs(errors).mean()),
                "errors": np.quantile(errors, np.linspace(0, 1, 41)).tolist(),
            }
        )
    return rows


def _b1_claims(rows: list[Row]) -> list[Claim]:
    error = {(row["set"], row["target"]): row["mean absolute error"] for row in rows}
    found = [
        Claim("separate binary fits are not the maximum of CBC or CBM",
              f"least error {min(error.values()):.1e}", min(error.values()) > 1e-4)
    ]  # fmt: skip
    for name, better in {"small": "CBM", "large": "CBC"}.items():
        if (name, "CBC") in error:
            values = f"CBC {error[name, 'CBC']:.4f}, CBM {error[name, 'CBM']:.4f}"
            text = f"{name} set: {better} is the better target"
            other = "CBC" if better == "CBM" else "CBM"
            found.append(Claim(text, values, error[name, better] < error[name, other]))
    return found


def _draw_b1(rows: list[Row], path: Path) -> None:
    with figure_file(path) as (axes,):
        for row in rows:
            axes.plot(row["errors"], np.linspace(0, 1, 41), label=f"{row['set']}, {row['target']}")
        axes.set(xlabel="signed error of the largest probability", ylabel="share of rows")
        axes.legend()


# Table G.3 and Figures 3, G.2, G.3


def _table_g3(quick: bool) -> Pieces:
    return {
        f"{kind}-{link}, {'converged' if rule is None else 'published stop'}": partial(
            _g3_rows, link, kind, rule
        )
        for link, kind in cfb.G3_MODELS
        for rule in ((0.005,) if quick else (0.005, None))
    }


def _g3_rows(link: str, kind: str, rule: float | None) -> list[Row]:
    row = cfb.table_g3_row(cfb.glass_splits(10), link, kind, rule)
    compared = "ours" if rule is not None else "ours, converged"  # what was published was stopped
    return [row | {"inference": compared}]


def _curves(name: str, quick: bool) -> list[Row]:
    race = cfb.race(name, 0.2 if quick else 1.0)
    curves = cfb.our_curves(race)
    if not quick:
        curves |= cfb.yardstick_curves(race)
    return [{"data": name, "method": m, "curve": c.tolist()} for m, c in curves.items()]


def _figure3(quick: bool) -> Pieces:
    return {name: partial(_curves, name, quick) for name in (("glass",) if quick else cfb.RACES)}


def _draw_races(rows: list[Row], path: Path) -> None:
    curves: dict[str, dict[str, np.ndarray]] = {}
    for row in rows:
        curves.setdefault(row["data"], {})[row["method"]] = np.array(row["curve"])
    cfb.draw_races(curves, path)


def _figure_g3(quick: bool) -> Pieces:
    return {"all": _g3_posteriors}


def _g3_posteriors() -> list[Row]:
    """Widths of 90 % intervals and distances of means, of nine rows, over those of NUTS."""
    drawn = synthetic.predictable_classes(1000, 4, 8, 2.0, seed=0)
    X, y = drawn.X[None], drawn.y[None]
    options: dict[str, Any] = {"link": "cbc-probit", "n_warmup": 300, "n_samples": 600, "thin": 1}
    exact = yardsticks.run("nuts", X, y, X[:, :9], y[:, :9], 4, **options)["samples"][0]
    scores = np.einsum("skm,nm->snk", exact[..., 1:], drawn.X[:9]) + exact[:, None, :, 0]
    p = np.exp(log_softmax(_probit_odds(scores, "CBC")[0], axis=2))
    low, high = np.quantile(p, [0.05, 0.95], axis=0)
    model = cfb.classifier("probit", "conditioned").fit(drawn.X, drawn.y)
    our_low, our_high = model.posterior_.predict_interval(drawn.X[:9], 0.9)
    mean = model.predict_proba(drawn.X[:9], posterior="averaged")
    return [
        {
            "width over that of NUTS": float(np.median((our_high - our_low) / (high - low))),
            "distance of means": float(np.abs(mean - p.mean(axis=0)).mean()),
        }
    ]


def _g3_posterior_claims(rows: list[Row]) -> list[Claim]:
    (row,) = rows
    ratio = row["width over that of NUTS"]
    text = "independent binary fits reduce variance and introduce some bias"
    values = f"width {ratio:.2f} of NUTS', means {row['distance of means']:.3f} apart"
    return [Claim(text, values, ratio < 1.0)]


# Intrusion detection, with a made-up log


def _intrusions(quick: bool) -> Pieces:
    return {"made-up log": _intrusion_rows}


def _intrusion_rows() -> list[Row]:
    names = runpy.run_path(str(EXAMPLE))
    own = [
        int(np.argmax([names["log_likelihood"](m, w[~names["log"].intruder[w]]).mean()
                       for m in names["models"]]))
        for w in names["test"]
    ]  # fmt: skip
    auc = names["roc_auc_score"](names["intruder"], -names["smooth"])
    return [
        {
            "users": len(own),
            "explained best by their own model": sum(u == best for u, best in enumerate(own)),
            "AUC of 20 starts in a row": float(auc),
        }
    ]


def _intrusion_claims(rows: list[Row]) -> list[Claim]:
    (row,) = rows
    users, own = row["users"], row["explained best by their own model"]
    auc = row["AUC of 20 starts in a row"]
    return [
        Claim("a user's starts are explained best by the user's own model", f"{own} of {users}",
              own == users),
        Claim("an intruder's starts stand out", f"AUC {auc:.3f}", auc > 0.9),
    ]  # fmt: skip


NUTS = "needs `python -m benchmarks yardsticks`"
EXPERIMENTS = [
    Experiment(
        "cfb-figure1", PAPER, "Figures 1 and G.1", "divergences against rows",
        "as published after the published stop; part of the pattern is that stop", _table_g1,
        shares="cfb-table-g1", claims=_figure1_claims, draw=_draw_g1,
    ),
    Experiment(
        "cfb-figure2", PAPER, "Figure 2, Table G.2", "posterior against maximum likelihood",
        "as published with a row per parameter", _figure2,
        claims=_figure2_claims, draw=_draw_figure2,
    ),
    Experiment(
        "cfb-figure3", PAPER, "Figures 3 and G.2", "holdout over time, with ADVI, NUTS and Gibbs",
        f"ours lose on the three real sets and win on the simulated one; {NUTS}", _figure3,
        draw=_draw_races, data=("glass", "detergent", "frogs"), quick_data=("glass",),
    ),
    Experiment(
        "cfb-figure-b1", PAPER, "Figure B.1", "binary optimum against categorical optimum",
        "as published", _figure_b1, claims=_b1_claims, draw=_draw_b1,
    ),
    Experiment(
        "cfb-figure-g3", PAPER, "Figure G.3", "posteriors of category probabilities beside NUTS",
        f"as published: intervals are 0.33 times as wide as those of NUTS; {NUTS}",
        _figure_g3, claims=_g3_posterior_claims,
    ),
    Experiment(
        "cfb-table-g1", PAPER, "Table G.1", "model averaging on simulated data",
        "all 40 rows of divergences to 0.0005, 35 of 40 weights as published", _table_g1,
    ),
    Experiment(
        "cfb-table-g3", PAPER, "Table G.3", "glass: mean likelihood, accuracy, seconds",
        "missed for the conditioned likelihoods; other splits", _table_g3,
        data=("glass",), quick_data=("glass",),
    ),
    Experiment(
        "cfb-intrusion", PAPER, "Section 5", "intrusion detection, with a made-up log",
        "a stand-in: the log of Los Alamos could not be had", _intrusions,
        claims=_intrusion_claims,
    ),
]  # fmt: skip
