"""Samplers of the classes that a step visits."""

from bigcat.samplers._base import Sampler
from bigcat.samplers.co_occurrence import CoOccurrence
from bigcat.samplers.everything import Everything
from bigcat.samplers.frequency import Frequency, Shared, Stratified
from bigcat.samplers.uniform import Uniform

__all__ = ["CoOccurrence", "Everything", "Frequency", "Sampler", "Shared", "Stratified", "Uniform"]

REGISTRY: dict[str, type[Sampler]] = {
    s.name: s for s in (Uniform, Everything, Frequency, Stratified, CoOccurrence, Shared)
}
