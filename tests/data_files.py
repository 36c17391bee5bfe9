"""Valid data files of every form, to be read and to be damaged."""

from __future__ import annotations

import io

import numpy as np
import scipy.sparse as sp


def texts(n: int = 40) -> dict[str, str]:
    """Return the same `n` rows in every form of text."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 6)).round(4)
    labels = rng.integers(0, 9, n)
    words = ["ant", "bee", "cat", "dög", "elk", "fox", "gnu", "hen", "ibis"]
    sparse = [" ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if abs(v) > 0.5) for row in values]
    table = [f'{row[0]},"{words[k]}, big",{row[1]}' for k, row in zip(labels, values)]
    return {
        "xc": f"{n} 8 9\n" + "".join(f"{k},{(k + 1) % 9} {s}\n" for k, s in zip(labels, sparse)),
        "svmlight": "# rows\n" + "".join(f"{k} qid:1 {s} # c\n" for k, s in zip(labels, sparse)),
        "tsv": "".join(f"{words[k]}\tone {words[k - 1]} two {k}\n" for k in labels),
        "csv": "a,label,b\n" + "".join(f"{line}\n" for line in table),
    }


def archives() -> dict[str, bytes]:
    """Return arrays in ``.npz``: dense rows, and CSR."""
    rng = np.random.default_rng(1)
    X = sp.random(30, 7, 0.4, "csr", random_state=0, dtype=np.float32)
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    y, words = rng.integers(0, 5, 30), np.array(["ant", "bee", "cat", "dog", "elk"])
    found = {}
    for name, arrays in (
        ("npz", {"X": X.toarray(), "y": words[y]}),
        ("npz of CSR", {**parts, "format": b"csr", "y": y}),
    ):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        found[name] = buffer.getvalue()
    return found


def parquet_table(n: int = 40, checked: bool = True) -> bytes:
    """Return a table, with check sums of its pages or without."""
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(2)
    words = np.array(["ant", "bee", "cat"])[rng.integers(0, 3, n)]
    columns = {"a": rng.normal(size=n), "label": words, "b": rng.integers(0, 9, n)}
    buffer = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(
        table, buffer, row_group_size=16, compression="none", write_page_checksum=checked
    )
    return buffer.getvalue()
