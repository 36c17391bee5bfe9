"""Settings shared by the whole process: BLAS and its threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bigcat._system import map_on_threads, one_blas_thread
from bigcat.linear import FullRankWeights, LinearModel
from bigcat.noise import Gumbel


def blas_threads():
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def set_by_a_thread_that_ends(n_threads):
    """threadpoolctl listens to the thread that spoke first, for as long as it lives."""
    speaker = threading.Thread(target=lambda: threadpool_limits(n_threads, user_api="blas"))
    speaker.start()
    speaker.join()


@pytest.fixture
def two_threads():
    """A number that is not one, on machines with one core too."""
    before = max(blas_threads())
    set_by_a_thread_that_ends(2)
    assert set(blas_threads()) == {2}
    yield
    set_by_a_thread_that_ends(before)


def test_blas_has_one_thread_until_the_last_user_has_left(two_threads):
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with one_blas_thread:
            first_is_in.set()
            second_is_in.wait(10)
        first_is_out.set()

    def second():
        first_is_in.wait(10)
        with one_blas_thread:
            second_is_in.set()
            first_is_out.wait(10)
            return blas_threads()

    with ThreadPoolExecutor(2) as pool:
        pool.submit(first)
        inside = pool.submit(second).result()
    assert set(inside) == {1}
    assert set(blas_threads()) == {2}


def test_an_error_restores_what_was(two_threads):
    with pytest.raises(KeyError), one_blas_thread:
        raise KeyError
    assert set(blas_threads()) == {2}


def test_concurrent_predictions_leave_blas_as_it_was(two_threads, monkeypatch):
    rng = np.random.default_rng(0)
    weights = FullRankWeights(rng.normal(size=(50, 20)).astype(np.float32))
    model = LinearModel(weights, np.zeros(50, np.float32), Gumbel())
    X = rng.normal(size=(200, 20))
    expected = model.log_proba(X)
    all_are_in = threading.Barrier(4, timeout=10)

    def run_when_all_are_in(*work):
        all_are_in.wait()
        return map_on_threads(*work)

    monkeypatch.setattr("bigcat.linear.model.map_on_threads", run_when_all_are_in)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.log_proba(X), range(40)))
    assert all((p == expected).all() for p in found)
    assert set(blas_threads()) == {2}
