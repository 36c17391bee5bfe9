"""Columns of a table by their names: numbers as they are, words as categories or as text.

A table that is read for a fitted model has to have the model's columns, in any order.  What became
of the columns of the training table is a `TableEncoder`, which model files hold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset, error_at, integers_or_strings, make_dataset

#: The label column that is meant where nobody names one.
LABEL = "label"
#: Numbers as text files have them: Python's own `float` takes more, such as "1_000".
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
#: What may stand around them: to Python's `strip` a good many more are blank.
BLANKS = " \t\r"
_ODD = ("nan", "inf", "infinity")


class Table(Protocol):
    """Labelled rows of a table, a column at a time."""

    @property
    def n_rows(self) -> int: ...

    def numbers(self, name: str) -> np.ndarray:
        """Finite numbers in float32; DataError where there are others."""

    def words(self, name: str) -> list[str]: ...


@dataclass(frozen=True, eq=False)
class TableEncoder:
    """How the columns of a table become features.

    Tables of numbers alone are taken as they are.  Where words are encoded as well, the rows are
    sparse, and columns of numbers are scaled to mean 0 and deviation 1 of the training rows, so
    that they count like the others.

    Attributes
    ----------
    label : str
        Name of the column of labels.
    numbers : tuple of str
        Names of the columns of numbers, which come first among the features.
    categories : dict of str to ndarray
        Columns of words that are one feature per value, and the sorted values.
    vectorizers : dict of str to object
        Columns of text, and the fitted scikit-learn vectoriser of each.
    means, scales : ndarray or None
        What is taken off the numbers, and what they are divided by.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bigcat.data import read
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pets.csv"
    >>> _ = path.write_text("size,home,label\\n1,tree,cat\\n3,tree,cat\\n2,sea,cod\\n")
    >>> pets = read(path, categorical=["home"])
    >>> pets.columns.get_feature_names_out().tolist()
    ['size', 'home=sea', 'home=tree']
    >>> _ = path.write_text("label,home,size\\ncod,sea,2\\n")
    >>> read(path, columns=pets.columns).X.toarray().tolist()
    [[0.0, 1.0, 0.0]]
    """

    label: str
    numbers: tuple[str, ...] = ()
    categories: dict[str, np.ndarray] = field(default_factory=dict)
    vectorizers: dict[str, Any] = field(default_factory=dict)
    means: np.ndarray | None = None
    scales: np.ndarray | None = None

    @property
    def encodes(self) -> bool:
        """Are there words that become features?"""
        return bool(self.categories or self.vectorizers)

    @property
    def names(self) -> list[str]:
        """Columns that a table has to have, but for the labels."""
        return [*self.numbers, *self.categories, *self.vectorizers]

    def get_feature_names_out(self) -> np.ndarray:
        """A name per feature: that of its column, with the value or word where there is one."""
        names = list(self.numbers)
        for column, values in self.categories.items():
            names += [f"{column}={value}" for value in values]
        for column, vectorizer in self.vectorizers.items():
            hashed = not hasattr(vectorizer, "get_feature_names_out")
            words = range(vectorizer.n_features) if hashed else vectorizer.get_feature_names_out()
            names += [f"{column}: {word}" for word in words]
        return np.array(names, object)

    def transform(self, table: Table) -> tuple[Any, dict[str, int]]:
        """Features; and of categories, in how many rows they have a value that is new."""
        numbers = np.empty((table.n_rows, len(self.numbers)), np.float32)
        for j, name in enumerate(self.numbers):
            numbers[:, j] = table.numbers(name)
        if not self.encodes:
            return numbers, {}
        scaled = (numbers - self.means) / self.scales  # type: ignore[operator]
        parts: list[Any] = [sp.csr_matrix(scaled, dtype=np.float32)]
        unknown = {}
        for name, values in self.categories.items():
            words = np.array(table.words(name), object)
            place = np.minimum(np.searchsorted(values, words), len(values) - 1)
            known = values[place] == words
            ends = np.concatenate([[0], np.cumsum(known)])
            ones = np.ones(int(known.sum()), np.float32)
            parts.append(sp.csr_matrix((ones, place[known], ends), (table.n_rows, len(values))))
            if not known.all():
                unknown[name] = int((~known).sum())
        parts += [v.transform(table.words(name)) for name, v in self.vectorizers.items()]
        X = sp.csr_matrix(sp.hstack(parts, format="csr"), dtype=np.float32)
        X.sum_duplicates()
        return X, unknown


@dataclass(frozen=True)
class Request:
    """What is asked of a table, under the names that :func:`bigcat.data.read` has for it.

    `columns` are those of a fitted model; without them, columns of words that are named are encoded
    anew.
    """

    label_column: str | int | None = None
    group_column: str | None = None
    categorical: tuple[str, ...] = ()
    text_columns: tuple[str, ...] = ()
    vectorizer: Any = None
    columns: TableEncoder | None = None
    labelled: bool = True

    @classmethod
    def of(
        cls,
        path: Path,
        *,
        categorical: Iterable[str] = (),
        text_columns: Iterable[str] = (),
        **more: Any,
    ) -> Request:
        """Checked; a name alone counts as a list of one."""
        found = cls(categorical=_names(categorical), text_columns=_names(text_columns), **more)
        both = {*found.categorical} & {*found.text_columns}
        if both:
            raise ValueError(
                f"{path}: categorical= and text_columns= both name {_some(sorted(both))}; leave "
                "it out of one of them"
            )
        if found.vectorizer is not None and not found.text_columns:
            raise ValueError(
                f"{path}: vectorizer= is for text, and text_columns= names no column of the table; "
                "name one, or leave vectorizer= out"
            )
        if found.label_column is None and found.columns is not None:
            return replace(found, label_column=found.columns.label)
        return found

    @property
    def encodes(self) -> bool:
        """Are there words that become features?"""
        if self.columns is not None:
            return self.columns.encodes
        return bool(self.categorical or self.text_columns)

    def features(self, path: Path, names: Sequence[str]) -> list[str]:
        """The columns but for that of groups, which has to be one of them."""
        if self.group_column is not None and self.group_column not in names:
            raise DataError(
                f"{path}: expected the column that group_column= names, found no "
                f"{self.group_column!r} in the header {_some(names)}"
            )
        return [name for name in names if name != self.group_column]

    def groups(self, table: Table) -> np.ndarray | None:
        """Which rows belong together."""
        if self.group_column is None:
            return None
        return np.array(table.words(self.group_column), object)

    def encoder(self, path: Path, names: Sequence[str], label: str, table: Table) -> TableEncoder:
        """That of the model, or the one that these rows tell."""
        if table.n_rows == 0:  # of which a HashingVectorizer makes a StopIteration
            raise DataError(f"{path}: expected labelled rows, found none")
        return self.columns or self._learned(path, names, label, table)

    def _learned(self, path: Path, names: Sequence[str], label: str, table: Table) -> TableEncoder:
        from bigcat.data.text import vectorize

        words = [*self.categorical, *self.text_columns]
        known = set(names)
        missing = [name for name in words if name not in known]
        if missing:
            raise DataError(
                f"{path}: expected the columns that categorical= and text_columns= name, found no "
                f"{_some(missing)} in the header {_some(names)}"
            )
        if not words:
            return TableEncoder(label, tuple(names))
        encoded = set(words)
        numbers = tuple(name for name in names if name not in encoded)
        categories = {
            name: np.array(sorted(set(table.words(name))), object) for name in self.categorical
        }
        vectorizers = {
            name: vectorize(path, table.words(name), self.vectorizer)[1]
            for name in self.text_columns
        }
        found = [table.numbers(name).astype(np.float64) for name in numbers]
        means = np.array([values.mean() for values in found])
        scales = np.array([values.std() for values in found])
        scales[scales == 0.0] = 1.0
        return TableEncoder(label, numbers, categories, vectorizers, means, scales)


def check_names(path: Path, names: Sequence[str], encoder: TableEncoder | None) -> list[str]:
    """Columns of a table that a model does not use; DataError for those that it lacks."""
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise DataError(
            f"{path}: expected each name of a column once, found {_some(twice)} more than once; "
            "rename one of them"
        )
    if encoder is None:
        return []
    known, wanted = set(names), encoder.names
    missing = [name for name in wanted if name not in known]
    if missing:
        raise DataError(
            f"{path}: expected the columns of the training data, found no {_some(missing)} in the "
            f"header {_some(names)}; add {'it' if len(missing) == 1 else 'them'}, or fit a model "
            "without"
        )
    used = set(wanted)
    return [name for name in names if name not in used]


def table_dataset(
    form: str,
    X: Any,
    labels: list[str] | None,
    encoder: TableEncoder,
    groups: np.ndarray | None = None,
    **facts: Any,
) -> Dataset:
    """Labelled rows; without labels each has the label 0.  Facts that are empty are left out."""
    y = np.zeros(X.shape[0], np.int64) if labels is None else integers_or_strings(labels)
    told = {name: fact for name, fact in facts.items() if fact or fact == 0}
    dataset = make_dataset(X, y, form, label_column=encoder.label, **told)
    return replace(dataset, columns=encoder, groups=groups)


def numbers_of(path: Path, name: str, words: Sequence[str], lines: Sequence[int]) -> np.ndarray:
    """A column of numbers from what the file says, and in which lines."""
    for word, line in zip(words, lines):
        if _NUMBER.fullmatch(word.strip(BLANKS)) is None:
            raise not_a_number(path, line, name, word)
    with np.errstate(over="ignore"):
        values = np.array(words, np.float64).astype(np.float32)
    if not np.isfinite(values).all():
        row = int(np.isfinite(values).argmin())
        raise not_a_number(path, lines[row], name, words[row])
    return values


def not_a_number(path: Path, line: int, name: str, word: str) -> DataError:
    """The error of a field; where it holds a word, it says how words are encoded."""
    expected, remedy = "a finite number that fits a float32", ""
    if (
        _NUMBER.fullmatch(word.strip(BLANKS)) is None
        and word.strip().lower().lstrip("+-") not in _ODD
    ):
        expected = "a number"
        remedy = f"; categorical= or text_columns= encode {name!r}" if word.strip() else ""
    return error_at(path, line, f"{expected} in column {name!r}", f"{word!r}{remedy}")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _some(names: Sequence[str]) -> str:
    return ", ".join([*map(repr, names[:5]), *["..."] * (len(names) > 5)])
