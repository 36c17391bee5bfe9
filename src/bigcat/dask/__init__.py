"""`LinearClassifier` on a Dask cluster, for rows that many machines hold.

Needs the extra ``dask`` (``pip install "bigcat[dask]"``); ``docs/distributed.md`` goes from a
laptop to a cluster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bigcat.dask.linear import LinearClassifier

__all__ = ["LinearClassifier"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'bigcat.dask' has no attribute {name!r}")
    try:
        import dask.array  # noqa: F401
        import distributed  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"bigcat.dask needs dask and distributed, and {error.name} is missing; "
            'pip install "bigcat[dask]"'
        ) from error
    from bigcat.dask.linear import LinearClassifier

    return LinearClassifier


def __dir__() -> list[str]:
    return __all__
