"""`evidence_` of the default posterior beside importance sampling; comparison of nested models."""

from __future__ import annotations

import numpy as np
from scipy.special import log_softmax, logsumexp

from benchmarks._models import laplace
from benchmarks._report import clock, save, show
from bigcat import BayesianClassifier
from bigcat.bayes import GaussianPrior

#: Rows, features and classes: K (D + 1) = 60, 500, 1,000 and 2,000.
SHAPES = ((400, 11, 5), (6_000, 49, 10), (20_000, 99, 10), (20_000, 99, 20))
SEEDS = (0, 1, 2)
#: Pairs of nested models, and the least true difference of their log-evidences, in nats.
N_PAIRS, MIN_GAP = 20, 5.0


def problem(
    n: int, n_features: int, n_classes: int, deviation: float = 0.3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, and softmax labels from weights of that standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, n_features))
    scores = X @ rng.normal(0.0, deviation, (n_features, n_classes))
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def sampled_evidence(
    X: np.ndarray, y: np.ndarray, n_classes: int, precision: np.ndarray, n_draws: int, seed: int = 0
) -> tuple[float, float]:
    """Return the log-evidence by importance sampling, and the effective number of draws.

    Draws are Gaussian around the mode, with the curvature of all weights together.
    """
    n, d = X.shape
    rows, P = np.column_stack([X, np.ones(n)]), np.tile(precision, n_classes)
    own, w = np.eye(n_classes)[y], np.zeros((n_classes, d + 1))

    def curvature(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, H = np.exp(log_softmax(rows @ w.T, axis=1)), np.diag(P)
        for part in np.array_split(np.arange(n), max(1, n * w.size >> 24)):
            some = rows[part]
            wide = (p[part][:, :, None] * some[:, None, :]).reshape(len(part), -1)
            H = H - wide.T @ wide
            for k in range(n_classes):
                block = slice(k * (d + 1), (k + 1) * (d + 1))
                H[block, block] += some.T @ (some * p[part, k : k + 1])
        return p, H

    for _ in range(30):  # Newton
        p, H = curvature(w)
        step = np.linalg.solve(H, ((own - p).T @ rows).ravel() - P * w.ravel())
        w = w + step.reshape(w.shape)
        if np.abs(step).max() < 1e-7:
            break
    root = np.linalg.cholesky(curvature(w)[1])
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n_draws // 2, w.size))
    z = np.concatenate([z, -z])
    away = np.linalg.solve(root.T, z.T).T
    logs = np.empty(n_draws)
    for i in range(n_draws):
        draw = w + away[i].reshape(w.shape)
        scores = rows @ draw.T
        value = (scores[np.arange(n), y] - logsumexp(scores, axis=1)).sum()
        logs[i] = value - 0.5 * P @ np.square(draw.ravel()) + 0.5 * np.square(z[i]).sum()
    logs += 0.5 * np.log(P).sum() - np.log(np.diag(root)).sum()
    effective = np.exp(2.0 * logsumexp(logs) - logsumexp(2.0 * logs))
    return float(logsumexp(logs) - np.log(n_draws)), float(effective)


def truth(model: BayesianClassifier, X: np.ndarray, y: np.ndarray, n_draws: int = 1_000) -> float:
    """Return the log-evidence by importance sampling at the model's scales of the prior."""
    q = model.posterior_
    assert q.prior is not None
    rows = X if q.columns is None else q.columns.apply(X)
    return sampled_evidence(rows, y, q.n_classes, q.prior.precision[0], n_draws)[0]


def posterior_evidence(n_shapes: int = len(SHAPES)) -> None:
    """Differences in nats, with a known and a learned prior, for three seeds of the fit."""
    rows = []
    for n, d, k in SHAPES[:n_shapes]:
        X, y = problem(n, d, k)
        for prior in (GaussianPrior(scale=0.3), "learned"):
            models = [laplace(prior=prior, random_state=seed) for seed in SEEDS]
            with clock() as times:
                found = [float(model.fit(X, y).evidence_) for model in models]
            # A learned scale is a little different for each seed.
            gaps = [e - truth(m, X, y, 400) for e, m in zip(found, models)]
            rows.append(
                {
                    "weights": k * (d + 1),
                    "rows": n,
                    "prior": prior if isinstance(prior, str) else "known",
                    "form": (models[0].history_.selection or {})["covariance"],
                    "evidence": found[0],
                    "largest difference": float(max(gaps, key=abs)),
                    "range over seeds": float(np.ptp(found)),
                    "CPU seconds": times["cpu"] / len(SEEDS),
                }
            )
            show(rows[-1:])
            save("posterior_evidence", rows)


def nested_pair(seed: int) -> tuple[float, float]:
    """Return the difference of the log-evidences of six and three features, ours and the truth.

    The larger model is true for even seeds; else its last three features are noise.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 6))
    weights = rng.standard_normal((6, 4))
    weights[3:] *= 0.5 if seed % 2 == 0 else 0.0
    scores = X @ weights
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    ours, true = [], []
    for d in (3, 6):
        model = laplace(prior=GaussianPrior(scale=1.0), covariance="full").fit(X[:, :d], y)
        ours.append(model.evidence_)
        true.append(truth(model, X[:, :d], y))
    return ours[1] - ours[0], true[1] - true[0]


def nested_pairs() -> None:
    """Count the clear pairs whose better model `evidence_` finds."""
    pairs: list[tuple[float, float]] = []
    seed = 0
    while len(pairs) < N_PAIRS:
        pair = nested_pair(seed)
        pairs += [pair] * (abs(pair[1]) >= MIN_GAP)
        seed += 1
    right = sum(ours * true > 0.0 for ours, true in pairs)
    error = max(abs(ours - true) for ours, true in pairs)
    row = {"pairs": N_PAIRS, "right": right, "larger ones": sum(t > 0.0 for _, t in pairs)}
    show([row | {"largest error, nats": error, "seeds tried": seed}])
    save("nested_pairs", [row])
