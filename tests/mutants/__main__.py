"""`make mutants`: small errors in the mathematics, and how many of them tests notice.

    NUMBA_DISABLE_JIT=1 python -m tests.mutants noise --sample 50

Compiled packages are tried without compilation, since a changed kernel would be compiled anew; the
posteriors, which compile nothing, with it.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

import joblib  # noqa: F401
import matplotlib  # noqa: F401
import mpmath  # noqa: F401
import numba
import scipy.stats  # noqa: F401
import sklearn.feature_extraction.text
import sklearn.linear_model
import sklearn.utils.estimator_checks  # noqa: F401

from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.reached import Reached
from tests.mutants.trial import PACKAGE, reached, try_all

#: Tests that are about a package.
TESTS = {
    "numerics": ["special", "vector", "random_numbers"],
    "noise": ["noise", "probabilities", "defaults"],
    "samplers": ["samplers", "sampler_draws", "sampler_tables", "defaults"],
    "bounds": ["bounds", "bound_parts", "lower_bound", "defaults"],
    "bayes": [
        "bayes_algebra",
        "bayes_around_linear",
        "bayes_augment_reduce",
        "bayes_averaging",
        "bayes_batches",
        "bayes_binary_regressions",
        "bayes_blocks",
        "bayes_classifier",
        "bayes_coverage",
        "bayes_curvature",
        "bayes_draws",
        "bayes_expected_softmax",
        "bayes_fit",
        "bayes_intervals",
        "bayes_laplace",
        "bayes_laplace_pieces",
        "bayes_low_rank",
        "bayes_mixing",
        "bayes_moves",
        "bayes_one_scale",
        "bayes_pieces",
        "bayes_priors",
        "bayes_scale_chain",
        "bayes_streams",
        "bayes_summary",
        "bayes_weight_passes",
        "bayes_weight_posterior",
        "defaults",
        "reference_independent_binary",
    ],
}
COMPILED = tuple(name for name in TESTS if name != "bayes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Put errors in, and see whether tests notice.")
    parser.add_argument("package", choices=TESTS)
    parser.add_argument("--sample", type=int, help="mutants that are tried; all unless given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose names hold this")
    parser.add_argument("--tests", nargs="*", help="names of test files, without test_ and .py")
    parser.add_argument("--part", default="1/1", help="2/5 is the second fifth of the sample")
    parser.add_argument("--reached", type=Path, help="file for which tests come by which lines")
    arguments = parser.parse_args()
    plain = bool(getattr(numba.config, "DISABLE_JIT", False))
    if plain != (arguments.package in COMPILED):
        sys.exit(f"{arguments.package} wants NUMBA_DISABLE_JIT={int(not plain)}")
    sources = sorted((PACKAGE / arguments.package).rglob("*.py"))
    sources = [path for path in sources if arguments.only in path.name]
    mutants = [mutant for path in sources for mutant in mutants_of(path)]
    chosen = mutants
    if arguments.sample and arguments.sample < len(mutants):
        chosen = random.Random(arguments.seed).sample(mutants, arguments.sample)
    part, parts = map(int, arguments.part.split("/"))
    chosen = chosen[part - 1 :: parts]
    begin = time.monotonic()
    files = [f"tests/test_{name}.py" for name in arguments.tests or TESTS[arguments.package]]
    files.append(f"src/bigcat/{arguments.package}")  # examples in docstrings
    known = arguments.reached
    found = Reached.load(known) if known and known.exists() else reached(files, sources)
    if known:
        found.save(known)
    print(f"{len(found.fixtures)} tests, {sum(found.seconds.values()):.0f} s", flush=True)
    survivors = try_all(chosen, files, found, _Printer())
    times = os.times()
    killed = len(chosen) - len(survivors)
    print(
        f"{arguments.package}: {killed} of {len(chosen)} mutants killed "
        f"({100 * killed / max(1, len(chosen)):.1f} %), chosen from {len(mutants)}; "
        f"{times.children_user + times.children_system:.0f} processor seconds, "
        f"{time.monotonic() - begin:.0f} of the clock"
    )


#: Mutants between two lines that say how many were killed.
BETWEEN = 10


class _Printer:
    """Says what became of mutants, from whichever process: their own output goes nowhere."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w")
        self.n = self.n_killed = 0

    def __call__(self, mutant: Mutant, dead: bool, n_tests: int) -> None:
        self.n += 1
        self.n_killed += dead
        if not dead:
            print(f"survived {n_tests} tests: {mutant.name}", file=self.out, flush=True)
        if self.n % BETWEEN == 0:
            print(f"{self.n_killed} of {self.n} killed", file=self.out, flush=True)


if __name__ == "__main__":
    main()
