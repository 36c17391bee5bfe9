"""Tests of a mutant, each in a process of its own that is forked from one that is ready.

That one has imported everything and collected the tests: functions get their other code, and
constants of modules their other values, which takes no time.  What else there is, and constants
whose change no test has noticed so, has to be there when the module is imported, and the process
that is forked has imported all but bigcat.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.mutants.mutations import Mutant, Place
from tests.mutants.reached import Reached, Watch

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "bigcat"
#: How often as long as without the change tests may take, and how much longer they may always:
#: shorter for code that is exchanged, since nothing is imported.  In seconds of the processor.
PATIENCE, READY, START = 3.0, 2.0, 15.0
#: Of one test without compilation and under `coverage`, which takes a multiple of the usual time.
LONGEST = 3.0
#: Seconds of the clock after which a process is one that waits for nothing.
_LONGEST_WAIT = 300.0
_MOST_MEMORY = 8 << 30
_OPTIONS = ("-q", "-p", "tests.quick", "-p", "no:cacheprovider", "-W", "ignore", "--tb=no")
_SELECTION = ("-m", "not slow and not data")

#: Called with each mutant: whether a test noticed it, and how many were asked.
Report = Callable[[Mutant, bool, int], None]


def reached(files: Sequence[str], sources: Sequence[Path]) -> Reached:
    """Run tests of the unchanged package; those that fail or are skipped are left out."""
    with tempfile.NamedTemporaryFile() as file:

        def run() -> int:
            import coverage

            watching = coverage.Coverage(data_file=None, include=[str(path) for path in sources])
            watching.start()
            watch = Watch(watching)
            _pytest([*files, *_SELECTION], [watch, _Limits(LONGEST, pytest.skip)])
            watching.stop()
            watch.reached(watching.get_data(), sources).save(Path(file.name))
            return 0

        if _forked(run, 3600) != 0:
            raise RuntimeError("the run of the unchanged package failed")
        return Reached.load(Path(file.name))


def try_all(
    mutants: Sequence[Mutant], files: Sequence[str], found: Reached, report: Report
) -> list[Mutant]:
    """Those that no test notices."""
    survivors, ready, imported = [], [], []
    for mutant in mutants:
        if not found.tests_of(mutant):
            survivors.append(mutant)
            report(mutant, False, 0)
        elif can_be_exchanged(mutant, found):
            ready.append(mutant)
        else:
            imported.append(mutant)
    with tempfile.NamedTemporaryFile() as file:
        trials = _Trials(ready, found, report, Path(file.name))
        if _forked(lambda: _pytest([*files, *_SELECTION], [trials]), 36_000) != 0:
            raise RuntimeError("collecting the tests failed")
        unnoticed = [ready[i] for i in json.loads(Path(file.name).read_text())]
    survivors += [mutant for mutant in unnoticed if mutant.functions() is not None]
    imported += [mutant for mutant in unnoticed if mutant.functions() is None]
    for mutant in imported:
        tests = found.tests_of(mutant)
        dead = _is_killed_from_import(mutant, tests, found.cost(tests))
        report(mutant, dead, len(tests))
        survivors += [] if dead else [mutant]
    return sorted(survivors, key=mutants.index)


def can_be_exchanged(mutant: Mutant, found: Reached) -> bool:
    """Is it code of functions that tests come by, or a constant of the module?"""
    if mutant.functions() is None:
        return mutant.assignment() is not None
    return not found.only_imported(mutant)


class _Trials:
    """A plugin that tries mutants in the place of running tests; numbers of survivors to a file."""

    def __init__(
        self, mutants: Sequence[Mutant], found: Reached, report: Report, survivors: Path
    ) -> None:
        self.mutants = mutants
        self.found = found
        self.report = report
        self.survivors = survivors

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        functions = functions_by_place({str(mutant.path) for mutant in self.mutants})
        survived = []
        for i, mutant in enumerate(self.mutants):
            tests = [test for test in self.found.tests_of(mutant) if test in items]
            limit = PATIENCE * self.found.cost(tests) + READY

            def run(mutant: Mutant = mutant, tests: list[str] = tests) -> int:
                exchange(mutant, functions[str(mutant.path)])
                return int(_any_fails([items[test] for test in tests], self.found))

            dead = _forked(run, limit) != 0
            if dead or mutant.functions() is not None:
                self.report(mutant, dead, len(tests))
            if not dead:
                survived.append(i)
        self.survivors.write_text(json.dumps(survived))
        return True


def functions_by_place(paths: set[str]) -> dict[str, dict[Place, list[FunctionType]]]:
    """All functions there are whose source is in one of the files."""
    gc.unfreeze()  # or those that `compile_once` keeps from the collector would be left out
    found: dict[str, dict[Place, list[FunctionType]]] = {path: defaultdict(list) for path in paths}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in found:  # no weak proxy
            code = thing.__code__
            found[code.co_filename][(code.co_qualname, code.co_firstlineno)].append(thing)
    return found


def exchange(mutant: Mutant, functions: dict[Place, list[FunctionType]]) -> None:
    """Give functions the code of a mutant, or a constant its value wherever it was imported to."""
    changed = mutant.assignment() if mutant.functions() is None else None
    if changed is None:
        for place, code in (mutant.functions() or {}).items():
            for function in functions.get(place, ()):
                function.__code__ = code
        return
    names, code = changed
    module = sys.modules[module_name(mutant.path)]
    exec(code, vars(module))
    for name in names:
        for other in _importers(module.__name__, name):
            setattr(other, name, getattr(module, name))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _importers(module: str, name: str) -> list[ModuleType]:
    """Modules of the package and of its tests that have a name from another one."""
    found = []
    for other in list(sys.modules.values()):
        file = str(getattr(other, "__file__", None))
        if name in vars(other) and file.startswith(str(ROOT)) and file.endswith(".py"):
            tree = ast.parse(Path(file).read_text(encoding="utf-8"))
            if any(
                isinstance(node, ast.ImportFrom)
                and node.module == module
                and name in {alias.name for alias in node.names}
                for node in ast.walk(tree)
            ):
                found.append(other)
    return found


def _any_fails(items: Sequence[pytest.Item], found: Reached) -> bool:
    from tests import quick

    quick.too_long = pytest.fail
    for item, following in zip(items, [*items[1:], None]):
        quick.LONGEST = READY + PATIENCE * found.cost([item.nodeid])
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if item.session.testsfailed:
            return True
    return False


def _is_killed_from_import(mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
    def run() -> int:
        changed = _Changed(mutant)
        sys.meta_path.insert(0, changed)
        importlib.import_module(changed.name)  # pytest reads a file whose examples it tries itself
        files = sorted({test.partition("::")[0] for test in tests})
        limits = _Limits(READY + PATIENCE * seconds, pytest.fail)
        return _pytest(["-x", *files, *_SELECTION], [_Only(tests), limits])

    return _forked(run, START + PATIENCE * seconds) != 0


class _Only:
    """A plugin that runs some of the tests, in their order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.tests = tests

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = {item.nodeid: item for item in items}
        items[:] = [known[test] for test in self.tests if test in known]


class _Limits:
    """A plugin: all parameters, since a sample of them would do for lines and not for what they
    say, and so long for each test."""

    def __init__(self, longest: float, too_long: Callable[[str], Any]) -> None:
        self.longest = longest
        self.too_long = too_long

    def pytest_configure(self) -> None:
        from tests import quick

        quick.MOST_PARAMETERS = 1_000_000
        quick.LONGEST, quick.too_long = self.longest, self.too_long


def _pytest(arguments: Sequence[str], plugins: list[Any]) -> int:
    if not any(isinstance(plugin, _Limits) for plugin in plugins):
        plugins = [*plugins, _Limits(LONGEST, pytest.fail)]
    return int(pytest.main([*_OPTIONS, *arguments], plugins))


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):  # type: ignore[misc]
    """Gives the source of a mutant when its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = module_name(mutant.path)

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
        return _ended(child, _LONGEST_WAIT + 5.0 * seconds)
    code = 99
    with contextlib.suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        os.chdir(ROOT)
        code = run()
    os._exit(code)


def _ended(child: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
