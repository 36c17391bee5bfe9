"""Event logs: predict the next process of a user from the ones started just before.

The file form is that of the process events in Los Alamos' Comprehensive, Multi-Source
Cyber-Security Events (Kent 2015, ``proc.txt.gz``), the log behind the intrusion experiment of
categorical-from-binary: lines ``time,user@domain,computer,process,Start|End`` with the time in
whole seconds.
"""

from __future__ import annotations

import gzip
from array import array
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, error_at
from bigcat.data.opening import opened

_LINE = "time,user@domain,computer,process,Start|End"
_CHUNK_BYTES = 2**24


@dataclass(frozen=True, eq=False, repr=False)
class ProcessStarts:
    """Process starts in order of time.

    Attributes
    ----------
    time : ndarray of int64
        Seconds.
    user, process : ndarray of int32
        Places in ``users`` and ``processes``.
    users, processes : ndarray of str
        Names, sorted.
    report : dict
        What was read: ``file``, ``lines``, ``starts`` (kept), ``ends`` and ``other_users``
        (dropped).
    """

    time: np.ndarray
    user: np.ndarray
    process: np.ndarray
    users: np.ndarray
    processes: np.ndarray
    report: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def __repr__(self) -> str:
        return (
            f"ProcessStarts({len(self):,} starts, {len(self.users):,} users, "
            f"{len(self.processes):,} processes)"
        )

    def counts(self) -> dict[str, int]:
        """Starts of each user, most first."""
        count = np.bincount(self.user, minlength=len(self.users))
        order = np.argsort(-count, kind="stable")
        return {str(self.users[u]): int(count[u]) for u in order}


@dataclass(frozen=True, eq=False)
class Windows:
    """One row per process start: the previous processes (``X``) and the started one (``y``).

    ``X`` is CSR float32 with a column a process; ``y`` counts processes and ``user`` users as in
    the :class:`ProcessStarts`; ``time`` is the start's; ``event`` is its place there.
    """

    X: Any
    y: np.ndarray
    user: np.ndarray
    time: np.ndarray
    event: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class PlantedIntruder:
    """A made-up log in which one account behaves like another for a while.

    ``intruder`` marks those of the ``starts`` that `impostor` made from the account of `victim`.
    """

    starts: ProcessStarts
    intruder: np.ndarray
    victim: str
    impostor: str


def read_process_starts(
    path: str | PathLike[str],
    *,
    users: Collection[str] | None = None,
    prefix: str = "U",
    max_lines: int | None = None,
) -> ProcessStarts:
    r"""Read the process starts of a log, plain or gzipped, a few megabytes at a time.

    Only what is kept is held in memory.

    Parameters
    ----------
    path : path
        Lines ``time,user@domain,computer,process,Start|End``.
    users : collection of str, optional
        Keep these accounts (``user@domain``) only.
    prefix : str
        Keep accounts whose name begins so; in the original log ``U`` is people, ``C`` computers.
        Empty keeps all.
    max_lines : int, optional
        Stop after so many lines.

    Returns
    -------
    ProcessStarts

    Raises
    ------
    DataError
        A ValueError with file, line, and what was expected against what was found.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from benchmarks.datasets import events
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "proc.txt"
    >>> _ = path.write_text("1,U1@DOM1,C5,P3,Start\n1,C5$@DOM1,C5,P4,Start\n2,U1@DOM1,C5,P3,End\n")
    >>> events.read_process_starts(path)
    ProcessStarts(1 starts, 1 users, 1 processes)
    """
    path = Path(path)
    wanted = None if users is None else {user.encode() for user in users}
    time, user, process = array("q"), array("i"), array("i")
    user_codes: dict[bytes, int] = {}
    process_codes: dict[bytes, int] = {}
    lines = ends = others = 0
    first = prefix.encode()
    for number, (when, who, what, kind) in _parsed_lines(path, max_lines):
        lines = number
        if kind == b"End":
            ends += 1
        elif not who.startswith(first) or (wanted is not None and who not in wanted):
            others += 1
        else:
            time.append(when)
            user.append(user_codes.setdefault(who, len(user_codes)))
            process.append(process_codes.setdefault(what, len(process_codes)))
    if not lines:
        raise DataError(f"{path}: the file is empty")
    if not time:
        kept = f"accounts that begin with {prefix!r}" if users is None else "the users asked for"
        raise DataError(f"{path}: expected process starts of {kept}, found none in {lines} lines")
    report = {
        "file": str(path),
        "lines": lines,
        "starts": len(time),
        "ends": ends,
        "other_users": others,
    }
    return _in_order(
        np.array(time, np.int64),
        *_sorted_names(path, user, user_codes),
        *_sorted_names(path, process, process_codes),
        report,
    )


