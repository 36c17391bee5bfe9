"""Training of scores of low rank, batch by batch, with AdaGrad: plain numpy.

A score is ``v_k . h + b_k`` with ``h = unit x U``; the unit makes the mean of |x|^2 one, so that
one step size suits both kinds of vectors.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

ROUNDING = 1e-8


class Model(NamedTuple):
    V: np.ndarray  # (n_classes, rank)
    U: np.ndarray  # (n_features, rank), of rows that are multiplied by their unit
    b: np.ndarray  # (n_classes,)

    def scores(self, x: np.ndarray) -> np.ndarray:
        """Of a row that is multiplied by its unit already."""
        return self.V @ (x @ self.U) + self.b


class Draw(NamedTuple):
    """The classes that a row looks at, what each stands for, and what the label would."""

    classes: np.ndarray
    counts: np.ndarray
    label_count: float = 1.0


#: ``row(label_score, others, draw)`` gives a value, the label's slope and those of the others.
Row = Callable[[float, np.ndarray, Draw], tuple[float, float, np.ndarray]]


def unit(X: np.ndarray, row_weights: np.ndarray) -> float:
    return float(np.average(np.sum(X**2, axis=1), weights=row_weights) ** -0.5)


def shared_by(labels: np.ndarray, draw: Draw, label_counts: np.ndarray) -> list[Draw]:
    """The draws of the rows of a batch that shares one: all of it but the row's own label."""
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
    """Weighted sum of the rows' values, and its gradient."""
    gradient = Model(*map(np.zeros_like, model))
    total = 0.0
    for x, label, weight, draw in zip(X, y, row_weights, draws):
        scores = model.scores(x)
        value, label_slope, slopes = row(scores[label], scores[draw.classes], draw)
        slope = np.zeros(len(scores))
        slope[label], slope[draw.classes] = label_slope, slopes
        slope *= weight
        gradient.V[:] += np.outer(slope, x @ model.U)
        gradient.U[:] += np.outer(x, slope @ model.V)
        gradient.b[:] += slope
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
    """One step of AdaGrad a batch, with a rate that falls to zero over `n_steps`.

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
            part += rate * (1.0 - t / n_steps) * mean / (np.sqrt(square) + ROUNDING)
    return model, values
