"""Charts of a fit, of its predictions and of its weights, as matplotlib axes.

Each function draws on the axes that you give as ``ax``, or on new ones, and returns them;
``bigcat.plots.save(axes, path)`` writes the picture.  They need matplotlib:
``pip install "bigcat[plot]"``.
"""

from bigcat.plots.fits import history, learning_curves
from bigcat.plots.predictions import by_frequency, confusions, hit_at_k, reliability
from bigcat.plots.style import require_matplotlib, save
from bigcat.plots.weights import class_map, coefficients

__all__ = [
    "by_frequency",
    "class_map",
    "coefficients",
    "confusions",
    "history",
    "hit_at_k",
    "learning_curves",
    "reliability",
    "require_matplotlib",
    "save",
]
