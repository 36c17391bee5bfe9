"""The pictures of `docs/ideas.md` and `docs/index.md`: `python docs/figures/ideas.py`.

Curves are computed here from the formulas of the papers. The seconds of the overview are those of
a table in `docs/results/speed.md`.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, ndtr, softmax

from bigcat import BayesianClassifier
from bigcat.bayes import IndependentBinary

FOLDER = Path(__file__).parent
BLUE, ORANGE, GREY = "#1f5fbf", "#d9730d", "#9a9a9a"
plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False, "font.size": 10}


def save(figure: plt.Figure, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.png", dpi=120)
    plt.close(figure)


def measured_cost() -> dict[str, list[tuple[int, float]]]:
    """Return classes and microseconds per row, from the table of `benchmarks step-cost`."""
    text = (FOLDER.parent / "results" / "speed.md").read_text()
    section = text.partition("## A sampled step")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    header, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    names = {
        "augment-reduce, microseconds per row": "sampled classes",
        "all classes": "all classes",
    }
    return {
        names[title]: [(int(r[0].replace(",", "")), float(r[j])) for r in rows if r[j]]
        for j, title in enumerate(header)
        if title in names
    }


def overview() -> None:
    """The observed class has the highest score plus noise; a step samples a few classes."""
    rng = np.random.default_rng(3)
    scores = np.sort(rng.normal(0, 1.4, 14))[::-1]
    noise = rng.gumbel(size=14)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.1), layout="constrained")
    winner = int(np.argmax(scores + noise))
    colours = [ORANGE if k == winner else BLUE for k in range(14)]
    left.vlines(range(14), scores, scores + noise, color=GREY, linewidth=1.5)
    left.scatter(range(14), scores, marker="_", s=120, color=BLUE, label="score")
    left.scatter(range(14), scores + noise, color=colours, s=28, zorder=3, label="score + noise")
    left.annotate(
        "the largest wins",
        (winner, (scores + noise)[winner]),
        (9, -4),
        color=ORANGE,
        textcoords="offset points",
    )
    left.set(xlabel="classes", xticks=[], yticks=[], title="the model")
    left.legend(frameon=False, loc="upper right", bbox_to_anchor=(1, 0.9), fontsize=9)
    for (name, points), colour in zip(measured_cost().items(), (BLUE, GREY)):
        classes, microseconds = zip(*points)
        right.plot(classes, microseconds, "o-", color=colour)
        right.annotate(
            name,
            (classes[-1], microseconds[-1]),
            (-8, 9),
            ha="right",
            color=colour,
            textcoords="offset points",
        )
    right.set(xscale="log", xlabel="classes", ylabel="microseconds per row")
    right.set_ylim(0, 10)
    right.set_title("cost of a training row")
    save(figure, "overview")


def bound_of(scores: np.ndarray, log_eta: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Softmax augment and reduce of label 0, from some of the other classes."""
    counts = (len(scores) - 1) / len(classes)
    others = counts * np.exp(scores[classes] - scores[0]).sum()
    return 1 - log_eta - (1 + others) * np.exp(-log_eta)


