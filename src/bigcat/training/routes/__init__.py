"""Ways through the rows: over all classes, in batches that share classes, one by one.

Each says whether it leads where a fit wants to go, what it allocates, and which kernel it runs.
"""

from __future__ import annotations

from bigcat.training.routes.all_classes import AllClasses
from bigcat.training.routes.base import Journey, Route
from bigcat.training.routes.batches import SharedClasses
from bigcat.training.routes.rows import RowByRow
from bigcat.training.routes.vectors import AllVectors

__all__ = [
    "ROUTES",
    "AllClasses",
    "AllVectors",
    "Journey",
    "Route",
    "RowByRow",
    "SharedClasses",
    "route_for",
]

#: The quickest first; the last one leads everywhere.
ROUTES: tuple[type[Route], ...] = (AllClasses, AllVectors, SharedClasses, RowByRow)


def route_for(journey: Journey) -> type[Route]:
    """The quickest route that leads there."""
    return next(route for route in ROUTES if route.applies(journey))
