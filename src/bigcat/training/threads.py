"""Several threads on the same weights, without locks.

Each takes a part of the rows (Niu et al., 2011, Hogwild): with few coordinates per step they seldom
meet, and a lost update is a step less.  One thread gives the same bits every time, several do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bigcat.kernels.train_rows import MIN_LAZY_SCALE, KernelPlan
from bigcat.training.state import State
from bigcat.verbs import rate

#: The part of the weights that the ridge may take between two meetings of the threads.
LARGEST_DRIFT = 0.1

#: ``part(thread, first, last, scale, n_together)`` trains on rows first..last and returns the sum
#: of their values and the weights' new scale.
Part = Callable[[int, int, int, float, int], tuple[float, float]]


def train_together(
    part: Part,
    first: int,
    last: int,
    scale: float,
    n_threads: int,
    plan: KernelPlan,
    solver: Any,
    state: State,
) -> tuple[float, float]:
    """Train on rows first..last: the sum of their values, and the weights' new scale."""
    value = 0.0
    with ThreadPoolExecutor(n_threads) as pool:
        while first < last:
            stop = min(last, first + _rows_a_round(plan, solver, state))
            cuts = _cut(first, stop, plan.batch_size, n_threads)
            tasks = [
                pool.submit(part, thread, *cut, scale, len(cuts)) for thread, cut in enumerate(cuts)
            ]
            done = [task.result() for task in tasks]
            value += sum(v for v, _ in done)
            state.iteration += -(-(stop - first) // plan.batch_size)
            # Each thread has shrunk the weights for all of them: take the mean step.
            scale *= math.prod(s / scale for _, s in done) ** (1.0 / len(cuts))
            if scale < MIN_LAZY_SCALE:
                state.weights *= state.weights.dtype.type(scale)
                scale = 1.0
            first = stop
    return value, scale


def _rows_a_round(plan: KernelPlan, solver: Any, state: State) -> int:
    """Rows until the threads must meet, since their ideas of the weights' scale drift apart."""
    step = math.log1p(rate(solver, state.iteration + 1, state.epoch) * plan.shrink)
    most = 1 << 40
    n_steps = most if step == 0.0 else min(LARGEST_DRIFT / step, most)
    return plan.batch_size * max(1, int(n_steps))


def _cut(first: int, last: int, batch_size: int, n_parts: int) -> list[tuple[int, int]]:
    """Cut rows into parts of as many whole batches each; fewer parts where batches are few."""
    n_batches = -(-(last - first) // batch_size)
    n_parts = min(n_parts, n_batches)
    edges = [first + batch_size * (n_batches * part // n_parts) for part in range(n_parts)]
    return list(zip(edges, [*edges[1:], last]))
