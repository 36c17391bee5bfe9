"""Gibbs sampling of the softmax model with Polya-Gamma variables. Runs in polyagamma.txt's place.

Categorical-from-binary, section F.3.2: given the other classes' weights, those of class k have a
logistic likelihood with the offset C = log sum_{j != k} exp(x . b_j). The last class's weights
are 0, as in the paper, unless the option ``last_class_zero`` is false.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from polyagamma import random_polyagamma
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import logsumexp


def with_ones(X):
    return np.column_stack([np.ones(len(X)), X])


def evaluate(X, y, weights):
    scores = X @ weights.T
    log_p = scores - logsumexp(scores, axis=1, keepdims=True)
    return log_p[np.arange(len(y)), y].mean(), (scores.argmax(1) == y).mean()


def sweep(rng, X, y, weights, scores, n_free, precision):
    """New weights of every free class in turn; `weights` and `scores` change in place."""
    for k in range(n_free):
        offset = logsumexp(np.delete(scores, k, axis=1), axis=1)
        omega = random_polyagamma(1.0, scores[:, k] - offset, random_state=rng)
        factor = cho_factor(X.T @ (omega[:, None] * X) + precision, lower=True)
        mean = cho_solve(factor, X.T @ ((y == k) - 0.5 + omega * offset))
        noise = rng.normal(size=len(mean))
        weights[k] = mean + solve_triangular(factor[0], noise, lower=True, trans=1)
        scores[:, k] = X @ weights[k]


def run_gibbs(arrays, i, options):
    X, y = with_ones(arrays["X_train"][i]), arrays["y_train"][i]
    X_test, y_test = with_ones(arrays["X_test"][i]), arrays["y_test"][i]
    n_classes, size = options["n_classes"], X.shape[1]
    n_free = n_classes - options.get("last_class_zero", True)
    precision = np.eye(size) / options.get("sigma", 1.0) ** 2
    rng = np.random.default_rng(options.get("seed", 0) + i)
    weights, scores = np.zeros((n_classes, size)), np.zeros((len(X), n_classes))
    n_warmup = options.get("n_warmup", 0)
    total, seconds, kept, rows, due = np.zeros_like(weights), 0.0, [], [], 1
    for it in range(1, n_warmup + options["n_samples"] + 1):
        began = time.process_time()
        sweep(rng, X, y, weights, scores, n_free, precision)
        seconds += time.process_time() - began
        if it > n_warmup:
            total += weights
            if options.get("thin") and (it - n_warmup) % options["thin"] == 0:
                kept.append(weights.copy())
        mean = total / (it - n_warmup) if it > n_warmup else weights
        over = seconds > options.get("max_seconds", np.inf)
        last = over or it == n_warmup + options["n_samples"]
        if it >= due or last:
            rows.append((it, seconds, *evaluate(X_test, y_test, mean)))
            due = max(it + 1, int(it * 1.2))
        if last:
            break
    names = ("iteration", "seconds", "log_likelihood", "accuracy")
    result = {f"trace_{name}": np.array(column) for name, column in zip(names, zip(*rows))}
    if kept:
        result["samples"] = np.array(kept)
    return result | {"mean": mean, "seconds": seconds, "compile_seconds": 0.0, "iterations": it}


def main(folder):
    arrays = dict(np.load(folder / "input.npz"))
    options = json.loads((folder / "options.json").read_text())
    results = [run_gibbs(arrays, i, options) for i in range(len(arrays["X_train"]))]
    names = [n for n in results[0] if len({np.shape(r[n]) for r in results}) == 1]
    stacked: dict[str, Any] = {n: np.stack([r[n] for r in results]) for n in names}
    np.savez(folder / "output.npz", **stacked)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
