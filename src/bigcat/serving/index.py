"""Approximate search for the best classes, in a graph of neighbours.

Scores are inner products of ``[h, 1]`` with ``[v_k, b_k]``.  One more coordinate gives all class
vectors the same length, and the best classes are then those nearest to ``[h, 1, 0]`` (Bachrach et
al., 2014).  The graph of neighbours (HNSW; Malkov and Yashunin, 2016) comes from usearch:
``pip install "bigcat[ann]"``.
"""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np

from bigcat._system import available_cores, require
from bigcat.estimators import LinearClassifier
from bigcat.estimators.inputs import check_for_prediction
from bigcat.linear.top_k import best_columns, check_k
from bigcat.pipelines import apart

__all__ = ["TopKIndex"]

#: Longer vectors are not worth a graph.
MAX_FEATURES = 2048
#: Rows that are searched for at a time.
_BLOCK = 1024
#: Times that search and scan are timed, of which the quickest counts.
_REPEATS = 3


class TopKIndex:
    """An index of a fitted model's classes that finds most of the best ones of a row.

    A search costs about the logarithm of the number of classes, where `predict_top_k` of the model
    scores them all; it pays off for many classes and few rows at a time.  It misses some classes:
    `recall` says how many, and a larger `expansion` finds more, in more time; `for_recall` makes an
    index that finds as many as you ask for, or says that there is nothing to gain.  Building the
    graph takes as long as thousands of rows scored exactly, and it holds a copy of the class
    vectors.  It can be pickled, with its model.

    Parameters
    ----------
    model : LinearClassifier, or pipeline that ends in one
        Fitted, of low rank, or of full rank with at most 2,048 features.  The index does not follow
        further fits of the model.
    connectivity : int, default=16
        Neighbours that a class has in the graph.
    build_expansion : int, default=128
        Candidates for these neighbours that the construction compares.  More of them find better
        neighbours, in a longer time.
    expansion : int, default=128
        Candidates that a search keeps.
    n_threads : int or None, default=None
        None for all cores.  With one thread the same model gives the same graph.

    Examples
    --------
    >>> import numpy as np, bigcat
    >>> X = np.eye(40, dtype=np.float32).repeat(5, axis=0)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X, X.argmax(axis=1))
    >>> index = bigcat.TopKIndex(model)
    >>> classes, scores = index.top_k(X[:1], k=3)
    >>> int(classes[0, 0])
    0
    >>> index.recall(X, k=1)["recall"] > 0.9
    True
    """

    def __init__(
        self,
        model: LinearClassifier,
        *,
        connectivity: int = 16,
        build_expansion: int = 128,
        expansion: int = 128,
        n_threads: int | None = None,
    ) -> None:
        Index = _usearch().Index
        self._whole = apart(model)
        self.model = model = self._whole.classifier
        if not isinstance(model, LinearClassifier):
            raise TypeError(
                f"an index is made of a LinearClassifier, or of a pipeline that ends in one, got "
                f"{type(model).__name__}"
            )
        _check_number("connectivity", connectivity)
        _check_number("build_expansion", build_expansion)
        _check_number("expansion", expansion)
        linear = model.linear_model()
        vectors = linear.weights.class_vectors
        if vectors.shape[1] > MAX_FEATURES:
            raise ValueError(
                f"the model's classes have {vectors.shape[1]:,} weights each, and vectors of more "
                f"than {MAX_FEATURES:,} are not indexed; fit it with rank=64"
            )
        self.n_threads = n_threads or available_cores()
        intercept = model.intercept_ - model.intercept_.mean()
        squares = np.einsum("ij,ij->i", vectors, vectors)
        # The intercepts may be divided by what stands in the place of the 1.  Were they larger than
        # the other coordinates, neighbours would be classes that are as frequent as each other.
        size, spread = np.sqrt(squares.sum() / max(vectors.size, 1)), intercept.std()
        self._unit = float(spread / size) if spread > 0.0 and size > 0.0 else 1.0
        intercept /= self._unit
        squares += intercept**2
        rest = np.sqrt(squares.max() - squares)
        self._index: Any = Index(
            ndim=vectors.shape[1] + 2,
            metric="l2sq",
            dtype="f32",
            connectivity=connectivity,
            expansion_add=build_expansion,
            expansion_search=expansion,
        )
        start = time.perf_counter()
        for first in range(0, len(vectors), 1 << 16):
            classes = np.arange(first, min(first + (1 << 16), len(vectors)))
            chunk = np.column_stack([vectors[classes], intercept[classes], rest[classes]])
            self._index.add(classes, chunk, threads=self.n_threads)
        #: Seconds that the graph took.
        self.build_seconds = time.perf_counter() - start

    @classmethod
    def for_recall(
        cls, model: LinearClassifier, X: Any, recall: float = 0.95, k: int = 5, **settings: Any
    ) -> Self:
        """Return the index with the fewest candidates for this share of the `k` best classes.

        Parameters
        ----------
        model : LinearClassifier
        X : array or CSR matrix
            Rows like those of later requests, as many as arrive at a time.
        recall : float, default=0.95
        k : int, default=5
        **settings :
            ``connectivity``, ``build_expansion`` and ``n_threads``.

        Raises
        ------
        ValueError
            Where no number of candidates finds as many, or where the search would take longer than
            `predict_top_k` of the model, which looks at all classes.
        """
        if not 0.0 < recall <= 1.0:
            raise ValueError(f"recall={recall!r} must be above 0 and at most 1, such as 0.95")
        index = cls(model, **settings)
        most = len(model.classes_)
        index.expansion = max(2, k)
        while (found := index.recall(X, k))["recall"] < recall and index.expansion < most:
            index.expansion = min(2 * index.expansion, most)
        if found["recall"] < recall:
            raise ValueError(
                f"with all {most:,} candidates the search finds {found['recall']:.1%} of the {k} "
                f"best classes, not {recall:.1%}; give connectivity=32 and build_expansion=512"
            )
        again = [found, *(index.recall(X, k) for _ in range(_REPEATS - 1))]
        search, scan = (min(one[name] for one in again) for name in ("seconds", "exact_seconds"))
        if search >= scan:
            raise ValueError(
                f"for a recall of {recall:.1%} the search keeps {index.expansion:,} candidates and "
                f"takes {search:.2g} s for {found['rows']:,} rows, but a scan of all classes "
                f"{scan:.2g} s; use predict_top_k of the model, fewer rows at a time, or a lower "
                "recall"
            )
        return index

    def __getstate__(self) -> dict[str, Any]:
        graph = bytes(self._index.save())
        return {**self.__dict__, "_index": graph, "_expansion": self.expansion}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Index = _usearch().Index
        state = dict(state)
        graph, expansion = state.pop("_index"), state.pop("_expansion")
        self.__dict__ = state
        self._index = Index.restore(graph)
        self.expansion = expansion

    @property
    def expansion(self) -> int:
        """Candidates that a search keeps; may be changed without building the graph again."""
        return int(self._index.expansion_search)

    @expansion.setter
    def expansion(self, value: int) -> None:
        _check_number("expansion", value)
        self._index.expansion_search = value

    @property
    def nbytes(self) -> int:
        """Bytes of the index, beside the model."""
        return int(self._index.memory_usage)

    def top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return about the `k` best classes of each row, best first, and their scores: (n, k)."""
        columns, scores = self._search(self._rows(X), k)
        return self.model.classes_[columns], scores

    def recall(self, X: Any, k: int = 5) -> dict[str, float]:
        """Measure the share of the `k` best classes that is found, and the time of a search.

        Returns
        -------
        dict
            ``recall``, the share of the classes of the model's `predict_top_k` that `top_k` finds
            too; ``seconds`` of the latter and ``exact_seconds`` of the former, which also computes
            normalisers; ``rows``.
        """
        X = self._rows(X)
        self.model.predict_top_k(X[:1], k)  # compiles
        start = time.perf_counter()
        found = self.model.classes_[self._search(X, k)[0]]
        between = time.perf_counter()
        exact = self.model.predict_top_k(X, k)[0]
        end = time.perf_counter()
        return {
            "recall": float((found[:, :, None] == exact[:, None, :]).any(axis=2).mean()),
            "seconds": between - start,
            "exact_seconds": end - between,
            "rows": len(found),
        }

    def _rows(self, X: Any) -> Any:
        return check_for_prediction(self.model, self._whole.transform(X))

    def _search(self, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return numbers of about the best classes and their scores, (n, k)."""
        linear = self.model.linear_model()
        check_k(k, linear.n_classes)
        vectors, intercept = linear.weights.class_vectors, linear.intercept
        columns = np.empty((X.shape[0], k), np.int64)
        scores = np.empty((X.shape[0], k), np.float32)
        for start in range(0, X.shape[0], _BLOCK):
            rows = slice(start, min(start + _BLOCK, X.shape[0]))
            x = X if X.shape[0] <= _BLOCK else X[rows]  # a slice of sparse rows is a copy
            beside = linear.weights.beside(x)
            x = linear.weights.embed(x)
            found, counts = self._nearest(x, k)
            values = (vectors[found] @ x[:, :, None])[:, :, 0] + intercept[found]
            order = np.argsort(-values, axis=1, kind="stable")
            columns[rows] = np.take_along_axis(found, order, axis=1)
            scores[rows] = np.take_along_axis(values, order, axis=1)
            if beside is not None:
                self._add_beside(beside, x, columns[rows], scores[rows])
            short = start + np.flatnonzero(counts < k)
            if len(short):  # the graph has parts that a search cannot reach
                every = np.concatenate([s for _, s in linear.score_blocks(X[short])])
                columns[short] = best_columns(every, k)
                scores[short] = np.take_along_axis(every, columns[short], axis=1)
        return columns, scores

    def _add_beside(
        self, beside: Any, x: np.ndarray, columns: np.ndarray, scores: np.ndarray
    ) -> None:
        """Merge the classes found with classes that score beside their vectors."""
        linear = self.model.linear_model()
        vectors, intercept = linear.weights.class_vectors, linear.intercept
        for r in range(len(columns)):
            entries = slice(beside.indptr[r], beside.indptr[r + 1])
            classes = np.union1d(columns[r], beside.indices[entries])
            values = vectors[classes] @ x[r] + intercept[classes]
            values[np.searchsorted(classes, beside.indices[entries])] += beside.data[entries]
            best = np.argsort(-values, kind="stable")[: columns.shape[1]]
            columns[r], scores[r] = classes[best], values[best]

    def _nearest(self, x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return neighbours in the graph, (n, k), and their number for each row."""
        last = np.tile([self._unit, 0.0], (len(x), 1))
        queries = np.column_stack([x, last]).astype(np.float32)
        matches: Any = self._index.search(queries, k, threads=self.n_threads)
        if len(x) > 1:
            return np.asarray(matches.keys, np.int64), np.asarray(matches.counts)
        found = np.zeros((1, k), np.int64)  # of one row usearch gives what it has, no more
        found[0, : len(matches.keys)] = matches.keys
        return found, np.array([len(matches.keys)])


def _usearch() -> Any:
    return require("usearch.index", "TopKIndex needs", "ann")


def _check_number(name: str, value: int) -> None:
    if not isinstance(value, int) or value < 2:
        raise ValueError(f"{name}={value!r} must be a whole number of at least 2")
