"""Noises of the random utilities: ``y = argmax_k score_k + noise_k``, independent over k."""

from bigcat.noise._base import Noise
from bigcat.noise.custom import CustomNoise
from bigcat.noise.gaussian import Gaussian
from bigcat.noise.gumbel import Gumbel
from bigcat.noise.logistic import Logistic

__all__ = ["CustomNoise", "Gaussian", "Gumbel", "Logistic", "Noise", "resolve"]

#: Noises by name; `CustomNoise` has no name of its own.
REGISTRY: dict[str, Noise] = {n.name: n for n in (Gumbel(), Gaussian(), Logistic())}


def resolve(noise: "str | Noise") -> Noise:
    """Return the noise of a name; return a noise object as it is.

    Examples
    --------
    >>> from bigcat.noise import resolve
    >>> resolve("gaussian")
    Gaussian()
    """
    if isinstance(noise, Noise):
        if isinstance(noise, CustomNoise):
            noise.check()
        return noise
    if isinstance(noise, str) and noise in REGISTRY:
        return REGISTRY[noise]
    raise ValueError(
        f"noise={noise!r} is not known; choose one of {', '.join(map(repr, REGISTRY))} "
        "or give a bigcat.noise.CustomNoise"
    )
