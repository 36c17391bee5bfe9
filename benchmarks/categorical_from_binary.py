"""Categorical-from-binary: Tables G.1 and G.3, holdout over time, and coverage of its intervals.

ADVI, NUTS and Gibbs sampling (benchmarks/yardsticks) run in environments of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_expit, log_ndtr, log_softmax, softmax

from benchmarks import yardsticks
from benchmarks._models import independent_binary, laplace
from benchmarks._report import FIGURES, clock, save, saved, show
from benchmarks.datasets import load, synthetic
from benchmarks.published import published
from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior

#: By N, K, M and sigma_high: weight of CBC, mean KL divergence of CBM, CBC and their average.
TABLE_G1 = dict(published("cfb-table-g1").rows())
#: Mean likelihood, accuracy, seconds per split.
TABLE_G3 = dict(published("cfb-table-g3").rows())
LIKELIHOODS = {"CBC": "conditioned", "CBM": "marginalised", "average": "average"}


# Fits


def classifier(
    link: str, likelihood: str = "average", iterations: int | None = None, solver: str = "cavi"
) -> BayesianClassifier:
    """Return a model converged by Newton steps, or stopped after `iterations`."""
    if iterations is None:
        return independent_binary(link, likelihood, solver="newton", tol=1e-8, max_iter=200)
    return independent_binary(link, likelihood, solver=solver, tol=0, max_iter=iterations)


def published_stop(X, y, link: str, rule: float, limit: int = 200) -> int:
    """Return the iteration where the authors stop: ELBO K / N rose by less than `rule`."""
    before = -np.inf
    for iterations in range(1, limit + 1):
        model = classifier(link, "conditioned", iterations).fit(X, y)
        mean_elbo = model.elbo_ * len(model.classes_) / len(y)
        if mean_elbo - before < rule:
            return iterations
        before = mean_elbo
    return limit


def _log_probabilities(scores: np.ndarray, link: str, kind: str) -> np.ndarray:
    """Return log-probabilities of CBC or CBM at given scores."""
    log_cdf = {"logit": log_expit, "probit": log_ndtr}[link]
    odds = log_cdf(scores) - (log_cdf(-scores) if kind == "CBC" else 0.0)
    return log_softmax(odds, axis=1)


def _scores(model, X) -> np.ndarray:
    return X @ model.coef_.T + model.intercept_


def _kl(p: np.ndarray, log_q: np.ndarray) -> float:
    return float((p * (np.log(np.maximum(p, 1e-300)) - log_q)).sum(axis=1).mean())


# Table G.1


def table_g1_row(case: tuple[int, int, int, float], seed: int = 1) -> dict[str, Any]:
    """Weight of CBC and KL divergences: published, after the published stop, and converged."""
    n, k, m, sigma = case
    drawn = synthetic.predictable_classes(n, k, m, sigma, seed=seed)
    row: dict[str, Any] = {"N": n, "K": k, "M": m, "sigma_high": sigma}
    row["published w/CBM/CBC/avg"] = "/".join(f"{v:.3f}".lstrip("0") for v in TABLE_G1[case])
    n_train = int(0.8 * n)
    X, y = drawn.X[:n_train], drawn.y[:n_train]
    stop = published_stop(X, y, "logit", 0.1)
    fits = {
        "stop": classifier("logit", iterations=stop).fit(X, y),
        "converged": classifier("logit").fit(X, y),
    }
    for name, model in fits.items():
        row |= _g1_figures(name, model, drawn.X[n_train:], drawn)
    return row | {"stop iterations": stop}


def table_g1(n_classes: list[int] | None = None, seed: int = 1) -> None:
    """All rows of Table G.1, or those with some numbers of classes."""
    rows = []
    for case in TABLE_G1:
        if n_classes and case[1] not in n_classes:
            continue
        rows.append(table_g1_row(case, seed))
        show([_in_brief(rows[-1])])
        save("table_g1", rows)
    show([_in_brief(row) for row in rows])
    _g1_summary(rows)


def _g1_figures(name: str, model, X, drawn) -> dict[str, float]:
    truth, scores = drawn.probabilities(X), _scores(model, X)
    log_p = {kind: _log_probabilities(scores, "logit", kind) for kind in ("CBM", "CBC")}
    weight = float(model.averaging_weight_)
    mixture = weight * np.exp(log_p["CBC"]) + (1 - weight) * np.exp(log_p["CBM"])
    return {
        f"{name} w": weight,
        f"{name} CBM": _kl(truth, log_p["CBM"]),
        f"{name} CBC": _kl(truth, log_p["CBC"]),
        f"{name} avg": _kl(truth, np.log(mixture)),
    }


def _in_brief(row: dict[str, Any]) -> dict[str, Any]:
    brief = {name: row[name] for name in ("N", "K", "M", "sigma_high", "published w/CBM/CBC/avg")}
    for name in ("stop", "converged"):
        values = [row[f"{name} {part}"] for part in ("w", "CBM", "CBC", "avg")]
        brief[f"{name} w/CBM/CBC/avg"] = "/".join(f"{v:.3f}".lstrip("0") for v in values)
    return brief | {"stop iterations": row["stop iterations"]}


def _g1_summary(rows: list[dict[str, Any]]) -> None:
    names = ("CBM", "CBC", "avg")
    published = [list(map(float, row["published w/CBM/CBC/avg"].split("/")[1:])) for row in rows]
    stopped = [[row[f"stop {name}"] for name in names] for row in rows]
    difference = np.abs(np.array(published) - stopped)
    print(f"divergences after the published stop: within {difference.max():.4f} of the published")
    for name in ("stop", "converged"):
        for sigma in (0.1, 2.0):
            mine = [row for row in rows if row["sigma_high"] == sigma]
            wins = sum(row[f"{name} CBC"] < row[f"{name} CBM"] for row in mine)
            mean = [np.mean([row[f"{name} {part}"] for row in mine]) for part in names]
            print(
                f"{name}, sigma_high = {sigma}: CBC nearer than CBM in {wins} of {len(mine)} rows; "
                f"mean divergence {mean[0]:.4f} CBM, {mean[1]:.4f} CBC, {mean[2]:.4f} average"
            )


# Table G.3

G3_MODELS = [(link, kind) for link in ("logit", "probit") for kind in LIKELIHOODS]


def glass_splits(
    n_splits: int, n_test: int = 22
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random 90/10 splits of the rows, z-scored before as in the paper, stacked on a first axis."""
    X, y, _ = _whole("glass")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    parts: list[list[np.ndarray]] = [[], [], [], []]
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[n_test:], order[:n_test]
        for part, values in zip(parts, (X[train], y[train], X[test], y[test])):
            part.append(values)
    X_train, y_train, X_test, y_test = map(np.array, parts)
    return X_train, y_train, X_test, y_test


