"""Small simulated problems from NumPy alone, independent of the version of bigcat."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse


class Problem(NamedTuple):
    """Rows and labels."""

    X: Any
    y: np.ndarray

    def words(self) -> Problem:
        """The same with strings for labels."""
        return Problem(self.X, np.array([f"class {k}" for k in self.y]))


#: Form, rows, features, classes.  Below 2,048 classes keep their order inside, above they do not;
#: "auto" takes another way above 2,000 rows, for wide sparse rows, and above 4,096 classes.
SIZES: dict[str, tuple[str, int, int, int]] = {
    "two": ("dense64", 300, 5, 2),
    "few": ("csr32", 600, 50, 30),
    "few csr64": ("csr64", 600, 50, 30),
    "few32": ("dense32", 500, 10, 12),
    "few64": ("dense64", 500, 10, 12),
    "rows": ("csr32", 2_600, 60, 30),
    "rows32": ("dense32", 2_600, 10, 12),
    "wide": ("csr32", 2_600, 700, 600),
    "many": ("csr32", 5_200, 900, 2_400),
    "many32": ("dense32", 3_000, 6, 2_100),
    "most": ("csr32", 6_000, 400, 4_200),
    "most32": ("dense32", 5_000, 6, 4_200),
}


@functools.cache
def problem(name: str) -> Problem:
    return made_up(*SIZES[name])


def made_up(form: str, n: int, n_features: int, n_classes: int, seed: int = 0) -> Problem:
    """Labels of falling frequency, each at least once, and rows that look like their class.

    Parameters
    ----------
    form : {"dense32", "dense64", "csr32", "csr64"}
    """
    rng = np.random.default_rng(seed)
    weights = np.arange(1, n_classes + 1) ** -0.7
    often = rng.choice(n_classes, size=n - n_classes, p=weights / weights.sum())
    # Frequency is no matter of the number, nor are rows in any order.
    names = rng.permutation(n_classes)
    labels = rng.permutation(names[np.concatenate([np.arange(n_classes), often])])
    dtype = np.float32 if form.endswith("32") else np.float64
    if form.startswith("dense"):
        centres = rng.standard_normal((n_classes, n_features))
        X = (centres[labels] + rng.standard_normal((n, n_features))).astype(dtype)
    else:
        X = _sparse_rows(rng, labels, n_features, n_classes, dtype)
    return Problem(X, 10 + 3 * labels)


def _sparse_rows(rng, labels, n_features: int, n_classes: int, dtype: Any) -> Any:
    """Three features of the class and three of any; no row is empty, few are alike."""
    own = rng.integers(n_features, size=(n_classes, 5))
    n = len(labels)
    picked = own[labels[:, None], rng.integers(5, size=(n, 3))]
    columns = np.hstack([picked, rng.integers(n_features, size=(n, 3))]).ravel()
    values = rng.uniform(0.2, 1.0, size=columns.size).astype(dtype)
    X = scipy.sparse.csr_matrix(
        (values, (np.repeat(np.arange(n), 6), columns)), shape=(n, n_features), dtype=dtype
    )
    X.sum_duplicates()
    return X


@functools.cache
def custom_noise() -> Any:
    """Logistic noise of scale 1.5, from plain functions."""
    from bigcat.noise import CustomNoise

    return CustomNoise("wide-logistic", _log_cdf, _log_cdf_grad, _log_pdf, _log_pdf_grad)


def _log_cdf(t):
    z = t / 1.5
    return -math.log1p(math.exp(-z)) if z > 0.0 else z - math.log1p(math.exp(z))


def _log_cdf_grad(t):
    return 1.0 / (1.5 * (1.0 + math.exp(t / 1.5)))


def _log_pdf(t):
    z = abs(t) / 1.5
    return -z - 2.0 * math.log1p(math.exp(-z)) - math.log(1.5)


def _log_pdf_grad(t):
    return -math.tanh(t / 3.0) / 1.5
