"""Form of posterior that a Laplace fit keeps: draws, a Gaussian, or that of a last layer.

The numbers of weights, rows and classes decide, never a measured time; docs/bayesian.md has the
table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from bigcat.noise import Noise
from bigcat.rows import Sizes

#: Forms by name: draws, or a Gaussian with the covariance of all weights or of each class.
FORMS = ("draws", "full", "class")
#: Draws are kept up to this number of weights, and of multiplications per gradient.
MAX_DRAWN_WEIGHTS, MAX_PRODUCTS_OF_GRADIENT = 20_000, 2e8
#: Multiplications that a score counts as: of the softmax, and of a probability by quadrature.
PRODUCTS_OF_SOFTMAX, PRODUCTS_OF_INTEGRAL = 100, 16_000
#: Weights with one matrix for all; numbers of the matrices of all classes, and the multiplications
#: that these may take where they are dearer than the mode.
MAX_JOINT_WEIGHTS = 1_024
MAX_CLASS_NUMBERS, MAX_CLASS_PRODUCTS = 1 << 27, 1e12
#: Gradients on the way to a mode.
GRADIENTS_TO_MODE = 60
#: Rank of the model whose last layer has the posterior where the matrices do not fit.
LAST_LAYER_RANK = 32


class Shape(NamedTuple):
    """Sizes that decide about the form; columns include the intercept."""

    n_rows: int
    n_columns: int
    n_classes: int
    row_values: float
    softmax: bool

    @classmethod
    def of(cls, sizes: Sizes, intercept: bool, noise: Noise) -> Shape:
        """Return the sizes of a problem."""
        return cls(
            sizes.n_rows,
            sizes.n_features + intercept,
            sizes.n_classes,
            sizes.n_values / max(sizes.n_rows, 1) + intercept,
            noise.softmax,
        )

    @property
    def n_weights(self) -> int:
        """Number of weights of all classes."""
        return self.n_classes * self.n_columns

    def last_layer(self, rank: int, intercept: bool) -> Shape:
        """Return the sizes of the last layer of a model of that rank."""
        n = rank + intercept
        return self._replace(n_columns=n, row_values=float(n))

    @property
    def products_of_gradient(self) -> float:
        """Multiplications of a gradient."""
        of_score = PRODUCTS_OF_SOFTMAX if self.softmax else PRODUCTS_OF_INTEGRAL
        return float(self.n_rows) * self.n_classes * (self.row_values + of_score)

    @property
    def can_be_drawn(self) -> bool:
        """True if draws are affordable."""
        few = self.n_weights <= MAX_DRAWN_WEIGHTS and self.fits_matrices
        return few and self.products_of_gradient <= MAX_PRODUCTS_OF_GRADIENT

    @property
    def fits_matrices(self) -> bool:
        """True if a matrix per class fits into memory and time."""
        numbers = self.n_classes * self.n_columns**2
        of_mode = GRADIENTS_TO_MODE * self.products_of_gradient
        products = float(self.n_rows) * numbers
        return numbers <= MAX_CLASS_NUMBERS and products <= max(MAX_CLASS_PRODUCTS, of_mode)

    @property
    def finest(self) -> str:
        """Finest covariance of a Gaussian, and whitening of chains."""
        return "full" if self.n_weights <= MAX_JOINT_WEIGHTS else "class"


@dataclass(frozen=True)
class Plan:
    """Form of the posterior.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    whitening : {"full", "class"}
        Of chains.
    reason : str
    """

    form: str
    whitening: str
    reason: str

    @classmethod
    def of(cls, covariance: str, shape: Shape) -> Plan:
        """Return the plan for a covariance, or for the sizes if it is "auto"."""
        form, reason = covariance, "named"
        if covariance == "auto":
            form, reason = _form(shape)
        return cls(form, shape.finest, reason)


def _form(shape: Shape) -> tuple[str, str]:
    weights = f"{shape.n_weights:,} weights and {shape.n_rows:,} rows"
    if shape.can_be_drawn:
        return "draws", f"{weights} are few enough for draws of the posterior itself"
    if shape.n_weights <= MAX_JOINT_WEIGHTS:
        return "full", f"{weights}: a Gaussian with the covariance of all weights"
    return "class", f"{weights}: a Gaussian with a covariance per class"


def resolve_rank(
    rank: int | str | None, covariance: str, shape: Shape, intercept: bool
) -> int | None:
    """Return the rank of the model whose last layer has the posterior; None for all weights.

    The rank "auto" is None where the matrices of all classes fit, and for a covariance by name.
    """
    if rank != "auto":
        return None if rank is None else int(rank)
    if covariance != "auto" or shape.fits_matrices:
        return None
    if not shape.softmax:
        raise ValueError(
            f"{shape.n_classes:,} covariance matrices of {shape.n_columns:,} columns are too many "
            "for a noise other than 'gumbel'; reduce the columns of X, or set "
            "method='augment-reduce'"
        )
    largest = int((MAX_CLASS_NUMBERS / shape.n_classes) ** 0.5) - intercept
    return max(1, min(LAST_LAYER_RANK, largest))


def memory(plan: Plan, shape: Shape, n_draws: int) -> int:
    """Return the bytes beside the data that a fit needs."""
    sizes = {"full": shape.n_weights**2, "class": shape.n_classes * shape.n_columns**2}
    if plan.form == "draws":
        numbers = 3 * n_draws * shape.n_weights + 4 * sizes[plan.whitening]
    else:
        numbers = 5 * sizes[plan.form]
    scores = 2 * min(shape.n_rows * shape.n_classes, 1 << 26)
    rows = shape.n_rows * (2 * shape.row_values + 4)
    return int(8 * (numbers + rows + scores + 30 * shape.n_weights))
