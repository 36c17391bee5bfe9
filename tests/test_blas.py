"""Products of matrices inside kernels."""

import numpy as np
import pytest

from bigcat.compile import kernel, product


@kernel
def multiply(a, transpose_a, b, transpose_b, out):
    product(a, transpose_a, b, transpose_b, out)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("shape", [(5, 3, 4), (1, 3, 4), (5, 1, 4), (5, 3, 1), (1, 1, 1)])
def test_product_is_that_of_numpy(dtype, transpose_a, transpose_b, shape):
    n, inner, m = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, inner)).astype(dtype), rng.normal(size=(inner, m)).astype(dtype)
    stored_a = np.ascontiguousarray(a.T) if transpose_a else a
    stored_b = np.ascontiguousarray(b.T) if transpose_b else b
    out = np.full((n, m), np.nan, dtype)  # what was there is not used
    multiply(stored_a, transpose_a, stored_b, transpose_b, out)
    assert out == pytest.approx(a @ b, rel=1e-5 if dtype == np.float32 else 1e-12)


def test_a_part_of_the_rows():
    a, b = np.arange(12.0).reshape(4, 3), np.arange(15.0).reshape(5, 3)
    out = np.zeros((2, 4))
    multiply(a[1:3], False, b[:4], True, out)
    assert np.array_equal(out, a[1:3] @ b[:4].T)


def test_other_arrays_are_refused():
    a = np.ones((3, 3))
    with pytest.raises(Exception, match="contiguous ones of one type"):
        multiply(a[:, :2], False, a, False, a.copy())
    with pytest.raises(Exception, match="contiguous ones of one type"):
        multiply(a.astype(np.float32), False, a, False, a.copy())