def _whole(name: str):
    split = load(name, unseen="keep")
    X = np.vstack([split.train.X, split.test.X]).astype(np.float64)
    classes, y = np.unique(np.concatenate([split.train.y, split.test.y]), return_inverse=True)
    return X, y, len(classes)


def _standardised(X, y, train, test):
    mean, sd = X[train].mean(axis=0), X[train].std(axis=0)
    sd[sd == 0] = 1.0
    return (X[train] - mean) / sd, y[train], (X[test] - mean) / sd, y[test]


def table_g3(n_splits: int = 10, n_warmup: int = 300, n_samples: int = 1000) -> None:
    """Glass, ten 90/10 splits: mean likelihood, accuracy and CPU seconds, ours and NUTS."""
    splits = glass_splits(n_splits)
    rows = []
    for link, kind in G3_MODELS:
        for rule in (None, 0.005):
            rows.append(table_g3_row(splits, link, kind, rule))
            show(rows[-1:])
            save("table_g3", rows)
    for name, link in {
        "softmax": "softmax",
        "CBM-logit": "cbm-logit",
        "CBC-probit": "cbc-probit",
        "CBM-probit": "cbm-probit",
    }.items():
        options: dict[str, Any] = {"link": link, "n_warmup": n_warmup, "n_samples": n_samples}
        result = yardsticks.run("nuts", *splits, 6, **options)
        rows.append(_g3_nuts(name, link, result, splits, n_warmup + n_samples))
        show(rows[-1:])
        save("table_g3", rows)
    show(rows)
    _g3_spread()


def _g3_row(model: str, inference: str, log_p, correct, seconds: float) -> dict[str, Any]:
    key = (model, inference.split(",")[0])
    published = TABLE_G3.get(key, (None, None, None))
    return {
        "model": model,
        "inference": inference,
        "mean likelihood": float(np.exp(np.mean(log_p))),
        "published likelihood": published[0],
        "accuracy": float(np.mean(correct)),
        "published accuracy": published[1],
        "CPU seconds per split": seconds,
        "published seconds": published[2],
    }


