"""Defaults are what the documentation says: those that docstrings name, and those of the parts."""

import ast
import importlib
import inspect
import math
import re
from typing import Any

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
    from bigcat.bayes import averaging, weight_posterior
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


def test_scales_that_are_declared():
    from bigcat.bayes import prior_chains

    scales = prior_chains.Scales.half_t(2.0, (1, 1, 1))
    assert (scales.shape, scales.values.item(), scales.rate.item()) == (0.5, 1.0, 0.5)
    assert prior_chains.Scales(np.ones(1), np.ones(1)).shape == 0.5
    assert prior_chains.PriorChain(np.zeros(2), np.ones(2), 1).has_intercept


#: What was measured or weighed: costs, limits, tolerances, sizes of blocks.
WEIGHED: dict[str, dict[str, Any]] = {
    "_around_linear": {
        "HELD_OUT_PART": 10,
        "MOST_HELD_OUT": 1000,
        "LEAST_HELD_OUT": 200,
        "MOST_SCORES": 1 << 21,
        "FEW_HELD_OUT": 100,
        "DRAWN": 1 << 23,
        "LEAST_DRAWS": 4,
        "MOST_DRAWS": 32,
        "STEP": 1.08,
        "DEVIATION_OF_FACTOR": 0.3,
        "MAY_COST": 0.007,
        "MANY_WEIGHTS": 1 << 24,
        "USUAL_SCALE": 1.0,
        "MOST_SECONDS_OF_CURVATURE": 30.0,
    },
    "_binary_memory": {
        "_SCORES_A_BLOCK": 4.7,
        "_OF_ROW_VARIANCES": 2.0,
        "_SCORES_OF_DRAWS": 9.5,
        "_OF_CLASS_VARIANCES": 2.0,
    },
    "_chains": {
        "FIRST_ANGLE": 0.5,
        "LEAST_ANGLE": 0.03,
        "LARGEST_ANGLE": 0.9,
        "ACCEPTED": 0.8,
        "FIRST_DEVIATION": 0.5,
        "FACTORS_ACCEPTED": 0.4,
        "N_FACTORS": 2,
        "WINDOW": 16,
        "MOST_WINDOWS": 8,
        "SETTLED": 0.5,
        "NEGLIGIBLE": 0.1,
        "ENOUGH": 0.1,
    },
    "_column_sizes": {"MOSTLY_ZERO": 0.5},
    "_design": {"CHUNK": 1 << 21, "CACHED": 1 << 17},
    "_expected_softmax": {"N_NODES": 8, "SMALL": -8.0, "TINY": 1e-300},
    "_laplace_batches": {"DRAWS_PER_WEIGHT": 4, "TOLERANCE": 1e-05},
    "_laplace_plan": {
        "A_SCORE": 6e-09,
        "A_PRODUCT": 6e-11,
        "BY_QUADRATURE": 1e-06,
        "A_SPARSE_PRODUCT": 1.5e-09,
        "PRODUCTS_PER_SECOND": 20000000000.0,
        "PAIRS_PER_SECOND": 500000000.0,
        "A_TURN": {"full": 7e-11, "class": 3e-10, "diagonal": 3e-10},
        "GRADIENTS_OF_ITERATION": 7.0,
        "GRADIENTS_FOR_PRIOR": 5.5,
        "FIRST_ITERATIONS": 40,
        "MOST_FIRST": 128,
        "MOST_SECONDS_OF_CHAINS": 60.0,
        "MOST_SECONDS_OF_BLOCKS": 20.0,
        "MOST_SECONDS_OF_MODE": 5.0,
        "FEW_COLUMNS": 256,
        "MOST_SECONDS_OF_FEW_COLUMNS": 60.0,
        "SECONDS_OF_SMALL": 4.0,
        "MOST_EVERY": 4,
        "SECONDS_IF_BAD": 24.0,
        "MOST_EVERY_IF_BAD": 16,
        "GRADIENTS_OF_MODE": 60,
        "LONG_SECONDS": 600.0,
        "MOST_KEPT": 1 << 28,
        "MOST_JOINT": 1024,
        "SECONDS_OF_FRAME": 1.0,
        "CHAINS_OF_PRIOR": 4,
        "DRAWS_OF_PRIOR": 16,
        "SECONDS_OF_PRIOR": 4.0,
        "LEAST_OF_PRIOR": 10,
        "MOST_OF_PRIOR": 100,
        "SECONDS_OF_ITERATION": 3.0,
    },
    "_likelihood": {"MANY_PRODUCTS": 1 << 22, "CHUNKS_SUMMED": 8, "SMALL": 60.0},
    "_low_rank_frame": {
        "MOST_TURNED": 2048,
        "EXACT_UP_TO": 32,
        "ROWS_OF_BASIS": 8,
        "N_DIRECTIONS": 16,
        "LEAST_DIRECTIONS": 4,
        "ROWS_PER_DIRECTION": 4,
        "LEAST_ROWS": 128,
        "LEAST_CURVATURE": 0.01,
    },
    "_mixing": {"TOO_FEW": 10.0},
    "_mode": {
        "MOST_COLUMNS": 1500,
        "MOST_ITERATIONS": 300,
        "MEAN_STEPS": 4,
        "PAIRS": 2,
        "LONGEST_STEP": 0.5,
    },
    "_newton": {
        "LOOSE": 0.1,
        "TIGHT": 0.001,
        "MOST_CG_STEPS": 200,
        "_SUFFICIENT": 0.0001,
        "_MOST_HALVINGS": 30,
    },
    "_own_rows": {"N_DRAWN": 1024, "ROWS_TOGETHER": 4096},
    "_scale_chain": {
        "TOLERATED": 0.001,
        "LARGEST_ANGLE": 0.45,
        "WINDOWS": (4, 4, 4, 4, 8, 8, 8),
        "LONGEST_MOVE": 0.5,
        "SLOWEST": 0.8,
        "HALF_WIDTH": 0.05,
        "PART_OF_ROWS": 1 / 16,
        "LEAST_ROWS": 500,
        "FIRST_PART": 1 / 8,
        "ARRIVED": 0.03,
        "FAR": 0.5,
    },
    "_updates": {"ROUGH_ABOVE": 1 << 31, "ROUGH_BELOW": 1000000.0},
    "averaging": {"MOST_SCORES": 1 << 25, "KEYS_CHUNK": 1 << 18},
    "binary_fit": {"BLOCK_SCORES": 1 << 21, "FEWEST_CLASSES": 32, "INNER_STEPS": 4},
    "covariance.low_rank": {"BLOCK_NUMBERS": 1 << 24},
    "covariance.pairs": {"PAIRS_UP_TO": 256, "PAIRS_CHUNK": 1 << 22, "SPARSE_PAIRS": 0.1},
    "coverage": {"MOST_ROWS": 300, "LEAST_ROWS": 10, "JUDGED": 1 << 18},
    "learned_scale": {"FREEDOM": 4.0},
    "one_scale": {"LEAST_PRECISION": 1e-08, "MOST_PRECISION": 100000000.0},
    "posterior": {"BLOCK": 1 << 21, "USUAL_DRAWS": 200},
    "summary": {"MOST_ROWS": 10000000, "PRINTED": 40},
    "weight_posterior": {"CHUNK_COORDINATES": 1 << 23, "BLOCK": 1 << 20, "MOST_STAMPS": 1 << 30},
}


def test_numbers_that_were_weighed():
    """Pages and decisions tell what came of them; so who changes one here measures that again."""
    for module, numbers in WEIGHED.items():
        found = vars(importlib.import_module(f"bigcat.bayes.{module}"))
        assert {name: found[name] for name in numbers} == numbers, module
