"""Methods: named combinations of a bound, a sampler and a solver.

A published method is one entry here, with its citation, never a class of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bigcat.bounds import REGISTRY as BOUNDS
from bigcat.bounds import (
    AugmentReduce,
    Bouchard,
    Bound,
    Complementary,
    Exact,
    ImportanceSampling,
    NoiseContrastive,
    OneVsEach,
    Raman,
)
from bigcat.noise import REGISTRY as NOISES
from bigcat.noise import Noise
from bigcat.samplers import REGISTRY as SAMPLERS
from bigcat.samplers import Sampler
from bigcat.solvers import REGISTRY as SOLVERS
from bigcat.solvers import Solver

Kind = TypeVar("Kind")

__all__ = ["Method", "Parts", "check_parts", "methods", "register", "resolve", "resolve_method"]


@dataclass(frozen=True)
class Method:
    """Combination of a bound, a sampler and a solver under a name.

    Parameters
    ----------
    name : str
        Name in `bigcat.methods()`, messages and the parameter `method`.
    bound : Bound
        Objective to maximise.
    sampler : str, default="uniform"
    solver : str, default="adagrad"
        Defaults; the estimator's parameters of the same names override them.
    citation : str, default=""
        Publication.

    Examples
    --------
    >>> from bigcat import LinearClassifier, Method
    >>> from bigcat.bounds import AugmentReduce
    >>> near = Method("near-eta", AugmentReduce(band=2.0))
    >>> LinearClassifier(method=near).method.solver
    'adagrad'
    """

    name: str
    bound: Bound
    sampler: str = "uniform"
    solver: str = "adagrad"
    citation: str = ""


@dataclass(frozen=True)
class Parts:
    """Resolved combination: noise, bound, sampler and solver."""

    noise: Noise
    bound: Bound
    sampler: Sampler
    solver: Solver


_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method to the registry of the estimators and the command line.

    Examples
    --------
    >>> from bigcat.bounds import AugmentReduce
    >>> from bigcat.combinations import Method, register
    >>> method = register(Method("tight-eta", AugmentReduce(band=2.0)))  # doctest: +SKIP
    >>> bigcat.LinearClassifier(method="tight-eta")  # doctest: +SKIP
    LinearClassifier(method='tight-eta')
    """
    if method.name in _METHODS:
        raise ValueError(f"a method named {method.name!r} exists already; choose another name")
    _METHODS[method.name] = method
    return method


register(
    Method(
        "augment-reduce",
        AugmentReduce(),
        "uniform",
        "adagrad",
        "Ruiz, Titsias, Dieng and Blei (2018), Augment and Reduce, ICML",
    )
)
register(
    Method(
        "one-vs-each",
        OneVsEach(),
        "uniform",
        "adagrad",
        "Titsias (2016), One-vs-Each Approximation to Softmax, NIPS",
    )
)
_UNBIASED = "Fagan and Iyengar (2018), Unbiased scalable softmax optimization"
register(Method("implicit", AugmentReduce(), "uniform", "implicit", _UNBIASED))
register(Method("umax", AugmentReduce(), "uniform", "umax", _UNBIASED))
register(Method("vanilla", AugmentReduce(), "uniform", "vanilla", _UNBIASED))
register(
    Method(
        "raman",
        Raman(),
        "uniform",
        "umax",
        "Raman et al. (2016), DS-MLR, arXiv:1604.04706",
    )
)
register(
    Method(
        "nce",
        NoiseContrastive(),
        "uniform",
        "adagrad",
        "Mnih and Teh (2012), A fast and simple algorithm for training neural probabilistic "
        "language models, ICML",
    )
)
register(
    Method(
        "importance",
        ImportanceSampling(),
        "uniform",
        "adagrad",
        "Bengio and Senecal (2008), Adaptive importance sampling, IEEE Trans. Neural Networks; "
        "Jean et al. (2015), On using very large target vocabulary, ACL",
    )
)
register(
    Method(
        "complementary",
        Complementary(),
        "uniform",
        "adagrad",
        "Botev, Zheng and Barber (2017), Complementary sum sampling, AISTATS",
    )
)
register(
    Method(
        "bouchard",
        Bouchard(),
        "everything",
        "lbfgs",
        "Bouchard (2007), Efficient Bounds for the Softmax Function",
    )
)
register(
    Method(
        "exact",
        Exact(),
        "everything",
        "lbfgs",
        "maximum likelihood",
    )
)


