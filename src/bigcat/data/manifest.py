"""What a folder of converted rows says of itself.

``manifest.json`` names the folder that its arrays are in, how long they are, and a digest of each
shard.  A new conversion writes other arrays and then this one file, whole or not at all: whoever
opens the folder finds the rows of before or those of after.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bigcat.atomic import replacing
from bigcat.data.dataset import DataError, array_of_strings

MANIFEST, FORMAT_VERSION = "manifest.json", 1
#: Arrays of a folder, one file each; those of dense rows have no indptr and indices.
ARRAYS = ("labels", "indptr", "indices", "values")
_INT32_END, _INT64_END = 1 << 31, 1 << 63


@dataclass(frozen=True)
class Shard:
    """A run of rows: what is read, checked and shuffled together."""

    rows: int
    values: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All that is known of converted rows, but for the rows.

    Parameters
    ----------
    arrays : str
        Name of the folder, within that of the manifest, that holds the arrays.
    report : dict
        What was read, as in `bigcat.data.Dataset.report`.
    classes : list
        Labels in order; the numbers of the rows' labels are places in it.
    column_names : list of str or None
        Of a table.
    vectorizer : dict or None
        What made features of text (`bigcat.data.vectorizers`).
    """

    arrays: str
    sparse: bool
    n_features: int
    shards: list[Shard]
    classes: list[Any]
    report: dict[str, Any] = field(default_factory=dict)
    column_names: list[str] | None = None
    vectorizer: dict[str, Any] | None = None

    @property
    def n_rows(self) -> int:
        return sum(shard.rows for shard in self.shards)

    @property
    def n_values(self) -> int:
        return sum(shard.values for shard in self.shards)

    @property
    def index_dtype(self) -> Any:
        """Of columns and row ends: SciPy wants one for both."""
        return np.int32 if self.n_values < _INT32_END else np.int64

    def shapes(self) -> dict[str, tuple[Any, tuple[int, ...]]]:
        """Types and shapes of the arrays."""
        n, index = self.n_rows, self.index_dtype
        if not self.sparse:
            return {"labels": (np.int32, (n,)), "values": (np.float32, (n, self.n_features))}
        return {
            "labels": (np.int32, (n,)),
            "indptr": (index, (n + 1,)),
            "indices": (index, (self.n_values,)),
            "values": (np.float32, (self.n_values,)),
        }

    @property
    def n_bytes(self) -> int:
        """Of the arrays."""
        return sum(
            math.prod(shape) * np.dtype(dtype).itemsize for dtype, shape in self.shapes().values()
        )

    def class_labels(self) -> np.ndarray:
        if all(isinstance(name, int) for name in self.classes):
            return np.array(self.classes, np.int64)
        return array_of_strings(self.classes)

    @property
    def fingerprint(self) -> str:
        """A name for the rows: the same for the same rows in the same order."""
        return digest_of({**asdict(self), "arrays": "", "report": {}})

    # The file

    def write(self, folder: Path) -> None:
        content = asdict(self)
        text = json.dumps(
            {"format_version": FORMAT_VERSION, "sha256": digest_of(content), **content}
        )
        with replacing(folder / MANIFEST) as file:
            file.write(text.encode())

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        path = folder / MANIFEST
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise DataError(
                f"{folder}: expected {MANIFEST}, as `bigcat convert` writes it, found none"
            ) from None
        except (ValueError, RecursionError) as error:
            raise _damaged(path, error) from error
        if not isinstance(found, dict) or "format_version" not in found:
            raise _damaged(path, "it is of another kind")
        version, digest = found.pop("format_version"), found.pop("sha256", None)
        if version != FORMAT_VERSION:
            raise DataError(
                f"{path}: expected format {FORMAT_VERSION}, found {version!r}; convert the data "
                "again, or use the version of bigcat that did"
            )
        if digest != digest_of(found):
            raise _damaged(path, "its digest is another")
        try:
            shards = [Shard(**shard) for shard in found.pop("shards")]
            manifest = cls(shards=shards, **found)
            manifest._check()
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise _damaged(path, error) from error
        return manifest

    def _check(self) -> None:
        kinds_of_fields = {
            "sparse": bool,
            "classes": list,
            "report": dict,
            "column_names": list | None,
            "vectorizer": dict | None,
        }
        for name, kind in kinds_of_fields.items():
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"its {name} is of another kind")
        numbers = [self.n_features, *(n for s in self.shards for n in (s.rows, s.values))]
        if not all(type(n) is int and 0 <= n < _INT64_END for n in numbers):
            raise ValueError("a size is no whole number of 64 bits")
        if not self.sparse and any(s.values != s.rows * self.n_features for s in self.shards):
            raise ValueError("a shard has other values than its rows have")
        if Path(self.arrays).name != self.arrays or self.arrays in ("", ".", ".."):
            raise ValueError("its arrays are elsewhere")
        kinds = {type(name) for name in self.classes}
        if len(kinds) != 1 or not kinds <= {int, str} or not self.shards:
            raise ValueError("it has no classes, or classes of two kinds")
        if not all(a < b for a, b in zip(self.classes, self.classes[1:])):
            raise ValueError("its classes are not in order")


def digest_of(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(path: Path, cause: object) -> DataError:
    return DataError(f"{path}: damaged, or no manifest of rows ({cause}); convert the data again")
