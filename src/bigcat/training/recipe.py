"""Everything that decides how a fit runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bigcat.combinations import Parts
from bigcat.linear import FullRank, WeightsKind
from bigcat.solvers import Solver
from bigcat.storage import Storage
from bigcat.training.stopping import Never, StoppingRule

#: Passes at most where no row can be held out to say when to stop.
MOST_PASSES_UNWATCHED = 8
#: How many times the rate of low rank is taken there: each class has one row to be learned from.
RATE_UNWATCHED = 2.0


@dataclass(frozen=True)
class Recipe:
    """A fit, with nothing left to "auto" but what it asks to be found by trials.

    Parameters
    ----------
    parts : Parts
    kind : WeightsKind
    batch_size, max_epochs : int
    l2 : float
        The ridge on the sum.
    tol : float
        Largest gradient of the mean value per row that L-BFGS takes for converged.
    enough : float
        Its iterations also end where one gains no more than this, in nats per row.
    init : {"frequencies", "zero", "random"}
    early_stopping : bool
        Stop by held-out rows, and keep the best epoch's weights.
    validation_fraction : float or None
        Of the rows to hold out; None for a number that suits a choice of our own.
    must_hold_out : bool
        Whether to raise where no row can be held out, or else to do without.
    searches_rate : bool
        Find the learning rate by short trials first.
    searches_ridge : bool
        Find the ridge along a path first.
    blends : bool
        Find by held-out rows how far to trust the fit, and those of `beside` (`blend`).
    beside : tuple of Recipe
        What else to fit to the same rows; the scores are added.
    otherwise : Recipe or None
        What to try where held-out rows gain little by all these.
    exactly : Recipe or None
        An exact fit of full rank, for where faster and faster passes go on gaining.
    n_apart : int
        So many fits of this kind, trained apart, whose scores are averaged; their ranks add up.
    slows_down : bool
        Go on at a lower rate where held-out rows do not trust the first fit.
    with_pairs : bool
        Fit weights of single pairs of class and feature beside it (`pairs`).
    scales_columns : bool
        Centre and scale the columns of dense rows before, and scale sparse ones that are far from
        the usual size; turn the weights back after.
    refits : bool
        Fit once more on all rows, the held-out ones too, for as many epochs as were best.
    window : int or None
        Rows that are visited in random order at a time, where they are mapped to files in random
        order (`streams`); None for all.
    stop : callable
        Makes a rule that is told each epoch's value, and says when to stop.
    choice : dict or None
        What was chosen and why, for people; None where everything was given.
    """

    parts: Parts
    batch_size: int
    max_epochs: int
    kind: WeightsKind = field(default_factory=FullRank)
    l2: float = 0.0
    tol: float = 0.0
    enough: float = 0.0
    fit_intercept: bool = True
    init: str = "frequencies"
    shuffle: bool = True
    n_threads: int = 1
    early_stopping: bool = False
    validation_fraction: float | None = None
    must_hold_out: bool = True
    searches_rate: bool = False
    searches_ridge: bool = False
    blends: bool = False
    beside: tuple[Recipe, ...] = ()
    otherwise: Recipe | None = None
    exactly: Recipe | None = None
    n_apart: int = 1
    slows_down: bool = False
    with_pairs: bool = False
    scales_columns: bool = False
    refits: bool = False
    window: int | None = None
    stop: Callable[[], StoppingRule] = Never
    choice: dict[str, Any] | None = None

    @property
    def splits_rows(self) -> bool:
        """Whether rows are held out, where none are given to judge by."""
        return self.searches_ridge or self.blends or self.early_stopping or self.searches_rate

    @property
    def exact_fits(self) -> list[Recipe]:
        """What may be fitted after the passes."""
        return [recipe for recipe in (self.otherwise, self.exactly) if recipe is not None]

    def stored_in(self, storage: Storage) -> Recipe:
        """With the weights in files, which one fit by passes can have, and nothing else."""
        remedy = "leave out weights_folder"
        if not self.parts.solver.stochastic:
            raise ValueError(
                "weights_folder is for solvers that make passes over the rows, and "
                f"solver={self.parts.solver.name!r} works out all weights in memory; take "
                f"solver='adagrad' or 'sgd', or {remedy}"
            )
        if self.searches_ridge:
            raise ValueError(
                "weights_folder is for a ridge that is given, and l2='path' tries several in "
                f"memory; set l2 to a number, or {remedy}"
            )
        if self.beside or self.exact_fits or self.with_pairs or self.n_apart > 1:
            raise ValueError(
                "weights_folder is for one fit, and method='auto' would add up several in memory; "
                f"set rank (None for full rank), or name a method, or {remedy}"
            )
        return replace(self, kind=self.kind.stored_in(storage))

    def with_solver(self, solver: Solver) -> Recipe:
        return replace(self, parts=replace(self.parts, solver=solver))

    def at_part_of_rate(self, part: float) -> Recipe:
        return self.with_solver(self.parts.solver.at_part_of_rate(part))

    def told(self, reason: str) -> Recipe:
        """With the choice written down, for people."""
        parts = self.parts
        choice: dict[str, Any] = {
            "bound": parts.bound.name,
            "sampler": parts.sampler.name,
            "solver": parts.solver.name,
            "rank": self.kind.rank,
            "batch_size": self.batch_size,
            "max_epochs": self.max_epochs,
            "l2": self.l2,
            "n_threads": self.n_threads,
            "reason": reason,
        }
        if parts.sampler.n_drawn is not None:
            choice["n_negatives"] = parts.sampler.n_drawn
        if parts.solver.rate is not None and not parts.solver.relative:
            choice["learning_rate"] = parts.solver.rate
        return replace(self, choice=choice)

    def noting(self, **found: Any) -> Recipe:
        """With more written down, such as what trials found."""
        return replace(self, choice={**(self.choice or {}), **found})

    def without_held_out_rows(self) -> Recipe:
        """Where no row can be spared, since each is the only one of its class."""
        chosen = (self.choice or {})["reason"].partition(";")[0]
        reason = f"{chosen}; no row can be held out"
        if self.searches_rate:
            reason += ", so rows of the trials judge rates"
        solver = self.parts.solver.unwatched()
        if self.slows_down and self.kind.rank is not None:
            solver = solver.at_part_of_rate(RATE_UNWATCHED)
        recipe = replace(
            self.with_solver(solver),
            max_epochs=min(self.max_epochs, MOST_PASSES_UNWATCHED),
            early_stopping=False,
            refits=False,
            stop=Never,
        )
        return recipe.told(reason)
