"""One spelling of a case for two interfaces.

Cases give all options as plain keywords, as bigcat took them up to model files of format 1.  Where
the installed version has moved a keyword into a part, the part is made here: the signature of the
estimator tells which spelling is right, each keyword by itself.
"""

from __future__ import annotations

import inspect
from typing import Any

#: Options that are fields of the bound, the method's or one that is given.
OF_BOUND = ("expectation", "n_nodes", "variational")
#: Options of the two ways to a posterior.
OF_BINARY = (
    *("link", "likelihood", "covariance", "solver", "tol", "max_iter", "n_draws"),
    *("step_power", "total_rows"),
)
OF_AUGMENT_REDUCE = (
    *("noise", "n_negatives", "max_epochs", "learning_rate", "tol", "n_iter_no_change"),
    *("validation_fraction", "n_draws"),
)
#: Options that parts have now, by name.
OF_SOLVER = ("learning_rate", "batch_size", "init")
OF_STOPPING = {"tol": "tol", "n_iter_no_change": "patience"}
OF_STOPPING |= {"validation_fraction": "validation_fraction"}
#: Samplers of named methods.
N_NEGATIVES = 32
#: Methods that look at all classes.
WHOLE = ("exact", "bouchard")
#: One seed, one thread: the same bits each time.
REPEATABLE = {"random_state": 0, "n_threads": 1, "progress": False}


def linear(**options: Any) -> Any:
    """A `LinearClassifier` that gives the same bits each time."""
    from bigcat import LinearClassifier

    known = inspect.signature(LinearClassifier).parameters
    options = REPEATABLE | options
    bound = {name: options.pop(name) for name in OF_BOUND if name in options and name not in known}
    if bound:
        options["method"] = _bound(options["method"], bound)
    if "exact_classes" in options and "exact_classes" not in known:
        options["sampler"] = _sampler(options)
    if "learning_rate" not in known:
        options = _in_parts(options)
    return LinearClassifier(**options)


def _in_parts(options: dict[str, Any]) -> dict[str, Any]:
    """Put options of the solver, the sampler, early stopping and checkpoints into objects."""
    import bigcat
    from bigcat.combinations import resolve_method

    options = dict(options)
    named = options.get("method", "auto") != "auto"
    usual = resolve_method(options["method"] if named else "augment-reduce")
    solver = options.get("solver", "auto")
    is_lbfgs = "lbfgs" in (usual.solver if solver == "auto" and named else solver, solver)
    rule = {new: options.pop(old) for old, new in OF_STOPPING.items() if old in options}
    steps = {name: options.pop(name) for name in OF_SOLVER if name in options}
    if is_lbfgs:
        steps = {name: value for name, value in steps.items() if name == "init"}
        if "tol" in rule:
            steps["tol"] = rule.pop("tol") or 0.0
    draws = {name: options.pop(name) for name in ("n_negatives",) if name in options}
    if steps:
        options["solver"] = _part(bigcat.solvers, solver, usual.solver, steps)
    if draws:
        given = options.get("sampler", "auto")
        options["sampler"] = _part(bigcat.samplers, given, usual.sampler, draws)
    if rule and options.get("early_stopping") is not True:
        rule["validation_fraction"] = None
    if rule.get("tol", 0.0) is None:
        options["early_stopping"] = False
    elif rule:
        options["early_stopping"] = bigcat.EarlyStopping(**rule)
    if "checkpoint_every" in options:
        every = options.pop("checkpoint_every")
        options["checkpoint"] = bigcat.Checkpoint(options["checkpoint"], every)
    options.pop("shuffle", None)
    return options


def _part(module: Any, given: Any, usual: str, fields: dict[str, Any]) -> Any:
    if not isinstance(given, str):
        return given.with_options(**fields)
    kind = module.REGISTRY[usual if given == "auto" else given]
    part = kind()
    return part.with_options(**{n: v for n, v in fields.items() if n in part.options()})


def bayesian(**options: Any) -> Any:
    """A `BayesianClassifier` that gives the same bits each time."""
    import bigcat

    options = REPEATABLE | options
    if "link" in inspect.signature(bigcat.BayesianClassifier).parameters:
        return bigcat.BayesianClassifier(**options)
    kind, names = "IndependentBinary", list(OF_BINARY)
    if options.pop("method", "independent-binary") == "augment-reduce":
        kind, names = "AugmentReducePosterior", list(OF_AUGMENT_REDUCE)
    own = {name: options.pop(name) for name in names if name in options}
    return bigcat.BayesianClassifier(getattr(bigcat.bayes, kind)(**own), **options)


def categorical(**options: Any) -> Any:
    """A `CategoricalDistribution` that gives the same bits each time."""
    from benchmarks.categorical_distribution import CategoricalDistribution

    if "learning_rate" not in inspect.signature(CategoricalDistribution).parameters:
        options = _in_parts({"method": "augment-reduce"} | options)
    return CategoricalDistribution(random_state=0, progress=False, **options)


def method_of(bound: Any) -> Any:
    """Return a method that maximises this bound: the bound itself where a method may be a bound."""
    import bigcat

    if "expectation" in inspect.signature(bigcat.LinearClassifier).parameters:
        return bigcat.Method("own", bound)
    return bound


def _bound(method: str, fields: dict[str, Any]) -> Any:
    if method != "augment-reduce":
        raise ValueError(f"{', '.join(fields)} belong to 'augment-reduce', not to {method!r}")
    from bigcat.bounds import AugmentReduce

    return AugmentReduce(**fields)


def _sampler(options: dict[str, Any]) -> Any:
    """Return the sampler with `exact_classes`, and remove its options from `options`."""
    from dataclasses import replace

    from bigcat import samplers

    chosen = options.pop("exact_classes")
    sampler = options.pop("sampler", "auto")
    n_negatives = options.pop("n_negatives", N_NEGATIVES)
    if not isinstance(sampler, str):
        return replace(sampler, exact_classes=chosen)
    if sampler == "auto":
        whole = options["method"] in WHOLE or options.get("solver") == "lbfgs"
        sampler = "everything" if whole else "uniform"
    if sampler == "everything":
        return samplers.Everything(exact_classes=chosen)
    kind: Any = samplers.REGISTRY[sampler]
    return kind(n_negatives=n_negatives, exact_classes=chosen)
