"""Files without labels, as the usual readers take them: every row gets the label 0."""

from __future__ import annotations

import io

import numpy as np

from bigcat.data.dataset import DataError
from bigcat.data.unpack import read_archive


def tsv(raw: bytes) -> bytes:
    return b"\n".join(b"0\t" + line for line in _lines(raw))


def labels_and_texts(raw: bytes) -> tuple[list[str], list[bytes]]:
    """What stands before the first tab of lines that have one, and all lines without it."""
    lines = _lines(raw)
    labels = [line.partition(b"\t")[0] for line in lines if b"\t" in line]
    texts = [line.partition(b"\t")[2] if b"\t" in line else line for line in lines]
    return [label.decode("utf-8", "replace").strip() for label in labels], texts


def svmlight(raw: bytes) -> bytes:
    return b"\n".join(map(_sparse_with_label, _lines(raw)))


def xc(raw: bytes) -> bytes:
    head, *rows = _lines(raw)
    return b"\n".join([head, *map(_sparse_with_label, rows)])


def npz(raw: bytes) -> bytes:
    try:
        parts = read_archive("", raw)
    except DataError:
        return raw  # the reader says what is wrong
    sized = parts.get("X", parts.get("indptr"))  # what is wrong with it is for the reader to say
    n_rows = 0 if sized is None or sized.ndim == 0 else len(sized) - ("X" not in parts)
    parts["y"] = np.zeros(max(n_rows, 0), np.int64)
    buffer = io.BytesIO()
    np.savez(buffer, **parts)  # type: ignore[arg-type]
    return buffer.getvalue()


def _lines(raw: bytes) -> list[bytes]:
    return raw.rstrip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")


def _sparse_with_label(line: bytes) -> bytes:
    has_label = line[:1].strip() and b":" not in line.split(None, 1)[0]
    return line if has_label else b"0 " + line
