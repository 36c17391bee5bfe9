"""Measured sets with other features, other labels or other rows than the catalogue's.

Each problem is a family of its own, named after the set and what was done with it.
"""

from __future__ import annotations

import gzip
import io
import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from benchmarks import datasets
from benchmarks.field.installed import import_optional
from benchmarks.field.problem import (
    Data,
    Problem,
    from_groups,
    from_one_pool,
    from_ordered,
    from_series,
    from_two_pools,
)
from benchmarks.field.sparse import csr
from bigcat.data import DataError

# Reading


def _path(*parts: str) -> Path:
    """Return the path of a file in the data folder."""
    home = os.environ.get("BIGCAT_DATA")
    path = Path(home or "", *parts)
    if home is None or not path.exists():
        raise DataError(f"{'/'.join(parts)} is not in the data folder; set BIGCAT_DATA to it")
    return path


def _table(*parts: str, sep: str = ",") -> Any:
    """Read a file with a header."""
    return import_optional("pandas").read_csv(_path(*parts), sep=sep)


def _labelled_lines(*parts: str) -> Iterator[tuple[str, str]]:
    """Yield label and text of each line of a file."""
    with gzip.open(_path(*parts), "rt", encoding="utf-8") as lines:
        for line in lines:
            label, text = line.rstrip("\n").split("\t", 1)
            yield label, text


def _labels_and_rows(name: str, part: str) -> tuple[list[tuple[float, ...]], Any]:
    """Return all labels of each row, in the order of the file, and the features."""
    text = gzip.decompress(_path(name, f"{part}.txt.gz").read_bytes())
    head, rows = text.split(b"\n", 1)
    rows = b"\n".join(line if line[:1] != b" " else b"-1" + line for line in rows.splitlines())
    X, labels = sklearn.datasets.load_svmlight_file(
        io.BytesIO(rows),
        multilabel=True,
        zero_based=True,
        n_features=int(head.split()[1]),
        dtype=np.float32,
    )
    return labels, X.tocsr()


def _codes(*parts: Any) -> list[np.ndarray]:
    """Return labels of several pools as whole numbers."""
    codes = np.unique(np.concatenate(parts), return_inverse=True)[1]
    return np.split(codes, np.cumsum([len(part) for part in parts])[:-1])


def _chosen(n_all: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the numbers of `n` rows at random, in order."""
    return np.sort(rng.permutation(n_all)[:n])


def _in_frequent(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return True for each row of one of the most frequent classes."""
    classes, counts = np.unique(y, return_counts=True)
    return np.isin(y, classes[np.argsort(-counts, kind="stable")[:n_classes]])


# Texts


def _wordnet_letters(rng: np.random.Generator) -> Data:
    """Groups of two to four letters of a gloss; its hypernym."""
    pools: list[Any] = []
    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), n_features=2**15)
    for part, n in (("train", 7_000), ("test", 5_000)):
        lines = list(_labelled_lines("wordnet", f"{part}.tsv.gz"))
        rows = [lines[i] for i in _chosen(len(lines), n, rng)]
        pools += [hashed.transform([text for _, text in rows]), [label for label, _ in rows]]
    y, y_test = _codes(pools[1], pools[3])
    return from_two_pools(pools[0], y, pools[2], y_test, rng)


def _wordnet_verbs(rng: np.random.Generator) -> Data:
    """Counts of a gloss's words; whether it is that of a verb."""
    lines = list(_labelled_lines("wordnet", "train.tsv.gz"))
    rows = [lines[i] for i in _chosen(len(lines), 3_000, rng)]
    X = CountVectorizer(dtype=np.float32).fit_transform([text for _, text in rows])
    y = np.array([label.endswith("v") for label, _ in rows], np.int64)
    return from_one_pool(X.tocsr(), y, 1_500, rng)


def _geonames_prefixes(rng: np.random.Generator) -> Data:
    """The beginnings of a place's name, of one to six letters; one place in a hundred."""
    pools: list[Any] = []
    hashed = HashingVectorizer(analyzer=_beginnings, n_features=2**14, norm=None)
    for part in ("train", "test"):
        lines = _labelled_lines("geonames", f"{part}.tsv.gz")
        rows = [(label, text) for label, text in lines if label.endswith("17")]
        pools += [hashed.transform([text for _, text in rows]), [label for label, _ in rows]]
    y, y_test = _codes(pools[1], pools[3])
    return from_two_pools(pools[0], y, pools[2], y_test, rng)


