"""Defaults are what the documentation says: those that docstrings name, and those of the parts."""

import ast
import inspect
import math
import re

import numpy as np
import pytest

import bigcat
from bigcat import bayes, bounds, noise, samplers

CLASSES = {
    kind.__name__: kind
    for package in (bigcat, bayes, noise)
    for name in package.__all__
    if inspect.isclass(kind := getattr(package, name)) and "default=" in (kind.__doc__ or "")
}
NAMED = re.compile(r"^    ([a-z]\w*(?:, \w+)*) : .*?default=(.+?)$", re.MULTILINE)


@pytest.mark.parametrize("name", CLASSES)
def test_docstrings_name_the_defaults(name):
    kind = CLASSES[name]
    parameters = inspect.signature(kind).parameters
    told = NAMED.findall(kind.__doc__)  # type: ignore
    assert told
    for names, text in told:
        for parameter in names.split(", "):
            if parameter in parameters:
                assert ast.literal_eval(text) == parameters[parameter].default, parameter


def test_defaults_of_samplers_and_bounds():
    mixed = {"power": 0.75, "uniform": 0.5}
    expected = {
        "uniform": {"n_negatives": 1},
        "frequency": {"n_negatives": 16, **mixed},
        "stratified": {"n_head": 512, "n_negatives": 16, **mixed},
        "shared": {"n_negatives": 512, "n_first": None, **mixed},
        "co-occurrence": {
            "n_negatives": 16, "n_features": 4, "background": 0.3, "power": 1.0, "uniform": 0.5,
        },
        "everything": {},
    }  # fmt: skip
    for name, options in expected.items():
        assert samplers.REGISTRY[name]().options() == {"exact_classes": 0, **options}  # type: ignore
    assert bounds.Exact().options() == {"spacing": 0.25, "tail": 40.0, "precision": "double"}
    assert bounds.AugmentReduce().options() == {
        "expectation": "quadrature",
        "n_nodes": 8,
        "variational": "auto",
        "local_rate": 0.01,
        "band": math.inf,
        "start": "best",
        "local_decay": "auto",
    }
    assert bounds.Raman().options() == {"start": "best"}


def test_defaults_that_are_no_parameters():
    """Of functions that other parts call without them."""
    from bigcat.bayes import averaging, prior_chains, weight_posterior
    from bigcat.bayes._mode import find_mode

    def default(function, name):
        return inspect.signature(function).parameters[name].default

    assert default(averaging.averaging_weight, "n_draws") == 100
    assert default(find_mode, "tol") == 1e-5
    fit = weight_posterior.fit_weight_posterior
    assert [default(fit, name) for name in ("prior_scale", "max_epochs", "shuffle")] == [
        1.0,
        50,
        True,
    ]
    scales = prior_chains.Scales.half_t(2.0, (1, 1, 1))
    assert (scales.shape, scales.values.item(), scales.rate.item()) == (0.5, 1.0, 0.5)
    assert prior_chains.Scales(np.ones(1), np.ones(1)).shape == 0.5
    assert prior_chains.PriorChain(np.zeros(2), np.ones(2), 1).has_intercept
