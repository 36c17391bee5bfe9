"""Settings of a fit, with nothing left to "auto"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bigcat.combinations import Parts
from bigcat.linear import FullRank, WeightsKind
from bigcat.solvers import Solver
from bigcat.training.stopping import EarlyStopping


@dataclass(frozen=True)
class FitConfig:
    """Settings of one fit, resolved."""

    parts: Parts
    max_epochs: int
    kind: WeightsKind = field(default_factory=FullRank)
    l2: float = 0.0  # ridge on the sum of the log-likelihoods
    fit_intercept: bool = True
    n_threads: int = 1
    early_stopping: EarlyStopping | None = None
    #: Number of rows visited in random order at a time if mapped to files; None for all.
    window: int | None = None

    @property
    def batch_size(self) -> int:
        """Rows per step."""
        return self.parts.solver.batch_size

    @property
    def validation_fraction(self) -> float | None:
        """Part of the rows to hold out, whose best epoch is kept; None for none."""
        rule = self.early_stopping
        return None if rule is None else rule.validation_fraction

    def stop(self) -> EarlyStopping | None:
        """Return the rule that this fit stops by.

        The objective says nothing while the rate is planned to fall to zero.
        """
        planned = self.validation_fraction is None and self.parts.solver.decays_to_zero
        return None if planned else self.early_stopping

    def in_windows(self, window: int) -> FitConfig:
        """Return the settings for rows that are mapped to files."""
        solver = self.parts.solver
        if not solver.stochastic:
            raise ValueError(
                f"solver={solver.name!r} needs all rows in every step, and these are more than "
                "window_bytes; take solver='auto', or open the folder with as large a window as "
                "the rows"
            )
        return replace(self, window=window)

    def with_solver(self, solver: Solver) -> FitConfig:
        """Return the settings with another solver."""
        return replace(self, parts=replace(self.parts, solver=solver))

    def settings(self) -> dict[str, Any]:
        """Return the settings as plain values, for display."""
        parts = self.parts
        found: dict[str, Any] = {
            "bound": parts.bound.name,
            "sampler": parts.sampler.name,
            "n_negatives": parts.sampler.n_drawn,
            "solver": parts.solver.name,
            "learning_rate": parts.solver.rate,
            "rank": self.kind.rank,
            "batch_size": self.batch_size or None,
            "max_epochs": self.max_epochs,
            "l2": self.l2,
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class Candidate:
    """Model of the ensemble."""

    name: str  # in the progress display and in the selection
    config: FitConfig
    searches_ridge: bool = False  # along a path, before the fit
    in_pairs: bool = False  # weights for pairs of class and feature that occur together only


@dataclass(frozen=True)
class FitPlan:
    """Plan of a fit, made from the sizes of the data alone."""

    candidates: tuple[Candidate, ...]
    stacks: bool = False  # weigh candidates by validation rows; else the first is the model
    refits: bool = False  # fit what has a stacking weight to all rows, too
    scales_columns: bool = False  # inside; weights come back in the units of X
    reason: str = ""  # one sentence for display

    @property
    def first(self) -> FitConfig:
        """Configuration of the first candidate, which stands for all."""
        return self.candidates[0].config

    def mapped(self, change: Callable[[FitConfig], FitConfig]) -> FitPlan:
        """Return the plan with changed configurations."""
        return replace(
            self,
            candidates=tuple(replace(c, config=change(c.config)) for c in self.candidates),
        )
