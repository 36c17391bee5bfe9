"""The embedding of a low-rank fit, whose last layer then has the posterior."""

from __future__ import annotations

import numpy as np

from bigcat.auto import Parameters, plan_for
from bigcat.bayes._arrays import Floats
from bigcat.bayes.method import Task
from bigcat.linear import LowRankWeights
from bigcat.noise import Noise
from bigcat.rows import Sizes
from bigcat.training.data import without_duplicates
from bigcat.training.ensemble import train


def fit_embedding(task: Task, noise: Noise, rank: int) -> Floats:
    """Return the embedding, (n_features, rank), of a model fitted as `LinearClassifier` fits it."""
    parameters = Parameters(
        noise, rank=rank, fit_intercept=task.fit_intercept, n_threads=task.n_threads
    )
    sample = without_duplicates(task.sample)
    plan = plan_for(parameters, Sizes.of(sample.X, task.n_classes))
    weights = train(plan, sample, task.classes, task.random_state).weights
    if isinstance(weights, LowRankWeights):
        return weights.features.astype(np.float64)
    right = np.linalg.svd(weights.dense(), full_matrices=False)[2]
    found: Floats = right[:rank].T.astype(np.float64)
    return found
