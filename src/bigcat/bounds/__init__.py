"""Objectives: log p(y | x), lower bounds of it, and estimators that are not bounds."""

from bigcat.bounds._base import Bound, full_rows
from bigcat.bounds.augment_reduce import AugmentReduce
from bigcat.bounds.bouchard import Bouchard
from bigcat.bounds.exact import Exact
from bigcat.bounds.not_bounds import Complementary, ImportanceSampling, NoiseContrastive
from bigcat.bounds.one_vs_each import OneVsEach
from bigcat.bounds.raman import Raman

__all__ = [
    "AugmentReduce",
    "Bouchard",
    "Bound",
    "Complementary",
    "Exact",
    "ImportanceSampling",
    "NoiseContrastive",
    "OneVsEach",
    "Raman",
    "full_rows",
]

REGISTRY: dict[str, type[Bound]] = {
    b.name: b
    for b in (
        Exact,
        OneVsEach,
        Bouchard,
        AugmentReduce,
        Raman,
        NoiseContrastive,
        ImportanceSampling,
        Complementary,
    )
}
