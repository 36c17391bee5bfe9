"""A pytest plugin: workers of xdist write down the lines that they come by, too.

    coverage run --parallel-mode -m pytest -p tests.covered -n 2

Lines of modules that tests import at once are those of the process that starts the workers.
"""

from __future__ import annotations

import os

import coverage

_watching = coverage.Coverage(data_suffix=True) if "PYTEST_XDIST_WORKER" in os.environ else None
if _watching is not None:
    _watching.start()


def pytest_sessionfinish() -> None:
    """Before the worker says that it has finished, after which it may be ended any moment."""
    if _watching is not None:
        _watching.stop()
        _watching.save()
