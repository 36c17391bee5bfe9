"""Fits of every method with every noise that it holds for.

As a program (`python fits.py quick`) it prints the weights, and how often compiled code came from
the cache.
"""

import json
import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import compile_once  # noqa: F401
import numpy as np

import bigcat
from bigcat import LinearClassifier, noise
from bigcat.compile import Kernel
from bigcat.samplers import Uniform
from bigcat.solvers import LBFGS
from bigcat.solvers import REGISTRY as SOLVERS

#: Each of these is a training kernel of its own, of a method and of a noise that others have too.
LONG = {
    ("augment-reduce", "logistic"),
    ("augment-reduce", "custom"),
    ("complementary", "gaussian"),
    ("complementary", "logistic"),
    ("complementary", "custom"),
}


def methods_and_noises(which: str) -> Iterator[tuple[dict, str]]:
    """Rows of `bigcat.methods()` with names of noises: all pairs, or those that are quick."""
    for row in bigcat.methods():
        for name in row["noises"]:
            if which == "all" or (row["name"], name) not in LONG:
                yield row, name


def _log_cdf(t):
    return min(t, 0.0) - math.log1p(math.exp(-abs(t)))


def _log_cdf_grad(t):
    return 0.5 - 0.5 * math.tanh(0.5 * t)


def _log_pdf(t):
    return -abs(t) - 2.0 * math.log1p(math.exp(-abs(t)))


def _log_pdf_grad(t):
    return -math.tanh(0.5 * t)


def weights_of_fits(which: str) -> dict[str, list]:
    """Rows of weights and the intercepts of a short fit of each method with each noise."""
    own = noise.CustomNoise("own", _log_cdf, _log_cdf_grad, _log_pdf, _log_pdf_grad)
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((9, 2)), np.arange(9) % 3
    options: dict[str, Any] = {"max_epochs": 2, "random_state": 0, "early_stopping": False}
    weights = {}
    for row, name in methods_and_noises(which):
        solver = SOLVERS[row["solver"]]()
        if solver.stochastic:
            options |= {"solver": solver.with_options(batch_size=4), "sampler": Uniform(1)}
        else:
            options |= {"solver": LBFGS(tol=0.0), "sampler": "auto"}
        model = LinearClassifier(own if name == "custom" else name, row["name"], **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few iterations, and integers meant to overflow
            model.fit(X, y)
        weights[f"{row['name']} {name}"] = [*model.coef_.tolist(), model.intercept_.tolist()]
    return weights


def uses_of_the_cache() -> dict[str, list[int]]:
    """Hits and misses of each kernel of the package that was called in this process."""
    found = {}
    for module in [m for name, m in sorted(sys.modules.items()) if name.startswith("bigcat")]:
        for kernel in vars(module).values():
            if isinstance(kernel, Kernel) and getattr(kernel.dispatcher, "signatures", None):
                name = f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
                if getattr(kernel.dispatcher._cache, "cache_path", None):
                    stats = kernel.dispatcher.stats
                    hits, misses = stats.cache_hits, stats.cache_misses
                    found[name] = [sum(hits.values()), sum(misses.values())]
    return found


if __name__ == "__main__":
    fitted = weights_of_fits(sys.argv[1])
    print(json.dumps({"weights": fitted, "stats": uses_of_the_cache(), "file": bigcat.__file__}))
