"""What a Laplace fit keeps of the posterior, and what that costs.

Times are rough, in processor seconds of one core: they decide between ways that differ by factors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from bigcat.bayes._design import CHUNK
from bigcat.bayes._low_rank_frame import (
    LEAST_CURVATURE,
    LEAST_DIRECTIONS,
    LEAST_ROWS,
    MOST_TURNED,
    N_DIRECTIONS,
)
from bigcat.bayes.priors import Prior
from bigcat.noise import Noise
from bigcat.rows import Sizes

#: What may be kept, the best first.
FORMS = ("draws", "full", "class", "low-rank", "diagonal")
#: What 90 % intervals held of the truth in simulations, by form and what it lies around
#: (docs/results/posterior.md).
COVERAGES = {
    ("draws", "mode"): "0.85 to 0.98 in simulations, most between 0.87 and 0.93",
    ("class", "mode"): "0.85 to 0.90 in simulations, less with many features and few rows",
    ("low-rank", "mode"): "0.88 to 0.92 in simulations",
    ("low-rank", "linear"): "0.53 to 0.98 in simulations: the prior's scale is a guess",
}
UNKNOWN_COVERAGE = "not measured; see check_coverage"
#: Seconds for a score and its slope, and more for each value of a row behind it; quadrature.
A_SCORE, A_PRODUCT, BY_QUADRATURE = 6e-9, 6e-11, 1e-6
A_SPARSE_PRODUCT = 1.5e-9
#: Multiplications and additions per second of a product of matrices.
PRODUCTS_PER_SECOND = 2e10
#: Sums of products of pairs of values of sparse rows per second.
PAIRS_PER_SECOND = 5e8
#: Seconds to turn weights into coordinates, for each number of the frame's matrices; one matrix for
#: all weights makes a better product than many small ones.
A_TURN = {"full": 7e-11, "class": 3e-10, "diagonal": 3e-10}
#: Gradients of an iteration of a chain, draws of scales included: of several that give draws, and
#: of the one that only tells the prior.  Iterations before any draw is kept: usual, at the most.
GRADIENTS_OF_ITERATION, GRADIENTS_FOR_PRIOR = 7.0, 5.5
FIRST_ITERATIONS, MOST_FIRST = 40, 128
#: The most that chains may take, the blocks of classes, and the mode where there is another way.
MOST_SECONDS_OF_CHAINS, MOST_SECONDS_OF_BLOCKS, MOST_SECONDS_OF_MODE = 60.0, 20.0, 5.0
#: Up to so many columns a prior of independent weights is good enough where it is affordable; of
#: more, features have much in common, and a fit of low rank may predict better.  Blocks of so few
#: may take longer: a fit of low rank to as many rows does so, too, and only guesses the scale.
FEW_COLUMNS, MOST_SECONDS_OF_FEW_COLUMNS = 256, 60.0
#: Small problems take several iterations for each draw that is kept, for so long; and more of them
#: where chains mix badly, for longer.
SECONDS_OF_SMALL, MOST_EVERY = 4.0, 4
SECONDS_IF_BAD, MOST_EVERY_IF_BAD = 24.0, 16
#: Gradients that lead to a mode, and seconds of them that somebody should know of before.
GRADIENTS_OF_MODE, LONG_SECONDS = 60, 600.0
#: Classes that a row says much about, at the most.
ENTRIES_PER_ROW = round(1.0 / LEAST_CURVATURE)
#: Numbers that may be kept: draws, and matrices of classes.
MOST_KEPT = 1 << 28
#: Coordinates of chains, which are made several times: of all weights together up to so many, of
#: each class up to so many seconds.
MOST_JOINT, SECONDS_OF_FRAME = 1_024, 1.0
#: Where only the prior is learnt from chains: as many chains and draws of each as this, if they
#: take no more seconds; else one chain, with as many draws as the seconds allow, between these.
CHAINS_OF_PRIOR, DRAWS_OF_PRIOR, SECONDS_OF_PRIOR = 4, 16, 4.0
LEAST_OF_PRIOR, MOST_OF_PRIOR = 10, 100
#: Seconds of an iteration of that chain, beyond which it sees some of the rows only.
SECONDS_OF_ITERATION = 3.0


class Work(NamedTuple):
    """Sizes that decide what a fit costs."""

    n_rows: int
    n_columns: int
    n_classes: int
    row_values: float
    sparse: bool
    softmax: bool

    @classmethod
    def of(cls, sizes: Sizes, intercept: bool, noise: Noise) -> Work:
        return cls(
            sizes.n_rows,
            sizes.n_features + intercept,
            sizes.n_classes,
            sizes.n_values / max(sizes.n_rows, 1) + intercept,
            sizes.sparse,
            noise.softmax,
        )

    @property
    def n_weights(self) -> int:
        return self.n_classes * self.n_columns

    def score_seconds(self) -> float:
        """Of one score and its slope."""
        if not self.softmax:
            return BY_QUADRATURE
        return A_SCORE + (A_SPARSE_PRODUCT if self.sparse else A_PRODUCT) * self.row_values

    def gradient_seconds(self) -> float:
        return self.n_rows * self.n_classes * self.score_seconds()

    def turning_seconds(self, frame: str) -> float:
        """Of the coordinates of a gradient: there, and back."""
        numbers = {
            "full": self.n_weights**2,
            "class": self.n_weights * self.n_columns,
            "diagonal": self.n_weights,
        }
        return 2.0 * A_TURN[frame] * numbers[frame]

    def warning(self) -> str | None:
        """What to say before a fit whose mode alone takes long; None where it does not."""
        seconds = self.mode_seconds()
        if seconds <= LONG_SECONDS:
            return None
        return (
            f"the mode of {self.n_classes:,} classes and {self.n_columns:,} columns visits all "
            f"classes of {self.n_rows:,} rows some {GRADIENTS_OF_MODE} times, about "
            f"{seconds / 60:,.0f} minutes of a processor; method='augment-reduce' looks at a few "
            "classes per row, or fit fewer classes or rows"
        )

    def block_seconds(self) -> float:
        """Of a matrix for each class, and its root."""
        roots = self.n_columns**3 / PRODUCTS_PER_SECOND
        sums = self.n_rows * self.n_columns**2 / PRODUCTS_PER_SECOND
        if self.sparse:
            sums = min(sums, self.n_rows * self.row_values**2 / PAIRS_PER_SECOND)
        return self.n_classes * (sums + roots)

    def curvature_seconds(self) -> float:
        """Of a diagonal for each class, in a basis where columns are few."""
        seconds = self.gradient_seconds()
        if self.n_columns <= MOST_TURNED:
            seconds += self.n_rows * self.n_classes * self.n_columns * A_PRODUCT
        return seconds

    def mode_seconds(self) -> float:
        return GRADIENTS_OF_MODE * self.gradient_seconds()


@dataclass(frozen=True)
class Plan:
    """What is kept, how chains run, and why.

    Parameters
    ----------
    form : str
        One of `FORMS`.
    frame : str
        The coordinates of chains: one of `_frames.FRAMES`.
    n_chains, n_kept : int
        Chains, and draws of each that are kept.
    reason : str
    n_rows : int or None
        So many rows, at random, tell the prior; None where all do.
    every, most_every : int
        Iterations from one such draw to the next, and where chains mix badly.
    around : {"mode", "linear", "either"}
        Where a Gaussian lies: at the mode with the prior, at the fit of `LinearClassifier`, or
        where held-out rows say.
    n_directions : int
        Of the form "low-rank".
    turns_columns : bool
        Are columns turned, so that it does not matter whether they are centred?
    """

    form: str
    frame: str
    n_chains: int
    n_kept: int
    reason: str
    n_rows: int | None = None
    every: int = 1
    most_every: int = 1
    around: str = "mode"
    n_directions: int = 0
    turns_columns: bool = True

    @property
    def most_iterations(self) -> int:
        return MOST_FIRST + self.n_kept * self.most_every

    def told(self) -> dict[str, Any]:
        """For ``history_.choice``."""
        coverage = COVERAGES.get((self.form, self.around), UNKNOWN_COVERAGE)
        told = {"covariance": self.form, "reason": self.reason, "coverage": coverage}
        return {**told, "chains": self.n_chains} if self.form == "draws" else told

    @property
    def one_chain(self) -> bool:
        """Is the prior learnt from one short chain, since several long ones would take too long?"""
        return self.n_chains == 1


def plan(
    covariance: str, rank: int | str | None, work: Work, prior: Prior, usual: bool, n_draws: int
) -> Plan:
    """The best form that can be had; the one that is named, if one is.

    `usual` says that the prior was left to the method, which then may learn it in another way.
    """
    if covariance not in ("auto", "draws"):
        _check_learnable(prior, f"covariance={covariance!r}")
    frame = finest(work, SECONDS_OF_FRAME)
    n_chains = 8 if work.n_weights < 2_000 else 4
    n_kept = -(-n_draws // n_chains)
    whole = Plan("draws", frame, n_chains, n_kept, "named")
    if is_rank(rank):
        return _wide(whole, work, around="linear", reason="rank is given")
    free = rank == "auto" and usual and work.softmax
    if covariance == "low-rank":
        return _wide(whole, work, around=_around(work, free), reason="named")
    if covariance != "auto":
        turns = covariance != "diagonal"
        some = _for_prior_alone(covariance, work)
        return replace(whole, form=covariance, turns_columns=turns, **some)
    iterations = (FIRST_ITERATIONS + n_kept) * n_chains * GRADIENTS_OF_ITERATION
    seconds = iterations * (work.gradient_seconds() + work.turning_seconds(frame))
    numbers = n_draws * work.n_weights
    if seconds <= MOST_SECONDS_OF_CHAINS and numbers <= MOST_KEPT:
        every = int(np.clip(SECONDS_OF_SMALL / seconds, 1, MOST_EVERY))
        most_every = int(np.clip(SECONDS_IF_BAD / seconds, every, MOST_EVERY_IF_BAD))
        reason = "draws of the posterior itself, in seconds"
        return replace(whole, reason=reason, every=every, most_every=most_every)
    _check_learnable(prior, f"a fit whose draws would take {seconds:,.0f} seconds")
    blocks = work.n_classes * work.n_columns**2
    reason = (
        f"chains would take some {seconds:,.0f} seconds; a matrix for each class takes "
        f"{work.block_seconds():,.0f}"
    )
    few = work.n_columns <= FEW_COLUMNS
    most_seconds = MOST_SECONDS_OF_FEW_COLUMNS if few else MOST_SECONDS_OF_BLOCKS
    fits = blocks <= MOST_KEPT and work.block_seconds() <= most_seconds
    if fits and (few or not free):
        return replace(whole, form="class", reason=reason, **_for_prior_alone("class", work))
    reason += f", and {blocks:,} numbers"
    return _wide(whole, work, around=_around(work, free), reason=reason)


def is_rank(rank: int | str | None) -> TypeGuard[int]:
    """Is it a number, and neither "auto" nor None?"""
    return rank is not None and rank != "auto"


def _wide(whole: Plan, work: Work, *, around: str, reason: str) -> Plan:
    """A spectrum and a few directions per class."""
    fitting = MOST_KEPT // max(1, work.n_weights)
    return replace(
        whole,
        form="low-rank",
        around=around,
        reason=reason,
        n_directions=int(np.clip(fitting, LEAST_DIRECTIONS, N_DIRECTIONS)),
        turns_columns=work.n_columns <= MOST_TURNED,
        **_for_prior_alone("low-rank", work),
    )


def _around(work: Work, free: bool) -> str:
    """Where the Gaussian lies."""
    if not free:
        return "mode"
    return "either" if work.mode_seconds() <= MOST_SECONDS_OF_MODE else "linear"


def _check_learnable(prior: Prior, what: str) -> None:
    """A few draws tell scales that all classes share, and not one for each."""
    if prior.learnt and prior.sharing != "shared":
        raise ValueError(
            f"prior={prior!r} has a scale for each class, and {what} learns scales from a few "
            "draws; name covariance='draws', or take a prior that classes share, such as "
            "LearnedScale('feature')"
        )


def _for_prior_alone(form: str, work: Work) -> dict[str, Any]:
    """Chains from which only the prior is learnt."""
    if form == "draws":
        return {}
    of_iteration = GRADIENTS_FOR_PRIOR * work.gradient_seconds()
    iterations = (FIRST_ITERATIONS + DRAWS_OF_PRIOR) * CHAINS_OF_PRIOR
    if iterations * of_iteration <= SECONDS_OF_PRIOR:
        return {"n_chains": CHAINS_OF_PRIOR, "n_kept": DRAWS_OF_PRIOR}
    n_kept = int(np.clip(SECONDS_OF_PRIOR / of_iteration, LEAST_OF_PRIOR, MOST_OF_PRIOR))
    n_rows = None
    if of_iteration > SECONDS_OF_ITERATION:
        n_rows = max(1, int(work.n_rows * SECONDS_OF_ITERATION / of_iteration))
    return {"n_chains": 1, "n_kept": n_kept, "n_rows": n_rows, "frame": "diagonal"}


def finest(work: Work, most_seconds: float = MOST_SECONDS_OF_BLOCKS) -> str:
    """The finest form of a Gaussian whose matrices are had in these seconds, and can be kept."""
    if work.n_weights <= MOST_JOINT:
        return "full"
    small = work.n_classes * work.n_columns**2 <= MOST_KEPT
    return "class" if small and work.block_seconds() <= most_seconds else "diagonal"


def memory(plan: Plan, work: Work, n_draws: int, n_threads: int) -> int:
    """Bytes beside the data, of what lies around the mode."""
    numbers: float = {
        "draws": 3 * n_draws * work.n_weights,
        "full": 4 * work.n_weights**2,
        "class": 4 * work.n_classes * work.n_columns**2,
        "low-rank": low_rank_bytes(work, plan.n_directions) / 8 + 2 * ENTRIES_PER_ROW * work.n_rows,
        "diagonal": 4 * work.n_weights,
    }[plan.form]
    of_frame = 0
    if plan.form == "draws":
        of_frame = {
            "full": 4 * work.n_weights**2,
            "class": 3 * work.n_classes * work.n_columns**2,
            "diagonal": 2 * work.n_weights,
        }[plan.frame]
    rows = work.n_rows * (2 * work.row_values + 4)
    optimiser = 30 * work.n_weights
    return int(8 * (numbers + of_frame + rows + optimiser))


def low_rank_bytes(work: Work, n_directions: int) -> float:
    """Of the mean, a spectrum and directions per class, while they are made."""
    turned = 24 * work.n_columns**2 if work.n_columns <= MOST_TURNED else 0
    # The mean; in single precision the fit itself, sums over rows, scales and directions.
    of_weights = work.n_weights * (8 + 12 + 4 * n_directions)
    blocks = 16 * max(CHUNK, LEAST_ROWS * (work.n_classes + work.n_columns))
    # Rows twice, in both precisions, with the numbers of their columns.
    rows = work.n_rows * work.row_values * (20 if work.sparse else 12)
    return turned + of_weights + blocks + rows
