"""Learning-rate schedules: a factor per epoch, and linear decay to zero over the fit."""

from __future__ import annotations

import math

from bigcat.compile import device

SCHEDULES = ("linear", "constant")


def check_schedule(schedule: str) -> None:
    """Raise ValueError for an unknown learning-rate schedule."""
    if schedule not in SCHEDULES:
        raise ValueError(
            f"schedule={schedule!r} is not known; choose one of {', '.join(map(repr, SCHEDULES))}"
        )


def steps_to_zero(schedule: str, n_steps: int) -> float:
    """Return the number of steps until the rate is zero; infinity for a constant rate."""
    return float(n_steps) if schedule == "linear" else math.inf


@device
def remaining(iteration, n_steps):
    """Return the share of the steps that remain, from 1 to 0; 1 if `n_steps` is infinite."""
    return max(0.0, 1.0 - (iteration - 1) / n_steps)


def decaying_rate(solver, iteration, epoch):
    """Return the rate after its decay per epoch and its linear decay over `n_steps`."""
    return solver.learning_rate * solver.decay**epoch * remaining(iteration, solver.n_steps)
