"""Random numbers inside kernels.

The state is one 64-bit counter in an array, so fits are reproducible bit by bit and each thread can
own its state. splitmix64 (Steele, Lea and Flood, 2014) passes a counter through a mixing function:
small, fast and good enough for subsampling.
"""

import math

import numpy as np

from bigcat.compile import device, kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


def new_state(random_state: np.random.RandomState) -> np.ndarray:
    """Draw a kernel's state from a numpy generator."""
    return random_state.randint(0, 2**63 - 1, size=1, dtype=np.int64).astype(np.uint64)


@device
def uniform(state):
    """Return a number in [0, 1) with 53 random bits."""
    state[0] += _GOLDEN
    z = state[0]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    z = z ^ (z >> _S31)
    return np.float64(z >> _S11) * _TO_UNIT


@device
def skip(state, n):
    """Skip the next `n` numbers."""
    state[0] += np.uint64(n) * _GOLDEN


@device
def below(state, n):
    """Return an integer in 0..n-1, with a negligible bias of n / 2^53."""
    return np.int64(uniform(state) * n)


@device
def standard_normal(state):
    """Return a standard Gaussian draw, as a ratio of uniforms (Kinderman and Monahan, 1977).

    v/u is Gaussian where (u, v) is uniform on v^2 <= -4 u^2 log u, which lies in the box
    0 < u <= 1, |v| <= sqrt(2/e).  Leva's (1992) quadratic forms spare most of the logarithms.
    """
    while True:
        u = 1.0 - uniform(state)
        v = 1.7155277699214135 * (uniform(state) - 0.5)
        x, y = u - 0.449871, abs(v) + 0.386595
        q = x * x + y * (0.19600 * y - 0.25472 * x)
        if q < 0.27597 or (q <= 0.27846 and v * v <= -4.0 * u * u * math.log(u)):
            return v / u


@device
def standard_logistic(state):
    """Return a standard logistic draw."""
    u = uniform(state)
    while u == 0.0:
        u = uniform(state)
    return math.log(u) - math.log1p(-u)


@device
def standard_gumbel(state):
    """Return a standard Gumbel draw."""
    u = uniform(state)
    while u == 0.0:
        u = uniform(state)
    return -math.log(-math.log(u))


@kernel
def fill_normal(states, noise):
    """Fill each row of `noise` with standard normal numbers from its own state."""
    for i in range(noise.shape[0]):
        state = states[i : i + 1]
        for k in range(noise.shape[1]):
            noise[i, k] = standard_normal(state)
