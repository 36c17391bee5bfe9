"""Which form of posterior a Laplace fit keeps: draws, a Gaussian, or that of a last layer.

The numbers of weights, rows and classes decide, and nothing that is measured; docs/bayesian.md has
the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bigcat.bayes._low_rank import (
    MIN_DIRECTIONS,
    MIN_ROWS,
    MOST_TURNED,
    N_DIRECTIONS,
    RELEVANT_CURVATURE,
)
from bigcat.noise import Noise
from bigcat.rows import Sizes

#: What may be kept of the posterior: draws, or a Gaussian with one of these covariances.
FORMS = ("draws", "full", "class", "low-rank", "diagonal")
#: Draws are kept of up to so many weights, if a gradient takes no more multiplications than this;
#: a score counts as so many more: of the softmax, and where probabilities are integrals.
MAX_DRAWN_WEIGHTS, MAX_PRODUCTS_OF_GRADIENT = 20_000, 2e8
PRODUCTS_OF_SOFTMAX, PRODUCTS_OF_INTEGRAL = 100, 16_000
#: One matrix for all weights, (K M)^2; one per class, K M^2 numbers in n K M^2 products; then a
#: spectrum and a few directions per class, up to so many weights.
MAX_JOINT_WEIGHTS = 1_024
MAX_CLASS_NUMBERS, MAX_CLASS_PRODUCTS = 1 << 27, 1e12
MAX_WEIGHTS = 1 << 26
#: Rank of the model whose last layer has the posterior beyond that.
LAST_LAYER_RANK = 32
#: Numbers that directions may take.
MAX_KEPT = 1 << 28


class Shape(NamedTuple):
    """Sizes that decide about the form; columns include the intercept."""

    n_rows: int
    n_columns: int
    n_classes: int
    row_values: float
    sparse: bool
    softmax: bool

    @classmethod
    def of(cls, sizes: Sizes, intercept: bool, noise: Noise) -> Shape:
        return cls(
            sizes.n_rows,
            sizes.n_features + intercept,
            sizes.n_classes,
            sizes.n_values / max(sizes.n_rows, 1) + intercept,
            sizes.sparse,
            noise.softmax,
        )

    @property
    def n_weights(self) -> int:
        return self.n_classes * self.n_columns

    def last_layer(self, rank: int, intercept: bool) -> Shape:
        """Return the sizes of the last layer of a model of that rank."""
        n = rank + intercept
        return self._replace(n_columns=n, row_values=float(n), sparse=False)

    @property
    def products_of_gradient(self) -> float:
        of_score = PRODUCTS_OF_SOFTMAX if self.softmax else PRODUCTS_OF_INTEGRAL
        return float(self.n_rows) * self.n_classes * (self.row_values + of_score)

    @property
    def can_be_drawn(self) -> bool:
        few = self.n_weights <= MAX_DRAWN_WEIGHTS
        return few and self.products_of_gradient <= MAX_PRODUCTS_OF_GRADIENT

    @property
    def fits_matrices(self) -> bool:
        numbers = self.n_classes * self.n_columns**2
        products = float(self.n_rows) * numbers
        return numbers <= MAX_CLASS_NUMBERS and products <= MAX_CLASS_PRODUCTS

    @property
    def finest(self) -> str:
        """The finest covariance of a Gaussian, or whitening of chains."""
        if self.n_weights <= MAX_JOINT_WEIGHTS:
            return "full"
        return "class" if self.fits_matrices else "diagonal"


@dataclass(frozen=True)
class Plan:
    """What a fit keeps.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    whitening : str
        Of chains: "full", "class" or "diagonal".
    n_directions : int
        Of the form "low-rank".
    reason : str
    """

    form: str
    whitening: str
    n_directions: int
    reason: str

    @classmethod
    def of(cls, covariance: str, shape: Shape) -> Plan:
        """Return the plan for a covariance, or for the sizes if it is "auto"."""
        form, reason = covariance, "named"
        if covariance == "auto":
            form, reason = _form(shape)
        directions = int(np.clip(MAX_KEPT // shape.n_weights, MIN_DIRECTIONS, N_DIRECTIONS))
        return cls(form, shape.finest, directions, reason)


def _form(shape: Shape) -> tuple[str, str]:
    weights = f"{shape.n_weights:,} weights and {shape.n_rows:,} rows"
    if shape.can_be_drawn:
        return "draws", f"{weights} are few enough for draws of the posterior itself"
    if shape.n_weights <= MAX_JOINT_WEIGHTS:
        return "full", f"{weights}: a Gaussian with the covariance of all weights"
    if shape.fits_matrices:
        return "class", f"{weights}: a Gaussian with a covariance per class"
    return "low-rank", f"{weights}: a Gaussian with a spectrum and a few directions per class"


def resolve_rank(rank: int | str | None, shape: Shape) -> int | None:
    """Return the rank of the model whose last layer has the posterior; None for all weights."""
    if rank != "auto":
        return None if rank is None else int(rank)
    return LAST_LAYER_RANK if shape.softmax and shape.n_weights > MAX_WEIGHTS else None


def memory(plan: Plan, shape: Shape, n_draws: int) -> int:
    """Return the bytes beside the data that a fit needs."""
    matrices = shape.n_classes * shape.n_columns**2
    sizes = {"full": shape.n_weights**2, "class": matrices, "diagonal": shape.n_weights}
    if plan.form == "low-rank":
        numbers = _low_rank_bytes(shape, plan.n_directions) / 8
        numbers += 2 * shape.n_rows / RELEVANT_CURVATURE
    elif plan.form == "draws":
        numbers = 3 * n_draws * shape.n_weights + 4 * sizes[plan.whitening]
    else:
        numbers = 5 * sizes[plan.form]
    scores = 2 * min(shape.n_rows * shape.n_classes, 1 << 26)
    rows = shape.n_rows * (2 * shape.row_values + 4)
    return int(8 * (numbers + rows + scores + 30 * shape.n_weights))


def _low_rank_bytes(shape: Shape, n_directions: int) -> float:
    """Of the mean, a spectrum and directions per class, while they are made."""
    turned = 24 * shape.n_columns**2 if shape.n_columns <= MOST_TURNED else 0
    # The mean; in single precision sums over rows, scales and directions.
    of_weights = shape.n_weights * (8 + 12 + 4 * n_directions)
    blocks = 16 * max(1 << 21, MIN_ROWS * (shape.n_classes + shape.n_columns))
    rows = shape.n_rows * shape.row_values * (20 if shape.sparse else 12)
    return turned + of_weights + blocks + rows
