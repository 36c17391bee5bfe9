"""User-defined noise, from four plain Python functions that numba can compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bigcat.compile import call_address, implement
from bigcat.compile.callbacks import NotCompilableError, callback
from bigcat.noise._base import Noise
from bigcat.verbs import log_cdf, log_cdf_grad, log_cdf_with_grad, log_pdf, log_pdf_grad


class CustomTag(NamedTuple):
    """Addresses of the compiled functions: all custom noises share one cached kernel."""

    log_cdf: int
    log_cdf_grad: int
    log_pdf: int
    log_pdf_grad: int


ScalarFunction = Callable[[float], float]
# Points of comparison, step of finite differences and tolerance.
_PROBES = np.array([-3.0, -0.7, 0.0, 0.4, 2.5])
_STEP, _TOLERANCE = 1e-5, 1e-4


@dataclass(frozen=True, init=False, repr=False)
class CustomNoise(Noise):
    """Noise defined by plain Python functions of one number.

    The functions run inside compiled kernels, so they may use arithmetic, ``if`` and the `math`
    module; see `docs/extending/noise.md` for a Student-t.

    Parameters
    ----------
    name : str
        Name in messages and model files.
    log_cdf, log_cdf_grad : callable
        Log of the distribution function and its derivative.
    log_pdf, log_pdf_grad : callable
        Log of the density and its derivative.

    Examples
    --------
    >>> import math
    >>> from bigcat.noise import CustomNoise
    >>> cauchy = CustomNoise(
    ...     "cauchy",
    ...     lambda t: math.log(math.atan2(1.0, -t) / math.pi),
    ...     lambda t: 1.0 / ((1.0 + t * t) * math.atan2(1.0, -t)),
    ...     lambda t: -math.log(math.pi * (1.0 + t * t)),
    ...     lambda t: -2.0 * t / (1.0 + t * t),
    ... )
    >>> float(cauchy.log_cdf(0.0).round(4))
    -0.6931
    """

    name: str  # type: ignore[misc]
    functions: tuple[ScalarFunction, ScalarFunction, ScalarFunction, ScalarFunction]

    def __init__(
        self,
        name: str,
        log_cdf: ScalarFunction,
        log_cdf_grad: ScalarFunction,
        log_pdf: ScalarFunction,
        log_pdf_grad: ScalarFunction,
    ) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "functions", (log_cdf, log_cdf_grad, log_pdf, log_pdf_grad))

    def options(self) -> dict[str, Any]:
        """Return no options: those of the object are its functions."""
        return {}

    def lower(self) -> CustomTag:
        """Return the addresses of the compiled functions."""
        pairs = zip(self.functions, CustomTag._fields)
        return CustomTag(*(_compiled(function, field).address for function, field in pairs))

    def check(self) -> None:
        """Raise ValueError if the functions are not finite or contradict each other."""
        _check(self.name, *self.functions)


@functools.cache
def _check(name: str, *functions: ScalarFunction) -> None:
    """Check the functions of a noise, once per noise."""
    noise = CustomNoise(name, *functions)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite does not fit
        for field in ("log_cdf", "log_pdf"):
            _check_derivative(noise, field)
        _check_density(noise)


def _check_derivative(noise: CustomNoise, field: str) -> None:
    """Compare a derivative with finite differences; at a corner, values in between pass."""
    function, stated = getattr(noise, field), getattr(noise, f"{field}_grad")(_PROBES)
    here = function(_PROBES)
    sides = (
        (here - function(_PROBES - _STEP)) / _STEP,
        (function(_PROBES + _STEP) - here) / _STEP,
    )
    measured = 0.5 * (sides[0] + sides[1])
    slack = _TOLERANCE * (1.0 + np.abs(measured))
    fits = (np.minimum(*sides) - slack <= stated) & (stated <= np.maximum(*sides) + slack)
    if not fits.all():
        i = int(np.flatnonzero(~fits)[0])
        raise ValueError(
            f"noise {noise.name!r}: {field}_grad({_PROBES[i]}) is {stated[i]:.6g}, but the "
            f"finite difference of {field} there is {measured[i]:.6g}; "
            "correct one of the two functions"
        )


def _check_density(noise: CustomNoise) -> None:
    """Compare the density with the derivative of the distribution function.

    Both are divided by the distribution function: one becomes `log_cdf_grad`, and tails become
    comparable.
    """
    stated = np.exp(noise.log_pdf(_PROBES) - noise.log_cdf(_PROBES))
    expected = noise.log_cdf_grad(_PROBES)
    fits = np.abs(stated - expected) <= _TOLERANCE * (1.0 + np.abs(expected))
    if not fits.all():
        i = int(np.flatnonzero(~fits)[0])
        cdf = np.exp(noise.log_cdf(_PROBES[i]))
        raise ValueError(
            f"noise {noise.name!r}: log_pdf gives the density {stated[i] * cdf:.6g} at "
            f"{_PROBES[i]}, but the derivative of the distribution function there, by log_cdf, is "
            f"{expected[i] * cdf:.6g}; correct one of the two functions (a log-density needs its "
            "constant)"
        )


@functools.cache
def _compiled(function: ScalarFunction, field: str) -> Any:
    try:
        return callback(function)
    except NotCompilableError as error:
        raise ValueError(
            f"the noise's {field} cannot be compiled: {error}. "
            "Use arithmetic, if and the math module on one float"
        ) from error


@implement(log_cdf, CustomTag)
def _(noise, t):
    return call_address(noise.log_cdf, t)


@implement(log_cdf_grad, CustomTag)
def _(noise, t):
    return call_address(noise.log_cdf_grad, t)


@implement(log_cdf_with_grad, CustomTag)
def _(noise, t):
    return call_address(noise.log_cdf, t), call_address(noise.log_cdf_grad, t)


@implement(log_pdf, CustomTag)
def _(noise, t):
    return call_address(noise.log_pdf, t)


@implement(log_pdf_grad, CustomTag)
def _(noise, t):
    return call_address(noise.log_pdf_grad, t)
