"""Clusters within this process, for tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def a_cluster(n_workers: int = 2, **options: Any) -> Iterator[Any]:
    """A client of workers with a thread each."""
    import distributed

    options |= {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=n_workers, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
