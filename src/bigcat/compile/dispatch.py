"""Functions dispatched on the type of a tag at compile time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from bigcat.compile.decorators import INLINED, Function, overloaded


def generic(template: Function) -> Function:
    """Make a function that is dispatched on the type of its first argument.

    Parameters
    ----------
    template : function
        Its name and docstring are kept; implementations take the same arguments.
    """
    implementations: dict[type | None, Function] = {}

    @functools.wraps(template)
    def dispatch(tag: Any, *args: Any) -> Any:
        found = implementations.get(type(tag), implementations.get(None))
        if found is None:
            raise TypeError(f"{type(tag).__name__} has no implementation of {template.__name__}()")
        return found(tag, *args)

    def choose(tag: Any, *args: Any) -> Function | None:
        kind = getattr(tag, "instance_class", None)
        if kind is not None and kind not in implementations and None not in implementations:
            from numba.core import errors

            raise errors.TypingError(
                f"{kind.__name__} has no implementation of {template.__name__}(); "
                f"register one with bigcat.compile.implement({template.__name__}, {kind.__name__})"
            )
        if kind is None:
            return None
        return implementations.get(kind, implementations.get(None))

    overloaded(dispatch, choose, INLINED)
    dispatch.implementations = implementations  # type: ignore[attr-defined]
    return dispatch


def implement(function: Function, tag: type | None) -> Callable[[Function], Function]:
    """Register the implementation of a generic `function` for one `tag` type.

    ``None`` registers the default of all other tags.
    """

    def register(implementation: Function) -> Function:
        function.implementations[tag] = implementation  # type: ignore[attr-defined]
        return implementation

    return register
