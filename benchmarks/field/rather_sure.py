"""What the defaults gain by the rule that a fit which is rather sure is followed by a slower one.

    python -m benchmarks.field.rather_sure --half reporting

Problems where the rule does nothing are fitted once; the others also without it.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._report import clock
from benchmarks.field import families, measure
from benchmarks.field.problem import Data, Problem
from bigcat.training.members import Member

_ASKED = Member.is_rather_sure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=tuple(families.HALVES), default="development")
    parser.add_argument("--limit", type=int, help="at most so many problems, spread out")
    args = parser.parse_args()
    with threadpool_limits(limits=1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for problem in families.problems_of(args.half, None, args.limit):
            print(json.dumps(compare(problem)), flush=True)


def compare(problem: Problem) -> dict[str, Any]:
    """CPU seconds with the rule and without; where it acts, log-likelihoods of test rows."""
    data = problem.data()
    answers: list[bool] = []

    def told(member: Member, base: np.ndarray, held_out: Any) -> bool:
        answers.append(_ASKED(member, base, held_out))
        return answers[-1]

    with_rule, seconds = _fitted(data, told)
    row: dict[str, Any] = {"case": problem.name, "acts": any(answers), "seconds": seconds}
    if not row["acts"]:
        return row | {"seconds_without": seconds}
    without, row["seconds_without"] = _fitted(data, lambda *_: False)
    gain = measure.Mean.of(with_rule - without)
    return row | {
        "log_likelihood": float(with_rule.mean()),
        "gain": gain.value,
        "standard_error": gain.error,
    }


def _fitted(data: Data, rule: Any) -> tuple[np.ndarray, float]:
    """Log-probabilities of the test rows' labels, and seconds of the fit."""
    Member.is_rather_sure = rule  # type: ignore[method-assign]
    try:
        with clock() as times:
            model = measure.default(1).fit(data.X, data.y)
    finally:
        Member.is_rather_sure = _ASKED  # type: ignore[method-assign]
    return model.log_proba_of(data.X_test, data.y_test), times["cpu"]


if __name__ == "__main__":
    main()
