"""Data: files of five forms, the shared catalogue, an embedded corpus, synthetic sets, event logs.

Names are imported when first used: ``import bigcat.data`` brings in neither numba nor
scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.data import events, synthetic
    from bigcat.data.catalogue import available, load
    from bigcat.data.corpus import stdlib_corpus
    from bigcat.data.dataset import DataError, Dataset, Split
    from bigcat.data.files import read

_HOME = {
    "DataError": "bigcat.data.dataset",
    "Dataset": "bigcat.data.dataset",
    "Split": "bigcat.data.dataset",
    "available": "bigcat.data.catalogue",
    "load": "bigcat.data.catalogue",
    "read": "bigcat.data.files",
    "stdlib_corpus": "bigcat.data.corpus",
}

__all__ = [
    "DataError",
    "Dataset",
    "Split",
    "available",
    "events",
    "load",
    "read",
    "stdlib_corpus",
    "synthetic",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in ("events", "synthetic"):
        return import_module(f"bigcat.data.{name}")
    raise AttributeError(f"module 'bigcat.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
