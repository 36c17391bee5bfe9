"""The methods: named combinations of a bound, a sampler and a solver.

A method of a paper is one row here, with its citation, never a class of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

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

__all__ = ["Method", "methods", "register", "resolve"]


@dataclass(frozen=True)
class Method:
    """A combination of parts under a name.

    Parameters
    ----------
    name : str
    bound : Bound
    sampler, solver : str
        Defaults; the estimator's parameters of the same names override them.
    citation : str

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
    """The combination to run: which noise, bound, sampler and solver."""

    noise: Noise
    bound: Bound
    sampler: Sampler
    solver: Solver


_METHODS: dict[str, Method] = {}


def register(method: Method) -> Method:
    """Add a method to the registry, so that estimators and the command line know its name."""
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


class MethodTable(list):
    """A list of one dict a method, which prints as a table."""

    def __repr__(self) -> str:
        columns = list(self[0]) if self else []
        rows = [columns] + [[_cell(row[c]) for c in columns] for row in self]
        widths = [max(len(row[j]) for row in rows) for j in range(len(columns))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in rows
        )


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, (list, tuple)) else str(value)


def methods() -> MethodTable:
    """The named methods, with what each needs and promises.

    Returns
    -------
    list of dict
        Keys: ``name``; ``bound``, ``sampler``, ``solver`` (the parts); ``noises`` it holds for;
        ``is_bound`` (never above the log-likelihood; "no" for a mere estimator); ``unbiased``
        (its sampled gradient is, on average, that of the likelihood or of its bound); ``needs``;
        ``promises``; ``citation``.

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
    needs = ["all classes every step" if method.sampler == "everything" else "a few classes a row"]
    if not solver.stochastic:
        needs.append("all rows every step")
    if bound.n_local and solver.stochastic:
        needs.append("1 number a row" if bound.n_local == 1 else f"{bound.n_local} numbers a row")
    noises = list(bound.noises) if bound.noises is not None else [*NOISES, "custom"]
    noises = [name for name in noises if solver.noises is None or name in solver.noises]
    return {
        "name": method.name,
        "bound": bound.name,
        "sampler": method.sampler,
        "solver": method.solver,
        "noises": noises,
        "is_bound": bound.is_bound,
        "unbiased": bound.is_bound and (bound.can_sample or method.sampler == "everything"),
        "needs": needs,
        "promises": bound.promise,
        "citation": method.citation,
    }


def resolve(
    method: str | Method,
    noise: Noise,
    *,
    solver: str | Solver = "auto",
    sampler: str | Sampler = "auto",
    n_negatives: int = 32,
    learning_rate: float | str = "auto",
    bound_options: dict[str, Any] | None = None,
) -> Parts:
    """Turn names into parts and check that they fit together, before any work.

    Parameters
    ----------
    bound_options : dict
        Fields to set on the method's bound where it has them (``expectation``, ``n_nodes``).
    """
    if not isinstance(method, Method):
        if not isinstance(method, str) or method not in _METHODS:
            raise ValueError(
                f"method={method!r} is not known; choose one of "
                f"{', '.join(map(repr, _METHODS))} (bigcat.methods() describes them)"
            )
        method = _METHODS[method]
    bound = method.bound
    fields = {f: v for f, v in (bound_options or {}).items() if hasattr(bound, f)}
    if fields:
        bound = replace(bound, **fields)
    bound.check_noise(noise)
    the_solver = _solver(method.solver if solver == "auto" else solver, learning_rate)
    the_sampler = _sampler(method, the_solver, sampler, n_negatives)
    _check_fit(bound, the_sampler, the_solver)
    _check_solver(bound, noise, the_solver)
    return Parts(noise, bound, the_sampler, the_solver)


def _solver(solver: str | Solver, learning_rate: float | str) -> Solver:
    if isinstance(solver, Solver):
        if learning_rate != "auto":
            raise ValueError(
                f"learning_rate={learning_rate!r} and a solver object are given both; set the "
                f"rate in the object, {type(solver).__name__}(learning_rate={learning_rate!r})"
            )
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(
            f"solver={solver!r} is not known; choose 'auto' or one of "
            f"{', '.join(map(repr, SOLVERS))}"
        )
    made: Any = SOLVERS[solver]()
    if learning_rate == "auto":
        return made
    if not hasattr(made, "learning_rate"):
        raise ValueError(
            f"learning_rate={learning_rate!r} has no meaning for solver={solver!r}; "
            "leave it at 'auto'"
        )
    return replace(made, learning_rate=learning_rate)


def _sampler(method: Method, solver: Solver, sampler: str | Sampler, n_negatives: int) -> Sampler:
    if isinstance(sampler, Sampler):
        return sampler
    if sampler == "auto":
        # A method made for all classes keeps them; one made for samples has no use for a
        # sampler where the solver visits everything anyway.
        sampler = method.sampler if solver.stochastic else "everything"
    if not isinstance(sampler, str) or sampler not in SAMPLERS:
        raise ValueError(
            f"sampler={sampler!r} is not known; choose 'auto' or one of "
            f"{', '.join(map(repr, SAMPLERS))}"
        )
    kind: Any = SAMPLERS[sampler]
    return kind(n_negatives=n_negatives) if hasattr(kind, "n_negatives") else kind()


def _check_fit(bound: Bound, sampler: Sampler, solver: Solver) -> None:
    if not solver.stochastic:
        if not bound.deterministic:
            raise ValueError(
                f"solver={solver.name!r} needs a value without randomness, and the {bound.name} "
                "bound takes Monte-Carlo samples; set expectation='quadrature' or take one of "
                f"the solvers {', '.join(repr(s) for s in SOLVERS if SOLVERS[s].stochastic)}"
            )
        if sampler.name != "everything":
            raise ValueError(
                f"solver={solver.name!r} visits all classes and has no use for "
                f"sampler={sampler.name!r}; leave it at 'auto'"
            )
    elif not bound.can_sample and sampler.name != "everything":
        allowed = [b for b in BOUNDS if BOUNDS[b].can_sample and BOUNDS[b].is_bound]
        raise ValueError(
            f"the {bound.name} bound is biased over a sample of classes; set "
            f"sampler='everything', or take one of {', '.join(map(repr, allowed))}"
        )


def _check_solver(bound: Bound, noise: Noise, solver: Solver) -> None:
    """A solver that moves local parameters itself has to know the bound's."""
    fits = solver.bounds is None or bound.name in solver.bounds
    fits = fits and (solver.noises is None or noise.name in solver.noises)
    if not fits:
        raise ValueError(
            f"solver={solver.name!r} moves the double sum of the softmax: noise='gumbel' and the "
            f"bound {' or '.join(map(repr, solver.bounds or ()))}; here are noise={noise.name!r} "
            f"and the {bound.name} {bound.word}; take solver='adagrad', 'adaptive' or 'sgd'"
        )
