"""A thousand classes, some without a row: the default posterior beside the best ridge."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from benchmarks._models import laplace
from benchmarks._report import clock, save, show
from bigcat import LinearClassifier
from bigcat import noise as noises
from bigcat.bayes._design import Design
from bigcat.bayes.laplace.likelihood import Likelihood
from bigcat.bayes.laplace.mode import find_mode

N_CLASSES, N_ROWS, N_VALIDATION, N_TEST, N_FEATURES = 1_000, 8_000, 800, 2_000, 100
DEVIATIONS = (0.1, 0.2, 0.5)
#: Penalties that validation rows choose from, the largest first.
RIDGES = np.geomspace(300.0, 1.0, 12)


def posterior_thousand(deviations: list[float] | None = None, seed: int = 0) -> None:
    """Mean test log-likelihood, learned scale, CPU seconds."""
    rows = []
    for deviation in deviations or DEVIATIONS:
        rows.append(measure(deviation, seed))
        show(rows[-1:])
    save("posterior_thousand", rows)


def measure(deviation: float, seed: int = 0) -> dict[str, float]:
    """Measure one problem."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0.0, deviation, (N_CLASSES, N_FEATURES))
    X, y = _draw(weights, N_ROWS, rng)
    X_test, y_test = _draw(weights, N_TEST, rng)
    model = laplace()
    with clock() as times:
        model.fit(X, y, classes=np.arange(N_CLASSES))
    last = model.history_[-1]
    selection = model.history_.selection or {}
    precision, best = _best_ridge(X, y, X_test, y_test)
    rows_of = {
        how: model.log_proba_of(X_test, y_test, posterior=how) for how in ("averaged", "plug-in")
    }
    gained = rows_of["averaged"] - rows_of["plug-in"]
    linear = LinearClassifier(random_state=0, n_threads=1, progress=False).fit(X, y)
    averaged = float(rows_of["averaged"].mean())
    return {
        "deviation": deviation,
        "averaged": averaged,
        "over the plug-in": float(gained.mean()),
        "its standard error": float(gained.std() / np.sqrt(N_TEST)),
        "LinearClassifier": linear_value(linear, X_test, y_test),
        "best ridge": best,
        "gain": averaged - best,
        "its penalty": precision,
        "learned deviation": float(np.exp(-0.5 * last["log_precision"])) / N_FEATURES**0.5,
        "R-hat": selection.get("r_hat", np.nan),
        "CPU seconds": times["cpu"],
    }


def linear_value(model: LinearClassifier, X: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log-likelihood of rows of classes that the model has seen."""
    known = np.isin(y, model.classes_)
    return float(model.log_proba_of(X[known], y[known]).mean())


def _draw(weights: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, N_FEATURES))
    scores = X @ weights.T
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def _best_ridge(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float]:
    """Return the penalty selected on validation rows, and its test log-likelihood."""
    kept, held = slice(N_VALIDATION, None), slice(0, N_VALIDATION)
    found, start = [], np.zeros((N_CLASSES, N_FEATURES + 1))
    for penalty in RIDGES:
        start = _mode(X[kept], y[kept], penalty, start)
        found.append(_value(start, X[held], y[held]))
    best = float(RIDGES[int(np.argmax(found))])
    return best, _value(_mode(X, y, best, start), X_test, y_test)


def _mode(X: np.ndarray, y: np.ndarray, penalty: float, start: np.ndarray) -> np.ndarray:
    design = Design(X, True)
    likelihood = Likelihood(design, y, noises.resolve("gumbel"), N_CLASSES, 1)
    precision = np.full((1, N_FEATURES + 1), penalty)  # true intercepts are 0
    return find_mode(likelihood, precision, np.zeros_like(precision), start, 1e-2)[0]


def _value(weights: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    scores = Design(X, True).product(weights.T)
    return float((scores[np.arange(len(y)), y] - logsumexp(scores, axis=1)).mean())
