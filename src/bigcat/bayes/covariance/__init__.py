"""Covariances of the weights, in the smallest form that holds them.

Each kind answers the same few questions for a block of classes (a slice or class numbers); what all
classes share is one row in the answer (shape (1, ...)), never a copy per class.
"""

from __future__ import annotations

from bigcat.bayes.covariance.base import Covariance
from bigcat.bayes.covariance.diagonal import ClassDiagonal, SharedDiagonal
from bigcat.bayes.covariance.drawn import Drawn
from bigcat.bayes.covariance.full import (
    ClassFull,
    JointFull,
    SharedFull,
    symmetric_inverse,
    symmetric_inverses,
)
from bigcat.bayes.covariance.pairs import BlockSums
from bigcat.bayes.covariance.turned import Turned

__all__ = [
    "BlockSums",
    "ClassDiagonal",
    "ClassFull",
    "Covariance",
    "Drawn",
    "JointFull",
    "SharedDiagonal",
    "SharedFull",
    "Turned",
    "symmetric_inverse",
    "symmetric_inverses",
]