def table_g3_row(splits, link: str, kind: str, rule: float | None) -> dict[str, Any]:
    """Return a row of Table G.3, converged or stopped by the published rule."""
    log_p, correct, seconds = [], [], []
    classifier(link, LIKELIHOODS[kind]).fit(*(part[0] for part in splits[:2]))  # compile first
    for X, y, X_test, y_test in zip(*splits):
        stop = None if rule is None else published_stop(X, y, link, rule)
        with clock() as times:
            model = classifier(link, LIKELIHOODS[kind], stop).fit(X, y)
        seconds.append(times["cpu"])
        log_p.append(model.log_proba_of(X_test, y_test, posterior="plug-in"))
        correct.append(model.predict(X_test, posterior="plug-in") == y_test)
    name = "ours" if rule is None else "ours, published stop"
    return _g3_row(f"{kind}-{link}", name, log_p, correct, float(np.mean(seconds)))


def _g3_spread(n_tens: int = 6) -> None:
    """Measure how much the mean likelihood of ten splits varies with the splits."""
    splits = list(zip(*glass_splits(10 * n_tens)))
    for link in ("logit", "probit"):
        log_p: dict[str, list[float]] = {"CBC": [], "CBM": []}
        for X, y, X_test, y_test in splits:
            scores = _scores(classifier(link, "conditioned").fit(X, y), X_test)
            for kind, values in log_p.items():
                log_all = _log_probabilities(scores, link, kind)
                values.append(log_all[np.arange(len(y_test)), y_test].mean())
        for kind, values in log_p.items():
            tens = np.exp(np.reshape(values, (n_tens, 10)).mean(axis=1))
            print(
                f"{kind}-{link}, {n_tens} times ten splits: mean likelihood "
                f"{tens.min():.3f} to {tens.max():.3f}, of all {np.exp(np.mean(values)):.3f}"
            )


def _g3_nuts(model: str, link: str, result, splits, iterations: int) -> dict[str, Any]:
    log_p, correct = [], []
    for weights, X_test, y_test in zip(result["mean"], *splits[2:]):
        scores = X_test @ weights[:, 1:].T + weights[:, 0]
        if link == "softmax":
            log_all = log_softmax(scores, axis=1)
        else:
            kind, cdf = link.split("-")
            log_all = _log_probabilities(scores, cdf, kind.upper())
        log_p.append(log_all[np.arange(len(y_test)), y_test])
        correct.append(log_all.argmax(axis=1) == y_test)
    name = f"NUTS, {iterations} draws"
    return _g3_row(model, name, log_p, correct, float(result["seconds"].mean()))


# Holdout performance over time


@dataclass(frozen=True)
class Race:
    """A data set, the time limit of each method, and the number of warm-up draws of NUTS."""

    split: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    n_classes: int
    seconds: float
    n_warmup: int


def race(name: str, scale: float) -> Race:
    """Return the data of one of `RACES`."""
    if name == "simulated":
        drawn = synthetic.predictable_classes(20_000, 100, 200, 2.0, seed=0)
        n_train = 16_000
        split = (drawn.X[:n_train], drawn.y[:n_train], drawn.X[n_train:], drawn.y[n_train:])
        return Race(split, 100, 45 * scale, n_warmup=10)
    X, y, n_classes = _whole(name)
    order = np.random.default_rng(0).permutation(len(y))
    n_train = int((0.9 if name == "glass" else 0.8) * len(y))
    split = _standardised(X, y, order[:n_train], order[n_train:])
    seconds = {"glass": 10, "detergent": 15, "frogs": 25}[name] * scale
    n_warmup = {"glass": 200, "detergent": 100, "frogs": 30}[name]
    return Race(split, n_classes, seconds, n_warmup)


RACES = ("glass", "detergent", "frogs", "simulated")
LEARNING_RATES = (0.01, 0.1, 1.0)  # of ADVI


def holdout_over_time(data: list[str] | None = None, scale: float = 1.0) -> None:
    """Test log-likelihood and accuracy against CPU seconds of training, and the figure of all.

    Curves are kept, so that the sets may be run one by one.
    """
    rows = []
    for name in data or RACES:
        this = race(name, scale)
        curves = our_curves(this) | yardstick_curves(this)
        points = [
            {"method": method, "curve": curve.tolist(), "scale": scale}
            for method, curve in curves.items()
        ]
        save(f"holdout_over_time_{name}", points)
        rows += [_curve_row(name, method, curve) for method, curve in curves.items()]
        show(rows[-len(curves) :])
    show(rows)
    kept = {name: saved(f"holdout_over_time_{name}") for name in RACES}
    if all(kept.values()):
        races = {name: {p["method"]: np.array(p["curve"]) for p in kept[name]} for name in RACES}
        draw_races(races, FIGURES / "holdout_over_time.png")


