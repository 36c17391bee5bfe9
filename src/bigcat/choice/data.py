"""Tables of choices: long, wide, or choosers beside a table of alternatives."""

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

    def __contains__(self, name: object) -> bool:
        return any(name in table for table, _ in self.sources)

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
    #: First row of each case, and the number of rows.
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
        """Number of cases."""
        return len(self.starts) - 1

    @property
    def cases(self) -> Array:
        """Number of the case of each row."""
        return np.repeat(np.arange(self.n_cases), np.diff(self.starts))

    def totals(self) -> Array:
        """Return the weighted number of choices of each alternative."""
        return np.bincount(self.alternative, self.chosen, len(self.labels))

    def scale(self, variable: str) -> float:
        """Return the standard deviation of a variable, but not zero."""
        return max(float(np.std(numbers(self.columns[variable], variable))), 1e-8)

    def varies(self, variable: str) -> bool:
        """Return True if a variable differs between the alternatives of some case."""
        return varies_within_cases(numbers(self.columns[variable], variable), self.starts)

    def changed(self, variable: str, which: int | None, by: float, relative: bool) -> Rows:
        """Return the rows with a variable changed, for one alternative or for all."""
        mask = np.ones(len(self.alternative), bool) if which is None else self.alternative == which
        values = shifted(self.columns[variable], mask, by, relative)
        columns = Columns([({variable: values}, (np.arange(len(values)),)), *self.columns.sources])
        return replace(self, columns=columns)

    def kept(self, mask: Array) -> Rows:
        """Return some of the rows; ValueError where a case has none."""
        rows = np.flatnonzero(mask)
        sizes = np.bincount(self.cases[rows], minlength=self.n_cases)
        if (sizes == 0).any():
            raise ValueError(
                f"case {self.case_names[np.argmin(sizes)]} has no available alternative"
            )
        return replace(
            self,
            columns=self.columns.take(rows),
            starts=np.concatenate([[0], np.cumsum(sizes)]),
            alternative=self.alternative[rows],
            chosen=self.chosen[rows],
            places=self.places[rows],
        )

    def without(self, removed: Array) -> Rows:
        """Return the rows of other alternatives than those with these numbers."""
        return self.kept(~np.isin(self.alternative, removed))


@dataclass
class Pairs:
    """Cases beside alternatives: each pair is a row, which is made when it is needed."""

    choosers: Mapping[str, Array]
    alternatives: Mapping[str, Array]
    labels: Array
    case_names: Array
    weights: Array
    #: Number of the chosen alternative of each case; None where nothing was chosen.
    chosen: Array | None = None
    groups: Array | None = None
    #: Mask of alternatives, or of pairs, or a function of the numbers of cases and alternatives.
    available: Array | Callable[[Array, Array], Any] | None = None

    @property
    def n_cases(self) -> int:
        """Number of cases."""
        return len(self.case_names)

    def columns(self, i: Array, j: Array) -> Columns:
        """Return the columns of pairs of cases and alternatives, which may be broadcast."""
        return Columns([(self.choosers, (i,)), (self.alternatives, (j,))])

    def availability(self, i: Array, j: Array) -> Array | None:
        """Return a mask of pairs that broadcasts to their shape; None where all are available."""
        if self.available is None:
            return None
        if callable(self.available):
            return np.asarray(self.available(i, j), bool)
        return np.asarray(self.available[j] if self.available.ndim == 1 else self.available[i, j])

    def totals(self) -> Array:
        """Return the weighted number of choices of each alternative."""
        assert self.chosen is not None
        return np.bincount(self.chosen, self.weights, len(self.labels))

    def without(self, removed: Array) -> Pairs:
        """Return the pairs where alternatives with these numbers are not available."""
        kept = ~np.isin(np.arange(len(self.labels)), removed)

        def available(i: Array, j: Array) -> Array:
            mask = self.availability(i, j)
            return np.asarray(kept[j] if mask is None else mask & kept[j])

        return replace(self, available=available)

    def scale(self, variable: str) -> float:
        """Return the standard deviation of a variable, but not zero."""
        table = self.choosers if variable in self.choosers else self.alternatives
        return max(float(np.std(numbers(column(table, variable), variable))), 1e-8)

    def varies(self, variable: str) -> bool:
        """Return True if a variable is one of the alternatives."""
        return variable not in self.choosers

    def changed(self, variable: str, which: int | None, by: float, relative: bool) -> Pairs:
        """Return the pairs with a variable changed, for one alternative or for all."""
        mine = variable in self.choosers
        values = column(self.choosers if mine else self.alternatives, variable)
        mask = np.ones(len(values), bool) if which is None else np.arange(len(values)) == which
        changed = {variable: shifted(values, mask, by, relative)}
        if mine:
            return replace(self, choosers={**self.choosers, **changed})
        return replace(self, alternatives={**self.alternatives, **changed})

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
        i, j = (index.ravel() for index in np.indices(shape))
        mask = self.availability(i, j)
        chosen = np.zeros(shape)
        if self.chosen is not None:
            chosen[np.arange(shape[0]), self.chosen] = 1.0
        return sorted_rows(
            self.columns(i, j),
            (i, j),
            (self.case_names, self.labels),
            chosen.ravel(),
            np.ones(len(i), bool) if mask is None else mask,
            (self.weights, self.groups),
            shape,
        )


