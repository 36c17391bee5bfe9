"""Check of user-defined samplers on some draws before a fit.

Samplers of the package are checked by tests instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bigcat.numerics.random import new_state
from bigcat.rows import Problem
from bigcat.samplers import Sampler
from bigcat.samplers._base import first_invalid_draw

#: Number of draws to check: milliseconds, and enough for an error in 1 of 200 draws.
N_DRAWS = 1_000


def check_draws(sampler: Sampler, tag: Any, rows: Any, problem: Problem) -> None:
    """Raise ValueError for a draw with the row's own label, or a class that does not exist.

    A label among its own negatives cancels the row's gradient without an error; a class that does
    not exist is an access outside of the arrays.

    Parameters
    ----------
    tag : tuple
        Tag of the sampler.
    rows : tuple
        Rows as kernels see them.
    """
    if type(sampler).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return
    random_state = np.random.RandomState(0)  # the fit's own state must not change
    some = random_state.randint(problem.n_rows, size=N_DRAWS)
    width = sampler.width(problem.n_classes, problem.head)
    i, k = first_invalid_draw(
        sampler.with_own_scratch(tag),
        new_state(random_state),
        rows,
        problem.labels,
        some,
        problem.n_classes,
        np.empty(width, np.int64),
        np.empty(width + 1),
    )
    if i < 0:
        return
    name = type(sampler).__name__
    if k == problem.labels[i]:
        raise ValueError(
            f"{name} drew class number {k} for a row of that class, which would cancel the "
            "row's gradient; leave the label out in `draw`, as in docs/extending/sampler.md"
        )
    raise ValueError(
        f"{name} drew class number {k}, and classes are numbered from 0 to "
        f"{problem.n_classes - 1}; correct `draw`"
    )
