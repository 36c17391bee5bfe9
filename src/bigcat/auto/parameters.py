"""The parameters of a linear fit as one typed value, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bigcat import noise as noises
from bigcat._system import available_cores
from bigcat.checks import check_choice, check_whole, is_count, is_number
from bigcat.combinations import Method, named_sampler, named_solver, resolve, resolve_method
from bigcat.linear import WeightsKind, kind_of_rank
from bigcat.noise import Noise
from bigcat.samplers import Sampler
from bigcat.solvers import Solver
from bigcat.training import progress
from bigcat.training.config import FitConfig
from bigcat.training.stopping import EarlyStopping

Auto = Literal["auto"]

EFFORT_NAMES = ("quick", "balanced", "best")
#: Epochs of a fit whose rate is not planned to fall to zero.
MAX_EPOCHS = 50


@dataclass(frozen=True)
class Parameters:
    """Requests of a user for a fit; names as in `LinearClassifier`.

    None stands for "auto" in `method`, `max_epochs`, `solver` and `sampler`, and for no rule in
    `early_stopping`.
    """

    noise: Noise
    method: Method | None = None
    rank: int | Auto | None = "auto"
    max_epochs: int | None = None
    l2: float | Literal["auto", "path"] = "auto"
    fit_intercept: bool = True
    early_stopping: EarlyStopping | Auto | None = "auto"
    n_threads: int = 1
    solver: Solver | None = None
    sampler: Sampler | None = None
    effort: str = "balanced"
    #: Kind of the weights that a fit starts from, if there are any.
    kept_kind: WeightsKind | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Parameters:
        """Check an estimator's parameters; raise for one that no method could use."""
        max_epochs, method, l2 = values["max_epochs"], values["method"], values["l2"]
        check_whole("max_epochs", max_epochs, or_auto=True)
        _check_threads(values["n_threads"])
        check_rank(values["rank"])
        check_choice("effort", values["effort"], EFFORT_NAMES)
        named = isinstance(l2, str) and l2 in ("auto", "path")
        if not named and not (is_number(l2) and 0.0 <= l2 < math.inf):
            raise ValueError(f"l2={l2!r} must be a finite number of at least 0, 'auto' or 'path'")
        progress.split(values["progress"])
        return cls(
            noise=noises.resolve(values["noise"]),
            method=None if _is_auto(method) else resolve_method(method),
            rank=values["rank"],
            max_epochs=None if _is_auto(max_epochs) else int(max_epochs),
            l2=l2 if named else float(l2),
            fit_intercept=bool(values["fit_intercept"]),
            early_stopping=_early_stopping(values["early_stopping"]),
            n_threads=_n_threads(values["n_threads"], values["random_state"]),
            solver=named_solver(values["solver"]),
            sampler=named_sampler(values["sampler"]),
            effort=values["effort"],
        )

    def keeping(self, kind: WeightsKind | None) -> Parameters:
        """Return the parameters for a fit that starts from weights of this kind, if any."""
        if kind is None:
            return self
        if self.rank not in ("auto", kind.rank):
            raise ValueError(
                f"rank={self.rank} differs from the rank of the fitted weights, {kind.rank}; "
                f"set rank={kind.rank}, or fit without warm_start"
            )
        return replace(self, rank=kind.rank, kept_kind=kind)

    @property
    def kind(self) -> WeightsKind:
        """Kind of the weights."""
        return self.kept_kind or kind_of_rank(None if self.rank == "auto" else self.rank)

    def config(self, method: str | Method) -> FitConfig:
        """Return the settings of a method: the parameters as they are."""
        parts = resolve(
            method, self.noise, solver=self.solver or "auto", sampler=self.sampler or "auto"
        )
        self.kind.check_solver(parts.solver)
        early_stopping = self.early_stopping
        if early_stopping == "auto":
            early_stopping = EarlyStopping(validation_fraction=None)
        return FitConfig(
            parts,
            max_epochs=self.max_epochs or MAX_EPOCHS,
            kind=self.kind,
            l2=0.0 if isinstance(self.l2, str) else self.l2,
            fit_intercept=self.fit_intercept,
            n_threads=self.n_threads,
            early_stopping=early_stopping,
        )


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _early_stopping(asked: Any) -> EarlyStopping | Auto | None:
    if isinstance(asked, EarlyStopping):
        return asked
    if isinstance(asked, bool | np.bool_):
        return EarlyStopping() if asked else None
    if not _is_auto(asked):
        raise ValueError(
            f"early_stopping={asked!r} must be True, False, 'auto' or EarlyStopping(...)"
        )
    return "auto"


def _n_threads(asked: int | None, random_state: object) -> int:
    """Return the number of threads: all cores by default, but one with a seed."""
    if asked is not None:
        return int(asked)
    return 1 if random_state is not None else available_cores()


def _check_threads(n_threads: Any) -> None:
    if n_threads is not None and not (is_count(n_threads) and n_threads >= 1):
        raise ValueError(
            f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores"
        )


def check_rank(rank: Any) -> None:
    """Raise ValueError for a rank that no model can have."""
    if rank is not None and not _is_auto(rank) and not (is_count(rank) and rank >= 1):
        raise ValueError(
            f"rank={rank!r} must be a whole number of at least 1, None for weights of full rank, "
            "or 'auto'"
        )