def varies_within_cases(values: Array, starts: Array) -> bool:
    """Return True if values differ between the alternatives of some case."""
    low = np.minimum.reduceat(values, starts[:-1])
    return bool((low < np.maximum.reduceat(values, starts[:-1])).any())


def shifted(values: Array, mask: Array, by: float, relative: bool) -> Array:
    """Return values with those of a mask changed, by a number or by a share of themselves."""
    values = np.asarray(values, float)
    return values + np.where(mask, by * values if relative else by, 0.0)


def sorted_rows(
    columns: Columns,
    codes: tuple[Array, Array],
    names: tuple[Array, Array],
    chosen: Array,
    mask: Array,
    per_case: tuple[Array, Array | None],
    shape: tuple[int, ...],
) -> Rows:
    """Return rows in the order of cases, without those that are not available.

    `codes` are the numbers of each row's case and alternative, and `names` are theirs; `per_case`
    are weights and groups.
    """
    (case, alternative), (case_names, labels), (weights, groups) = codes, names, per_case
    order = np.lexsort((alternative, case))
    twice = (np.diff(case[order]) == 0) & (np.diff(alternative[order]) == 0)
    if twice.any():
        row = order[np.argmax(twice)]
        label = quoted(labels[alternative[row]])
        raise ValueError(f"case {case_names[case[row]]} has {label} twice; leave a row out")
    odd = (chosen != 0.0) & ~mask
    if odd.any():
        row = np.argmax(odd)
        raise not_available(case_names[case[row]], labels[alternative[row]])
    starts = np.concatenate([[0], np.cumsum(np.bincount(case, minlength=len(case_names)))])
    chosen = (chosen * weights[case])[order]
    columns, alternative = columns.take(order), alternative[order]
    whole = Rows(
        columns, starts, alternative, labels, case_names, chosen, weights, groups, order, shape
    )
    return whole.kept(mask[order])


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


def complete(table: Mapping[str, Array], name: str) -> Array:
    """Return a column; ValueError naming a row where a value is missing."""
    values = column(table, name)
    missing = values != values
    if values.dtype.kind == "O":
        kinds = ("NoneType", "NAType", "NaTType")
        missing = np.array([type(v).__name__ in kinds or bool(v != v) for v in values])
    if np.any(missing):
        raise ValueError(
            f"{name} is missing in row {np.argmax(missing)}; fill it in or leave it out"
        )
    return values


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
    case_names, case = np.unique(complete(table, layout.case), return_inverse=True)
    labels, alternative = np.unique(complete(table, layout.alternative), return_inverse=True)
    n = len(case)
    columns = Columns([(table, (np.arange(n),))])
    if isinstance(available, str):
        available = column(table, available)
    mask = mask_of(available, columns, ((n,),))
    chosen = np.zeros(n)
    if fitting:
        name = layout.counts or layout.choice
        if name is None:
            raise ValueError("fit needs choice= or counts=, the name of a column")
        chosen = numbers(column(table, name), name)
        totals = np.bincount(case, chosen, len(case_names))
        check_choices(chosen, case, totals, case_names, single=layout.counts is None)
    per_case = weights_of(table, layout, case, case_names)
    names = case_names, labels
    return sorted_rows(columns, (case, alternative), names, chosen, mask, per_case, (n,))


def read_wide(table: dict[str, Array], layout: Layout, available: Any, fitting: bool) -> Rows:
    """Return the rows of a wide table: one per case, with columns for each alternative."""
    labels = np.array([label for label, _ in layout.names])
    n = len(next(iter(table.values())))
    shape = n, len(labels)
    i, j = (index.ravel() for index in np.indices(shape))
    columns = Columns([(table, (i,)), (layout.matrices(table), (i, j))])
    if isinstance(available, str):
        available = layout.matrix(available, table)
    mask = mask_of(available, columns, (shape, shape[1:], i.shape)).reshape(-1, shape[1])
    mask = np.broadcast_to(mask, shape)
    names = column(table, layout.case) if layout.case else np.arange(n)
    chosen = np.zeros(shape)
    if fitting and layout.counts is not None:
        chosen = numbers(layout.matrix(layout.counts, table), layout.counts)
        check_choices(chosen.ravel(), i, chosen.sum(axis=1), names, single=False)
    elif fitting:
        chosen[np.arange(n), chosen_codes(table, layout, labels, names)] = 1.0
    per_case = weights_of(table, layout, np.arange(n), names)
    return sorted_rows(
        columns, (i, j), (names, labels), chosen.ravel(), mask.ravel(), per_case, shape
    )


