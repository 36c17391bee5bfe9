"""Which tests come by which lines, and how long each takes, by one run of the unchanged package."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutations import Mutant

#: Seconds of the processor that tests of a mutant take together without the change, at most.
MOST_SECONDS = 6.0
#: What `coverage` calls the time in which modules are imported.
_IMPORT = ""
_FIXTURE = "fixture "


@dataclass(frozen=True)
class Reached:
    """Tests of lines, and what they cost.

    A fixture that many tests share costs what it costs once, in whichever test comes first; all of
    them come by its lines.
    """

    lines: dict[str, dict[str, list[str]]]  # tests by path and line
    seconds: dict[str, float]  # of tests by themselves, and of fixtures
    fixtures: dict[str, list[str]]  # of tests, those that are shared

    @classmethod
    def load(cls, path: Path) -> Reached:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    def tests_of(self, mutant: Mutant) -> list[str]:
        """One of each test function, the quickest first, then more, up to `MOST_SECONDS`.

        Of a line that only imports come by: first those that come by no line of any, which look at
        what is declared, such as defaults; then tests of the whole module.
        """
        lines = self.lines.get(str(mutant.path), {})
        found = {t for line in (mutant.line, mutant.statement) for t in lines.get(str(line), ())}
        first: set[str] = set()
        if found == {_IMPORT}:
            first = self._of_declarations()
            found = {test for tests in lines.values() for test in tests}
        chosen: list[str] = []
        for test in [*self._in_turn(first), *self._in_turn(found - {_IMPORT})]:
            if chosen and self.cost([*chosen, test]) > MOST_SECONDS:
                continue
            chosen.append(test)
        return chosen

    def only_imported(self, mutant: Mutant) -> bool:
        """Does no test come by its line, which is run when modules are imported?"""
        lines = self.lines.get(str(mutant.path), {})
        found = {t for line in (mutant.line, mutant.statement) for t in lines.get(str(line), ())}
        return found == {_IMPORT}

    def _of_declarations(self) -> set[str]:
        running = {
            test for lines in self.lines.values() for found in lines.values() for test in found
        }
        return set(self.fixtures) - running

    def cost(self, tests: Iterable[str]) -> float:
        needed = {name for test in tests for name in (test, *self.fixtures[test])}
        return sum(self.seconds[name] for name in needed)

    def _in_turn(self, tests: Iterable[str]) -> list[str]:
        functions: dict[str, list[str]] = defaultdict(list)
        for test in sorted(tests, key=lambda test: (self.cost([test]), test)):
            functions[test.partition("[")[0]].append(test)
        turns = {test: i for found in functions.values() for i, test in enumerate(found)}
        return sorted(turns, key=lambda test: (turns[test], self.cost([test]), test))


def shared_fixtures(item: Any) -> list[str]:
    """Names of those that live longer than one test."""
    known = item._fixtureinfo.name2fixturedefs if hasattr(item, "_fixtureinfo") else {}
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return [
        _name(definitions[-1], indices.get(name, 0))
        for name, definitions in known.items()
        if definitions[-1].scope != "function"
    ]


def _name(definition: Any, index: int) -> str:
    return f"{_FIXTURE}{definition.baseid}::{definition.argname}[{index}]"


class Watch:
    """A plugin that notes which test runs, for `coverage`, and how long it takes."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.now = ""
        self.inside = 0.0  # seconds of shared fixtures in the test of now
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, list[str]] = {}
        self.passed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.now, self.inside = item.nodeid, 0.0
        self.fixtures[item.nodeid] = shared_fixtures(item)
        self.coverage.switch_context(self.now)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.process_time() - begin - self.inside
            self.coverage.switch_context(_IMPORT)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Any:
        if fixturedef.scope == "function":
            return (yield)
        name = _name(fixturedef, getattr(request, "param_index", 0))
        self.coverage.switch_context(name)
        begin = time.process_time()
        try:
            return (yield)
        finally:
            self.seconds[name] = time.process_time() - begin
            self.inside += self.seconds[name]
            self.coverage.switch_context(self.now)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)

    def reached(self, data: Any, sources: Sequence[Path]) -> Reached:
        """By tests that passed: others say nothing about a mutant."""
        users: dict[str, list[str]] = defaultdict(list)
        for test in sorted(self.passed):
            users[test].append(test)
            for fixture in self.fixtures[test]:
                users[fixture].append(test)
                self.seconds.setdefault(fixture, 0.0)
        users[_IMPORT].append(_IMPORT)
        lines = {
            str(path): {
                str(line): sorted({test for name in names for test in users.get(name, ())})
                for line, names in data.contexts_by_lineno(str(path)).items()
            }
            for path in sources
        }
        return Reached(lines, self.seconds, {test: self.fixtures[test] for test in self.passed})
