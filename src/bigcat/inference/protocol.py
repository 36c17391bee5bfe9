"""Interface of posteriors for tables and checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
#: Numbers that a temporary may hold.
BLOCK = 1 << 21


class Posterior(Protocol):
    """A posterior over the weights of all classes."""

    classes: np.ndarray
    intercept: bool

    @property
    def n_classes(self) -> int:
        """Number of classes."""

    @property
    def mean(self) -> np.ndarray:
        """Means, (n_classes, M)."""

    @property
    def covariance_form(self) -> Any:
        """Covariances for columns as given."""

    @property
    def odds_are_scores(self) -> bool:
        """True if log-odds are differences of scores."""

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray:
        """Return log-probabilities at given scores."""

    def probability_quantiles(
        self, X: Any, tails: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield rows and quantiles of their probabilities."""

    def top_k(self, X: Any, k: int, how: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable classes of each row."""

    def log_proba_of(self, X: Any, labels: np.ndarray, how: str) -> np.ndarray:
        """Return the log-probability of one class of each row."""