def augment_reduce() -> None:
    """The bound touches the log-probability, and sampled classes are right on average."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, 1000)
    scores[0] = 4.0
    exact = scores[0] - logsumexp(scores)
    log_eta = np.linspace(1.2, 6.5, 200)
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for i in range(60):
        some = rng.choice(np.arange(1, 1000), 20, replace=False)
        label = "from 20 sampled classes" if i == 0 else None
        axes.plot(log_eta, bound_of(scores, log_eta, some), color=GREY, alpha=0.25, label=label)
    full = bound_of(scores, log_eta, np.arange(1, 1000))
    axes.plot(log_eta, full, color=BLUE, linewidth=2.5, label="the bound, all 1,000 classes")
    axes.axhline(exact, color=ORANGE, linestyle="--", label="log-probability of the class")
    axes.plot(log_eta[full.argmax()], full.max(), "o", color=ORANGE)
    axes.set(
        xlabel="local parameter of the row, log η", ylabel="nats", ylim=(exact - 3.4, exact + 1.2)
    )
    axes.legend(frameon=False, loc="lower right")
    save(figure, "idea_augment_reduce")


def one_vs_each() -> None:
    """Duels that are all won; the more rivals are kept exact, the tighter the bound."""
    rng = np.random.default_rng(1)
    scores = np.sort(rng.normal(0, 1.5, 200))[::-1]
    label = 2
    rivals = np.delete(scores, label)
    exact = scores[label] - logsumexp(scores)
    kept = np.arange(0, 151)
    duels = -np.logaddexp(0, rivals - scores[label])
    bounds = [
        scores[label] - logsumexp([scores[label], *rivals[:c]]) + duels[c:].sum() for c in kept
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.bar(range(12), np.exp(duels[:12]), color=BLUE)
    left.set(xlabel="rivals, the strongest first", ylabel="probability to win the duel", xticks=[])
    left.set_title("one duel per rival", fontsize=10)
    right.plot(kept, bounds, color=BLUE, linewidth=2.5, label="one-vs-each bound")
    right.axhline(exact, color=ORANGE, linestyle="--", label="log-probability of the class")
    right.set(xlabel="rivals that are kept exact", ylabel="nats")
    right.legend(frameon=False, loc="lower right")
    right.set_title("the bound is the sum of log-duels", fontsize=10)
    save(figure, "idea_one_vs_each")


def unbiased() -> None:
    """A gradient step overshoots where the gradient explodes; an implicit step cannot."""

    def loss(u: np.ndarray) -> np.ndarray:
        return u + np.exp(4.0 - u)  # the double sum of one row, in its local parameter

    def gradient(u: float) -> float:
        return 1 - float(np.exp(4.0 - u))

    u = np.linspace(-0.4, 14, 400)
    start, rate = 0.6, 0.35
    explicit = start - rate * gradient(start)
    implicit = minimize_scalar(lambda v: loss(v) + (v - start) ** 2 / (2 * rate)).x
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    axes.plot(u, loss(u), color=BLUE, linewidth=2.5, label="what is minimised")
    axes.plot(
        u,
        loss(u) + (u - start) ** 2 / (2 * rate),
        color=GREY,
        label="the same, and the distance from the start",
    )
    axes.plot(start, loss(start), "ko")
    axes.annotate("start", (start, loss(start)), (8, 4), textcoords="offset points")
    axes.plot(implicit, loss(implicit), "o", color=ORANGE)
    axes.annotate(
        "implicit step: where\nthe grey curve is lowest",
        (implicit, loss(implicit)),
        (5.1, 14),
        color=ORANGE,
        arrowprops={"arrowstyle": "-", "color": ORANGE},
    )
    axes.plot(explicit, loss(explicit), "o", color="k", mfc="w")
    axes.annotate(
        "gradient step:\nfar beyond the minimum",
        (explicit, loss(explicit)),
        (9.6, 20),
        arrowprops={"arrowstyle": "-"},
    )
    axes.set(xlabel="local parameter u of a row", ylabel="nats", ylim=(0, 40), xlim=(-0.4, 14))
    axes.legend(frameon=False, loc="upper right")
    save(figure, "idea_unbiased")


def categorical_from_binary() -> None:
    """Three yes-or-no questions, fitted apart, and one distribution made of the answers."""
    rng = np.random.default_rng(0)
    weights, intercepts = np.array([-2.2, 0.3, 2.0]), np.array([-0.6, 1.0, -0.8])
    x = rng.normal(0, 1.3, 600)
    scores = np.outer(x, weights) + intercepts
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    method = IndependentBinary(link="probit", likelihood="marginalised")
    model = BayesianClassifier(method, progress=False).fit(x[:, None], y)
    grid = np.linspace(-3, 3, 200)
    answers = ndtr(np.outer(grid, model.coef_[:, 0]) + model.intercept_)
    together = answers / answers.sum(axis=1, keepdims=True)
    truth = softmax(np.outer(grid, weights) + intercepts, axis=1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.1), sharey=True, layout="constrained")
    for k, colour in enumerate((BLUE, ORANGE, "#3a8a4d")):
        left.plot(grid, answers[:, k], color=colour, label=f"is it class {k + 1}?")
        right.plot(grid, together[:, k], color=colour)
        right.plot(grid, truth[:, k], ":", color=colour)
    right.plot([], [], "k-", label="made of the answers")
    right.plot([], [], "k:", label="the truth, a softmax")
    left.set(xlabel="feature", ylabel="probability", ylim=(0, 1))
    left.set_title("three binary regressions, fitted apart", fontsize=10)
    right.set_title("one distribution over three classes", fontsize=10)
    right.set(xlabel="feature")
    left.legend(frameon=False, fontsize=9)
    right.legend(frameon=False, fontsize=9)
    save(figure, "idea_categorical_from_binary")


if __name__ == "__main__":
    for draw in (overview, augment_reduce, one_vs_each, unbiased, categorical_from_binary):
        draw()
