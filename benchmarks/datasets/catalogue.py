"""The real data sets by name, read from a folder that the user keeps."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset, Split, make_dataset
from bigcat.data.files import read_file
from bigcat.data.opening import opened
from bigcat.data.text import default_vectorizer

_HOLD_OUT_EVERY = 5


@dataclass(frozen=True)
class Entry:
    """One row of the catalogue."""

    name: str
    form: str
    rows_train: int
    rows_test: int
    features: str
    classes: int
    load: Callable[..., Split]


def load(
    name: str,
    data_home: str | PathLike[str] | None = None,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    unseen: str = "drop",
    vectorizer: Any = None,
    n_previous: int = 2,
) -> Split:
    """Load a data set of the catalogue, as a training and a test part.

    Parameters
    ----------
    name : str
        One of :func:`available`.
    data_home : path, optional
        The folder with one sub-folder a data set; else the environment variable ``BIGCAT_DATA``.
    n_train, n_test : int, optional
        Take only the first rows of each part.
    unseen : {"drop", "keep"}
        What to do with test rows whose class has no training row. Dropped ones are counted in
        the part's report as ``rows_of_unseen_classes``.
    vectorizer : scikit-learn vectoriser, optional
        For the text sets, in place of the catalogue's.
    n_previous : int
        ``ptb``: how many words before the one that is predicted.

    Returns
    -------
    Split

    Examples
    --------
    >>> from benchmarks.datasets import load
    >>> load("bibtex").train                                        # doctest: +SKIP
    Dataset(4,880 rows, 1,836 features (68.7 per row), 146 classes)
    """
    if name not in CATALOGUE:
        raise ValueError(f"unknown data set {name!r}; available: {', '.join(CATALOGUE)}")
    if unseen not in ("drop", "keep"):
        raise ValueError(f"unseen must be 'drop' or 'keep', got {unseen!r}")
    for option, value in (("n_train", n_train), ("n_test", n_test), ("n_previous", n_previous)):
        if value is not None and value < 1:
            raise ValueError(f"{option} must be at least 1, got {value}")
    entry = CATALOGUE[name]
    options: dict[str, Any] = {"n_train": n_train, "n_test": n_test}
    for option, value, default, applies in (
        ("vectorizer", vectorizer, None, entry.form == "tsv"),
        ("n_previous", n_previous, 2, name == "ptb"),
    ):
        if applies:
            options[option] = value
        elif value is not default and value != default:
            raise ValueError(f"{option}= does not apply to {name!r} ({entry.form})")
    split = entry.load(_folder(name, data_home), **options)
    if unseen == "drop":
        split = Split(
            split.train,
            drop_unseen(split.test, split.train.y),
            split.validation and drop_unseen(split.validation, split.train.y),
        )
    split.report.update(name=name)
    return split


def available() -> list[dict[str, Any]]:
    """The catalogue: a dict per data set, with name, form and sizes as in the files.

    Examples
    --------
    >>> from benchmarks.datasets import available
    >>> [row["name"] for row in available()][:3]
    ['bibtex', 'delicious', 'mnist']
    """
    fields = ("name", "form", "rows_train", "rows_test", "features", "classes")
    return [{field: getattr(entry, field) for field in fields} for entry in CATALOGUE.values()]


def drop_unseen(part: Dataset, classes: np.ndarray) -> Dataset:
    """Keep rows whose label is in `classes`; the report counts the others."""
    seen = np.isin(part.y, np.unique(classes))
    dropped = int(len(seen) - seen.sum())
    if not dropped:
        return Dataset(part.X, part.y, part.report | _unseen(0), part.vectorizer)
    y = part.y[seen]
    facts = {"rows": len(y), "classes": len(np.unique(y))} | _unseen(dropped)
    return Dataset(part.X[seen], y, part.report | facts, part.vectorizer)


def _unseen(count: int) -> dict[str, int]:
    return {"rows_of_unseen_classes": count}


def _folder(name: str, data_home: str | PathLike[str] | None) -> Path:
    home = data_home or os.environ.get("BIGCAT_DATA")
    if not home:
        raise DataError(
            f"no data folder to find {name!r} in: pass data_home=, or set the environment "
            "variable BIGCAT_DATA to the folder that holds one sub-folder a data set"
        )
    folder = Path(home) / name
    if not folder.is_dir():
        raise DataError(f"{home} holds no folder {name!r}; is it the data folder?")
    return folder


def _first_rows(data: Dataset, n: int | None) -> Dataset:
    if n is None or n >= len(data):
        return data
    y = data.y[:n]
    report = data.report | {"rows": n, "classes": len(np.unique(y))}
    return Dataset(data.X[:n], y, report, data.vectorizer)


def _sparse(folder: Path, n_train: int | None, n_test: int | None) -> Split:
    train, test = read_file(folder / "train.txt.gz", "xc"), read_file(folder / "test.txt.gz", "xc")
    return Split(_first_rows(train, n_train), _first_rows(test, n_test))


def _pixels(folder: Path, n_train: int | None, n_test: int | None) -> Split:
    def part(name: str, n: int | None) -> Dataset:
        data = _first_rows(read_file(folder / name), n)
        return Dataset(data.X / np.float32(255), data.y, data.report)

    return Split(part("train.npz", n_train), part("test.npz", n_test))


def _words(min_df: int = 2) -> Callable[..., Split]:
    return _text(lambda: default_vectorizer(min_df=min_df))


def _characters(n_features: int) -> Callable[..., Split]:
    return _text(
        lambda: default_vectorizer(
            analyzer="char_wb", token_pattern=None, ngram_range=(1, 3), max_features=n_features
        )
    )


def _text(make_vectorizer: Callable[[], Any]) -> Callable[..., Split]:
    def load_text(folder: Path, n_train: int | None, n_test: int | None, vectorizer: Any) -> Split:
        def part(name: str, n: int | None, vectorizer: Any) -> Dataset:
            path = folder / name
            with opened(path) as file:
                raw = b"".join(islice(file, n))
            return read_file(path.with_suffix(""), "tsv", raw=raw, vectorizer=vectorizer)

        train = part(
            "train.tsv.gz", n_train, make_vectorizer() if vectorizer is None else vectorizer
        )
        return Split(train, part("test.tsv.gz", n_test, train.vectorizer))

    return load_text


def _table(folder: Path, n_train: int | None, n_test: int | None) -> Split:
    """Read files without a test part: every fifth row of each class, in file order, is test."""
    data = read_file(folder / f"{folder.name}.csv")
    order = np.argsort(data.y, kind="stable")
    _, starts, counts = np.unique(data.y[order], return_index=True, return_counts=True)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, counts)
    test = rank % _HOLD_OUT_EVERY == _HOLD_OUT_EVERY - 1

    def part(rows: np.ndarray, n: int | None) -> Dataset:
        file = data.report["file"]
        return _first_rows(make_dataset(data.X[rows], data.y[rows], "csv", file=file), n)

    return Split(part(~test, n_train), part(test, n_test))


def _next_word(folder: Path, n_train: int | None, n_test: int | None, n_previous: int) -> Split:
    """Position-specific one-hot of the words before, each 1/sqrt(n_previous) -> the next word.

    Every line ends in ``<eos>``, and the text starts after `n_previous` of them.
    """

    def words(part: str) -> list[str]:
        path = folder / f"{part}.txt.gz"
        with opened(path) as file:
            lines = file.read().decode().splitlines()
        return [word for line in lines for word in [*line.split(), "<eos>"]]

    train = words("train")
    vocabulary = np.unique(train)
    code = {str(word): k for k, word in enumerate(vocabulary)}
    size = len(vocabulary)

    def dataset(tokens: list[str], n: int | None) -> Dataset:
        tokens = tokens[:n]
        n_rows = len(tokens)
        t = np.array([code[word] for word in ["<eos>"] * n_previous + tokens])
        columns = np.empty((n_rows, n_previous), np.int32)
        for back in range(n_previous):  # block 0: the word just before, block 1: the one before it
            columns[:, back] = t[n_previous - 1 - back : len(t) - 1 - back] + back * size
        values = np.full(columns.size, n_previous**-0.5, np.float32)
        indptr = np.arange(0, columns.size + 1, n_previous, dtype=np.int32)
        X = sp.csr_matrix((values, columns.ravel(), indptr), shape=(n_rows, n_previous * size))
        X.has_canonical_format = True
        return make_dataset(X, vocabulary[t[n_previous:]], "words", file=str(folder))

    test, validation = words("test"), words("valid")
    return Split(dataset(train, n_train), dataset(test, n_test), dataset(validation, n_test))


CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry("bibtex", "xc", 4_880, 2_515, "1,836 binary", 146, _sparse),
        Entry("delicious", "xc", 12_920, 3_185, "500 binary", 352, _sparse),
        Entry("mnist", "npz", 60_000, 10_000, "784 pixels / 255", 10, _pixels),
        Entry("omniglot", "npz", 25_968, 6_492, "784 pixels / 255", 1_623, _pixels),
        Entry("20newsgroups", "tsv", 11_314, 7_532, "words, tf-idf", 20, _words()),
        Entry("glass", "csv", 174, 40, "9 dense", 6, _table),
        Entry("frogs", "csv", 5_760, 1_435, "22 dense", 10, _table),
        Entry("detergent", "csv", 2_128, 529, "6 dense", 6, _table),
        Entry("ptb", "words", 929_589, 82_430, "one-hot previous words", 10_000, _next_word),
        Entry("wordnet", "tsv", 78_788, 8_809, "words, tf-idf", 18_964, _words()),
        Entry("yso", "tsv", 612_576, 68_491, "words, tf-idf", 27_101, _words(min_df=3)),
        Entry("beauty", "xc", 153_776, 22_363, "12,101 one-hot", 12_085, _sparse),
        Entry("yelp", "xc", 255_492, 30_431, "20,033 one-hot", 20_031, _sparse),
        Entry(
            "geonames",
            "tsv",
            933_192,
            115_418,
            "4,096 character n-grams, tf-idf",
            115_418,
            _characters(4_096),
        ),
    )
}