def write_process_starts(starts: ProcessStarts, path: str | PathLike[str]) -> None:
    """Write a log in the form that :func:`read_process_starts` reads, gzipped for ``.gz``.

    The computer, which :class:`ProcessStarts` does not keep, is written as ``C1``.
    """
    path = Path(path)
    text = "".join(
        f"{time},{starts.users[user]},C1,{starts.processes[process]},Start\n"
        for time, user, process in zip(starts.time, starts.user, starts.process)
    )
    raw = text.encode()
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)


def windows(
    starts: ProcessStarts,
    n_previous: int = 5,
    seconds: float = 60.0,
    *,
    repeats: Literal["sum", "latest"] = "sum",
    incomplete: Literal["keep", "drop"] = "keep",
) -> Windows:
    """Return for each process start the previous starts of the same user, weighted down by age.

    A start dt seconds ago counts ``exp(-dt / seconds)`` in the column of its process.

    Parameters
    ----------
    starts : ProcessStarts
        The events.
    n_previous : int
        How many earlier starts a row looks back on (5 in the paper).
    seconds : float
        How fast they fade (60 in the paper).
    repeats : {"sum", "latest"}
        A process that started several times in the window: its values are summed, or the latest
        one stands, as in the authors' program.
    incomplete : {"keep", "drop"}
        A user's first `n_previous` starts, which have fewer before them; the authors' program
        drops them.

    Returns
    -------
    Windows
        Rows in order of time.

    Examples
    --------
    >>> from benchmarks.datasets import events
    >>> log = events.planted_intruder(n_users=3, n_processes=20, n_starts=200)
    >>> rows = events.windows(log.starts)
    >>> rows.X.shape
    (600, 20)
    """
    if n_previous < 1:
        raise ValueError(f"n_previous must be at least 1, got {n_previous}")
    if not seconds > 0:
        raise ValueError(f"seconds must be above 0, got {seconds}")
    if repeats not in ("sum", "latest"):
        raise ValueError(f"repeats must be 'sum' or 'latest', got {repeats!r}")
    if incomplete not in ("keep", "drop"):
        raise ValueError(f"incomplete must be 'keep' or 'drop', got {incomplete!r}")
    n, order = len(starts), np.argsort(starts.user, kind="stable")
    user, time, process = starts.user[order], starts.time[order], starts.process[order]
    is_first = np.ones(n, bool)
    is_first[1:] = user[1:] != user[:-1]
    first_of_user = np.maximum.accumulate(np.where(is_first, np.arange(n), 0))
    rows, columns, values = [], [], []
    for back in range(1, n_previous + 1):
        here = np.flatnonzero(np.arange(n) - back >= first_of_user)
        rows.append(here)
        columns.append(process[here - back])
        values.append(np.exp(-(time[here] - time[here - back]) / seconds))
    row, column, value = map(np.concatenate, (rows, columns, values))
    if repeats == "latest":  # later starts come first, and the first of equal cells stands
        _, kept = np.unique(row * len(starts.processes) + column, return_index=True)
        row, column, value = row[kept], column[kept], value[kept]
    shape = (n, len(starts.processes))
    X = sp.csr_matrix((value.astype(np.float32), (order[row], column)), shape=shape)
    X.sum_duplicates()
    X.eliminate_zeros()
    event = np.arange(n)
    if incomplete == "drop":
        complete = np.zeros(n, bool)
        complete[order] = np.arange(n) - n_previous >= first_of_user
        event = np.flatnonzero(complete)
        X = X[event]
    y = starts.process[event].astype(np.int64)
    return Windows(X, y, starts.user[event], starts.time[event], event)


