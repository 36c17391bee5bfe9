"""Arrays in ``.npz``, by NumPy and SciPy."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError
from bigcat.data.opening import load_arrays
from bigcat.data.reading import Chunk, Reader, numbered
from bigcat.data.text import as_float32

_NUMBERS = "biuf"  # kinds of NumPy's types, without complex numbers
_SURROGATES = range(0xD800, 0xE000)  # halves of characters
_EXACT_END = 1 << 53  # from here on a double does not tell a whole number from the next


class NpzReader(Reader):
    """Reader of arrays ``X`` and ``y``, or of `scipy.sparse.save_npz` with ``y`` added."""

    spells_labels = False

    def pieces(self, file: IO[bytes], max_bytes: int | None = None) -> Iterator[Any]:
        raw = io.BytesIO(file.read())
        arrays = load_arrays(self.path, raw, max_bytes)
        if "X" not in arrays and "indptr" in arrays:
            self._check_parts(arrays)
            raw.seek(0)
            arrays["X"] = self._sparse(raw)
        yield arrays

    def parse(self, arrays: dict[str, Any]) -> Chunk:
        if "X" not in arrays or ("y" not in arrays and self.labelled):
            names = ", ".join(sorted(arrays)) or "none"
            raise self.wrong("arrays X and y, or those of scipy.sparse.save_npz and y", names)
        X: Any = arrays["X"] if sp.issparse(arrays["X"]) else self._dense(arrays["X"])
        labels = self._labels(arrays["y"]) if self.labelled else [0] * X.shape[0]
        if len(labels) != X.shape[0]:
            raise self.wrong(f"a label for each of {X.shape[0]} rows", len(labels))
        values = X.data if sp.issparse(X) else X
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0, 0])
            if sp.issparse(X):
                row = int(np.searchsorted(X.indptr, row, side="right")) - 1
            found = f"NaN, infinity or a value beyond float32 in row {row}"
            raise self.wrong("finite numbers in X", found)
        return Chunk(X, *numbered(labels), {"columns": X.shape[1]})

    def _dense(self, X: np.ndarray) -> np.ndarray:
        if X.ndim < 2 or X.dtype.kind not in _NUMBERS or not X.size:
            expected = "X of numbers with a row for each example"
            raise self.wrong(expected, f"shape {X.shape} of {X.dtype}")
        with np.errstate(over="ignore"):  # becomes infinite, and is reported as such
            return np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)

    def _check_parts(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise for types that SciPy would convert with loss."""
        if "format" not in arrays:
            raise self.wrong("format beside indptr, as save_npz writes it", "none")
        for name in {"data", "indices", "indptr", "shape"} & arrays.keys():
            kinds, noun = (_NUMBERS, "numbers") if name == "data" else ("iu", "integers")
            found = arrays[name]
            fits = name == "data" or np.can_cast(found.dtype, np.int64)
            if found.dtype.kind not in kinds or found.ndim != 1 or not fits:
                shape = f"shape {found.shape} of {found.dtype}"
                raise self.wrong(f"{name} with one axis of {noun}", shape)

    def _sparse(self, raw: IO[bytes]) -> sp.csr_matrix:
        try:
            with np.errstate(over="ignore"):
                X = sp.load_npz(raw)
                if X.format != "csr":
                    raise ValueError(f"it is in the format {X.format!r}")
                if (X.indptr[1:] < X.indptr[:-1]).any():  # SciPy looks only if the last is not 0
                    raise ValueError("indptr falls, and has to rise")
                X.check_format(full_check=True)
                n_entries, X = X.nnz, as_float32(X)
        except (ValueError, TypeError, OverflowError, IndexError, KeyError) as error:
            raise DataError(f"{self.path}: expected a CSR matrix: {error}") from error
        if X.nnz < n_entries:
            raise self.wrong("each feature at most once per row", f"{n_entries - X.nnz} twice")
        return X

    def _labels(self, y: np.ndarray) -> list[Any]:
        if y.ndim == 1 and y.dtype.kind in "US":
            return self._strings(y)
        whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and np.array_equal(y, np.floor(y)))
        if y.ndim != 1 or not whole:
            expected = "y with one integer or string per row"
            raise self.wrong(expected, f"shape {y.shape} of {y.dtype}")
        end = _EXACT_END if y.dtype.kind == "f" else 1 << 63
        largest = max(y.max().item(), -y.min().item()) if len(y) else 0
        if y.dtype.kind in "fu" and not largest < end:
            expected = f"labels of {y.dtype} below {end} in size"
            raise self.wrong(expected, f"{largest}; store them as int64 or as strings")
        return y.astype(np.int64).tolist()  # type: ignore[no-any-return]

    def _strings(self, y: np.ndarray) -> list[str]:
        """Return strings; NumPy takes any number for a character."""
        if y.dtype.kind == "U" and y.nbytes:
            native = np.ascontiguousarray(y, y.dtype.newbyteorder("="))
            for code in np.unique(native.view(np.uint32)).tolist():
                if code > sys.maxunicode or code in _SURROGATES:
                    raise self.wrong("y of Unicode strings", f"character {code:#x}")
            return native.tolist()  # type: ignore[no-any-return]
        try:
            return [
                str(label, "utf-8") if isinstance(label, bytes) else label for label in y.tolist()
            ]
        except UnicodeDecodeError as error:
            raise self.wrong("y of strings in UTF-8", f"{error.object!r}") from None
