"""What tables and checks need of a posterior; those of `bigcat.bayes` have it."""

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
    def n_classes(self) -> int: ...

    @property
    def mean(self) -> np.ndarray: ...

    @property
    def covariance_form(self) -> Any: ...

    @property
    def odds_are_scores(self) -> bool: ...

    def log_probabilities(self, margins: np.ndarray) -> np.ndarray: ...

    def probability_quantiles(
        self, X: Any, tails: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]: ...

    def top_k(self, X: Any, k: int, how: str) -> tuple[np.ndarray, np.ndarray]: ...

    def log_proba_of(self, X: Any, labels: np.ndarray, how: str) -> np.ndarray: ...
