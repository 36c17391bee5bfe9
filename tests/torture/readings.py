"""Data files by the plainest means, to hold the readers to: slow, strict and independent of them.

Each takes the bytes of a file and gives dense rows and labels as strings, or raises ValueError.
"""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np

Reading = tuple[np.ndarray, list[str]]


def _text(raw: bytes, encoding: str) -> str:
    text = raw.decode(encoding)
    if "\r" in text.replace("\r\n", ""):
        raise ValueError("a carriage return alone")
    return text


def _lines(raw: bytes) -> list[str]:
    return _text(raw, "latin-1").replace("\r\n", "\n").split("\n")


def _entries(words: list[str], width: int) -> np.ndarray:
    row = np.zeros(width, np.float64)
    seen = set()
    for word in words:
        index, colon, value = word.partition(":")
        if not colon or not index.isdigit() or int(index) in seen:
            raise ValueError(word)
        seen.add(int(index))
        if int(index) >= width:
            raise ValueError(word)
        row[int(index)] = _number(value)
    return row


def _number(text: str) -> float:
    if "_" in text or text.strip().lower().lstrip("+-")[:1] in ("i", "n"):
        raise ValueError(text)
    value = float(text)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise ValueError(text)
    return value


def xc(raw: bytes) -> Reading:
    head, *lines = _lines(raw)
    n_rows, n_features, n_labels = map(int, head.split())
    if lines and lines[-1] == "":
        lines.pop()
    while len(lines) > n_rows and not lines[-1].strip():
        lines.pop()
    if len(lines) != n_rows:
        raise ValueError(f"{len(lines)} rows")
    rows, labels = [], []
    for line in lines:
        words = line.split()
        given = [] if not words or ":" in words[0] else words.pop(0).split(",")
        for word in words:
            _entries([word], n_features)
        if any(not label.isdigit() or int(label) >= n_labels for label in given):
            raise ValueError(line)
        if given:  # a row that is dropped may have a feature twice
            rows.append(_entries(words, n_features))
            labels.append(str(int(given[0])))
    return np.array(rows), labels


def svmlight(raw: bytes) -> Reading:
    rows, labels = [], []
    for line in _lines(raw):
        words = line.partition("#")[0].split()
        if not words:
            continue
        given = [] if ":" in words[0] else words.pop(0).split(",")
        entries = [word for word in words if not word.startswith("qid:")]
        if given:
            rows.append(entries)
            labels.append(str(int(given[0])))
    indices = [int(word.partition(":")[0]) for entries in rows for word in entries]
    dense = np.array([_entries(entries, max(indices, default=-1) + 1) for entries in rows])
    return dense[:, 1:] if indices and min(indices) > 0 else dense, labels


def tsv(raw: bytes, vectorizer: Any) -> Reading:
    lines = _text(raw, "utf-8-sig").replace("\r\n", "\n").rstrip("\n").split("\n")
    if any("\t" not in line for line in lines):
        raise ValueError("no tab")
    pairs = [line.split("\t", 1) for line in lines]
    kept = [(label.strip(), text) for label, text in pairs if label.strip()]
    return vectorizer.transform([text for _, text in kept]).toarray(), [label for label, _ in kept]


def _field(text: str, at: int) -> tuple[str, int]:
    """A field of a table that begins at a place, and the place of what ends it."""
    begin = at
    while text[at] in " \t\r":
        at += 1
    if text[at] != '"':
        while text[at] not in ",\n":
            at += 1
        return text[begin:at], at
    field = ""
    while True:
        end = text.find('"', at + 1)
        if end < 0:
            raise ValueError("an open quote")
        field, at = field + text[at + 1 : end], end + 1
        if text[at] != '"':
            break
        field += '"'
    rest = text[at : min(i for i in (text.find(mark, at) for mark in ",\n") if i >= 0)]
    if rest.strip():
        raise ValueError(f"{rest!r} after a quote")
    return field, at + len(rest)


def _labelled(raw: bytes) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """Names and fields of the columns of a table, and labels, of rows that have one.

    Between quotes the end of a line stays as it is, as RFC 4180 has it.
    """
    text = _text(raw, "utf-8-sig") + "\n"
    rows: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        field, end = _field(text, at)
        rows[-1].append(field)
        if text[end] == "\n":
            rows.append([])
        at = end + 1
    rows = [row for row in rows if any(field.strip() for field in row)]
    header = [name.strip() for name in rows[0]]
    if header.count("label") != 1 or {len(row) for row in rows} != {len(header)}:
        raise ValueError("header")
    at = header.index("label")
    kept = [row for row in rows[1:] if row[at].strip()]
    columns = {i: [row[i] for row in kept] for i in range(len(header))}
    labels = [label.strip() for label in columns.pop(at)]
    return [(header[i], fields) for i, fields in columns.items()], labels


def table(raw: bytes) -> Reading:
    columns, labels = _labelled(raw)
    numbers = [[_number(field) for field in fields] for _, fields in columns]
    return np.array(numbers).reshape(len(columns), len(labels)).T, labels


def encoded(raw: bytes, category: str, text: str, vectorizer: Any) -> Reading:
    """A table with a column of categories and one of text."""
    columns, labels = _labelled(raw)
    by_name = dict(columns)
    if len(by_name) < len(columns):
        raise ValueError("two columns of one name")
    words = [word.strip() for word in by_name.pop(category)]
    texts = vectorizer.transform([words.strip() for words in by_name.pop(text)]).toarray()
    numbers = np.array([[_number(field) for field in fields] for fields in by_name.values()])
    single = numbers.reshape(len(by_name), len(labels)).astype(np.float32).astype(np.float64)
    spread = single.std(axis=1, keepdims=True)
    scaled = (single - single.mean(axis=1, keepdims=True)) / np.where(spread == 0.0, 1.0, spread)
    values = [[float(word == value) for value in sorted(set(words))] for word in words]
    return np.hstack([scaled.T, np.array(values).reshape(len(labels), -1), texts]), labels


def parquet(raw: bytes) -> Reading:
    import pyarrow.parquet

    found = pyarrow.parquet.read_table(io.BytesIO(raw)).to_pydict()
    labels = found.pop("label")
    kept = [i for i, label in enumerate(labels) if label is not None and str(label).strip()]
    numbers = [[float(column[i]) for column in found.values()] for i in kept]
    return np.array(numbers).reshape(len(kept), -1), [str(labels[i]).strip() for i in kept]


def npz(raw: bytes) -> Reading:
    with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
        arrays = dict(archive)
    labels = [_label(label) for label in arrays["y"].tolist()]
    if "X" in arrays:
        return np.asarray(arrays["X"], np.float64).reshape(len(labels), -1), labels
    values, columns, ends = (arrays[name].tolist() for name in ("data", "indices", "indptr"))
    rows = np.zeros(arrays["shape"].tolist())
    for row, (begin, end) in enumerate(itertools.pairwise(ends)):
        if len(set(columns[begin:end])) < end - begin or min(columns[begin:end], default=0) < 0:
            raise ValueError(f"columns {columns[begin:end]}")
        rows[row, columns[begin:end]] = values[begin:end]
    return rows, labels


def _label(label: Any) -> str:
    if isinstance(label, bytes):
        return label.decode()
    return label if isinstance(label, str) else str(int(label))
