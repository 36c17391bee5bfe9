"""Skeleton of a kind of weights: one weight per class and group of neighbouring features, complete.

Copy this file and put your own kind in its place; docs/extending/weights.md explains it.

A row x becomes z = x G, one number per group, and a class scores v_k . z + b_k: the weights are
v G', (n_classes, n_features), and only v is learned. The columns of G have length 1, so that no row
gets longer.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bigcat import LinearClassifier, linear
from bigcat.auto import Parameters, plan_for
from bigcat.linear import Weights, WeightsKind
from bigcat.linear.labels import classes_of
from bigcat.linear.weights import Operands, contiguous, spread
from bigcat.rows import Sizes, as_rows
from bigcat.training.data import TrainingData
from bigcat.training.ensemble import train


def groups_of(n_features, n_groups):
    """Return G, (n_features, n_groups): the group of each feature."""
    group = np.arange(n_features) * n_groups // n_features
    members = np.zeros((n_features, n_groups), np.float32)
    members[np.arange(n_features), group] = np.bincount(group, minlength=n_groups)[group] ** -0.5
    return members


# Fitted weights


@dataclass(frozen=True, eq=False)
class GroupedWeights(Weights):
    """``classes @ groups.T``."""

    classes: np.ndarray  # (n_classes, n_groups)
    groups: np.ndarray  # (n_features, n_groups)

    # Arrays by name, from which the weights can be restored.

    @classmethod
    def names(cls):
        return ("class_group_coef", "feature_group")

    def arrays(self):
        return {"class_group_coef": self.classes, "feature_group": self.groups}

    @classmethod
    def from_arrays(cls, arrays):
        return cls(arrays["class_group_coef"], arrays["feature_group"])

    @property
    def shape(self):
        return len(self.classes), len(self.groups)

    @property
    def kind(self):
        return Grouped(self.classes.shape[1])

    # Scores.

    @property
    def class_vectors(self):
        return self.classes

    def matrices(self):
        return self.groups, self.classes.T

    def embed(self, X):
        return np.asarray(X @ self.groups)

    def operands(self, sparse, dtype):
        groups = self.groups.astype(dtype)
        return Operands(contiguous(self.classes), lambda x: np.asarray(x @ groups), False)

    def operands_in_place(self):
        return Operands(contiguous(self.classes), self.embed, False)

    def products(self, sparse, dtype):
        groups, classes = self.groups.astype(dtype), self.classes.T.astype(dtype)
        return lambda x: np.asarray(x @ groups) @ classes

    # Other units, and one number per class and feature.

    def dense(self):
        return self.classes @ self.groups.T

    def multiplied(self, factor):
        self.classes[:] *= factor
        return self

    def of_features(self, factors):
        return GroupedWeights(self.classes, self.groups * factors[:, None])

    # Another order of classes.

    def take(self, classes):
        return GroupedWeights(self.classes[classes], self.groups)

    def reordered(self, places, n_threads):
        return self.take(places)

    def grown(self, places, n_classes):
        return GroupedWeights(spread(self.classes, places, n_classes), self.groups)


# The kind, before any weights exist


@dataclass(frozen=True)
class Grouped(WeightsKind):
    """A weight for each class and group."""

    n_groups: int = 16
    scales_rows: ClassVar[bool] = False
    linear_scores: ClassVar[bool] = True
    sees_problem_rows: ClassVar[bool] = False  # but those of z
    has_vectors: ClassVar[bool] = False

    @property
    def rank(self):
        return self.n_groups

    def n_weights(self, n_features, n_classes):
        return self.n_groups * n_classes

    def working_dtype(self, dtype, n_features, n_classes):
        return np.float32 if dtype == np.float32 else np.float64

    # Before and after training. The trained array is (n_classes, n_groups).

    def start(self, problem, random, random_state):
        shape, dtype = self.trained_shape(problem.sizes), problem.rows.values.dtype
        classes = 0.1 * random_state.standard_normal(shape) if random else np.zeros(shape)
        return self.as_weights(classes.astype(dtype), problem)

    def trained_shape(self, sizes):
        return sizes.n_classes, self.n_groups

    def as_trained(self, weights, problem, dtype):
        return np.ascontiguousarray(weights.classes, dtype)

    def as_weights(self, trained, problem, for_good=False):
        return GroupedWeights(trained, self._groups(problem).astype(trained.dtype))

    def turned(self, state, problem):
        return state  # has one layout only

    # Inside training: kernels see dense rows of n_groups numbers.

    def rows_of_thread(self, problem, n_looked_at):
        rows, groups = problem.rows, self._groups(problem)
        if problem.sizes.sparse:
            from scipy.sparse import csr_array

            shape = (problem.n_rows, problem.n_features)
            z = csr_array((rows.values, rows.indices, rows.indptr), shape=shape) @ groups
        else:
            z = rows.values @ groups
        return as_rows(np.ascontiguousarray(z, rows.values.dtype), rows.values.dtype)

    def sees_dense_rows(self, sizes):
        return True

    def majors_of_row(self, sizes, n_classes):
        return n_classes

    # L-BFGS: the same array in float64.

    def as_matrix(self, weights, problem):
        return weights.classes.astype(np.float64)

    def of_matrix(self, matrix, problem):
        return self.as_weights(matrix, problem)

    def scores(self, matrix, x, problem):
        return np.asarray(x @ self._groups(problem)) @ matrix.T

    def add_gradient(self, gradient, matrix, x, grads, problem):
        gradient += grads.T @ np.asarray(x @ self._groups(problem))

    def _groups(self, problem):
        return groups_of(problem.n_features, self.n_groups)


# Use


def register():
    """Add the kind for estimators and model files."""
    linear.KINDS_OF_WEIGHTS = (*linear.KINDS_OF_WEIGHTS, GroupedWeights)


def fit(X, y, kind, **parameters):
    """Return a fitted `LinearClassifier` with weights of that kind; `X` is float32 or float64."""
    model = LinearClassifier(**parameters)
    classes, labels = classes_of(np.asarray(y))
    parameters = Parameters.of(model.get_params(deep=False)).keeping(kind)
    plan = plan_for(parameters, Sizes.of(X, len(classes)))
    data = TrainingData(X, labels, np.ones(len(labels)))
    result = train(plan, data, classes, np.random.RandomState(0))
    model.restore(result.weights, result.intercept, classes, result.history)
    model.n_features_in_, model.class_count_ = X.shape[1], np.bincount(labels)
    return model