class MethodTable(list[dict[str, Any]]):
    """List of one dict per method that prints as a table."""

    def __repr__(self) -> str:
        columns = list(self[0]) if self else []
        rows = [columns] + [[_cell(row[c]) for c in columns] for row in self]
        widths = [max(len(row[j]) for row in rows) for j in range(len(columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows
        )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def methods() -> MethodTable:
    """Return the named methods with their requirements and properties.

    Returns
    -------
    list of dict
        Keys: ``name``; ``bound``, ``sampler``, ``solver`` (the parts); ``noises`` (supported ones);
        ``is_bound`` (never above the log-likelihood); ``unbiased`` (the expectation of its sampled
        gradient is the gradient of the likelihood or of its bound); ``needs``; ``summary``;
        ``citation``.

    Examples
    --------
    >>> import bigcat
    >>> [m["name"] for m in bigcat.methods() if not m["is_bound"]]
    ['nce', 'importance', 'complementary']
    """
    return MethodTable(_describe(m) for m in _METHODS.values())


def _describe(method: Method) -> dict[str, Any]:
    bound = method.bound
    solver = SOLVERS[method.solver]
    all_classes = SAMPLERS[method.sampler].all_classes
    needs = ["all classes every step" if all_classes else "a few classes per row"]
    if not solver.stochastic:
        needs.append("all rows every step")
    if bound.n_local and solver.stochastic:
        n = bound.n_local
        needs.append("1 number per row" if n == 1 else f"{n} numbers per row")
    noises = list(bound.noises) if bound.noises is not None else [*NOISES, "custom"]
    noises = [name for name in noises if solver.supports_noise(name)]
    return {
        "name": method.name,
        "bound": bound.name,
        "sampler": method.sampler,
        "solver": method.solver,
        "noises": noises,
        "is_bound": bound.is_bound,
        "unbiased": bound.is_bound and (bound.can_sample or all_classes),
        "needs": needs,
        "summary": bound.summary,
        "citation": method.citation,
    }


def resolve_method(method: str | Method | Bound) -> Method:
    """Return the method of a name; a bound stands for the method named after it."""
    if isinstance(method, Method):
        return method
    if isinstance(method, Bound):
        return (
            replace(_METHODS[method.name], bound=method)
            if method.name in _METHODS
            else Method(method.name, method, "uniform" if method.can_sample else "everything")
        )
    if not isinstance(method, str) or method not in _METHODS:
        raise ValueError(
            f"method={method!r} is not known; choose one of "
            f"{', '.join(map(repr, _METHODS))} (bigcat.methods() describes them)"
        )
    return _METHODS[method]


def resolve(
    method: str | Method | Bound,
    noise: Noise,
    *,
    solver: str | Solver = "auto",
    sampler: str | Sampler = "auto",
) -> Parts:
    """Turn names into parts and check that they are compatible."""
    method = resolve_method(method)
    the_solver = named_solver(solver) or SOLVERS[method.solver]()
    # A method for all classes keeps them. Solvers that visit everything ignore the sampler of other
    # methods.
    usual = method.sampler if the_solver.stochastic else "everything"
    the_sampler = named_sampler(sampler) or SAMPLERS[usual]()
    parts = Parts(noise, method.bound, the_sampler, the_solver)
    check_parts(parts)
    return parts


def named_solver(solver: str | Solver) -> Solver | None:
    """Return the solver of a name; None for "auto"."""
    if isinstance(solver, Solver):
        return solver
    kind = _registered("solver", solver, SOLVERS)
    return None if kind is None else kind()


def named_sampler(sampler: str | Sampler) -> Sampler | None:
    """Return the sampler of a name; None for "auto"."""
    if isinstance(sampler, Sampler):
        return sampler
    kind = _registered("sampler", sampler, SAMPLERS)
    return None if kind is None else kind()


def _registered(parameter: str, name: str, registry: Mapping[str, Kind]) -> Kind | None:
    if not isinstance(name, str) or name not in ("auto", *registry):
        raise ValueError(
            f"{parameter}={name!r} is not known; choose 'auto' or one of "
            f"{', '.join(map(repr, registry))}"
        )
    return registry.get(name)


#: Learning rate above which an implicit step moves to the optimum of its row alone: fits are
#: finite, but worse than class frequencies on new rows.
MAX_IMPLICIT_RATE = 1e5

# All compatibility rules of parts.


def check_parts(parts: Parts) -> None:
    """Raise ValueError for an incompatible combination; the message names alternatives."""
    bound, sampler, solver = parts.bound, parts.sampler, parts.solver
    bound.check_noise(parts.noise)
    if not solver.stochastic:
        if not bound.deterministic:
            raise ValueError(
                f"solver={solver.name!r} needs a deterministic objective, but the "
                f"{bound.name} bound takes Monte-Carlo samples; set expectation='quadrature' or "
                f"one of the solvers {', '.join(repr(s) for s in SOLVERS if SOLVERS[s].stochastic)}"
            )
        if not sampler.all_classes:
            raise ValueError(
                f"solver={solver.name!r} visits all classes and ignores "
                f"sampler={sampler.name!r}; set sampler='auto'"
            )
    elif not bound.can_sample and not sampler.all_classes:
        allowed = [b for b in BOUNDS if BOUNDS[b].can_sample and BOUNDS[b].is_bound]
        raise ValueError(
            f"the {bound.name} bound is biased over a sample of classes; set "
            f"sampler='everything', or take one of {', '.join(map(repr, allowed))}"
        )
    # A solver that moves local parameters itself has to know the bound's.
    if not (solver.supports_bound(bound.name) and solver.supports_noise(parts.noise.name)):
        raise ValueError(
            f"solver={solver.name!r} supports noise='gumbel' with the bound "
            f"{' or '.join(map(repr, solver.bounds or ()))}, not noise={parts.noise.name!r} with "
            f"the {bound.name} {bound.word}; set solver='adagrad', 'adaptive' or 'sgd'"
        )
    rate = solver.rate
    if solver.implicit and isinstance(rate, float) and rate >= MAX_IMPLICIT_RATE:
        raise ValueError(
            f"learning_rate={rate:g} makes each step of solver={solver.name!r} discard the "
            "rows before it; lower learning_rate, 1 is usual"
        )


def check_parts_for_rows(parts: Parts, sparse: bool) -> None:
    """Raise ValueError if the parts do not support rows of this format."""
    parts.sampler.check_rows(sparse)
