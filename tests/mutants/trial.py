"""Tests of a mutant, in a process that is forked from one that has imported all but bigcat.

A test of a mutant is one that reaches the changed line.  Which these are, and how long they take,
is found by one run of the unchanged package (`Reached`).
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutations import Mutant

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bigcat"
#: Seconds of the processor that tests of a mutant take together without the change, at most; and
#: how often as long they may take with it, beside what starting takes.
MOST_SECONDS, PATIENCE, START = 8.0, 5.0, 20.0
_NO_TEST_FAILED, _NO_TEST_THERE = 0, 5


@dataclass(frozen=True)
class Reached:
    """Which tests come by which lines, and how long each takes."""

    lines: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The quickest first, up to `MOST_SECONDS`; of a constant of the module, those of it."""
        lines = self.lines.get(str(mutant.path), {})
        found = set(lines.get(mutant.line, ()))
        if not found:
            found = {test for tests in lines.values() for test in tests}
        chosen: list[str] = []
        total = 0.0
        for test in sorted(found, key=lambda test: self.seconds[test]):
            total += self.seconds[test]
            if total > MOST_SECONDS and chosen:
                break
            chosen.append(test)
        return chosen


class _Watch:
    """Notes which test runs, for `coverage`, and how long it takes."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.coverage.switch_context(item.nodeid)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begin
            self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def reached(files: Sequence[str], sources: Sequence[Path]) -> Reached:
    """Run tests of the unchanged package; those that fail or are skipped are left out."""
    with tempfile.NamedTemporaryFile() as file:

        def run() -> int:
            import coverage

            watching = coverage.Coverage(data_file=None, include=[str(path) for path in sources])
            watching.start()
            watch = _Watch(watching)
            _pytest([*files, "-m", "not slow and not data"], [watch, _AllParameters()])
            watching.stop()
            data = watching.get_data()
            lines = {}
            for path in map(str, sources):
                by_line = data.contexts_by_lineno(path)
                lines[path] = {
                    n: [t for t in tests if t in watch.passed] for n, tests in by_line.items()
                }
            Path(file.name).write_text(json.dumps([lines, watch.seconds]))
            return 0

        if _forked(run, 3600) != 0:
            raise RuntimeError("the run of the unchanged package failed")
        lines, seconds = json.loads(Path(file.name).read_text())
    numbered = {path: {int(n): t for n, t in of.items()} for path, of in lines.items()}
    return Reached(numbered, seconds)


def is_killed(mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
    """Does one of the tests fail, or take too long?"""

    def run() -> int:
        sys.meta_path.insert(0, _Changed(mutant))
        return _pytest(["-x", *tests], [_Strict()])

    code = _forked(run, START + PATIENCE * seconds)
    return code not in (_NO_TEST_FAILED, _NO_TEST_THERE)


class _AllParameters:
    """A sample of the parameters would do for lines, and not for what they say."""

    def pytest_configure(self) -> None:
        from tests import quick

        quick.MOST_PARAMETERS = 1_000_000


class _Strict(_AllParameters):
    def pytest_configure(self) -> None:
        from tests import quick

        super().pytest_configure()
        quick.too_long = pytest.fail
        quick.LONGEST *= PATIENCE


def _pytest(arguments: Sequence[str], plugins: list[Any]) -> int:
    usual = ["-q", "-p", "tests.quick", "-p", "no:cacheprovider", "-W", "ignore"]
    return int(pytest.main([*usual, *arguments], plugins))


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Gives the source of a mutant when its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        parts = mutant.path.relative_to(PACKAGE.parent).with_suffix("").parts
        self.name = ".".join(parts).removesuffix(".__init__")

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.mutant.path, loader=self)

    def get_filename(self, fullname: str) -> str:
        return str(self.mutant.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self.mutant.source().encode()

    def is_package(self, fullname: str) -> bool:
        return self.mutant.path.name == "__init__.py"


def _forked(run: Callable[[], int], seconds: float) -> int:
    """What `run` returns in a process of its own; another number where it dies or takes longer."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    with contextlib.suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.chdir(ROOT)
        code = run()
    os._exit(code)
