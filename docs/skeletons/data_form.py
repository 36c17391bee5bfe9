"""Skeleton of a data form: JSON lines, ``{"label": "cat", "x": [0.5, 2]}``, complete.

Copy this file and put your own form in its place; docs/extending/data-form.md explains it.
"""

import json

import numpy as np

from bigcat.data.dataset import check_columns, error_at, integers_or_strings, make_dataset
from bigcat.data.forms import FORMS, Form

NAME = "jsonl"


def read_jsonl(path, raw, *, n_features=None):
    """A `Dataset` from a file's bytes; `path` is for messages only."""
    labels, rows = [], []
    n_dropped = 0
    for number, line in enumerate(raw.decode().splitlines(), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            row = np.array(entry["x"], np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise error_at(path, number, 'an object with numbers "x"', repr(error)) from error
        if row.ndim != 1 or not np.isfinite(row).all():
            raise error_at(path, number, 'finite numbers in "x"', line[:40])
        if rows and len(row) != len(rows[0]):
            raise error_at(path, number, f"{len(rows[0])} numbers", len(row))
        if entry.get("label") is None:
            n_dropped += 1
            continue
        labels.append(str(entry["label"]))
        rows.append(row)
    X = np.array(rows, np.float32).reshape(len(rows), -1)
    check_columns(path, X.shape[1], n_features)
    return make_dataset(X, integers_or_strings(labels), NAME, rows_without_label=n_dropped)


def with_labels(raw):
    """The same file with the label 0 in every row, for ``bigcat predict --no-labels``."""
    entries = [json.loads(line) for line in raw.decode().splitlines() if line.strip()]
    return "\n".join(json.dumps({**entry, "label": 0}) for entry in entries).encode()


form = Form(
    NAME,
    reader=read_jsonl,
    suffixes=(".jsonl", ".ndjson"),
    first_line=r"\s*\{.*\}\s*",
    labelled=with_labels,
)


def register():
    """Tell `bigcat.data.read` and the command line of it."""
    FORMS[form.name] = form
