"""Parameters of tests, some of which are left to `make test-slow`, and how much they look at."""

from collections.abc import Callable, Iterable
from typing import Any

import numba
import pytest

#: Factor by which tests shrink in plain Python, which takes longer by it.
PLAIN_SHARE = 50


def many(n: int) -> int:
    """Return `n` draws or points; fewer where nothing is compiled."""
    plain = getattr(numba.config, "DISABLE_JIT", False)
    return max(n // PLAIN_SHARE, 100) if plain else n


def slow(*values: Any, **options: Any) -> Any:
    """One set of parameters that is left to `make test-slow`."""
    return pytest.param(*values, marks=pytest.mark.slow, **options)


def forms(values: Iterable[Any], is_quick: Callable[[Any], bool]) -> list[Any]:
    """Parameters for a test: the quick ones always, the others marked slow.

    Each kernel takes seconds to compile, for every combination of types that a test uses.
    """
    return [v if is_quick(v) else slow(v) for v in values]
