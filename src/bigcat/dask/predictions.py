"""Predictions of rows on a cluster: lazy, chunk by chunk, by a model that is sent once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed, is_dask_collection

from bigcat.dask.source import chunks_of_rows


def ask(name: str) -> Callable[..., Any]:
    """A method of the local model as a function of model, rows and perhaps labels."""
    return functools.partial(_ask, name)


def _ask(name: str, model: Any, *of_chunk: Any, **options: Any) -> Any:
    return getattr(model, name)(*of_chunk, **options)


def is_right(model: Any, X: Any, y: Any) -> np.ndarray:
    """1 for rows whose class is the most probable one, else 0."""
    return np.asarray(model.predict(X) == y, np.float64)


def _of_chunk(
    function: Callable[..., Any], model: Any, chunk: Any, labels: Any, options: dict[str, Any]
) -> Any:
    if chunk.shape[0] == 0:  # as a data frame may have after a filter
        raise ValueError("a chunk of X has no rows; drop empty partitions first")
    of_chunk = (chunk,) if labels is None else (chunk, np.asarray(labels))  # frames keep names
    return function(model, *of_chunk, **options)


def lazily(
    function: Callable[..., Any],
    model: Any,
    X: Any,
    y: Any = None,
    *,
    shape: tuple[int, ...] = (),
    dtypes: tuple[Any, ...],
    **options: Any,
) -> list[Any]:
    """Dask arrays of what a function of (model, X, y) gives, one for each of the `dtypes`.

    `model` is a future of the local model, and `shape` that of a row's answer; chunks of rows are
    those of X.
    """
    if not is_dask_collection(X):
        raise ValueError(
            f"X is a {type(X).__name__}; give a Dask array or data frame, or take "
            "to_local() for rows in this process's memory"
        )
    chunks = chunks_of_rows(X)
    labels = [None] * len(chunks) if y is None else _labels_like(X, y, len(chunks))
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(chunks)
    predict = delayed(_of_chunk, pure=False)
    several = len(dtypes) > 1
    arrays: list[list[Any]] = [[] for _ in dtypes]
    for chunk, label, n in zip(chunks, labels, sizes):
        answer = predict(function, model, chunk, label, options)
        for i, dtype in enumerate(dtypes):
            part = answer[i] if several else answer
            arrays[i].append(da.from_delayed(part, (n, *shape), dtype))
    return [da.concatenate(parts, allow_unknown_chunksizes=True) for parts in arrays]


def _labels_like(X: Any, y: Any, n: int) -> list[Any]:
    if hasattr(y, "rechunk") and hasattr(X, "chunks") and not np.isnan(sum(X.chunks[0])):
        y = y.rechunk((X.chunks[0],))
    labels = chunks_of_rows(y)
    if len(labels) != n:
        raise ValueError(f"X has {n} chunks of rows and y {len(labels)}; give both the same")
    return labels
