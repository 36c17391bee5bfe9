"""Skeleton of a data form: JSON lines, ``{"label": "cat", "x": [0.5, 2]}``, complete.

Copy this file and put your own form in its place; docs/extending/data-form.md explains it.
"""

import json

import numpy as np

from bigcat.data.dataset import error_at
from bigcat.data.forms import FORMS, Form
from bigcat.data.reading import Chunk, LinesReader, numbered

NAME = "jsonl"


class JsonlReader(LinesReader):
    """Reader of JSON lines."""

    def parse(self, piece):
        labels, rows = [], []
        n_dropped = 0
        for number, line in enumerate(self.decoded(piece).split("\n"), piece.first_line):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                row = np.array(entry["x"], np.float32)
            except (ValueError, KeyError, TypeError) as error:
                found = repr(error)
                raise error_at(self.path, number, 'an object with numbers "x"', found) from error
            if row.ndim != 1 or not np.isfinite(row).all():
                raise error_at(self.path, number, 'finite numbers in "x"', line[:40])
            if rows and len(row) != len(rows[0]):
                raise error_at(self.path, number, f"{len(rows[0])} numbers", len(row))
            if self.labelled and entry.get("label") is None:
                n_dropped += 1
                continue
            labels.append(str(entry["label"]) if self.labelled else 0)
            rows.append(row)
        X = np.array(rows, np.float32).reshape(len(rows), -1)
        facts = {"columns": X.shape[1], "rows_without_label": n_dropped}
        return Chunk(X, *numbered(labels), facts)


form = Form(
    NAME,
    reader=JsonlReader,
    suffixes=(".jsonl", ".ndjson"),
    first_line=r"\s*\{.*\}\s*",
    options=("labelled",),
)


def register():
    """Add the form for `bigcat.data.read` and the command line."""
    FORMS[form.name] = form
