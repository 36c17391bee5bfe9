"""Utilities that are linear in their coefficients: from a formula or a list to a design matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.choice.data import Array, Columns, Rows, numbers, quoted, varies_within_cases

Source = str | Callable[[Columns], Any]
#: Formulas that need no other library: names, products of names, and 0, 1 or -1.
_SIMPLE = re.compile(r"\s*-?\s*[\w.]+(\s*:\s*[\w.]+)*(\s*[+-]\s*[\w.]+(\s*:\s*[\w.]+)*)*\s*")
#: A design matrix of fewer numbers is dense.
_DENSE = 20_000_000


@dataclass(frozen=True)
class Term:
    """A variable: the name of a column, names with colons for a product, or a function."""

    name: str
    source: Source

    def value(self, columns: Columns) -> Array:
        """Return the values of rows, or one value for all."""
        if callable(self.source):
            return numbers(self.source(columns), self.name)
        value: Array | float = 1.0
        for name in self.source.split(":"):
            value = value * numbers(columns[name.strip()], name)
        return np.asarray(value)


@dataclass
class Formula:
    """A part of a formula that formulaic evaluates, with what it learned from the first rows."""

    text: str
    spec: Any = None

    def values(self, columns: Columns) -> dict[str, Array]:
        """Return the variables of the part by name, its intercept left out."""
        try:
            import formulaic
            import pandas
        except ImportError as error:
            raise ImportError(
                f"the formula {self.text!r} needs formulaic: pip install 'bigcat[formula]'"
            ) from error
        needed = formulaic.Formula(self.text).required_variables
        frame = pandas.DataFrame({name: columns[name] for name in columns if name in needed})
        if self.spec is None:
            matrix = formulaic.model_matrix(self.text, frame, na_action="ignore")
            self.spec = matrix.model_spec
        else:
            matrix = self.spec.get_model_matrix(frame)
        return {n: matrix[n].to_numpy(float) for n in matrix.columns if n != "Intercept"}

    @property
    def has_state(self) -> bool:
        """True if values depend on the rows of the fit, as those of ``scale(x)`` do."""
        return self.spec is not None and bool(self.spec.transform_state)


@dataclass
class Utility:
    """Variables with one coefficient, with one for each alternative, and constants."""

    generic: list[Term | Formula]
    specific: list[Term | Formula]
    constants: bool

    @classmethod
    def of(
        cls,
        utility: str | Sequence[str] | Mapping[str, Source],
        by_alternative: Sequence[str] | Mapping[str, Source],
        constants: bool | None,
    ) -> Utility:
        """Return the utility that the parameters of `ChoiceModel` describe."""
        if not isinstance(utility, str):
            return cls(_terms(utility), _terms(by_alternative), bool(constants))
        if by_alternative or constants is not None:
            raise ValueError(
                "a formula has parts for by_alternative and constants: 'cost | income | time', and "
                "'cost | 0' for no constants; leave the two parameters out"
            )
        parts = [part.strip() for part in utility.split("~")[-1].split("|")]
        if len(parts) > 3:
            raise ValueError(f"utility={utility!r} has {len(parts)} parts; write at most three")
        parts += ["1"] * (2 - len(parts))
        with_constants = not re.search(r"(^|\+)\s*0|-\s*1", parts[1])
        return cls(
            _parsed(parts[0]), [t for part in parts[1:] for t in _parsed(part)], with_constants
        )

    @property
    def has_state(self) -> bool:
        """True if values depend on the rows of the fit."""
        terms = [*self.generic, *self.specific]
        return any(isinstance(term, Formula) and term.has_state for term in terms)

    def terms_of_pairs(self) -> list[Term]:
        """Return the terms where rows are not all in memory, which formulaic would need."""
        found = [term for term in self.generic if isinstance(term, Term)]
        if len(found) < len(self.generic):
            raise ValueError(
                "with so many choosers and alternatives a formula can hold names and products "
                "(a:b) only; give utility as a dict of functions"
            )
        return found


def _terms(given: Sequence[str] | Mapping[str, Source]) -> list[Term | Formula]:
    pairs = given.items() if isinstance(given, Mapping) else [(name, name) for name in given]
    return [Term(name, source) for name, source in pairs]


def _parsed(part: str) -> list[Term | Formula]:
    if not _SIMPLE.fullmatch(part) or "-" in re.sub(r"-\s*1", "", part):
        return [Formula(part)]
    names = [re.sub(r"\s", "", name) for name in re.sub(r"-\s*1", "", part).split("+")]
    return [Term(name, name) for name in names if name not in ("", "0", "1")]


def _values(terms: Sequence[Term | Formula], rows: Rows) -> dict[str, Array]:
    """Return the variables of all rows by name; ValueError naming a case where one is missing."""
    found = dict[str, Array]()
    for term in terms:
        if isinstance(term, Formula):
            found |= term.values(rows.columns)
        else:
            value = term.value(rows.columns)
            found[term.name] = np.broadcast_to(value, rows.alternative.shape)
    for name, value in found.items():
        if not np.isfinite(value).all():
            row = int(np.argmin(np.isfinite(value)))
            label = quoted(rows.labels[rows.alternative[row]])
            raise ValueError(
                f"{name} is {value[row]} in case {rows.case_names[rows.cases[row]]}, alternative "
                f"{label}; leave the case out or fill in a value"
            )
    return found


@dataclass
class Coding:
    """Variable and alternative of each column of the design matrix."""

    generic: list[str]
    #: Variables with a coefficient for each alternative, and whether the reference has one.
    specific: list[tuple[str, bool]]
    labels: Array
    reference: int
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = list(self.generic)
        for name, whole in self.specific:
            kept = [k for k in range(len(self.labels)) if whole or k != self.reference]
            self.names += [f"{name}:{self.labels[k]}" for k in kept]

    @classmethod
    def of(cls, utility: Utility, rows: Rows, reference: int) -> Coding:
        """Return the coding of the rows of a fit.

        Coefficients of a variable that is the same for all alternatives of a case can only be
        told apart from that of the reference, which is zero.
        """
        generic = _values(utility.generic, rows)
        for name, value in generic.items():
            if not varies_within_cases(value, rows.starts):
                raise ValueError(
                    f"{name} is the same for all alternatives of each case, so its coefficient is "
                    "not identified; give it one for each alternative (by_alternative, or the "
                    "second part of a formula)"
                )
        specific = [
            (name, varies_within_cases(value, rows.starts))
            for name, value in _values(utility.specific, rows).items()
        ]
        if utility.constants:
            specific.append(("constant", False))
        return cls([*generic], specific, rows.labels, reference)

    def matrix(self, utility: Utility, rows: Rows, codes: Array | None = None) -> Any:
        """Return the design matrix, dense or CSR, one row per case and alternative.

        `codes` are the alternatives whose coefficients each row takes; by default its own.
        """
        codes = rows.alternative if codes is None else codes
        generic = _values(utility.generic, rows)
        specific = _values(utility.specific, rows)
        found = [*generic], [*specific, *(["constant"] if utility.constants else [])]
        expected = self.generic, [name for name, _ in self.specific]
        if found != expected:
            raise ValueError(f"the variables are {found}, but those of the fit were {expected}")
        specific["constant"] = np.ones(len(codes))
        shape = len(codes), len(self.names)
        dense = shape[0] * shape[1] <= _DENSE
        X = np.zeros(shape) if dense else None
        blocks = []
        if X is not None:
            for k, value in enumerate(generic.values()):
                X[:, k] = value
        else:
            blocks = [sp.csr_array(np.column_stack([*generic.values()]))] if generic else []
        start = len(generic)
        for name, whole in self.specific:
            width = len(self.labels) - (not whole)
            place = codes - (0 if whole else (codes > self.reference))
            kept = np.flatnonzero(whole | (codes != self.reference))
            if X is not None:
                X[kept, start + place[kept]] = specific[name][kept]
            else:
                part = (specific[name][kept], (kept, place[kept]))
                blocks.append(sp.csr_array(part, shape=(len(codes), width)))
            start += width
        return X if X is not None else sp.csr_array(sp.hstack(blocks, format="csr"))