def _beginnings(name: str) -> list[str]:
    return [name[:length].casefold() for length in range(1, 7)]


def _geonames_next_letter(rng: np.random.Generator) -> Data:
    """Four letters of a name, one-hot by place; the next letter or the end of the name."""
    letters = "^abcdefghijklmnopqrstuvwxyz $"
    pools: list[np.ndarray] = []
    for part, n in (("train", 30_000), ("test", 4_000)):
        lines = itertools.islice(_labelled_lines("geonames", f"{part}.tsv.gz"), 20_000)
        names = [text.lower() for _, text in lines if re.fullmatch(r"[a-z ]{3,}", text.lower())]
        codes = [[letters.index(c) for c in f"^^^^{name}$"] for name in names]
        grams = np.array([row[k : k + 5] for row in codes for k in range(len(row) - 4)])[:n]
        pools += [grams[:, :4] + len(letters) * np.arange(4), grams[:, 4]]
    X, X_test = (csr(columns, 4 * len(letters)) for columns in pools[::2])
    return from_two_pools(X, pools[1], X_test, pools[3], rng)


def _yso_frequent_subjects(rng: np.random.Generator) -> Data:
    """Hashed words of a title; the 300 most frequent subjects, whose rows come in order."""
    rows = list(itertools.islice(_labelled_lines("yso", "train.tsv.gz"), 60_000))
    labels = np.array([label for label, _ in rows])
    kept = np.flatnonzero(_in_frequent(labels, 300))
    kept = kept[np.argsort(labels[kept], kind="stable")]
    hashed = HashingVectorizer(n_features=2**13, binary=True, norm=None, alternate_sign=False)
    X = hashed.transform([rows[i][1] for i in kept])
    return from_ordered(X, _codes(labels[kept])[0], 3_000, rng)


def _newsgroups(part: str) -> tuple[list[str], list[str]]:
    labels, texts = zip(*_labelled_lines("20newsgroups", f"{part}.tsv.gz"))
    return list(texts), list(labels)


def _newsgroups_subjects(rng: np.random.Generator) -> Data:
    """Words of the subject line alone, weighted by rarity."""
    pools: list[Any] = []
    vectorizer = TfidfVectorizer(token_pattern=r"\w+")
    for part in ("train", "test"):
        texts, labels = _newsgroups(part)
        lines = [re.search(r"Subject: (?:Re: ?)*(.{0,60})", text) for text in texts]
        subjects = [re.sub(r" \S+:.*", "", line[1]) if line else "" for line in lines]
        transform = vectorizer.fit_transform if part == "train" else vectorizer.transform
        pools += [transform(subjects), labels]
    y, y_test = _codes(pools[1], pools[3])
    return from_two_pools(pools[0], y, pools[2], y_test, rng)


def _newsgroups_characters(rng: np.random.Generator) -> Data:
    """Counts of each ASCII character in a post; dense, in the order of the groups."""
    pools: list[Any] = []
    for part in ("train", "test"):
        texts, labels = _newsgroups(part)
        ascii_ = [np.frombuffer(t[:20_000].encode("ascii", "replace"), np.uint8) for t in texts]
        pools += [np.stack([np.bincount(t, minlength=128)[32:127] for t in ascii_]), labels]
    y, y_test = _codes(pools[1], pools[3])
    return from_two_pools(pools[0].astype(np.float64), y, pools[2].astype(np.float64), y_test, rng)


# Items and words in sequence


def _ptb_one_word(rng: np.random.Generator) -> Data:
    """The next word from the one before; rows are a stretch of the text."""
    words = datasets.load("ptb", n_previous=1, n_train=28_000).train
    return from_series(words.X, _codes(words.y)[0], 4_000, rng)


def _ptb_three_words(rng: np.random.Generator) -> Data:
    """The next of the 1,000 most frequent words, from three before it; rows at random."""
    split = datasets.load("ptb", n_previous=3, n_train=300_000)
    frequent = np.flatnonzero(_in_frequent(split.train.y, 1_000))
    rows = frequent[_chosen(len(frequent), 8_000, rng)]
    test = np.isin(split.test.y, split.train.y[rows])
    y, y_test = _codes(split.train.y[rows], split.test.y[test])
    return from_two_pools(split.train.X[rows], y, split.test.X[test], y_test, rng)