def read_pairs(
    table: dict[str, Array], layout: Layout, alternatives: Any, available: Any, fitting: bool
) -> Pairs:
    """Return the pairs of choosers and a table of `alternatives`."""
    n, stores = len(next(iter(table.values()))), read_table(alternatives)
    labels = column(stores, str(layout.alternative))
    if len(np.unique(labels)) < len(labels):
        raise ValueError(f"{layout.alternative} has equal values; make them unique")
    if layout.counts is not None:
        raise ValueError("counts= is for long and wide tables; give weights= with each choice")
    stores.pop(str(layout.alternative))
    own = {layout.choice, layout.case, layout.weights, layout.groups}
    if both := (set(stores) & set(table)) - own:
        raise ValueError(f"both tables have a column {min(both)!r}; rename it in one of them")
    names = column(table, layout.case) if layout.case else np.arange(n)
    weights, groups = weights_of(table, layout, np.arange(n), names)
    pairs = Pairs(table, stores, labels, names, weights, groups=groups)
    if isinstance(available, str):
        available = column(stores, available)
    if callable(available):
        pairs.available = lambda i, j: available(pairs.columns(i, j))
    elif available is not None:
        pairs.available = mask_of(available, Columns([]), ((len(labels),), (n, len(labels))))
    if fitting:
        pairs.chosen = chosen_codes(table, layout, labels, names)
        mask = pairs.availability(np.arange(n), pairs.chosen)
        if mask is not None and not mask.all():
            i = int(np.argmin(np.broadcast_to(mask, n)))
            raise not_available(names[i], labels[pairs.chosen[i]])
    return pairs


def mask_of(available: Any, columns: Columns, shapes: tuple[tuple[int, ...], ...]) -> Array:
    """Return a mask of one of the shapes; by default, of the first one, all are available."""
    if available is None:
        return np.ones(shapes[0], bool)
    mask = np.asarray(available(columns) if callable(available) else available)
    if mask.dtype.kind == "f" and np.isnan(mask).any():
        raise ValueError(
            f"available is nan in row {np.argwhere(np.isnan(mask))[0][0]}; give 0 or 1"
        )
    mask = mask.astype(bool)
    if mask.shape not in shapes:
        known = " or ".join(map(str, shapes))
        raise ValueError(f"available has shape {mask.shape}; give a mask of shape {known}")
    return mask


def chosen_codes(table: dict[str, Array], layout: Layout, labels: Array, cases: Array) -> Array:
    """Return the number of the chosen alternative of each case."""
    if layout.choice is None:
        raise ValueError("fit needs choice=, the name of the column of choices")
    return codes_of(column(table, layout.choice), labels, layout.choice, cases)


def weights_of(
    table: Mapping[str, Array], layout: Layout, case: Array, names: Array
) -> tuple[Array, Array | None]:
    """Return weight and number of the group of each case, given the case of each row."""

    def of_cases(name: str) -> Array:
        values = complete(table, name)
        found = np.empty(len(names), values.dtype)
        found[case] = values
        if (odd := found[case] != values).any():
            i = case[np.argmax(odd)]
            raise ValueError(f"{name} differs between the rows of case {names[i]}; make them equal")
        return found

    weights, groups = np.ones(len(names)), None
    if layout.weights is not None:
        weights = numbers(of_cases(layout.weights), layout.weights)
        if not (weights >= 0.0).all():
            i = int(np.argmin(weights >= 0.0))
            raise ValueError(
                f"{layout.weights} is {weights[i]} in case {names[i]}; give weights of zero or more"
            )
        if not weights.any():
            raise ValueError(
                f"{layout.weights} is zero in all cases; give some a weight above zero"
            )
    if layout.groups is not None:
        groups = np.unique(of_cases(layout.groups), return_inverse=True)[1]
    return weights, groups


def codes_of(values: Array, labels: Array, name: str, cases: Array | None = None) -> Array:
    """Return the number of each value among `labels`; ValueError for one that is not there."""
    try:
        order = np.argsort(labels)
        places = np.searchsorted(labels, values, sorter=order)
        codes = order[np.minimum(places, len(labels) - 1)]
    except TypeError:  # labels of several types
        known = {label: code for code, label in enumerate(labels.tolist())}
        codes = np.array([known.get(value, 0) for value in values.tolist()])
    wrong = np.flatnonzero(labels[codes] != values)
    if len(wrong):
        value = values[wrong[0]]
        where = "" if cases is None else f" of case {cases[wrong[0]]}"
        shown = ", ".join(map(str, labels[:10])) + (", ..." if len(labels) > 10 else "")
        unknown = ": no alternative is chosen" if value is None or value != value else " is unknown"
        raise ValueError(f"{name}={quoted(value)}{where}{unknown}; the alternatives are {shown}")
    return codes


def check_choices(chosen: Array, case: Array, totals: Array, names: Array, single: bool) -> None:
    """Raise ValueError naming a case whose choices are not one, or not counts."""
    if (odd := ~(np.isfinite(chosen) & (chosen >= 0.0))).any():
        row = int(np.argmax(odd))
        raise ValueError(
            f"the choice is {chosen[row]} in a row of case {names[case[row]]}; give 0, 1 or counts"
        )
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


def not_available(case: Any, label: Any) -> ValueError:
    """Return the error for a choice that could not be made."""
    return ValueError(
        f"case {case} chose {quoted(label)}, which is not available to it; correct the choice or "
        "the availability"
    )
