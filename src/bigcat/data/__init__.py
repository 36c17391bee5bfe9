"""Data: files of six forms, rows larger than memory, and the corpus of the standard library.

Names are imported when first used: ``import bigcat.data`` brings in neither numba nor
scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.data.conversion import convert
    from bigcat.data.corpus import stdlib_corpus
    from bigcat.data.dataset import DataError, Dataset, Split
    from bigcat.data.files import read
    from bigcat.data.shards import Shards, open_shards

_HOME = {
    "DataError": "bigcat.data.dataset",
    "Dataset": "bigcat.data.dataset",
    "Shards": "bigcat.data.shards",
    "Split": "bigcat.data.dataset",
    "convert": "bigcat.data.conversion",
    "open_shards": "bigcat.data.shards",
    "read": "bigcat.data.files",
    "stdlib_corpus": "bigcat.data.corpus",
}

__all__ = [
    "DataError",
    "Dataset",
    "Shards",
    "Split",
    "convert",
    "open_shards",
    "read",
    "stdlib_corpus",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'bigcat.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
