"""Base class of noises, bounds, samplers, solvers and priors.

A part is a small frozen dataclass with a name, options and a one-line description. Compiled code
sees a *tag* in its place (`bigcat.verbs`).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True, repr=False)
class Part:
    """Frozen dataclass that prints as the call that creates it, without default values.

    Examples
    --------
    >>> from bigcat.solvers import AdaGrad
    >>> AdaGrad(learning_rate=0.5)
    AdaGrad(learning_rate=0.5)
    """

    def options(self) -> dict[str, Any]:
        """Return the options as a dict."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def with_options(self, **changed: Any) -> Self:
        """Return a copy with changed options."""
        return replace(self, **changed)

    def __repr__(self) -> str:
        changed = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.init and not _same(value, _default(field)):
                changed.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


def _default(field: Field[Any]) -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _same(value: object, default: object) -> bool:
    """Return True if both values have one type and are equal; arrays never equal a default."""
    return type(value) is type(default) and bool(value == default)
