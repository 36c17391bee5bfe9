"""The second collection of real sets, as rows and labels."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import OneHotEncoder, normalize

from bigcat import data
from bigcat.data import DataError

#: A body of a function is not prose: its tokens lie between blanks, and rare ones are many.
CODE: dict[str, Any] = {"token_pattern": r"\S+", "min_df": 2}


def names() -> list[str]:
    """Return the folders of the collection."""
    return sorted(path.name for path in _home().iterdir() if path.is_dir())


def load(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return training rows and labels, and test rows and labels of classes seen in training.

    Texts become tf-idf of words, sparse rows have length 1, and columns of a table that are no
    numbers are one-hot.
    """
    folder = _home() / name
    if (folder / "train.tsv.gz").exists():
        (texts, y), (more, y_test) = (_texts(folder / f"{p}.tsv.gz") for p in ("train", "test"))
        options = CODE if name == "python_function_names" else {}
        vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **options)
        X, X_test = vectorizer.fit_transform(texts), vectorizer.transform(more)
    elif (folder / "train.txt.gz").exists():
        parts = [data.read(folder / f"{p}.txt.gz", form="xc") for p in ("train", "test")]
        X, X_test = (normalize(sp.csr_matrix(part.X, dtype=np.float32)) for part in parts)
        y, y_test = (part.y for part in parts)
    else:
        (X, y), (X_test, y_test) = _tables(folder)
    known = np.isin(y_test, y)
    return X, y, X_test[np.flatnonzero(known)], y_test[known]


def _home() -> Path:
    home = os.environ.get("BIGCAT_DATA")
    if not home or not (Path(home) / "second").is_dir():
        raise DataError(
            "no folder with the second collection; set BIGCAT_DATA to the data folder, which has "
            "it as second/"
        )
    return Path(home) / "second"


def _texts(path: Path) -> tuple[list[str], np.ndarray]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    return [text for _, text in rows], np.array([label for label, _ in rows])


def _tables(folder: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rows of both parts: the label comes first."""
    parts = []
    for part in ("train", "test"):
        with gzip.open(folder / f"{part}.csv.gz", "rt", newline="") as file:
            parts.append(np.array(list(csv.reader(file))[1:]))
    columns = []
    for j in range(1, parts[0].shape[1]):
        both = np.concatenate([part[:, j] for part in parts])
        try:
            columns.append(both.astype(np.float32)[:, None])
        except ValueError:
            encoded = OneHotEncoder(sparse_output=False, dtype=np.float32)
            columns.append(encoded.fit_transform(both[:, None]))
    X, n = np.hstack(columns), len(parts[0])
    return [(X[:n], parts[0][:, 0]), (X[n:], parts[1][:, 0])]
