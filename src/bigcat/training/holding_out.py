"""Rows that are held out to judge by."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split


def hold_out(
    X: Any,
    labels: np.ndarray,
    weights: np.ndarray,
    n_classes: int,
    fraction: float,
    random_state: np.random.RandomState,
    remedy: str,
) -> tuple[Any, np.ndarray, np.ndarray, tuple[Any, np.ndarray, np.ndarray]]:
    """Split off validation rows, none of whose classes is missing in what is left."""
    indices = np.arange(len(labels))
    try:
        kept, held = train_test_split(indices, test_size=fraction, random_state=random_state)
    except ValueError as error:
        raise ValueError(
            f"validation_fraction={fraction} leaves no rows on one side of {len(labels)}; {remedy}"
        ) from error
    missing = np.bincount(labels[kept], minlength=n_classes) == 0
    back = missing[labels[held]]
    kept, held = np.sort(np.concatenate([kept, held[back]])), held[~back]
    if not len(held):
        raise ValueError(
            f"no validation row has a class that is left in the training rows; {remedy}"
        )
    return X[kept], labels[kept], weights[kept], (X[held], labels[held], weights[held])
