"""List kernels that tests compile, with seconds, and those compiled more than once.

    python -m pytest -p tests.compilations ...

Processes that a test starts are not included.
"""

import re
import time
from collections import Counter, defaultdict

import pytest
from numba.core import event

SHOWN = 25
_compiled: list[tuple[str, str, float]] = []  # by the test that runs now
_seen: list[tuple[str, str, str, float]] = []  # by all: test, kernel, types, seconds


class _Listener(event.Listener):
    """Recorder of the outermost compilations and their processor seconds."""

    def __init__(self):
        self.started = []

    def on_start(self, event):
        self.started.append(time.process_time())

    def on_end(self, event):
        seconds = time.process_time() - self.started.pop()
        if not self.started:
            function = event.data["dispatcher"].py_func
            name = f"{function.__module__}.{function.__name__}"
            _compiled.append((name, str(event.data["args"]), seconds))


def pytest_configure():
    event.register("numba:compile", _Listener())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    report.user_properties = [("compiled", entry) for entry in _compiled]
    _compiled.clear()
    return report


def pytest_runtest_logreport(report):
    for name, entry in report.user_properties:
        if name == "compiled":
            _seen.append((report.nodeid, *entry))


def pytest_terminal_summary(terminalreporter):
    write = terminalreporter.write_line
    terminalreporter.section("compilations")
    different = {(kernel, types) for _, kernel, types, _ in _seen}
    total = sum(seconds for *_, seconds in _seen)
    write(f"{len(_seen)} compilations of {len(different)} kernels in {total:.0f} s of a processor")
    for title, key in (("by kernel", 1), ("by test", 0)):
        write(f"{title}:")
        seconds: defaultdict[str, float] = defaultdict(float)
        times: Counter[str] = Counter()
        for entry in _seen:
            name = str(entry[key]).partition("[")[0]
            seconds[name] += entry[3]
            times[name] += 1
        for name in sorted(seconds, key=lambda name: -seconds[name])[:SHOWN]:
            write(f"{seconds[name]:8.1f} s {times[name]:4d}  {name}")
    write("the longest, with rows and parts, by the test that was first:")
    for test, kernel, types, took in sorted(_seen, key=lambda entry: -entry[3])[: 2 * SHOWN]:
        write(f"{took:8.1f} s  {kernel.rpartition('.')[2]} {_combination(types)}  {test}")


def _combination(types: str) -> str:
    """Return a short form of the types of a kernel's arguments: rows and tags."""
    held = re.findall(r"\w+Rows|(?<=readonly array\()\w+", types)
    return " ".join([*held, *re.findall(r"\w+(?=Tag\()", types)])