def _yelp_short_histories(rng: np.random.Generator) -> Data:
    """The next of the 2,000 most frequent items, from one to three before.

    Histories of test rows have up to six items.
    """
    split = datasets.load("yelp", unseen="keep")
    short = (np.diff(split.train.X.indptr) <= 3) & _in_frequent(split.train.y, 2_000)
    rows = np.flatnonzero(short)
    rows = rows[_chosen(len(rows), 15_000, rng)]
    X, y = split.train.X[rows], split.train.y[rows]
    test = (np.diff(split.test.X.indptr) <= 6) & np.isin(split.test.y, y)
    return from_two_pools(X, y, split.test.X[test], split.test.y[test], rng)


def _beauty_other_items(rng: np.random.Generator) -> Data:
    """One of the items in a history from the others and the next; 3,000 frequent items."""
    train = datasets.load("beauty", unseen="keep").train
    kept = np.flatnonzero(np.diff(train.X.indptr) >= 2)
    kept = kept[_chosen(len(kept), 40_000, rng)]
    X, following = train.X[kept].tocsr(copy=True), train.y[kept].astype(np.int64)
    taken = X.indptr[:-1] + (rng.random(len(kept)) * np.diff(X.indptr)).astype(np.int64)
    y = X.indices[taken].astype(np.int64)
    X.data[taken] = 0.0
    X = (X + csr(following[:, None], X.shape[1])).tocsr()
    X.eliminate_zeros()
    frequent = np.flatnonzero(_in_frequent(y, 3_000))
    return from_one_pool(X[frequent], y[frequent], 4_000, rng)


def _last_label(name: str, n: int) -> Callable[[np.random.Generator], Data]:
    """The last of a row's labels in place of the first."""

    def make(rng: np.random.Generator) -> Data:
        pools: list[Any] = []
        for part in ("train", "test"):
            labels, X = _labels_and_rows(name, part)
            last = np.array([row[-1] if row else -1 for row in labels], np.int64)
            kept = np.flatnonzero(last >= 0)
            kept = kept[_chosen(len(kept), n, rng)]
            pools += [X[kept], last[kept]]
        X, y, X_test, y_test = pools
        return from_two_pools(X, y, X_test, y_test, rng)

    return make


def _delicious_number_of_labels(rng: np.random.Generator) -> Data:
    """Number of labels of a row, in eight classes; its words as dense 0 and 1."""
    labels, X = _labels_and_rows("delicious", "train")
    rows = _chosen(len(labels), 4_000, rng)
    counts = np.array([len(labels[i]) for i in rows])
    edges = np.quantile(counts, np.arange(1, 8) / 8)
    return from_one_pool(X[rows].toarray(), np.searchsorted(edges, counts), 2_000, rng)


# Pictures


def _pictures(
    name: str,
    change: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    n: int,
    n_classes: int,
) -> Callable[[np.random.Generator], Data]:
    """Pictures of some classes, 28 by 28, made into something else."""

    def make(rng: np.random.Generator) -> Data:
        split = datasets.load(name)
        classes = np.sort(rng.permutation(np.unique(split.train.y))[:n_classes])
        pools: list[Any] = []
        for part in (split.train, split.test):
            of_class = np.flatnonzero(np.isin(part.y, classes))
            rows = of_class[_chosen(len(of_class), n, rng)]
            pools += [part.X[rows].reshape(-1, 28, 28), part.y[rows]]
        both = change(np.concatenate(pools[::2]), rng)
        n_train = len(pools[1])
        return from_two_pools(both[:n_train], pools[1], both[n_train:], pools[3], rng)

    return make


