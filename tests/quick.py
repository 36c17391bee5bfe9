"""A pytest plugin for runs where a sample of the tests will do, such as those without compilation.

    NUMBA_DISABLE_JIT=1 python -m pytest -p tests.quick tests/test_noise.py

Batteries run for every member of a registry, and for many values of each: some of these, evenly
spread, go through the same lines as all of them do.  A test that has not ended after some seconds
of the processor is stopped and skipped; the lines that it reached count.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

#: Limit per test, in seconds of the processor.
LONGEST = 1.0
#: Parameters of one test function that are tried.
MAX_PARAMETERS = 4
#: Result of a test that takes longer.
too_long: Callable[[str], Any] = pytest.skip


#: Files that hold locks: those of coverage, of imports and of threads.
_NOT_IN = ("/coverage/", "importlib", "threading.py")


class _TooLongError(BaseException):
    """Time limit of a test; not an Exception, so that no test catches it."""


def _stop(_signal: int, frame: Any) -> None:
    """Raise, but not where a lock would stay closed; the next signal comes soon.

    What called pytest, which may be one of those files, holds none.
    """
    while frame is not None and "/_pytest/" not in frame.f_code.co_filename:
        if any(name in frame.f_code.co_filename for name in _NOT_IN):
            return
        frame = frame.f_back
    raise _TooLongError


def pytest_configure() -> None:
    signal.signal(signal.SIGVTALRM, _stop)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for found in by_function.values():
        step = max(1.0, len(found) / MAX_PARAMETERS)
        kept |= {found[int(i * step)].nodeid for i in range(min(len(found), MAX_PARAMETERS))}
    left_out = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[Any]:
    # Again and again: an exception in a callback from C is printed and dropped.
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST, 0.05)
    try:
        return (yield)
    except _TooLongError:
        too_long(f"more than {LONGEST} s of the processor")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
