"""Samplers of the classes that a step visits."""

import numpy as np


def uniform(
    rng: np.random.Generator, n_classes: int, y: int, n_negatives: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw classes other than y without replacement, each with the weight (K - 1) / |S|.

    With that weight a sum over the drawn classes is an unbiased estimate of the sum over all
    K - 1 others (A&R, section 2.1, "Reduce by subsampling").
    """
    drawn = rng.choice(n_classes - 1, size=n_negatives, replace=False)
    drawn += drawn >= y  # skip the label
    return drawn, np.full(n_negatives, (n_classes - 1) / n_negatives)


# Draws with replacement: the probability q of each class.  A class other than y drawn c times of n
# stands for c / (n q); draws of y are dropped.


def frequency(
    frequencies: np.ndarray, power: float, uniform_share: float, head: tuple[int, ...] = ()
) -> np.ndarray:
    """Return frequencies to a power mixed with uniform, over the classes not in the head."""
    tail = np.setdiff1d(np.arange(len(frequencies)), head)
    q = np.zeros(len(frequencies))
    if tail.size:
        p = np.asarray(frequencies, float)[tail] ** power
        by_frequency = p / p.sum() if p.sum() > 0.0 else np.full(tail.size, 1.0 / tail.size)
        q[tail] = (1.0 - uniform_share) * by_frequency + uniform_share / tail.size
    return q


def most_frequent(
    frequencies: np.ndarray, n_head: int, head: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """Return the head of stratified sampling: given classes, then the most frequent ones."""
    ranked = np.argsort(-np.asarray(frequencies), kind="stable")[:n_head]
    return (*head, *sorted(int(k) for k in ranked if k not in head))


def co_occurrence(
    present: np.ndarray,
    labels: np.ndarray,
    row: int,
    q0: np.ndarray,
    n_features: int,
    background: float,
) -> np.ndarray:
    """Return background q0 + (1 - background) mean_f n(f, k) / n(f) over the rarest features.

    ``present`` is a Boolean matrix, rows by features.  Classes of the head (where q0 is 0) are
    drawn too, and dropped.
    """
    n_with = present.sum(axis=0)
    own = np.flatnonzero(present[row])
    rarest = own[np.argsort(n_with[own], kind="stable")][:n_features]
    if not rarest.size:
        return q0
    shares = [np.bincount(labels[present[:, f]], minlength=len(q0)) / n_with[f] for f in rarest]
    return background * q0 + (1.0 - background) * np.mean(shares, axis=0)
