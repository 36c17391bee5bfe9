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
            raise DataError(
                f"{self.path}: expected arrays X and y, or those of scipy.sparse.save_npz and y, "
                f"found {names}"
            )
        X: Any = arrays["X"] if sp.issparse(arrays["X"]) else self._dense(arrays["X"])
        labels = self._labels(arrays["y"]) if self.labelled else [0] * X.shape[0]
        if len(labels) != X.shape[0]:
            raise DataError(
                f"{self.path}: expected a label for each of {X.shape[0]} rows, found {len(labels)}"
            )
        values = X.data if sp.issparse(X) else X
        if not np.isfinite(values).all():
            where = int(np.argwhere(~np.isfinite(values))[0, 0])
            if sp.issparse(X):
                where = int(np.searchsorted(X.indptr, where, side="right")) - 1
            raise DataError(
                f"{self.path}: expected finite numbers in X, found NaN, infinity or a value "
                f"beyond float32 in row {where}"
            )
        return Chunk(X, *numbered(labels), {"columns": X.shape[1]})

    def _dense(self, X: np.ndarray) -> np.ndarray:
        if X.ndim < 2 or X.dtype.kind not in _NUMBERS or not X.size:
            raise DataError(
                f"{self.path}: expected X of numbers with a row for each example, "
                f"found shape {X.shape} of {X.dtype}"
            )
        with np.errstate(over="ignore"):  # becomes infinite, and is reported as such
            return np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)

    def _check_parts(self, arrays: dict[str, np.ndarray]) -> None:
        """Raise for types that SciPy would convert with loss."""
        if "format" not in arrays:
            raise DataError(f"{self.path}: expected format beside indptr, as save_npz writes it")
        for name in {"data", "indices", "indptr", "shape"} & arrays.keys():
            kinds, noun = (_NUMBERS, "numbers") if name == "data" else ("iu", "integers")
            found = arrays[name]
            fits = name == "data" or np.can_cast(found.dtype, np.int64)
            if found.dtype.kind not in kinds or found.ndim != 1 or not fits:
                raise DataError(
                    f"{self.path}: expected {name} with one axis of {noun}, found shape "
                    f"{found.shape} of {found.dtype}"
                )

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
            raise DataError(
                f"{self.path}: expected each feature at most once per row, found "
                f"{n_entries - X.nnz} twice"
            )
        return X

    def _labels(self, y: np.ndarray) -> list[Any]:
        if y.ndim == 1 and y.dtype.kind in "US":
            return self._strings(y)
        whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and np.array_equal(y, np.floor(y)))
        if y.ndim != 1 or not whole:
            raise DataError(
                f"{self.path}: expected y with one integer or string per row, found shape "
                f"{y.shape} of {y.dtype}"
            )
        end = _EXACT_END if y.dtype.kind == "f" else 1 << 63
        if y.dtype.kind in "fu" and len(y):
            largest = max(y.max().item(), -y.min().item())
            if not largest < end:
                raise DataError(
                    f"{self.path}: expected labels of {y.dtype} below {end} in size, found "
                    f"{largest}; store them as int64 or as strings"
                )
        return y.astype(np.int64).tolist()  # type: ignore[no-any-return]

    def _strings(self, y: np.ndarray) -> list[str]:
        """Return strings; NumPy takes any number for a character."""
        if y.dtype.kind == "U":
            native = np.ascontiguousarray(y, y.dtype.newbyteorder("="))
            for code in np.unique(native.view(np.uint32)).tolist() if native.nbytes else []:
                if code > sys.maxunicode or code in _SURROGATES:
                    raise DataError(
                        f"{self.path}: expected y of Unicode strings, found character {code:#x}"
                    )
            return native.tolist()  # type: ignore[no-any-return]
        try:
            return [label.decode() for label in y.tolist()]
        except UnicodeDecodeError as error:
            raise DataError(
                f"{self.path}: expected y of strings in UTF-8, found {error.object!r}"
            ) from None
