"""Diagnostics of data and of fitted models.

Before a fit, :func:`check_leakage` reports rows that depend on each other.  After it, the other
functions report strong features, similar classes, confusions, and the reason for a prediction.
They return plain rows (lists of dicts), which :mod:`bigcat.plots` draws and ``bigcat report``
shows.  None of them allocates an array of rows times classes or of classes times features.
"""

from bigcat.inspection.explanation import explain
from bigcat.inspection.features import strongest_features
from bigcat.inspection.leakage import LeakageReport, check_leakage
from bigcat.inspection.predictions import confusions, hit_curve
from bigcat.inspection.similarity import class_map, nearest_classes

__all__ = [
    "LeakageReport",
    "check_leakage",
    "class_map",
    "confusions",
    "explain",
    "hit_curve",
    "nearest_classes",
    "strongest_features",
]
