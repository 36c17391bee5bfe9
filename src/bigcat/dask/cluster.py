"""Tasks on a Dask cluster, and its errors with a remedy."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from distributed import CancelledError, Client, Future, KilledWorker, default_client, wait
from distributed.comm import CommClosedError

#: Seconds without a scheduler, or without a worker that is able to work, until a fit gives up.
PATIENCE = 30.0
#: Part of a worker's memory that a fit may plan with: from there on Dask spills, pauses and kills.
MAX_MEMORY_PART = 0.6
#: Times that a value is sent again after the worker that had it was lost.
MAX_LOSSES = 3


class WorkersLost(RuntimeError):
    """No worker is left, or they were killed again and again at the same task."""


class SchedulerLost(ConnectionError):
    """The scheduler ended, or cannot be reached."""


def client_or_current(client: Client | None) -> Client:
    """Return the given client, or the current one."""
    if client is not None:
        return client
    try:
        current: Client = default_client()
    except ValueError as error:
        raise ValueError(
            "there is no Dask client; make one, such as dask.distributed.Client(), or give client="
        ) from error
    return current


class Cluster:
    """Tasks of one fit.

    Rows are split between `n_workers` worker threads.  A task of a worker runs on its own machine
    while that is there, and elsewhere after that: where a task runs changes no result.

    Parameters
    ----------
    client : Client
    n_workers : int or None
        None for as many as there are threads.
    """

    def __init__(self, client: Client, n_workers: int | None = None) -> None:
        self.client, self.name = client, uuid.uuid4().hex[:8]
        machines = machines_of(client)
        if not machines:
            raise ValueError(
                f"{client!r} has no workers yet; start some, or wait with "
                "client.wait_for_workers(1)"
            )
        threads = [
            address for address in sorted(machines) for _ in range(machines[address]["nthreads"])
        ]
        self.n_workers = n_workers or len(threads)
        self.address_of = [threads[i % len(threads)] for i in range(self.n_workers)]
        self.workers_per_machine = max(map(self.address_of.count, self.address_of))
        limits = [found["memory_limit"] for found in machines.values() if found["memory_limit"]]
        self.memory_limit: int | None = min(limits, default=None)

    def submit(
        self, name: str, function: Callable[..., Any], *arguments: Any, worker: int | None = None
    ) -> Future[Any]:
        """Start a task; futures among the arguments, also in lists, become their results."""
        where: dict[str, Any] = {}
        if worker is not None:
            address = self.address_of[worker % self.n_workers]
            where = {"workers": [address], "allow_other_workers": True}
        key = f"bigcat-{name}-{self.name}-{uuid.uuid4().hex[:8]}"
        return self.client.submit(function, *arguments, key=key, pure=False, **where)

    def results(self, futures: Sequence[Future[Any]]) -> list[Any]:
        """Return small results."""
        self.wait(futures)
        with explained():
            found: list[Any] = self.client.gather(list(futures))
        return found

    def result(self, future: Future[Any]) -> Any:
        """Return a small result."""
        return self.results([future])[0]

    def fetch(self, future: Future[Any]) -> Any:
        """Return a large result, which does not pass through the scheduler."""
        self.wait([future])
        with explained():
            return self.client.gather(future, direct=True)

    def wait(self, futures: Sequence[Future[Any]]) -> None:
        """Wait until tasks have ended, well or not, or until nothing is able to run them."""
        idle_since: float | None = None
        while True:
            try:
                with explained():
                    wait(list(futures), timeout=max(PATIENCE / 4.0, 0.1))
                return
            except TimeoutError:
                with explained():
                    trouble = self._trouble()
            if trouble is None:
                idle_since = None
                continue
            idle_since = idle_since or time.monotonic()
            if time.monotonic() - idle_since >= PATIENCE:
                raise trouble

    def _trouble(self) -> Exception | None:
        """Return what keeps all tasks from running, if anything."""
        if self.client.status != "running":
            return scheduler_lost(f"the connection is {self.client.status}")
        machines = machines_of(self.client).values()
        seconds = f"for {PATIENCE:.0f} seconds"
        if not machines:
            return WorkersLost(
                f"there was no worker {seconds}; start others, with a higher memory_limit if these "
                "had too little memory (their logs say more), and fit again"
            )
        if all(machine["status"] == "paused" for machine in machines):
            return MemoryError(
                f"all {len(machines)} workers were paused {seconds} since their memory is nearly "
                "full; start them with a higher memory_limit or fewer threads, or give X in "
                "smaller chunks"
            )
        return None

    def put(self, value: Any) -> Future[Any]:
        """Send a value to one worker, from which the others get it."""
        for _ in range(MAX_LOSSES):
            with contextlib.suppress(OSError):  # that worker was lost; there may be others
                return self._sent(value)
        with explained():
            return self._sent(value)

    def _sent(self, value: Any) -> Future[Any]:
        sent: Future[Any] = self.client.scatter(value, direct=True, hash=False)
        return sent

    def repeated(self, work: Callable[[], Any]) -> Any:
        """Call a function that begins with `put`, again if the worker with the value was lost."""
        for _ in range(MAX_LOSSES):
            with contextlib.suppress(SchedulerLost):
                return work()
            if self.client.status != "running":
                break
        return work()

    def check_memory(self, n_bytes: int, what: str) -> None:
        """Raise if the workers' memory limit is too low for what each of them needs."""
        if self.memory_limit is None:
            return
        needed, most = n_bytes * self.workers_per_machine, MAX_MEMORY_PART * self.memory_limit
        if needed > most:
            raise MemoryError(
                f"{what} takes about {needed / 2**20:,.0f} MiB of each worker, and of its "
                f"memory_limit of {self.memory_limit / 2**20:,.0f} MiB {MAX_MEMORY_PART:.0%} can "
                "be used; start the workers with a higher memory_limit or fewer threads, or set a "
                "lower rank"
            )


def machines_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows of its workers, by address.

    The client asks every other second for itself, for none of them, and returns whichever answer
    came last; so an empty one is not believed at once.
    """
    for _ in range(3):
        machines: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        if machines:
            break
    return machines


def scheduler_lost(why: str) -> SchedulerLost:
    """Return the error of a lost scheduler, with its remedy."""
    return SchedulerLost(
        f"the scheduler was lost, and with it the tasks of the fit ({why}); with "
        "checkpoint=FOLDER, fit(..., resume=True) continues on another cluster"
    )


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Raise errors of Dask with a remedy."""
    try:
        yield
    except KilledWorker as error:
        raise WorkersLost(
            f"{error.allowed_failures + 1} workers died at the same task; most often they had too "
            "little memory: start them with a higher memory_limit or with fewer threads, or give X "
            "in smaller chunks (the workers' logs say more)"
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise scheduler_lost(type(error).__name__) from error
