"""bigcat on a Dask cluster: the same estimators, for rows that many machines hold.

Needs the extra ``dask`` (``pip install "bigcat[dask]"``); ``docs/distributed.md`` goes from a
laptop to a cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.dask.bayesian import BayesianClassifier
    from bigcat.dask.linear import LinearClassifier

__all__ = ["BayesianClassifier", "LinearClassifier"]

_HOME = {
    "BayesianClassifier": "bigcat.dask.bayesian",
    "LinearClassifier": "bigcat.dask.linear",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'bigcat.dask' has no attribute {name!r}")
    try:
        import_module("dask.array")
        import_module("distributed")
    except ImportError as error:
        raise ImportError(
            f"bigcat.dask needs dask and distributed, and {error.name} is missing; "
            'pip install "bigcat[dask]"'
        ) from error
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
