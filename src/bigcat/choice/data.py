"""Choices as people have them: long, wide, or choosers beside a table of alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray
Index = tuple[Array, ...]


class Columns(Mapping[str, Array]):
    """Columns by name, each gathered when it is used.

    Parameters
    ----------
    sources : sequence of (mapping of str to array, index)
        Tables, and the index by which rows are taken from each of their columns.
    """

    def __init__(self, sources: Sequence[tuple[Mapping[str, Array], Index]]) -> None:
        self.sources = sources

    def take(self, rows: Array) -> Columns:
        """Return some of the rows."""
        return Columns([(table, tuple(i[rows] for i in index)) for table, index in self.sources])

    def __getitem__(self, name: str) -> Array:
        for table, index in self.sources:
            if name in table:
                return np.asarray(table[name][index])
        raise ValueError(f"there is no column {name!r}; the columns are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return (name for table, _ in self.sources for name in table)

    def __len__(self) -> int:
        return sum(len(table) for table, _ in self.sources)


@dataclass(frozen=True)
class Layout:
    """Names of columns, as `ChoiceModel.fit` takes them; a fitted model keeps them."""

    choice: str | None = None
    case: str | None = None
    alternative: str | None = None
    columns: str | None = None
    #: Labels of a wide table's alternatives, and their names in its columns.
    names: tuple[tuple[Any, str], ...] = ()
    counts: str | None = None
    weights: str | None = None
    groups: str | None = None
    available: str | None = None

    def matrices(self, table: Mapping[str, Array]) -> dict[str, Array]:
        """Return the variables of a wide table, each of shape (n_cases, n_alternatives)."""
        assert self.columns is not None
        before, _, after = self.columns.format(
            variable="\0", alternative=self.names[0][1]
        ).partition("\0")
        variables = [
            column[len(before) : len(column) - len(after)]
            for column in table
            if column.startswith(before) and column.endswith(after)
        ]
        found = {}
        for variable in variables:
            places = [self.columns.format(variable=variable, alternative=n) for _, n in self.names]
            if all(place in table for place in places):
                found[variable] = np.stack([table[place] for place in places], axis=1)
        return found

    def matrix(self, pattern: str, table: Mapping[str, Array]) -> Array:
        """Return what a pattern names, of shape (n_cases, n_alternatives)."""
        return np.stack(
            [column(table, pattern.format(alternative=n)) for _, n in self.names], axis=1
        )


@dataclass
class Rows:
    """One row per case and available alternative; the rows of a case lie together."""

    columns: Columns
    #: Where the rows of each case begin, and their number.
    starts: Array
    alternative: Array
    labels: Array
    case_names: Array
    #: Weighted number of choices per row; zeros where nothing was chosen.
    chosen: Array
    weights: Array
    groups: Array | None
    #: Place of each row in the table that was given, and the shape of what is predicted for it.
    places: Array
    shape: tuple[int, ...]

    @property
    def n_cases(self) -> int:
        return len(self.starts) - 1

    @property
    def cases(self) -> Array:
        """Number of the case of each row."""
        return np.repeat(np.arange(self.n_cases), np.diff(self.starts))

    def with_column(self, name: str, values: Array) -> Rows:
        """Return the rows with other values in a column."""
        columns = Columns([({name: values}, (np.arange(len(values)),)), *self.columns.sources])
        return replace(self, columns=columns)

    def without(self, removed: Array) -> Rows:
        """Return the rows of other alternatives than those with these numbers."""
        kept = np.flatnonzero(~np.isin(self.alternative, removed))
        sizes = np.bincount(self.cases[kept], minlength=self.n_cases)
        if (sizes == 0).any():
            raise ValueError(f"case {self.case_names[np.argmin(sizes)]} has no alternative left")
        return replace(
            self,
            columns=self.columns.take(kept),
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            alternative=self.alternative[kept],
            chosen=self.chosen[kept],
            places=self.places[kept],
        )


@dataclass
class Pairs:
    """Cases beside alternatives: each pair is a row, which is made when it is needed."""

    choosers: Mapping[str, Array]
    alternatives: Mapping[str, Array]
    #: Variables of a wide table, of shape (n_cases, n_alternatives).
    matrices: Mapping[str, Array]
    labels: Array
    case_names: Array
    weights: Array
    #: Number of the chosen alternative of each case; None where `counts` are given, or none.
    chosen: Array | None = None
    counts: Array | None = None
    groups: Array | None = None
    #: Mask of alternatives, or of pairs, or a function of the numbers of cases and alternatives.
    available: Array | Callable[[Array, Array], Any] | None = None

    @property
    def n_cases(self) -> int:
        return len(self.case_names)

    def columns(self, i: Array, j: Array) -> Columns:
        """Return the columns of pairs of cases and alternatives, which may be broadcast."""
        return Columns([(self.choosers, (i,)), (self.alternatives, (j,)), (self.matrices, (i, j))])

    def availability(self, i: Array, j: Array) -> Array | None:
        """Return a mask of pairs that broadcasts to their shape; None where all are available."""
        if self.available is None:
            return None
        if callable(self.available):
            return np.asarray(self.available(i, j), bool)
        return np.asarray(self.available[j] if self.available.ndim == 1 else self.available[i, j])

    def without(self, removed: Array) -> Pairs:
        """Return the pairs where alternatives with these numbers are not available."""
        kept = ~np.isin(np.arange(len(self.labels)), removed)

        def available(i: Array, j: Array) -> Array:
            mask = self.availability(i, j)
            return np.asarray(kept[j] if mask is None else mask & kept[j])

        return replace(self, available=available)

    def sizes(self) -> Array:
        """Return the number of available alternatives of each case."""
        every = np.arange(len(self.labels))[None]
        if self.available is None:
            return np.full(self.n_cases, len(self.labels))
        sizes = np.empty(self.n_cases, int)
        for i in range(self.n_cases):
            mask = self.availability(np.array([[i]]), every)
            assert mask is not None
            sizes[i] = np.broadcast_to(mask, every.shape).sum()
        return sizes

    def rows(self) -> Rows:
        """Return all available pairs as rows."""
        shape = self.n_cases, len(self.labels)
        i, j = np.arange(shape[0])[:, None], np.arange(shape[1])[None]
        mask = self.availability(i, j)
        mask = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        case, alternative = np.nonzero(mask)
        chosen = np.zeros(shape)
        if self.counts is not None:
            chosen[:] = self.counts * self.weights[:, None]
        elif self.chosen is not None:
            chosen[i[:, 0], self.chosen] = self.weights
        check_available(chosen, mask, self.case_names, self.labels)
        return Rows(
            self.columns(case, alternative),
            np.concatenate([[0], np.cumsum(mask.sum(axis=1))]),
            alternative,
            self.labels,
            self.case_names,
            chosen[mask],
            self.weights,
            self.groups,
            np.flatnonzero(mask),
            shape,
        )


def read_table(data: Any) -> dict[str, Array]:
    """Return the columns of a data frame of pandas or polars, an Arrow table, or a dict."""
    if isinstance(data, Mapping):
        found = {str(name): np.asarray(values) for name, values in data.items()}
    elif hasattr(data, "column_names"):  # Arrow
        found = {n: data[n].to_numpy() for n in data.column_names}
    elif hasattr(data, "columns"):  # pandas, polars
        found = {str(name): np.asarray(data[name].to_numpy()) for name in data.columns}
    else:
        raise TypeError(
            f"data of type {type(data).__name__} is not a table; give a data frame of pandas or "
            "polars, an Arrow table or a dict of columns"
        )
    lengths = {len(values) for values in found.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"the columns have {sorted(lengths)} rows; give at least one, all alike")
    return found


def column(table: Mapping[str, Array], name: str) -> Array:
    """Return a column; ValueError where there is none of that name."""
    if name not in table:
        raise ValueError(f"there is no column {name!r}; the columns are {', '.join(table)}")
    return table[name]


def quoted(value: Any) -> str:
    """Return a label for a message."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def numbers(values: Any, name: str) -> Array:
    """Return a column as float64; TypeError for text."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} holds {array.dtype} and not numbers; code it as numbers, or write C({name}) "
            "in a formula"
        )
    return array.astype(np.float64, copy=False)


def read_long(table: dict[str, Array], layout: Layout, available: Any, fitting: bool) -> Rows:
    """Return the rows of a long table: one per case and alternative."""
    if layout.case is None or layout.alternative is None:
        raise ValueError("a long table needs case= and alternative=, the names of two columns")
    case_names, case = np.unique(column(table, layout.case), return_inverse=True)
    names = column(table, layout.alternative)
    labels = np.unique(names)
    alternative = codes_of(names, labels, layout.alternative)
    n = len(case)
    whole = Columns([(table, (np.arange(n),))])
    mask = np.ones(n, bool)
    if available is not None:
        given = available(whole) if callable(available) else available
        mask = np.asarray(column(table, given) if isinstance(given, str) else given).astype(bool)
    if mask.shape != (n,):
        raise ValueError(f"available has shape {mask.shape}; give one value for each of {n:,} rows")
    chosen = np.zeros(n)
    name = layout.counts or layout.choice
    if fitting and name is not None:
        chosen = numbers(column(table, name), name)
    elif fitting:
        raise ValueError("fit needs choice= or counts=, the name of a column")
    order = np.lexsort((alternative, case))
    twice = (np.diff(case[order]) == 0) & (np.diff(alternative[order]) == 0)
    if twice.any():
        row = order[np.flatnonzero(twice)[0]]
        raise ValueError(
            f"case {case_names[case[row]]} has {quoted(labels[alternative[row]])} twice"
        )
    odd = np.flatnonzero((chosen != 0.0) & ~mask)
    if len(odd):
        row = odd[0]
        raise not_available(case_names[case[row]], labels[alternative[row]])
    if fitting:
        totals = np.bincount(case, chosen, len(case_names))
        single = layout.counts is None
        check_choices(chosen, totals, case_names, single)
    first = order[np.searchsorted(case[order], np.arange(len(case_names)))]
    weights, groups = weights_of(table, layout, first)
    order = order[mask[order]]
    sizes = np.bincount(case[order], minlength=len(case_names))
    if (sizes == 0).any():
        raise ValueError(f"case {case_names[np.argmin(sizes)]} has no available alternative")
    return Rows(
        Columns([(table, (order,))]),
        np.concatenate([[0], np.cumsum(sizes)]),
        alternative[order],
        labels,
        case_names,
        (chosen * weights[case])[order],
        weights,
        groups,
        order,
        (n,),
    )


def read_pairs(
    table: dict[str, Array],
    layout: Layout,
    alternatives: Any,
    available: Any,
    fitting: bool,
) -> Pairs:
    """Return the pairs of a wide table, or of choosers and a table of `alternatives`."""
    n = len(next(iter(table.values())))
    matrices, stores = dict[str, Array](), dict[str, Array]()
    if layout.columns is not None:
        matrices = layout.matrices(table)
        labels = np.array([label for label, _ in layout.names])
    else:
        stores = read_table(alternatives)
        labels = column(stores, str(layout.alternative))
        if len(np.unique(labels)) < len(labels):
            raise ValueError(f"{layout.alternative} has equal values; make them unique")
        stores.pop(str(layout.alternative))
        own = {layout.choice, layout.case, layout.counts, layout.weights, layout.groups}
        if both := (set(stores) & set(table)) - own:
            raise ValueError(f"both tables have a column {min(both)!r}; rename it in one of them")
    if isinstance(available, str):
        if layout.columns is None:
            available = column(stores, available)
        else:
            available = layout.matrix(available, table)
    if available is not None and not callable(available):
        available = np.asarray(available).astype(bool)
        if available.shape not in ((len(labels),), (n, len(labels))):
            raise ValueError(
                f"available has shape {available.shape}; give ({n}, {len(labels)}), one value for "
                "each case and alternative, or one for each alternative"
            )
    names = column(table, layout.case) if layout.case else np.arange(n)
    weights, groups = weights_of(table, layout, np.arange(n))
    pairs = Pairs(table, stores, matrices, labels, names, weights, groups=groups)
    pairs.available = available
    if callable(available):
        pairs.available = lambda i, j: available(pairs.columns(i, j))
    if fitting and layout.counts is not None:
        if layout.columns is None:
            raise ValueError("counts= is for long and wide tables; give weights= with each choice")
        pairs.counts = numbers(layout.matrix(layout.counts, table), layout.counts)
        check_choices(pairs.counts, pairs.counts.sum(axis=1), names, False)
    elif fitting:
        if layout.choice is None:
            raise ValueError("fit needs choice=, the name of the column of choices")
        pairs.chosen = codes_of(column(table, layout.choice), labels, layout.choice, names)
        mask = pairs.availability(np.arange(n), pairs.chosen)
        if mask is not None and not mask.all():
            i = int(np.argmin(np.broadcast_to(mask, n)))
            raise not_available(names[i], labels[pairs.chosen[i]])
    return pairs


def weights_of(
    table: Mapping[str, Array], layout: Layout, rows: Array
) -> tuple[Array, Array | None]:
    """Return weight and number of the group of each case, which `rows` stand for."""
    weights = np.ones(len(rows))
    if layout.weights is not None:
        weights = numbers(column(table, layout.weights), layout.weights)[rows]
        if not (weights >= 0.0).all() or not weights.any():
            raise ValueError(f"{layout.weights} must hold weights of zero or more, some above zero")
    if layout.groups is None:
        return weights, None
    return weights, np.unique(column(table, layout.groups)[rows], return_inverse=True)[1]


def codes_of(values: Array, labels: Array, name: str, cases: Array | None = None) -> Array:
    """Return the number of each value among `labels`; ValueError for one that is not there."""
    order = np.argsort(labels)
    try:
        places = np.searchsorted(labels, values, sorter=order)
    except TypeError:
        places = np.zeros(len(values), int)
    codes = order[np.minimum(places, len(labels) - 1)]
    wrong = np.flatnonzero(labels[codes] != values)
    if len(wrong):
        value = values[wrong[0]]
        where = "" if cases is None else f" of case {cases[wrong[0]]}"
        shown = ", ".join(map(str, labels[:10])) + (", ..." if len(labels) > 10 else "")
        what = "no alternative is chosen" if value != value or value is None else "is unknown"
        raise ValueError(f"{name}={quoted(value)}{where}: {what}; the alternatives are {shown}")
    return codes


def check_choices(chosen: Array, totals: Array, names: Array, single: bool) -> None:
    """Raise ValueError naming a case whose choices are not one, or not counts."""
    if not (np.isfinite(chosen).all() and (chosen >= 0.0).all()):
        raise ValueError("a choice is negative or not finite; give 0 and 1, or counts")
    if (totals == 0.0).any():
        raise ValueError(
            f"case {names[np.argmin(totals)]} has no chosen alternative; leave the case out"
        )
    if single and (totals != 1.0).any():
        i = int(np.argmax(totals != 1.0))
        raise ValueError(
            f"case {names[i]} has {totals[i]:g} chosen alternatives; mark one by 1 and the others "
            "by 0, or give counts= in place of choice="
        )


def check_available(chosen: Array, mask: Array, names: Array, labels: Array) -> None:
    """Raise ValueError where something unavailable was chosen, or nothing is available."""
    if not mask.any(axis=1).all():
        raise ValueError(f"case {names[np.argmin(mask.any(axis=1))]} has no available alternative")
    odd = np.argwhere((chosen > 0.0) & ~mask)
    if len(odd):
        i, j = odd[0]
        raise not_available(names[i], labels[j])


def not_available(case: Any, label: Any) -> ValueError:
    """Return the error for a choice that could not be made."""
    return ValueError(
        f"case {case} chose {quoted(label)}, which is not available to it; correct the choice or "
        "the availability"
    )
