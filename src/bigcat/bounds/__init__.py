"""What is optimised: log p(y | x) or a bound below it."""

from bigcat.bounds._base import Bound
from bigcat.bounds.augment_reduce import AugmentReduce
from bigcat.bounds.bouchard import Bouchard
from bigcat.bounds.exact import Exact
from bigcat.bounds.one_vs_each import OneVsEach

__all__ = ["AugmentReduce", "Bouchard", "Bound", "Exact", "OneVsEach"]

REGISTRY: dict[str, type[Bound]] = {b.name: b for b in (Exact, OneVsEach, Bouchard, AugmentReduce)}
