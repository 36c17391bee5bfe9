"""Development half: problems for choosing the defaults.

`original` lists the first families.  The others were once in the reporting half, which is drawn up
anew each time that its results have been used.  Problems keep their names, and so their rows.
"""

from __future__ import annotations

from benchmarks.field.development import (
    former_reporting_1,
    former_reporting_2,
    former_reporting_3,
    former_reporting_4,
    original,
)
from benchmarks.field.problem import Problem

PARTS = (
    original,
    former_reporting_1,
    former_reporting_2,
    former_reporting_3,
    former_reporting_4,
)


def problems() -> list[Problem]:
    """Return all problems, with those of a family one after another."""
    return [problem for part in PARTS for problem in part.problems()]
