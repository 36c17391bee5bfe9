"""Diagnostics of fitted models: strong features, similar classes, confusions, explanations.

Functions return plain rows (lists of dicts), which :mod:`bigcat.plots` draws and ``bigcat report``
shows.  None of them allocates an array of rows times classes or of classes times features.
"""

from bigcat.inspection.explanation import explain
from bigcat.inspection.features import strongest_features
from bigcat.inspection.predictions import confusions, hit_curve, training_counts
from bigcat.inspection.similarity import class_map, nearest_classes

__all__ = [
    "class_map",
    "confusions",
    "explain",
    "hit_curve",
    "nearest_classes",
    "strongest_features",
    "training_counts",
]
