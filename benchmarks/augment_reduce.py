"""Augment and reduce: Tables 2 and 3, and section 4.1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks._models import linear
from benchmarks._report import FIGURES, clipped_log_likelihood, clock, epoch_seconds, save, show
from benchmarks.categorical_distribution import CategoricalDistribution
from benchmarks.datasets import load, synthetic
from benchmarks.published import published
from bigcat import LinearClassifier
from bigcat.bounds import AugmentReduce
from bigcat.samplers import Uniform
from bigcat.solvers import Adaptive

# Table 1 of the paper: batch, negatives, iterations.
SETTINGS = {
    "mnist": (500, 1, 35_000),
    "bibtex": (488, 20, 5_000),
    "omniglot": (541, 50, 45_000),
}
# The step sequence of its section 4.
SOLVER = Adaptive(learning_rate=0.02, decay=0.9, decay_every=2000)
PROBIT = {"noise": "gaussian", "sampler": "uniform"}
LOGISTIC = {"noise": "logistic", "sampler": "uniform"}
# Its local steps, (1 + epoch)^-0.9.
BY_NODES = AugmentReduce(expectation="quadrature", local_decay=0.9)
BY_SAMPLE = AugmentReduce(expectation="sample", local_decay=0.9)
METHODS: dict[str, dict[str, Any]] = {
    "exact": {"noise": "gumbel", "method": "exact", "sampler": "everything"},
    "one-vs-each": {"noise": "gumbel", "method": "one-vs-each", "sampler": "uniform"},
    "softmax A&R": {
        "noise": "gumbel",
        "method": replace(BY_NODES, variational="gumbel"),
        "sampler": "uniform",
    },
    "probit A&R": {
        **PROBIT,
        "method": replace(BY_NODES, n_nodes=3, variational="gaussian"),
    },
    "logistic A&R": {
        **LOGISTIC,
        "method": replace(BY_NODES, n_nodes=4, variational="logistic"),
    },
    "probit A&R, one sample": {
        **PROBIT,
        "method": replace(BY_SAMPLE, variational="gaussian"),
    },
    "logistic A&R, one sample": {
        **LOGISTIC,
        "method": replace(BY_SAMPLE, variational="logistic"),
    },
}
# Data sets with another number of nodes.
NODES = {("omniglot", "probit A&R"): 4}
# Test log-likelihood and accuracy (Table 3), seconds per epoch (Table 2).
_SECONDS = published("ar-table2").values("seconds per epoch")
PUBLISHED = {
    (data, method): (log_likelihood, accuracy, _SECONDS.get((data, method)))
    for (data, method), (log_likelihood, accuracy) in published("ar-table3").rows()
}


def classifier(data: str, method: str, max_epochs: int, seed: int = 0) -> LinearClassifier:
    """The model of a row of Tables 2 and 3."""
    batch, negatives, _ = SETTINGS[data]
    options = dict(METHODS[method])
    if options["sampler"] != "everything":
        options["sampler"] = Uniform(negatives)
    if (data, method) in NODES:
        options["method"] = replace(options["method"], n_nodes=NODES[data, method])
    return linear(
        solver=SOLVER.with_options(batch_size=batch, init="random"),
        max_epochs=max_epochs,
        random_state=seed,
        **options,
    )


def n_epochs(data: str, n_rows: int) -> int:
    """Return the number of epochs that gives the paper's number of iterations."""
    batch, _, iterations = SETTINGS[data]
    return -(-iterations // -(-n_rows // batch))


def table3_row(
    data: str, name: str, seed: int = 0, epochs: int | None = None
) -> tuple[dict[str, Any], Any]:
    """Return a row of Table 3 and the history of its fit; `epochs` is the paper's by default."""
    train, test = load(data).train, load(data).test
    model = classifier(data, name, epochs or n_epochs(data, len(train.y)), seed)
    with clock() as times:
        model.fit(train.X, train.y)
    figures = PUBLISHED.get((data, name), (None, None, None))
    part = np.random.RandomState(0).permutation(len(train.y))[:3000]
    row = {
        "data": data,
        "method": name,
        "log-likelihood": clipped_log_likelihood(model, test.X, test.y),
        "published": figures[0],
        "accuracy": float(model.score(test.X, test.y)),
        "published accuracy": figures[1],
        "bound (last epoch, sampled)": float(model.history_[-1]["bound"]),
        "bound (3,000 training rows)": float(
            model.lower_bound(train.X[part], train.y[part]).mean()
        ),
        "epochs": model.n_iter_,
        "CPU seconds": times["cpu"],
    }
    return row, model.history_


def table3(data: str, methods: list[str] | None = None, seed: int = 0) -> None:
    """Test log-likelihood, accuracy and bounds with the paper's settings."""
    rows, curves = [], {}
    for name in methods or [m for m in METHODS if (data, m) in PUBLISHED]:
        row, curves[name] = table3_row(data, name, seed)
        rows.append(row)
        show(rows[-1:])
        save(f"table3_{data}" + ("" if methods is None else "_" + "_".join(methods)), rows)
    show(rows)
    if methods is None:
        _draw_bounds(data, curves)


def _draw_bounds(data: str, curves: dict[str, Any]) -> None:
    """Draw Figure 2 of the paper against epochs, which do not depend on the load of the machine."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, history in curves.items():
        axes.plot(history["epoch"], history["bound"], label=name)
    axes.set(xlabel="epoch", ylabel="bound a row (nats)", title=data, xscale="log")
    last = max(h["bound"][-1] for h in curves.values())
    axes.set_ylim(last - 6.0, 0.1)
    axes.legend()
    FIGURES.mkdir(exist_ok=True, parents=True)
    figure.savefig(FIGURES / f"augment_reduce_{data}.png", dpi=120)
    plt.close(figure)


def table2_rows(name: str, epochs: int = 8, repeats: int = 3) -> list[dict[str, Any]]:
    """Return seconds per epoch on one core: the best epoch of each method, run in turn."""
    train = load(name).train
    methods = [m for m in METHODS if m != "exact"]
    best = dict.fromkeys(methods, np.inf)
    for _ in range(repeats):
        for method in methods:
            model = classifier(name, method, epochs).fit(train.X, train.y)
            best[method] = min(best[method], epoch_seconds(model.history_))
    rows = []
    for method in methods:
        figure = PUBLISHED.get((name, method.split(",")[0]), (0, 0, None))[2]
        rows.append(
            {
                "data": name,
                "method": method,
                "seconds per epoch": best[method],
                "published (2018)": figure,
                "times faster": figure and figure / best[method],
                "against one-vs-each": best[method] / best["one-vs-each"],
            }
        )
    return rows


def table2(data: list[str]) -> None:
    """Table 2 of some data sets."""
    rows = []
    for name in data:
        rows += table2_rows(name)
        show([r for r in rows if r["data"] == name])
        save("table2", rows)


# Section 4.1: rows, classes, and batches an epoch.
N_COUNTED, N_VALUES, BATCHES = 300_000, 10_000, 600


def distribution(method: str, iterations: int, seed: int = 0) -> CategoricalDistribution:
    """The model of section 4.1."""
    return CategoricalDistribution(
        BY_NODES if method == BY_NODES.name else method,
        solver=SOLVER.with_options(batch_size=N_COUNTED // BATCHES, init="random"),
        max_epochs=-(-iterations // BATCHES),
        random_state=seed,
        progress=False,
        sampler=Uniform(100),
        early_stopping=False,
    )


def section41_row(method: str, iterations: int, seed: int = 0) -> dict[str, Any]:
    """One method on K = 10^4 classes without covariates: probabilities and bound."""
    y = synthetic.categorical_counts(n=N_COUNTED, n_classes=N_VALUES, seed=seed).y
    counts = np.unique(y, return_counts=True)[1]
    frequencies = counts / len(y)
    model = distribution(method, iterations, seed)
    with clock() as times:
        model.fit(y)
    return {
        "method": method,
        "classes seen": len(counts),
        "iterations": model.n_iter_ * BATCHES,
        "mean absolute error": float(np.abs(model.probabilities_ - frequencies).mean()),
        "bound": model.lower_bound_,
        "bound (last epoch, sampled)": float(model.history_[-1]["bound"] * len(y)),
        "largest log-likelihood": float(counts @ np.log(frequencies)),
        "correlation with log N_k": float(np.corrcoef(model.scores_, np.log(counts))[0, 1]),
        "ms per iteration": 1e3 * model.history_[-1]["seconds"] / (model.n_iter_ * BATCHES),
        "CPU seconds": times["cpu"],
    }


def section41(iterations: int = 500_000, methods: list[str] | None = None, seed: int = 0) -> None:
    """K = 10^4 classes without covariates: probabilities and bounds (section 4.1)."""
    rows = []
    for method in methods or ["augment-reduce", "one-vs-each"]:
        rows.append(section41_row(method, iterations, seed))
        show(rows)
        save("section41" + ("" if methods is None else "_" + "_".join(methods)), rows)
