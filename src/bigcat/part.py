"""What noises, bounds, samplers, solvers and priors have in common: small frozen dataclasses.

A part is what people hold: a value with a name, options, and a line that says what it promises.
What kernels see of it is a *tag* (`bigcat.verbs`).
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True, repr=False)
class Part:
    """A frozen dataclass that prints as the call that makes it, without what is left as it was.

    Examples
    --------
    >>> from bigcat.solvers import AdaGrad
    >>> AdaGrad(learning_rate=0.5)
    AdaGrad(learning_rate=0.5)
    """

    def options(self) -> dict[str, Any]:
        """What can be set, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.init}

    def with_options(self, **changed: Any) -> Self:
        """The same with other options."""
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
    """Equal, and of one type: arrays are never equal to a default."""
    return type(value) is type(default) and bool(value == default)
