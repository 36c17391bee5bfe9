"""Families of the two halves.

Both were written down before any default was measured on them.  Each has measured and made-up sets,
dense and sparse rows, few classes and many.  Defaults are chosen on the development half and
reported on the other, which has kinds of rows that the first one lacks.
"""

from __future__ import annotations

from benchmarks.field import development, reporting
from benchmarks.field.problem import Problem

HALVES = {"development": development.problems, "reporting": reporting.problems}


def problems_of(
    half: str, only: list[str] | None = None, limit: int | None = None
) -> list[Problem]:
    """Return problems of a half by words in their names; at most `limit`, spread evenly."""
    found = [p for p in HALVES[half]() if not only or any(word in p.name for word in only)]
    if limit is not None and limit < len(found):
        found = [found[i * len(found) // limit] for i in range(limit)]
    return found
