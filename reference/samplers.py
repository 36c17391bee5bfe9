"""Which classes a step looks at."""

import numpy as np


def uniform(
    rng: np.random.Generator, n_classes: int, y: int, n_negatives: int
) -> tuple[np.ndarray, np.ndarray]:
    """Classes other than y, uniform without replacement, each with the weight (K - 1) / |S|.

    With that weight a sum over the drawn classes is an unbiased estimate of the sum over all
    K - 1 others (A&R, section 2.1, "Reduce by subsampling").
    """
    drawn = rng.choice(n_classes - 1, size=n_negatives, replace=False)
    drawn += drawn >= y  # skip the label
    return drawn, np.full(n_negatives, (n_classes - 1) / n_negatives)
