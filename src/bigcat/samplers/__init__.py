"""Which classes a step looks at."""

from bigcat.samplers._base import Sampler
from bigcat.samplers.everything import Everything
from bigcat.samplers.uniform import Uniform

__all__ = ["Everything", "Sampler", "Uniform"]

REGISTRY: dict[str, type[Sampler]] = {s.name: s for s in (Uniform, Everything)}
