"""Rows with their labels and weights, before they are in the form that kernels take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split


class Sample(NamedTuple):
    """Checked rows, the numbers of their classes, and how much each counts."""

    X: Any
    labels: np.ndarray
    row_weights: np.ndarray

    @property
    def n_rows(self) -> int:
        return len(self.labels)

    def take(self, rows: np.ndarray) -> Sample:
        return Sample(self.X[rows], self.labels[rows], self.row_weights[rows])

    def that_counts(self) -> Sample:
        """Without rows of weight 0, which are as if they were not there; no copy if all count."""
        return self if self.row_weights.all() else self.take(self.row_weights > 0.0)

    def renumbered(self, number: np.ndarray) -> Sample:
        """With class k called ``number[k]``."""
        return self._replace(labels=number[self.labels])


def hold_out(
    sample: Sample,
    n_classes: int,
    fraction: float,
    random_state: np.random.RandomState,
    remedy: str,
) -> tuple[Sample, Sample]:
    """What is left, and validation rows none of whose classes is missing in it."""
    labels = sample.labels
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
    return sample.take(kept), sample.take(held)
