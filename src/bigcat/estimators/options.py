"""Parameters that are parts: their options through `get_params`, `set_params` and grid search.

A part is a frozen value, so setting an option of one puts another in its place; and where the
parameter is a name, the part of that name: ``set_params(method__link="logit")``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar, cast

from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from bigcat.part import Part

Named = TypeVar("Named")
Estimator = TypeVar("Estimator")
Function = TypeVar("Function", bound=Callable[..., Any])


def named_part(parameter: str, name: str, registry: Mapping[str, Named]) -> Named:
    """Return the part of that name; raise ValueError if there is none."""
    if name not in registry:
        raise ValueError(
            f"{parameter}={name!r} has no options; name one of {', '.join(map(repr, registry))}"
        )
    return registry[name]


def only_if(check: Callable[[Estimator], bool]) -> Callable[[Function], Function]:
    """Return scikit-learn's `available_if`, typed."""
    decorate: Callable[[Function], Function] = available_if(check)
    return decorate


def explains_unknown(init: Function) -> Function:
    """Make a constructor name the place of a parameter in `moved` of its class."""

    @functools.wraps(init)
    def explained(self: Any, *args: Any, **parameters: Any) -> None:
        _check_known(self, parameters)
        init(self, *args, **parameters)

    return cast(Function, explained)


def _check_known(estimator: Any, parameters: Mapping[str, Any]) -> None:
    kind: Any = type(estimator)
    for name in parameters.keys() & kind.moved.keys():
        raise TypeError(f"{kind.__name__} has no parameter {name!r}; set {kind.moved[name]}")


@functools.cache
def _parameter_names(kind: type[BaseEstimator]) -> tuple[str, ...]:
    """Return the names of parameters, cached: reading the signature slows `partial_fit`."""
    return tuple(kind._get_param_names())


class WithParts(BaseEstimator):
    """An estimator some of whose parameters are parts, or names of parts."""

    def _names(self) -> tuple[str, ...]:
        kind: Any = type(self)  # which is hashable, though types of `Self` are not taken for it
        return _parameter_names(kind)

    def _part(self, name: str) -> Part:
        """Return the part behind a parameter; raise ValueError if there is none."""
        value = getattr(self, name)
        if isinstance(value, Part):
            return value
        resolve = self._resolvers().get(name)
        if resolve is None:
            raise ValueError(
                f"{name}={value!r} has no options; only {', '.join(self._resolvers())} have"
            )
        return resolve(value)

    def _resolvers(self) -> dict[str, Callable[[Any], Part]]:
        """Return the functions that turn a name into a part, by parameter."""
        raise TypeError(f"{type(self).__name__} has to say which parameters are parts")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep` also options of parts, as ``part__option``.

        Parameters
        ----------
        deep : bool, default=True
        """
        found = {name: getattr(self, name) for name in self._names()}
        if deep:
            for name, value in list(found.items()):
                if isinstance(value, Part):
                    found |= {f"{name}__{option}": v for option, v in value.options().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, and options of parts as ``part__option``.

        Examples
        --------
        >>> from bigcat import LinearClassifier
        >>> model = LinearClassifier(method="augment-reduce")
        >>> model.set_params(method__n_nodes=4, solver="sgd", solver__learning_rate=0.1)
        LinearClassifier(method=AugmentReduce(n_nodes=4), solver=SGD(learning_rate=0.1))
        """
        own = {name: value for name, value in params.items() if "__" not in name}
        _check_known(self, own)
        super().set_params(**own)
        options: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            if "__" in name:
                owner, _, option = name.partition("__")
                options.setdefault(owner, {})[option] = value
        for name, changed in options.items():
            if name not in self._names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            part = self._part(name)
            unknown = sorted(set(changed) - set(part.options()))
            if unknown:
                raise ValueError(
                    f"{type(part).__name__} has no option {unknown[0]!r}; it has "
                    f"{', '.join(part.options()) or 'none'}"
                )
            setattr(self, name, part.with_options(**changed))
        return self
