"""The cluster as a fit sees it: tasks, where they had best run, and errors that say what to do."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import dask.config
from distributed import CancelledError, Client, Future, KilledWorker, default_client, wait
from distributed.comm import CommClosedError

#: Seconds that all workers may be paused, as Dask does with those whose memory is nearly full.
PATIENCE = 30.0
#: A worker should not be filled with more than this part of its memory: from there on Dask writes
#: to the disk, then pauses, then kills.
FULL = 0.6
#: Times that values are sent again, where workers that had them are lost.
MOST_LOSSES = 3

#: What Dask works out of itself for its dashboard takes two workers and a scheduler a sixth of a
#: core.
WITHOUT_STATISTICS = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.gil.enabled": False,
}

Result = TypeVar("Result")


class WorkersLost(RuntimeError):
    """Workers were killed again and again at the same task."""


class SchedulerLost(ConnectionError):
    """The scheduler ended, or nobody reaches it."""


def client_or_current(client: Client | None) -> Client:
    """The client that was given, or the current one."""
    if client is not None:
        return client
    try:
        current: Client = default_client()
    except ValueError as error:
        raise ValueError(
            "there is no Dask client; make one, such as dask.distributed.Client(), or give client="
        ) from error
    return current


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of a scheduler, or of workers of this machine: ``local`` or ``local:N``.

    Local workers are processes of one thread, and end with the block.
    """
    kind, _, number = address.partition(":")
    if kind != "local":
        with Client(address, timeout=30) as client:
            yield client
        return
    from distributed import LocalCluster

    from bigcat.machine import available_cores

    if number and not (number.isdecimal() and int(number) > 0):
        raise ValueError(
            f"{address!r} is neither local nor local:N with N workers, such as local:4"
        )
    n = int(number) if number else available_cores()
    with dask.config.set(WITHOUT_STATISTICS):
        cluster = LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
    with cluster, Client(cluster) as client:
        yield client


class Cluster:
    """Tasks of one fit.

    A task that is made for a lane runs on the lane's own worker while that lives, and else
    anywhere: where it runs changes nothing.

    Parameters
    ----------
    client : Client
    n_lanes : int or None
        As many as the workers have threads where it is None.
    """

    def __init__(self, client: Client, n_lanes: int | None = None) -> None:
        self.client = client
        self.name = uuid.uuid4().hex[:8]
        workers = _workers_of(client)
        if not workers:
            raise ValueError(
                f"{client!r} has no workers yet; start some, or wait with "
                "client.wait_for_workers(1)"
            )
        threads = [
            address for address in sorted(workers) for _ in range(workers[address]["nthreads"])
        ]
        self.n_lanes = n_lanes or len(threads)
        self.address_of = [threads[lane % len(threads)] for lane in range(self.n_lanes)]
        self.lanes_per_worker = max(map(self.address_of.count, self.address_of))
        limits = [worker["memory_limit"] for worker in workers.values() if worker["memory_limit"]]
        self.memory_limit: int | None = min(limits, default=None)

    def submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, lane: int | None = None
    ) -> Future[Any]:
        """A task; futures among the arguments, also those in lists, are what they stand for."""
        where: dict[str, Any] = {}
        if lane is not None:
            where = {"workers": [self.address_of[lane]], "allow_other_workers": True}
        key = f"bigcat-{name}-{self.name}-{uuid.uuid4().hex[:8]}"
        return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def result(self, future: Future[Any]) -> Any:
        """What a task gave: small things."""
        return self.results([future])[0]

    def results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        self.wait(futures)
        with explained():
            found: list[Any] = self.client.gather(list(futures))
        return found

    def fetch(self, future: Future[Any]) -> Any:
        """The same for large things, past the scheduler."""
        self.wait([future])
        with explained():
            return self.client.gather(future, direct=True)

    def wait(self, futures: Sequence[Future[Any]]) -> None:
        """Until tasks are done, well or not; not where nobody is left to do them."""
        paused_since: float | None = None
        while True:
            try:
                with explained():
                    wait(list(futures), timeout=max(PATIENCE / 4.0, 0.1))
                return
            except TimeoutError:
                workers = _workers_of(self.client).values()
                if not workers or any(worker["status"] != "paused" for worker in workers):
                    paused_since = None
                    continue
                paused_since = paused_since or time.monotonic()
                if time.monotonic() - paused_since >= PATIENCE:
                    raise MemoryError(
                        f"all {len(workers)} workers were paused for {PATIENCE:.0f} seconds since "
                        "their memory is nearly full; start them with a higher memory_limit or "
                        "fewer threads, or give X in smaller chunks"
                    ) from None

    def put(self, value: Any) -> Future[Any]:
        """Large things to a worker, past the scheduler; they are lost with it.

        Others get them from there when they need them: Dask would wait for ever for one that dies
        while things are sent to all.
        """
        for _ in range(MOST_LOSSES):
            with contextlib.suppress(OSError):  # it died: there may be others
                return self._sent(value)
        with explained():
            return self._sent(value)

    def _sent(self, value: Any) -> Future[Any]:
        sent: Future[Any] = self.client.scatter(value, direct=True, hash=False)
        return sent

    def repeated(self, work: Callable[[], Result]) -> Result:
        """What work gives that sends values: a lost worker may take them along, and then they are
        sent again."""
        for _ in range(MOST_LOSSES):
            try:
                return work()
            except SchedulerLost:
                if self.client.status != "running":
                    raise
        return work()

    def check_memory(self, n_bytes: int, what: str) -> None:
        """Raise where the workers' limit is too low for what each lane needs, before any work."""
        if self.memory_limit is None:
            return
        needed, most = n_bytes * self.lanes_per_worker, FULL * self.memory_limit
        if needed > most:
            raise MemoryError(
                f"{what} takes about {needed / 2**20:,.0f} MiB of each worker, and of its "
                f"memory_limit of {self.memory_limit / 2**20:,.0f} MiB {FULL:.0%} can be used; "
                "start the workers with a higher memory_limit or fewer threads, or set a lower rank"
            )


def _workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler knows of its workers, by address.

    Every other second the client asks for itself, for none of them, and hands out whichever answer
    came last: so an empty one is not believed at once.
    """
    for _ in range(3):
        workers: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        if workers:
            break
    return workers


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Errors of Dask, with what to do."""
    try:
        yield
    except KilledWorker as error:
        raise WorkersLost(
            f"{error.allowed_failures + 1} workers died at the same task; most often they had too "
            "little memory: start them with a higher memory_limit or with fewer threads, or give X "
            "in smaller chunks (the workers' logs say more)"
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise SchedulerLost(
            "the scheduler was lost, and with it the tasks of the fit "
            f"({type(error).__name__}); one with checkpoint=FOLDER goes on by "
            "fit(..., resume=True) on another cluster"
        ) from error
