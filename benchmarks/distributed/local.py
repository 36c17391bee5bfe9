"""Processes of this machine as a Dask cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import dask.config
from distributed import Client, LocalCluster

#: Statistics for Dask's dashboard cost two workers and a scheduler a sixth of a core.  A task that
#: has killed two workers would kill more.
LOCAL_SETTINGS = {
    "distributed.scheduler.allowed-failures": 1,
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.gil.enabled": False,
}


@contextlib.contextmanager
def local_cluster(n_workers: int) -> Iterator[Client]:
    """Yield a client of so many processes with a thread each."""
    with dask.config.set(LOCAL_SETTINGS):
        cluster = LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
    with cluster, Client(cluster) as client:
        yield client