def our_curves(race: Race) -> dict[str, np.ndarray]:
    """Return seconds, log-likelihood and accuracy (columns); one row per number of iterations.

    The time limit is for all fits of coordinate ascent together; Newton's end on convergence.
    """
    curves = {}
    for link in ("probit", "logit"):
        for solver in ("newton", "cavi"):
            points, spent = [], 0.0
            for iterations in (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987):
                model = classifier(link, "average", iterations, solver)
                with clock() as times:
                    model.fit(*race.split[:2])
                points.append((times["cpu"], *_score(model, *race.split[2:])))
                spent += times["cpu"]
                if iterations >= 13 if solver == "newton" else spent > race.seconds:
                    break
            curves[f"ours, {link}, {solver}"] = np.array(points[1:] or points)  # first: compiling
    return curves


def _score(model, X, y) -> tuple[float, float]:
    """Log-likelihood and accuracy at the posterior mean, as in the paper."""
    log_p = model.log_proba_of(X, y, posterior="plug-in")
    return float(log_p.mean()), float((model.predict(X, posterior="plug-in") == y).mean())


def yardstick_curves(race: Race) -> dict[str, np.ndarray]:
    limit: dict[str, Any] = {"max_seconds": race.seconds, "n_samples": 10**6}
    runs = {
        f"ADVI, rate {rate}": yardsticks.run(
            "advi", *race.split, race.n_classes, learning_rate=rate, **limit
        )
        for rate in LEARNING_RATES
    }
    runs["NUTS"] = yardsticks.run(
        "nuts", *race.split, race.n_classes, n_warmup=race.n_warmup, max_tree_depth=8, **limit
    )
    runs["Gibbs"] = yardsticks.run("gibbs", *race.split, race.n_classes, **limit)
    names = ("trace_seconds", "trace_log_likelihood", "trace_accuracy")
    return {m: np.column_stack([run[name][0] for name in names]) for m, run in runs.items()}


def _curve_row(data: str, method: str, curve: np.ndarray) -> dict[str, Any]:
    far = np.flatnonzero(abs(curve[:, 1] - curve[-1, 1]) > 0.01)
    settled = far[-1] + 1 if len(far) else 0
    return {
        "data": data,
        "method": method,
        "first point, CPU seconds": float(curve[0, 0]),
        "log-likelihood there": float(curve[0, 1]),
        "CPU seconds": float(curve[-1, 0]),
        "log-likelihood": float(curve[-1, 1]),
        "best on the way": float(curve[:, 1].max()),
        "accuracy": float(curve[-1, 2]),
        "seconds until within 0.01 of it": float(curve[settled, 0]),
    }


