"""Types of the arrays that the Bayes code works with."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.floating[Any]]
#: Some of the classes: a range of them, or their numbers.
Block: TypeAlias = slice | NDArray[np.integer[Any]]