def _projected(n_columns: int) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    def change(pictures: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        directions = rng.standard_normal((28 * 28, n_columns)).astype(np.float32)
        return pictures.reshape(len(pictures), -1) @ directions

    return change


def _pooled(pictures: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means of four by four pixels."""
    return pictures.reshape(len(pictures), 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)


# Tables


def _frogs_genera(rng: np.random.Generator) -> Data:
    """The genus in place of the species; recordings in the order of the file."""
    table = _table("frogs", "frogs.csv")
    genus = table["label"].str.extract(r"^([A-Z][a-z]+)")[0].to_numpy(str)
    return from_ordered(table.iloc[:, :-1].to_numpy(float), _codes(genus)[0], 2_400, rng)


def _glass_ratios(rng: np.random.Generator) -> Data:
    """Logarithms of ratios of the oxides to silicon; whether the glass is of a window."""
    table = _table("glass", "glass.csv")
    oxides = table[["Na", "Mg", "Al", "K", "Ca", "Ba", "Fe"]].to_numpy(float) + 0.01
    X = np.log(oxides / table[["Si"]].to_numpy(float))
    return from_one_pool(X, (table["label"].to_numpy() <= 4).astype(np.int64), 64, rng)


def _swissmetro(rng: np.random.Generator) -> Data:
    """The way to travel from times, costs and facts of the person; nine rows per person."""
    table = _table("choice", "swissmetro", "swissmetro.dat.gz", sep="\t")
    table = table[table["CHOICE"] > 0]
    X = table.drop(columns=["GROUP", "SP", "ID", "CHOICE"]).to_numpy(float)
    return from_groups(X, table["CHOICE"].to_numpy(), table["ID"].to_numpy(), 3_000, rng)


def _train_tickets(rng: np.random.Generator) -> Data:
    """The first or the second offer of a journey, by price in cents, time, changes and comfort."""
    table = _table("choice", "train", "Train.csv.gz")
    X = table.iloc[:, 4:].to_numpy(float)
    y = (table["choice"] == "choice2").to_numpy(np.int64)
    return from_groups(X, y, table["id"].to_numpy(), 1_000, rng)


def _heating(rng: np.random.Generator) -> Data:
    """The heating of a house, by costs, income, age, rooms and region one-hot."""
    table = _table("choice", "heating", "Heating.csv.gz")
    numbers = table.filter(regex=r"^[io]c\.|income|agehed|rooms").to_numpy(float)
    regions = np.eye(table["region"].nunique())[_codes(table["region"].to_numpy(str))[0]]
    y = _codes(table["depvar"].to_numpy(str))[0]
    return from_one_pool(np.hstack([numbers, regions]), y, 300, rng)


def _canada(rng: np.random.Generator) -> Data:
    """Air, bus, car or train: columns of each, and 0 where a way was not offered."""
    table = _table("choice", "modecanada", "ModeCanada.csv.gz")
    columns = ["cost", "ivt", "ovt", "freq"]
    wide = table.pivot(index="case", columns="alt", values=columns).fillna(0.0)
    people = table.groupby("case")[["dist", "income", "urban"]].first()
    y = table[table["choice"] == 1].set_index("case")["alt"].reindex(people.index)
    X = np.hstack([wide.to_numpy(float), people.to_numpy(float)])
    return from_one_pool(X, _codes(y.to_numpy(str))[0], 1_400, rng)


def problems() -> list[Problem]:
    """Return all problems, each a family."""
    made: dict[str, tuple[str, Callable[[np.random.Generator], Data]]] = {
        "wordnet letters": ("n=7000", _wordnet_letters),
        "wordnet verbs": ("n=1500", _wordnet_verbs),
        "geonames prefixes": ("one in a hundred", _geonames_prefixes),
        "geonames next letter": ("n=30000", _geonames_next_letter),
        "yso frequent subjects": ("in order", _yso_frequent_subjects),
        "20newsgroups subjects": ("tf-idf", _newsgroups_subjects),
        "20newsgroups characters": ("in order", _newsgroups_characters),
        "ptb one word before": ("n=24000", _ptb_one_word),
        "ptb three words before": ("n=8000", _ptb_three_words),
        "yelp short histories": ("n=15000", _yelp_short_histories),
        "beauty other items": ("frequent", _beauty_other_items),
        "delicious last label": ("n=3000", _last_label("delicious", 3_000)),
        "delicious number of labels": ("n=2000", _delicious_number_of_labels),
        "mnist projected": ("n=3000 D=60", _pictures("mnist", _projected(60), 3_000, 10)),
        "omniglot projected": ("K=400", _pictures("omniglot", _projected(150), 6_400, 400)),
        "omniglot pooled": ("K=1623", _pictures("omniglot", _pooled, 13_000, 1_623)),
        "frogs genera": ("in order", _frogs_genera),
        "glass ratios": ("windows", _glass_ratios),
        "swissmetro": ("other people", _swissmetro),
        "train tickets": ("other people", _train_tickets),
        "heating": ("costs", _heating),
        "canada": ("wide", _canada),
    }
    return [Problem(family, variant, make) for family, (variant, make) in made.items()]
