"""The functions that become vector instructions."""

import math

import numpy as np
import pytest
from forms import many

from bigcat.compile import kernel, maximum
from bigcat.numerics.vector import vector_exp, vector_log


@kernel
def map_all(x, exps, logs):
    """Write the exponential and the logarithm of each number; return the largest number."""
    high = x[0]
    for i in range(x.shape[0]):
        exps[i] = vector_exp(x[i])
        logs[i] = vector_log(x[i])
        high = maximum(high, x[i])
    return high


def functions_of(x, dtype):
    """Return exponentials, logarithms and the maximum."""
    x = np.asarray(x, dtype)
    exps, logs = np.empty_like(x), np.empty_like(x)
    return exps, logs, map_all(x, exps, logs)


def exp_of(x, dtype):
    return functions_of(x, dtype)[0]


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [(np.float32, -86.9, 88.72), (np.float64, -707.6, 709.78)],
)
def test_within_two_units_in_the_last_place(dtype, lowest, highest):
    spread = np.linspace(lowest, highest, many(400_001))
    near_zero = np.concatenate([s * np.geomspace(1e-12, 1.0, many(10_001)) for s in (1.0, -1.0)])
    x = np.concatenate([spread, near_zero, [0.0]]).astype(dtype)
    exact = np.exp(x.astype(np.longdouble))
    error = np.abs(exp_of(x, dtype) - exact) / np.spacing(exact.astype(dtype))
    assert error.max() < 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturates_and_keeps_nan(dtype):
    large = 90.0 if dtype is np.float32 else 710.0
    assert (exp_of([-large, -1e9, -1e30, -np.inf], dtype) == 0.0).all()
    assert (exp_of([large, 1e9, 1e30, np.inf], dtype) == np.inf).all()
    assert np.isnan(exp_of([np.nan] * 9, dtype)).all()
    assert (exp_of([0.0, -0.0], dtype) == 1.0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_zero_or_normal_and_never_falls(dtype):
    low = math.log(np.finfo(dtype).smallest_normal)
    values = exp_of(np.linspace(low - 2.0, low + 2.0, many(10_001)), dtype)
    assert (np.diff(values) >= 0.0).all()
    assert (values[values > 0.0] >= np.finfo(dtype).smallest_normal).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_within_three_units_in_the_last_place(dtype):
    limits = np.finfo(dtype)
    with np.errstate(over="ignore"):
        spread = np.geomspace(float(limits.smallest_normal), float(limits.max), many(400_001))
    near_one = 1.0 + np.concatenate(
        [s * np.geomspace(1e-7, 0.5, many(10_001)) for s in (1.0, -1.0)]
    )
    x = np.concatenate([spread[1:-1], near_one]).astype(dtype)
    x = x[x != 1.0]
    _, out, _ = functions_of(x, dtype)
    exact = np.log(x.astype(np.longdouble))
    error = np.abs(out - exact) / np.spacing(np.abs(exact).astype(dtype))
    assert error.max() < 3.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 7, 64, 1001])
def test_maximum(dtype, n):
    x = np.random.default_rng(n).standard_normal(n).astype(dtype)
    assert functions_of(x, dtype)[2] == x.max()
    x[n // 2] = np.nan
    assert np.isnan(functions_of(x, dtype)[2])
