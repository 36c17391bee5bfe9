"""Files without labels, as the usual readers take them: every row gets the label 0."""

from __future__ import annotations

import io
import zipfile

import numpy as np


def tsv(raw: bytes) -> bytes:
    return b"\n".join(b"0\t" + line for line in _lines(raw))


def csv(raw: bytes) -> bytes:
    head, *rows = _lines(raw)
    table = [line + b",0" if line.strip() else line for line in rows]
    return b"\n".join([head + b",label", *table])


def svmlight(raw: bytes) -> bytes:
    return b"\n".join(map(_sparse_with_label, _lines(raw)))


def xc(raw: bytes) -> bytes:
    head, *rows = _lines(raw)
    return b"\n".join([head, *map(_sparse_with_label, rows)])


def npz(raw: bytes) -> bytes:
    try:
        with np.load(io.BytesIO(raw), allow_pickle=False) as archive:
            parts = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, AttributeError):
        return raw  # the reader says what is wrong
    rows = len(parts["X"]) if "X" in parts else int(parts["shape"][0]) if "shape" in parts else 0
    parts["y"] = np.zeros(rows, np.int64)
    buffer = io.BytesIO()
    np.savez(buffer, **parts)
    return buffer.getvalue()


def _lines(raw: bytes) -> list[bytes]:
    return raw.rstrip(b"\r\n").replace(b"\r\n", b"\n").split(b"\n")


def _sparse_with_label(line: bytes) -> bytes:
    has_label = line[:1].strip() and b":" not in line.split(None, 1)[0]
    return line if has_label else b"0 " + line