def draw_races(curves: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Log-likelihood and accuracy against seconds, a column per data set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        2,
        len(curves),
        figsize=(max(6.0, 3.2 * len(curves)), 5.2),
        sharex="col",
        layout="constrained",
        squeeze=False,
    )
    colours = {"probit": "C3", "logit": "C1", "ADVI": "C0", "NUTS": "C2", "Gibbs": "C4"}
    for column, (name, methods) in zip(axes.T, curves.items()):
        floor = np.median([curve[0, 1] for curve in methods.values()])
        for method, curve in methods.items():
            colour = next(c for part, c in colours.items() if part in method)
            style = "--" if "cavi" in method or "0.01" in method else "-"
            style = ":" if method.endswith("0.1") else style
            for axis, values in zip(column, curve.T[1:]):
                axis.plot(curve[:, 0], values, style, color=colour, label=method)
        column[0].set(title=name, xscale="log")
        best = max(curve[:, 1].max() for curve in methods.values())
        column[0].set_ylim(min(floor, best - 0.5), best + 0.05)
        column[1].set(xlabel="CPU seconds of training")
    axes[0, 0].set_ylabel("test log-likelihood per row")
    axes[1, 0].set_ylabel("test accuracy")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize="small")
    path.parent.mkdir(exist_ok=True, parents=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


# Coverage


COVERAGE_SETTINGS = {  # data sets, training rows, classes, features
    "5 classes, 200 rows": (20, 200, 5, 4),
    "5 classes, 2,000 rows": (5, 2000, 5, 4),
    "20 classes, 400 rows": (10, 400, 20, 4),
}


def coverage(n_test: int = 50, level: float = 0.9) -> None:
    """Measure the coverage of 90 % intervals of class probabilities.

    Weights are drawn from the prior N(0, 1) and labels from their softmax, so that the intervals
    of the softmax posterior, which NUTS draws from, do so by construction.
    """
    rows = []
    for setting, (n_sets, n_rows, n_classes, n_features) in COVERAGE_SETTINGS.items():
        X, y, truth = _drawn_from_the_prior(n_sets, n_rows, n_test, n_classes, n_features)
        truth = truth[:, n_rows:]
        data = (X[:, :n_rows], y[:, :n_rows], X[:, n_rows:], y[:, n_rows:], n_classes)
        exact = yardsticks.run("nuts", *data, n_warmup=300, n_samples=600, thin=1)
        advi = yardsticks.run("advi", *data, n_samples=5000, learning_rate=1.0, thin=1)
        intervals = {
            f"softmax, {name}": _drawn_intervals(run["samples"], X[:, n_rows:], level)
            for name, run in {"NUTS": exact, "ADVI": advi}.items()
        }
        known = GaussianPrior()
        for name, model in {
            "laplace, ours": laplace(),
            "laplace, prior known, ours": laplace(prior=known),
            "laplace, full, prior known, ours": laplace(covariance="full", prior=known),
        }.items():
            intervals[name] = _our_intervals(X, y, n_rows, model, level)
        for link in ("logit", "probit"):
            for kind, likelihood in LIKELIHOODS.items():
                model = classifier(link, likelihood)
                intervals[f"{kind}-{link}, ours"] = _our_intervals(X, y, n_rows, model, level)
        for method, (low, high, mean) in intervals.items():
            nuts_low, nuts_high, nuts_mean = intervals["softmax, NUTS"]
            row = {
                "setting": setting,
                "method": method,
                "coverage": float(((low <= truth) & (truth <= high)).mean()),
                "below the interval": float((truth < low).mean()),
                "above": float((truth > high).mean()),
                "mean width": float((high - low).mean()),
                "width / NUTS": float(np.exp(np.log((high - low) / (nuts_high - nuts_low)).mean())),
                "RMSE of the mean": float(np.sqrt(((mean - truth) ** 2).mean())),
                "RMS gap to NUTS' mean": float(np.sqrt(((mean - nuts_mean) ** 2).mean())),
            }
            rows.append(row)
        show(rows[-len(intervals) :])
        save("coverage", rows)
    show(rows)


def _drawn_from_the_prior(n_sets: int, n_rows: int, n_test: int, n_classes: int, n_features: int):
    """Data sets stacked along a first axis, and their true probabilities.

    Sets in which a class has no training row are drawn again.
    """
    X, y, p, seed = list[np.ndarray](), [], [], 0
    while len(X) < n_sets:
        rng = np.random.default_rng(seed)
        seed += 1
        x = rng.normal(size=(n_rows + n_test, n_features))
        weights = rng.normal(size=(n_classes, 1 + n_features))
        truth = softmax(x @ weights[:, 1:].T + weights[:, 0], axis=1)
        labels = np.argmax(np.log(truth) + rng.gumbel(size=truth.shape), axis=1)
        if len(np.unique(labels[:n_rows])) == n_classes:
            X.append(x)
            y.append(labels)
            p.append(truth)
    print(f"{n_sets} of {seed} sets have every class")
    return np.array(X), np.array(y), np.array(p)


def _drawn_intervals(samples, X, level: float):
    """Quantiles of the softmax over draws of the weights, and its mean."""
    parts = []
    for draws, rows in zip(samples, X):
        scores = np.einsum("skm,nm->snk", draws[..., 1:], rows) + draws[:, None, :, 0]
        p = softmax(scores, axis=2)
        tail = (1 - level) / 2
        parts.append([*np.quantile(p, [tail, 1 - tail], axis=0), p.mean(axis=0)])
    return np.array(parts).swapaxes(0, 1)


def _our_intervals(X, y, n_rows: int, model: BayesianClassifier, level: float):
    parts = []
    for rows, labels in zip(X, y):
        model.fit(rows[:n_rows], labels[:n_rows])
        test = rows[n_rows:]
        low, high = model.posterior_.predict_interval(test, level)
        parts.append([low, high, model.predict_proba(test, posterior="averaged")])
    return np.array(parts).swapaxes(0, 1)


def make_environments() -> None:
    """The yardsticks' environments, so that later commands start at once."""
    for method in ("nuts", "gibbs"):
        print(yardsticks.prepare(method))
