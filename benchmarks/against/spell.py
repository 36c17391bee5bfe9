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
#: What a method with a name draws.
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
    if "probabilities" in options and "probabilities" not in known:
        options["noise"] = _noise(options["noise"], options.pop("probabilities"))
    return LinearClassifier(**options)


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
    from bigcat import CategoricalDistribution

    return CategoricalDistribution(random_state=0, progress=False, **options)


def method_of(bound: Any) -> Any:
    """A method that maximises this bound: the bound itself, where that is taken for one."""
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
    """The sampler with `exact_classes`, which it takes out of the options with what else it is."""
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


def _noise(noise: str, probabilities: str) -> Any:
    from bigcat.noise import resolve

    return type(resolve(noise))(probabilities=probabilities)
