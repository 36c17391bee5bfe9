"""Columns of a table in a model file: a ColumnTransformer of `bigcat.data.tables`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bigcat.data.tables import categories_of, column_transformer, words_of
from bigcat.files.checks import check_floats, is_names, is_object
from bigcat.files.tensors import Tensors
from bigcat.files.values import pack_labels, unpack_labels
from bigcat.files.vectorizers import pack_vectorizer, unpack_vectorizer


def pack_columns(tensors: dict[str, np.ndarray], columns: Any) -> dict[str, Any]:
    """Return JSON of the names; categories, words and scales go to tensors."""
    categories = categories_of(columns)
    for i, values in enumerate(categories.values()):
        pack_labels(tensors, f"columns.categories.{i}", values)
    text = [name for name in words_of(columns) if name not in categories]
    numbers = next(list(names) for step, _, names in columns.transformers if step == "numbers")
    if numbers and words_of(columns):
        scaler = columns.named_transformers_["numbers"]
        tensors["columns.means"], tensors["columns.scales"] = scaler.mean_, scaler.scale_
    return {
        "names": columns.feature_names_in_.tolist(),
        "numbers": numbers,
        "categorical": list(categories),
        "text": text,
        "vectorizers": [
            pack_vectorizer(tensors, vectorizer, f"columns.text.{i}")
            for i, vectorizer in enumerate(_vectorizers(columns))
        ],
    }


def unpack_columns(
    read: Tensors, stored: dict[str, Any], n_features: int, trusted: bool = False
) -> Any:
    """Return what was packed; ValueError unless it fits together and to the model."""
    import pandas
    from sklearn.feature_extraction.text import CountVectorizer

    names, numbers, categorical, text = (
        stored[name] for name in ("names", "numbers", "categorical", "text")
    )
    if not all(map(is_names, (names, numbers, categorical, text))):
        raise ValueError("the names of columns are no lists of strings, each of them once")
    if sorted(names) != sorted([*numbers, *categorical, *text]):
        raise ValueError("a column is of two kinds, or of none")
    described = stored["vectorizers"]
    if not isinstance(described, list) or len(described) != len(text):
        raise ValueError("there is not one vectoriser for each column of text")
    if not all(map(is_object, described)):
        raise ValueError("a vectoriser of a column is no object")
    values = [_categories(read, i) for i in range(len(categorical))]
    # Fitted to one row, so that scikit-learn sets all it needs; then what was stored is put in.
    row = {name: 0.0 for name in numbers} | {name: "word" for name in text}
    row |= {name: known[0] for name, known in zip(categorical, values)}
    frame = pandas.DataFrame([row])[list(names)]
    columns = column_transformer(numbers, categorical, text, CountVectorizer())
    if categorical:
        columns.set_params(categories__categories=values)
    columns.fit(frame)
    if numbers and (categorical or text):
        scaler = columns.named_transformers_["numbers"]
        scaler.mean_, scaler.scale_ = _scales(read, len(numbers))
    fitted = columns.transformers_
    for i, stored_vectorizer in enumerate(described):
        at = len(fitted) - len(text) + i
        vectorizer = unpack_vectorizer(read, stored_vectorizer, trusted, f"columns.text.{i}")
        fitted[at] = (fitted[at][0], vectorizer, fitted[at][2])
    made = columns.transform(frame).shape[1]
    if made != n_features:
        raise ValueError(f"the columns make {made} features, and the model has {n_features}")
    return columns


def _vectorizers(columns: Any) -> list[Any]:
    return [part for _, part, names in columns.transformers_ if isinstance(names, str)]


def _categories(read: Tensors, i: int) -> np.ndarray:
    name = f"columns.categories.{i}"
    values = unpack_labels(read, name, "objects")
    words = values.tolist()
    if not words or any(a >= b for a, b in pairwise(words)):
        raise ValueError(f"{name} is empty or not in order")
    return values


def _scales(read: Tensors, n: int) -> tuple[np.ndarray, np.ndarray]:
    found = read("columns.means"), read("columns.scales")
    for name, values in zip(("columns.means", "columns.scales"), found):
        check_floats(name, values)
        if values.shape != (n,):
            raise ValueError(f"{name} has shape {values.shape}, not {(n,)}")
    if not (found[1] > 0.0).all():
        raise ValueError("columns.scales holds a number that is not above 0")
    return found
