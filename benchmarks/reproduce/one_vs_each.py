"""Titsias (2016): Figures 1 to 3, Table 2, and the large-scale run with a stand-in."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import one_vs_each as ove
from benchmarks._models import linear
from benchmarks._report import clock, figure_file
from benchmarks.categorical_distribution import CategoricalDistribution
from benchmarks.datasets import load, synthetic
from benchmarks.reproduce.by_data import by_data, draw_curves
from benchmarks.reproduce.experiment import Claim, Experiment, Pieces, Row
from bigcat import LinearClassifier
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS, SGD

PAPER = "one-vs-each"
METHODS = ("exact", "one-vs-each", "bouchard")
DETERMINISTIC = ("exact", "bouchard", "one-vs-each")


# Figure 1


def plane_classifier(method: str) -> LinearClassifier:
    """Panels b and c: scores without intercepts, at the optimum of a method."""
    return linear(
        method=method,
        sampler="everything",
        solver=LBFGS(init="zero", tol=1e-6),
        max_epochs=2000,
        fit_intercept=False,
        l2=1e-3,  # points of two classes may be separable
    )


def _figure1(quick: bool) -> Pieces:
    return {method: partial(_figure1_rows, method) for method in METHODS}


def _figure1_rows(method: str) -> list[Row]:
    small = synthetic.titsias_small()
    model = ove.distribution(method).fit(small.values)
    plane = plane_classifier(method).fit(small.X, small.y)
    return [
        {
            "method": method,
            "probabilities": model.probabilities_.tolist(),
            "frequencies": (np.unique(small.values, return_counts=True)[1] / 200).tolist(),
            "bound on the plane": float(plane.lower_bound(small.X, small.y).sum()),
            "log-likelihood on the plane": float(plane.log_proba_of(small.X, small.y).sum()),
        }
    ]


def _figure1_claims(rows: list[Row]) -> list[Claim]:
    of = {row["method"]: row for row in rows}
    gap = {
        m: float(np.abs(np.subtract(of[m]["probabilities"], of[m]["frequencies"])).max())
        for m in METHODS
    }
    bound = {m: of[m]["bound on the plane"] for m in METHODS}
    exact = "largest difference to the frequencies"
    return [
        Claim("a: one-vs-each gives the exact probabilities", f"{exact} {gap['one-vs-each']:.1e}",
              gap["one-vs-each"] < 1e-4),
        Claim("a: Bouchard's overestimates large probabilities", f"{exact} {gap['bouchard']:.3f}",
              max(of["bouchard"]["probabilities"]) > max(of["bouchard"]["frequencies"]) + 0.01),
        Claim("c: one-vs-each is tighter than Bouchard's bound",
              f"exact {bound['exact']:.1f}, one-vs-each {bound['one-vs-each']:.1f}, "
              f"Bouchard {bound['bouchard']:.1f}",
              bound["exact"] > bound["one-vs-each"] > bound["bouchard"]),
    ]  # fmt: skip


def _draw_figure1(rows: list[Row], path: Path) -> None:
    with figure_file(path) as (axes,):
        for i, row in enumerate(rows):
            p = row["probabilities"]
            axes.bar(np.arange(len(p)) + 0.27 * (i - 1), p, width=0.25, label=row["method"])
        axes.set(xlabel="class", ylabel="estimated probability")
        axes.legend()


# Figure 2


#: The paper's rates multiply sums over the sampled pairs; ours multiply the mean per row, for which
#: each of m pairs stands for (K - 1) / m.
def _rate(pair_rate: float, n_negatives: int, n_classes: int) -> float:
    return pair_rate * n_negatives / (n_classes - 1)


def stochastic_distribution(iterations: int, n: int, n_classes: int) -> CategoricalDistribution:
    """Batches of 100, ten other values per row, the rate 0.5 / 100, times 0.9 each epoch."""
    return CategoricalDistribution(
        "one-vs-each",
        solver=SGD(learning_rate=_rate(0.5, 10, n_classes), decay=0.9, batch_size=100, init="zero"),
        max_epochs=iterations * 100 // n,
        random_state=0,
        progress=False,
        sampler=Uniform(10),
        early_stopping=False,
    )


def _figure2(quick: bool) -> Pieces:
    n, n_classes, iterations = (10**5, 10**3, 20_000) if quick else (10**6, 10**4, 200_000)
    return {"all": partial(_figure2_rows, n, n_classes, iterations)}


def _figure2_rows(n: int, n_classes: int, iterations: int) -> list[Row]:
    y = synthetic.categorical_counts(n=n, n_classes=n_classes, seed=0).y
    counts = np.unique(y, return_counts=True)[1]
    frequencies = counts / n
    model = stochastic_distribution(iterations, n, n_classes)
    with clock() as times:
        model.fit(y)
    equal = np.abs(1 / len(counts) - frequencies).sum()
    order, every = np.argsort(frequencies), max(1, n_classes // 500)
    return [
        {
            "iterations": iterations,
            "absolute norm": float(np.abs(model.probabilities_ - frequencies).sum()),
            "absolute norm at the start": float(equal),
            "exact": frequencies[order][::every].tolist(),
            "stochastic": model.probabilities_[order][::every].tolist(),
            "CPU seconds": times["cpu"],
        }
    ]


def _figure2_claims(rows: list[Row]) -> list[Claim]:
    (row,) = rows
    start, end = row["absolute norm at the start"], row["absolute norm"]
    text = "stochastic estimates approach the exact ones"
    return [Claim(text, f"absolute norm {start:.3f} to {end:.3f}", end < start / 4)]


def _draw_figure2(rows: list[Row], path: Path) -> None:
    with figure_file(path) as (axes,):
        axes.plot(rows[0]["stochastic"], ".", markersize=3, label="stochastic")
        axes.plot(rows[0]["exact"], label="exact")
        axes.set(xlabel="values, sorted", ylabel="probability")
        axes.legend()


# Table 2 and Figure 3


def _table2(quick: bool) -> Pieces:
    if quick:
        return {"bibtex": partial(_table2_rows, "bibtex", DETERMINISTIC)}
    return {name: partial(_table2_rows, name, tuple(ove.PUBLISHED[name])) for name in ove.PUBLISHED}


def _table2_rows(name: str, methods: tuple[str, ...]) -> list[Row]:
    found = []
    for row, model in ove.table2_rows(name, methods):
        curve = model.history_["bound"]
        found.append(row | {"curve": curve[:: max(1, len(curve) // 500)].tolist()})
    return found


def _figure3_claims(rows: list[Row]) -> list[Claim]:
    found = []
    for data, mine in by_data(rows).items():
        bound = {row["method"]: row["bound per row"] for row in mine}
        text = f"{data}: one-vs-each is much closer to the exact softmax than Bouchard"
        values = ", ".join(f"{m} {bound[m]:.3f}" for m in DETERMINISTIC)
        exact, near, far = (bound[m] for m in ("exact", "one-vs-each", "bouchard"))
        found.append(Claim(text, values, abs(exact - near) < 0.5 * abs(exact - far)))
    return found


def _draw_figure3(rows: list[Row], path: Path) -> None:
    draw_curves(rows, path, lambda axes, _: axes.set(ylabel="bound per row", xscale="log"))


# The large-scale run


def large_classifier(n_classes: int) -> LinearClassifier:
    """One row and five other classes per step, five epochs, the rate halved after each.

    The paper's rate of 1e-8 is for its own columns; the rows of the stand-in have length 1.
    """
    return linear(
        method="one-vs-each",
        sampler=Uniform(5),
        solver=SGD(learning_rate=_rate(0.3, 5, n_classes), decay=0.5, batch_size=1, init="zero"),
        max_epochs=5,
    )


def _large(quick: bool) -> Pieces:
    return {"ptb": partial(_large_rows, 50_000 if quick else None)}


def _large_rows(n_train: int | None) -> list[Row]:
    split = load("ptb", n_train=n_train)
    train, test = split.train, split.test
    classes, counts = np.unique(train.y, return_counts=True)
    model = large_classifier(len(classes))
    with clock() as times:
        model.fit(train.X, train.y)
    return [
        {
            "data": "ptb",
            "error": 1.0 - float(model.score(test.X, test.y)),
            "error of the most frequent class": float((test.y != classes[counts.argmax()]).mean()),
            "curve": model.history_["bound"].tolist(),
            "CPU seconds": times["cpu"],
        }
    ]


def _large_claims(rows: list[Row]) -> list[Claim]:
    (row,) = rows
    ours, frequent = row["error"], row["error of the most frequent class"]
    text = "the error (AmazonCat: 0.5311) is far below that of the most frequent class (0.79)"
    return [Claim(text, f"{ours:.4f} and {frequent:.4f}", ours < frequent - 0.05)]


ALL = tuple(ove.PUBLISHED)
EXPERIMENTS = [
    Experiment(
        "ove-figure1", PAPER, "Figure 1", "ten values, and five classes in the plane",
        "as published", _figure1, claims=_figure1_claims, draw=_draw_figure1,
    ),
    Experiment(
        "ove-figure2", PAPER, "Figure 2", "10,000 values by stochastic steps", "as published",
        _figure2, claims=_figure2_claims, draw=_draw_figure2,
    ),
    Experiment(
        "ove-table2", PAPER, "Table 2", "ridge 1: norm, error, nlpd",
        "MNIST and Bibtex as published; 20 Newsgroups in order only, its columns are others",
        _table2, data=ALL, quick_data=("bibtex",),
    ),
    Experiment(
        "ove-figure3", PAPER, "Figure 3", "bounds over iterations", "as published on Bibtex",
        _table2, shares="ove-table2", claims=_figure3_claims, draw=_draw_figure3,
        data=ALL, quick_data=("bibtex",),
    ),
    Experiment(
        "ove-large", PAPER, "Section 4.2", "large scale: AmazonCat-13K, here Penn Treebank",
        "a stand-in: error 0.867, most frequent class 0.945", _large, claims=_large_claims,
        data=("ptb",), quick_data=("ptb",),
    ),
]  # fmt: skip
