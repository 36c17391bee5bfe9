"""Columns of a table in a model file: their names, and how they become features."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from bigcat.data.tables import TableEncoder
from bigcat.files.checks import check_floats, is_names, is_object, is_text
from bigcat.files.tensors import Tensors
from bigcat.files.values import pack_labels, unpack_labels
from bigcat.files.vectorizers import pack_vectorizer, unpack_vectorizer


def pack_columns(tensors: dict[str, np.ndarray], columns: TableEncoder) -> dict[str, Any]:
    """JSON of the names; values of categories, words and scales go to tensors."""
    for i, values in enumerate(columns.categories.values()):
        pack_labels(tensors, f"columns.categories.{i}", values)
    if columns.encodes:
        tensors["columns.means"] = np.asarray(columns.means, np.float64)
        tensors["columns.scales"] = np.asarray(columns.scales, np.float64)
    return {
        "label": columns.label,
        "numbers": list(columns.numbers),
        "categorical": list(columns.categories),
        "text": list(columns.vectorizers),
        "vectorizers": [
            pack_vectorizer(tensors, vectorizer, f"columns.text.{i}")
            for i, vectorizer in enumerate(columns.vectorizers.values())
        ],
    }


def unpack_columns(
    read: Tensors, stored: dict[str, Any], n_features: int, trusted: bool = False
) -> TableEncoder:
    """What was packed; ValueError where it does not fit together or to the model."""
    numbers, categorical, text = (stored[name] for name in ("numbers", "categorical", "text"))
    if not is_text(stored["label"]) or not all(map(is_names, (numbers, categorical, text))):
        raise ValueError("the names of columns are no lists of strings, each of them once")
    if len({*numbers, *categorical, *text}) != len(numbers) + len(categorical) + len(text):
        raise ValueError("a column is of two kinds")
    described = stored["vectorizers"]
    if not isinstance(described, list) or len(described) != len(text):
        raise ValueError("there is not one vectoriser for each column of text")
    if not all(map(is_object, described)):
        raise ValueError("a vectoriser of a column is no object")
    encoder = TableEncoder(
        stored["label"],
        tuple(numbers),
        {name: _categories(read, i) for i, name in enumerate(categorical)},
        {
            name: unpack_vectorizer(read, described[i], trusted, f"columns.text.{i}")
            for i, name in enumerate(text)
        },
        *_scales(read, len(numbers), bool(categorical or text)),
    )
    made = len(encoder.get_feature_names_out())
    if made != n_features:
        raise ValueError(f"the columns make {made} features, and the model has {n_features}")
    return encoder


def _categories(read: Tensors, i: int) -> np.ndarray:
    name = f"columns.categories.{i}"
    values = unpack_labels(read, name, "objects")
    words = values.tolist()
    if not words or any(a >= b for a, b in pairwise(words)):
        raise ValueError(f"{name} is empty or not in order")
    return values


def _scales(read: Tensors, n: int, encodes: bool) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not encodes:
        return None, None
    found = read("columns.means"), read("columns.scales")
    for name, values in zip(("columns.means", "columns.scales"), found):
        check_floats(name, values)
        if values.shape != (n,):
            raise ValueError(f"{name} has shape {values.shape}, not {(n,)}")
    if not (found[1] > 0.0).all():
        raise ValueError("columns.scales holds a number that is not above 0")
    return found