def planted_intruder(
    n_users: int = 6,
    n_processes: int = 40,
    n_starts: int = 2000,
    *,
    stretch: tuple[float, float] = (0.9, 0.95),
    habit: float = 0.6,
    seed: int = 0,
) -> PlantedIntruder:
    """A made-up log with known habits, where the second user works from the first one's account.

    Every user has favourite processes, and to each process one of their own that tends to follow
    it: it does so with probability `habit` after a short gap, less after a long one. Gaps are
    seconds within a burst and minutes between bursts.

    Parameters
    ----------
    n_users, n_processes : int
        At least two each.
    n_starts : int
        Process starts of each account.
    stretch : tuple of two floats
        From where to where, as parts of the first account's starts, the second user is at work.
    habit : float
        Between 0 (favourites only) and 1.
    seed : int
        For numpy's default generator.

    Examples
    --------
    >>> from benchmarks.datasets import events
    >>> log = events.planted_intruder(n_starts=1000)
    >>> log.starts, int(log.intruder.sum()), log.victim
    (ProcessStarts(6,000 starts, 6 users, 40 processes), 50, 'U1@DOM1')
    """
    for name, value in (("n_users", n_users), ("n_processes", n_processes)):
        if value < 2:
            raise ValueError(f"{name} must be at least 2, got {value}")
    if n_starts < 1:
        raise ValueError(f"n_starts must be at least 1, got {n_starts}")
    if not 0 <= stretch[0] < stretch[1] <= 1:
        raise ValueError(f"stretch must be two rising numbers from 0 to 1, got {stretch}")
    if not 0 <= habit <= 1:
        raise ValueError(f"habit must lie between 0 and 1, got {habit}")
    rng = np.random.default_rng(seed)
    common = np.arange(1, n_processes + 1) ** -1.0
    favourites = common * rng.gamma(0.5, size=(n_users, n_processes)) + 1e-3
    favourites /= favourites.sum(axis=1, keepdims=True)
    followers = np.array([rng.choice(n_processes, n_processes, p=p) for p in favourites])
    place = np.arange(n_starts)
    planted = (place >= stretch[0] * n_starts) & (place < stretch[1] * n_starts)
    time, process = [], []
    for account in range(n_users):
        worker = np.where(planted & (account == 0), 1, account)
        gap = np.where(rng.random(n_starts) < 0.25, rng.exponential(900, n_starts), 5)
        gap = np.ceil(gap * rng.random(n_starts))
        time.append(np.cumsum(gap))
        process.append(_habitual_starts(rng, worker, gap, favourites, followers, habit))
    names = np.array([f"U{u + 1:0{len(str(n_users))}d}@DOM1" for u in range(n_users)])
    processes = np.array([f"P{p:0{len(str(n_processes))}d}" for p in range(n_processes)])
    all_times = np.concatenate(time).astype(np.int64)
    user = np.repeat(np.arange(n_users, dtype=np.int32), n_starts)
    starts = _in_order(all_times, user, names, np.concatenate(process), processes, {})
    intruder = np.zeros(len(starts), bool)
    intruder[np.flatnonzero(starts.user == 0)[planted]] = True
    return PlantedIntruder(starts, intruder, str(names[0]), str(names[1]))


def _habitual_starts(
    rng: np.random.Generator,
    worker: np.ndarray,
    gap: np.ndarray,
    favourites: np.ndarray,
    followers: np.ndarray,
    habit: float,
) -> np.ndarray:
    """Processes that the `worker` of each start chooses."""
    n = len(worker)
    follows = rng.random(n) < habit * np.exp(-gap / 60)
    chosen = np.empty(n, np.int32)
    for who in np.unique(worker):
        mine = worker == who
        chosen[mine] = rng.choice(favourites.shape[1], mine.sum(), p=favourites[who])
    for i in range(1, n):
        if follows[i]:
            chosen[i] = followers[worker[i], chosen[i - 1]]
    return chosen


def _parsed_lines(
    path: Path, max_lines: int | None
) -> Iterator[tuple[int, tuple[int, bytes, bytes, bytes]]]:
    """Number, and (time, user, process, kind), of each line."""
    number = 0
    with opened(path, max_bytes=1 << 62) as stream:  # logs are much larger than their files
        while chunk := stream.readlines(_CHUNK_BYTES):
            for line in chunk:
                if number == max_lines:
                    return
                number += 1
                yield number, _parse(path, number, line)


def _parse(path: Path, number: int, line: bytes) -> tuple[int, bytes, bytes, bytes]:
    parts = line.rstrip().split(b",")
    if len(parts) == 5 and all(parts):
        when, who, _, what, kind = parts
        if when.isdigit() and kind in (b"Start", b"End"):
            return int(when), who, what, kind
        wrong = "Start or End last" if when.isdigit() else "whole seconds first"
        expected = f"{wrong} ({_LINE})"
    else:
        expected = _LINE
    shown = line.rstrip()[:60].decode("utf-8", "backslashreplace")
    raise error_at(path, number, expected, repr(shown))


def _sorted_names(
    path: Path, codes: array[int], code_of: dict[bytes, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Codes that count sorted names, and these names."""
    try:
        names = np.array([name.decode() for name in code_of])
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: expected UTF-8 names, found {error.object!r}") from None
    order = np.argsort(names, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank[np.asarray(codes)], names[order]


def _in_order(
    time: np.ndarray,
    user: np.ndarray,
    users: np.ndarray,
    process: np.ndarray,
    processes: np.ndarray,
    report: dict[str, Any],
) -> ProcessStarts:
    order = np.argsort(time, kind="stable")  # starts of the same second stay in the file's order
    return ProcessStarts(time[order], user[order], process[order], users, processes, report)
