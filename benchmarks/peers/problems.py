"""Problems as matrices on disk, which peers read in all environments.

Rules for all: classes are those with a training row, numbered in sorted order; columns and document
frequencies come from the training rows; test rows of other classes are dropped and counted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import datasets
from bigcat import data
from bigcat.data import Dataset, Split

CACHE = Path(__file__).parents[1] / ".cache"
VALIDATION_FRACTION = 0.1
MAX_TEST_ROWS = 20_000
#: Above so many classes the log-likelihood is taken on a sample of the test rows.
MANY_CLASSES = 5_000
COMMON_ROWS = 1_000


@dataclass(frozen=True)
class Problem:
    """One data set as a benchmark uses it.

    Parameters
    ----------
    name : str
    data : str
        A name of the catalogue, or "stdlib" for the embedded corpus.
    unit_rows : bool
        Scale every row to length one.
    n_train, n_test : int, optional
        Take the first rows only.
    """

    name: str
    data: str
    unit_rows: bool = True
    n_train: int | None = None
    n_test: int | None = None

    def load(self) -> Split:
        """Read the data; `BIGCAT_DATA` names the folder."""
        if self.data == "stdlib":
            return data.stdlib_corpus(self.n_train or 800_000)
        return datasets.load(self.data, n_train=self.n_train, n_test=self.n_test, unseen="keep")


def folder_of(problem: Problem, cache: Path = CACHE) -> Path:
    """Return the folder of the problem's matrices; make them if they are missing."""
    folder = cache / problem.name
    if not (folder / "facts.json").exists():
        split = problem.load()
        matrices, facts = prepare(split.train, split.test, unit_rows=problem.unit_rows)
        write(folder, matrices, {"problem": problem.name} | facts)
    return folder


def facts_of(problem: Problem, cache: Path = CACHE) -> dict[str, Any]:
    """Sizes of a prepared problem."""
    return json.loads((folder_of(problem, cache) / "facts.json").read_text())


def prepare(
    train: Dataset, test: Dataset, *, unit_rows: bool = True
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Matrices of a problem, and facts about it.

    Parameters
    ----------
    train, test : Dataset
        With the same columns.
    unit_rows : bool
        Scale every row to length one.

    Returns
    -------
    matrices : dict
        ``X_train``, ``X_test`` (CSR, float32), ``y_train``, ``y_test`` (numbers of classes),
        ``is_validation`` (a training row in ten), ``common_rows`` (the test rows on which all
        log-likelihoods are taken); ``groups_train`` where the data have groups.
    facts : dict
        Sizes, rows dropped, and ``baseline``, the mean test log-likelihood of the class frequencies
        with one added to every count.
    """
    classes, y_train = np.unique(train.y, return_inverse=True)
    place = np.minimum(np.searchsorted(classes, test.y), len(classes) - 1)
    seen = np.flatnonzero(classes[place] == test.y)
    known = len(seen)
    if known > MAX_TEST_ROWS:
        seen = _some(seen, MAX_TEST_ROWS, seed=0)
    X_train, X_test = (_rows(X, unit_rows) for X in (train.X, test.X[seen]))
    y_test = place[seen]
    common = np.arange(len(y_test))
    if len(classes) > MANY_CLASSES:
        common = _some(common, COMMON_ROWS, seed=123)
    is_validation = np.zeros(len(y_train), bool)
    held_out = int(VALIDATION_FRACTION * len(y_train))
    is_validation[_some(np.arange(len(y_train)), held_out, seed=0)] = True
    counts = np.bincount(y_train, minlength=len(classes))
    matrices = {
        "X_train": X_train,
        "X_test": X_test,
        "y_train": y_train.astype(np.int64),
        "y_test": y_test.astype(np.int64),
        "is_validation": is_validation,
        "common_rows": common,
    }
    if train.groups is not None:
        matrices["groups_train"] = np.unique(train.groups, return_inverse=True)[1]
    facts = {
        "rows_train": len(y_train),
        "rows_test": len(y_test),
        "rows_of_unseen_classes": len(test.y) - known,
        "common_rows": len(common),
        "features": X_train.shape[1],
        "classes": len(classes),
        "nonzeros_a_row": X_train.nnz / max(len(y_train), 1),
        "empty_rows_train": int((np.diff(X_train.indptr) == 0).sum()),
        "baseline": float(np.log((counts[y_test] + 1) / (len(y_train) + len(classes))).mean()),
    }
    return matrices, facts


def write(folder: Path, matrices: dict[str, Any], facts: dict[str, Any]) -> None:
    """Write matrices to a folder; the facts come last and mark it as complete."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = {name: value for name, value in matrices.items() if not sp.issparse(value)}
    for name in matrices.keys() - labels.keys():
        sp.save_npz(folder / f"{name}.npz", matrices[name], compressed=False)
    np.savez(folder / "labels.npz", **labels)
    (folder / "facts.json").write_text(json.dumps(facts))


def _some(values: np.ndarray, count: int, seed: int) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).permutation(values)[:count])


def _rows(X: Any, unit: bool) -> sp.csr_matrix:
    X = sp.csr_matrix(X, dtype=np.float64)
    if unit:
        norms = np.sqrt(X.multiply(X).sum(axis=1)).A1 if X.nnz else np.zeros(X.shape[0])
        X = sp.diags(1 / np.where(norms > 0, norms, 1.0)) @ X
    X = sp.csr_matrix(X, dtype=np.float32)
    X.eliminate_zeros()
    X.sort_indices()
    return X
