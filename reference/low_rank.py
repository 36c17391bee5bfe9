"""Training of low-rank scores, batch by batch, with AdaGrad.

A score is ``v_k . h + b_k`` with ``h = unit x U``; the unit makes the mean of |x|^2 one, so that
one step size suits both kinds of vectors.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

EPSILON = 1e-8


class Model(NamedTuple):
    """Class vectors, feature vectors and intercepts."""

    V: np.ndarray  # (n_classes, rank)
    U: np.ndarray  # (n_features, rank), of rows that are multiplied by their unit
    b: np.ndarray  # (n_classes,)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Return the scores of a row multiplied by its unit."""
        return self.V @ (x @ self.U) + self.b


class Draw(NamedTuple):
    """Classes that a row visits, with their importance weights and that of the label."""

    classes: np.ndarray
    counts: np.ndarray
    label_count: float = 1.0


#: ``row(label_score, others, draw)`` returns a value and the gradients of the label and the others.
Row = Callable[[float, np.ndarray, Draw], tuple[float, float, np.ndarray]]


def unit(X: np.ndarray, row_weights: np.ndarray) -> float:
    """Return the factor that makes the mean of |x|^2 one."""
    return float(np.average(np.sum(X**2, axis=1), weights=row_weights) ** -0.5)


def shared_by(labels: np.ndarray, draw: Draw, label_counts: np.ndarray) -> list[Draw]:
    """Return the draws of the rows of a batch that share one: all of it but each row's label."""
    others = [draw.classes != label for label in labels]
    return [
        Draw(draw.classes[these], draw.counts[these], label_counts[label])
        for label, these in zip(labels, others)
    ]


def batch_gradient(
    model: Model,
    X: np.ndarray,
    y: np.ndarray,
    row_weights: np.ndarray,
    draws: list[Draw],
    row: Row,
) -> tuple[float, Model]:
    """Return the weighted sum of the rows' values, and its gradient."""
    gradient = Model(*map(np.zeros_like, model))
    total = 0.0
    for x, label, weight, draw in zip(X, y, row_weights, draws):
        scores = model.scores(x)
        value, label_grad, grads = row(scores[label], scores[draw.classes], draw)
        grad = np.zeros(len(scores))
        grad[label], grad[draw.classes] = label_grad, grads
        grad *= weight
        gradient.V[:] += np.outer(grad, x @ model.U)
        gradient.U[:] += np.outer(x, grad @ model.V)
        gradient.b[:] += grad
        total += weight * value
    return total, gradient


def train(
    X: np.ndarray,
    y: np.ndarray,
    row_weights: np.ndarray,
    model: Model,
    batches: Iterable[tuple[np.ndarray, list[Draw]]],
    row: Row,
    *,
    rate: float,
    n_steps: float,
    per_vector: bool = False,
) -> tuple[Model, list[float]]:
    """Take one step of AdaGrad per batch, with a rate that falls to zero over `n_steps`.

    Step sizes are those of coordinates, or of vectors by the mean of their squared gradients. A
    batch is its rows and their draws.  Returns the model and the weighted sum of values of each
    batch, before its step.
    """
    X = unit(X, row_weights) * X
    model, squares = Model(*(part.copy() for part in model)), Model(*map(np.zeros_like, model))
    scale = len(y) / row_weights.sum()
    values = []
    for t, (rows, draws) in enumerate(batches):
        value, gradient = batch_gradient(model, X[rows], y[rows], row_weights[rows], draws, row)
        values.append(value)
        for part, square, sums in zip(model, squares, gradient):
            mean = scale * sums / len(rows)
            by_vector = per_vector and mean.ndim == 2
            square += (mean**2).mean(axis=1, keepdims=True) if by_vector else mean**2
            part += rate * (1.0 - t / n_steps) * mean / (np.sqrt(square) + EPSILON)
    return model, values
