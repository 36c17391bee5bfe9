"""Random numbers of kernels: the published sequence, and draws by their definitions.

All but the last run in Python as they are written, which takes no compilation.
"""

import math

import numpy as np
import pytest

from bigcat.numerics import random as _random

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")


def state_of(seed: int) -> np.ndarray:
    return np.array([seed], np.uint64)


def test_the_sequence_is_splitmix64():
    """First numbers of seed 1234567 by the authors' program, of which 53 bits are kept."""
    state = state_of(1234567)
    whole = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [_random.uniform(state) for _ in whole] == [(z >> 11) * 2.0**-53 for z in whole]


def test_a_state_is_any_of_the_seeds_numbers():
    states = {int(_random.new_state(np.random.RandomState(seed))[0]) for seed in range(50)}
    assert len(states) == 50
    assert _random.new_state(np.random.RandomState(0)).dtype == np.uint64
    assert max(states) > 2**62
    assert max(states) < 2**63


def test_numbers_are_left_out():
    one, other = state_of(5), state_of(5)
    for _ in range(7):
        _random.uniform(one)
    _random.skip(other, 7)
    assert one == other


def given(monkeypatch: pytest.MonkeyPatch, *numbers: float) -> list[float]:
    """Numbers for the next calls of `uniform`; what is left of them."""
    left = list(numbers)
    monkeypatch.setattr(_random, "uniform", lambda state: left.pop(0))
    return left


@pytest.mark.parametrize("u", [1e-300, 0.01, 0.5, 0.93, 1.0 - 2.0**-53])
def test_draws_by_quantiles(monkeypatch, u):
    """A zero, whose quantile is infinite, is drawn again."""
    left = given(monkeypatch, 0.0, 0.0, u)
    assert _random.standard_logistic(state_of(0)) == pytest.approx(
        math.log(u) - math.log1p(-u), rel=1e-15
    )
    assert left == []
    given(monkeypatch, 0.0, u)
    assert _random.standard_gumbel(state_of(0)) == pytest.approx(-math.log(-math.log(u)), rel=1e-15)


def test_gaussian_draws_are_those_of_the_region(monkeypatch):
    """v/u is taken where v^2 <= -4 u^2 log u, whatever the quick forms before it say."""
    box, taken = math.sqrt(2.0 / math.e), 0
    grid = [(i + 0.5) / 60 for i in range(60)]
    for a in grid:
        for b in grid:
            u, v = 1.0 - a, 2.0 * box * (b - 0.5)
            inside = v * v <= -4.0 * u * u * math.log(u)
            left = given(monkeypatch, a, b, 0.5, 0.5)  # the second pair is taken: 0
            found = _random.standard_normal(state_of(0))
            assert found == pytest.approx(v / u if inside else 0.0, rel=1e-15, abs=1e-12)
            assert len(left) == (2 if inside else 0)
            taken += inside
    assert taken / len(grid) ** 2 == pytest.approx(math.sqrt(math.pi * math.e) / 4.0, abs=0.005)
