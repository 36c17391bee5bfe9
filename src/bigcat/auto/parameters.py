"""The parameters of a linear fit as one typed value, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from bigcat import noise as noises
from bigcat.combinations import Method, resolve_method
from bigcat.linear import WeightsKind, kind_of_rank
from bigcat.machine import available_cores
from bigcat.noise import Noise
from bigcat.samplers import Sampler
from bigcat.solvers import Solver
from bigcat.training.checks import check_choice, check_whole, is_count, is_number

Auto = Literal["auto"]

INITS = ("frequencies", "zero", "random")
EFFORT_NAMES = ("quick", "balanced", "best")


@dataclass(frozen=True)
class Parameters:
    """What a user asks of a fit; names as in `LinearClassifier`.

    `method` is None where it is to be chosen.
    """

    noise: Noise
    method: Method | None
    rank: int | Auto | None
    n_negatives: int | Auto
    batch_size: int | Auto
    max_epochs: int | Auto
    learning_rate: float | Auto
    l2: float | Literal["auto", "path"]
    fit_intercept: bool
    validation_fraction: float
    early_stopping: bool | Auto
    n_iter_no_change: int
    tol: float | None
    init: str
    shuffle: bool
    n_threads: int
    solver: str | Solver
    sampler: str | Sampler
    effort: str = "balanced"
    #: Of the weights that a fit starts from, if there are any.
    kept_kind: WeightsKind | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Parameters:
        """Check an estimator's parameters; raise for one that no method could use."""
        check_whole("n_negatives", values["n_negatives"], or_auto=True)
        check_whole("max_epochs", values["max_epochs"], or_auto=True)
        check_whole("n_iter_no_change", values["n_iter_no_change"])
        _check_threads(values["n_threads"])
        check_rank(values["rank"])
        check_whole("batch_size", values["batch_size"], or_auto=True)
        check_choice("init", values["init"], INITS)
        check_choice("effort", values["effort"], EFFORT_NAMES)
        l2 = values["l2"]
        named = isinstance(l2, str) and l2 in ("auto", "path")
        if not named and not (is_number(l2) and 0.0 <= l2 < math.inf):
            raise ValueError(f"l2={l2!r} must be a finite number of at least 0, 'auto' or 'path'")
        stopping = values["early_stopping"]
        if not isinstance(stopping, (bool, np.bool_)) and stopping != "auto":
            raise ValueError(f"early_stopping={stopping!r} must be True, False or 'auto'")
        tol = values["tol"]
        if tol is not None and not (is_number(tol) and tol >= 0.0):
            raise ValueError(f"tol={tol!r} must be a number of at least 0, or None")
        check_rate(values["learning_rate"])
        callbacks = values["callbacks"] or ()
        if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
            raise ValueError(f"callbacks={callbacks!r} must be a list of functions, or None")
        check_fraction(values["validation_fraction"])
        sampler, n_negatives = values["sampler"], values["n_negatives"]
        if isinstance(sampler, Sampler) and n_negatives not in ("auto", sampler.n_drawn):
            raise ValueError(
                f"n_negatives={n_negatives!r} and a sampler object are given both; set the number "
                f"in the object, {type(sampler).__name__}(n_negatives={n_negatives!r})"
            )
        method = values["method"]
        own = {name: values[name] for name in cls.__dataclass_fields__ if name != "kept_kind"}
        return cls(
            **own
            | {
                "noise": noises.resolve(values["noise"]),
                "method": None if _is_auto(method) else resolve_method(method),
                "fit_intercept": bool(values["fit_intercept"]),
                "shuffle": bool(values["shuffle"]),
                "n_threads": _n_threads(values["n_threads"], values["random_state"]),
            }
        )

    @classmethod
    def chosen(
        cls, noise: Noise, rank: int | Auto | None, fit_intercept: bool, n_threads: int
    ) -> Parameters:
        """Those of a fit that is left to "auto" but for these."""
        return cls(
            noise=noise,
            method=None,
            rank=rank,
            n_negatives="auto",
            batch_size="auto",
            max_epochs="auto",
            learning_rate="auto",
            l2="auto",
            fit_intercept=fit_intercept,
            validation_fraction=0.1,
            early_stopping="auto",
            n_iter_no_change=5,
            tol=1e-4,
            init="frequencies",
            shuffle=True,
            n_threads=n_threads,
            solver="auto",
            sampler="auto",
        )

    def given(self, name: str) -> bool:
        """Has the user set it?"""
        return not _is_auto(getattr(self, name))

    def keeping(self, kind: WeightsKind | None) -> Parameters:
        """With the kind of the weights that a fit starts from, if there are any."""
        if kind is None:
            return self
        if self.rank not in ("auto", kind.rank):
            raise ValueError(
                f"rank={self.rank} differs from that of the weights to start from, {kind.rank}; "
                f"set rank={kind.rank} or begin anew"
            )
        return replace(self, rank=kind.rank, kept_kind=kind)

    @property
    def kind(self) -> WeightsKind:
        """Of the weights: that of those to start from, or what `rank` stands for."""
        return self.kept_kind or kind_of_rank(None if self.rank == "auto" else self.rank)


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == "auto"


def _n_threads(asked: int | None, random_state: object) -> int:
    """As asked; else all cores, but one where a seed asks for the same bits."""
    if asked is not None:
        return int(asked)
    return 1 if random_state is not None else available_cores()


def check_rate(rate: Any) -> None:
    if not _is_auto(rate) and not (is_number(rate) and 0.0 < rate < math.inf):
        raise ValueError(f"learning_rate={rate!r} must be a number above 0, or 'auto'")


def check_fraction(fraction: Any) -> None:
    if not (is_number(fraction) and 0.0 < fraction < 1.0):
        raise ValueError(f"validation_fraction={fraction!r} must lie between 0 and 1")


def _check_threads(n_threads: Any) -> None:
    if n_threads is not None and not (is_count(n_threads) and n_threads >= 1):
        raise ValueError(
            f"n_threads={n_threads!r} must be a whole number of at least 1, or None for all cores"
        )


def check_rank(rank: Any) -> None:
    if rank is not None and not _is_auto(rank) and not (is_count(rank) and rank >= 1):
        raise ValueError(
            f"rank={rank!r} must be a whole number of at least 1, None for weights of full rank, "
            "or 'auto'"
        )
