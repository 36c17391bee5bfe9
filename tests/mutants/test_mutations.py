"""Mutants are small changes of what follows, and of nothing else."""

import ast
import subprocess
import sys
import textwrap

import pytest

from tests.mutants.mutations import mutants_of
from tests.mutants.reached import Reached
from tests.mutants.trial import PACKAGE, ROOT, _Changed, exchange, functions_by_place

SOURCE = '''
    """A module of 1 line."""
    LIMIT: float = 0.5


    @decorated(7)
    def f(x: Tuple[1, 2], out, n=3):
        """1 + 1"""
        if x < LIMIT and not n:
            raise ValueError(f"{x + 1} is below {LIMIT}")
        out[0] = -x
        out[1] += 2
        for i in range(n):
            if i == x:
                break
        g(x)
        return x * 2.0 if n else x
'''


def mutants_of_source(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(textwrap.dedent(SOURCE))
    return path, mutants_of(path)


def test_each_kind_of_change(tmp_path):
    _, mutants = mutants_of_source(tmp_path)
    found = {mutant.what for mutant in mutants}
    assert found == {
        "0.5 -> 0.75",
        "3 -> 4",
        "x < LIMIT -> x <= LIMIT",
        "x < LIMIT -> x >= LIMIT",
        "x < LIMIT and (not n) -> x < LIMIT or not n",
        "not n -> n",
        "out[0] = -x -> pass",
        "0 -> 1",
        "-x -> x",
        "out[1] += 2 -> out[1] -= 2",
        "out[1] += 2 -> pass",
        "1 -> 2",
        "2 -> 3",
        "i == x -> i != x",
        "break -> continue",
        "g(x) -> pass",
        "x * 2.0 -> x / 2.0",
        "2.0 -> 3.0",
        "x * 2.0 if n else x -> x if n else x * 2.0",
    }


def test_one_thing_is_changed(tmp_path):
    path, mutants = mutants_of_source(tmp_path)
    whole = ast.unparse(ast.parse(path.read_text())).splitlines()
    for mutant in mutants:
        lines = mutant.source().splitlines()
        assert len(lines) == len(whole)
        assert sum(a != b for a, b in zip(lines, whole)) == 1, mutant.name


def test_what_numpy_reads_alike_is_one_thing(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("y = x.reshape(-1, 3)\n")
    assert {mutant.what for mutant in mutants_of(path)} == {"-1 -> 1", "3 -> 4"}


def test_an_import_gives_the_changed_source():
    path = PACKAGE / "noise" / "gumbel.py"
    mutant = next(m for m in mutants_of(path) if m.what.startswith("-math.exp"))
    finder = _Changed(mutant)
    assert finder.find_spec("bigcat.noise.gaussian", None) is None
    spec = finder.find_spec("bigcat.noise.gumbel", None)
    assert spec.loader.get_data("").decode() == mutant.source() != path.read_text()


def reached_by(path, lines, seconds, **fixtures):
    of = {test: fixtures.get(test, []) for test in seconds if not test.startswith("fixture")}
    return Reached({str(path): lines}, seconds, of)


def mutant_of(mutants, what):
    return next(m for m in mutants if m.what == what)


def test_tests_of_a_line_are_the_quickest_that_reach_it(tmp_path):
    path, mutants = mutants_of_source(tmp_path)
    inside = mutant_of(mutants, "g(x) -> pass")
    lines = {str(inside.line): ["t[slow]", "t[quick]", "one"], "99": ["other"], "3": [""]}
    seconds = {"t[slow]": 9.0, "t[quick]": 0.5, "one": 1.0, "other": 1.0}
    seconds |= {"looks[a]": 0.1, "looks[b]": 0.8}
    found = reached_by(path, lines, seconds)
    assert found.tests_of(inside) == ["t[quick]", "one"]  # all together take too long
    constant = mutant_of(mutants, "0.5 -> 0.75")
    assert found.only_imported(constant)
    assert not found.only_imported(inside)
    assert found.tests_of(constant) == ["looks[a]", "looks[b]", "t[quick]", "one", "other"]
    assert found.tests_of(mutant_of(mutants, "break -> continue")) == []


def test_a_shared_fixture_costs_what_it_costs_once(tmp_path):
    path, mutants = mutants_of_source(tmp_path)
    inside = mutant_of(mutants, "g(x) -> pass")
    seconds = {"a": 0.1, "b": 1.5, "c": 1.0, "fixture f": 4.0}
    found = reached_by(
        path, {str(inside.line): ["a", "b", "c"]}, seconds, a=["fixture f"], b=["fixture f"]
    )
    assert found.tests_of(inside) == ["c", "a"]  # with "b" more than six seconds
    assert found.cost(["a", "b"]) == pytest.approx(5.6)


def test_functions_get_the_code_of_a_mutant(tmp_path):
    path, mutants = mutants_of_source(tmp_path)
    names: dict = {}
    source = path.read_text().replace("@decorated(7)", "").replace("x: Tuple[1, 2]", "x")
    path.write_text(source)
    exec(compile(source, str(path), "exec"), names)
    names["g"] = lambda x: None
    mutants = mutants_of(path)
    assert mutant_of(mutants, "0.5 -> 0.75").functions() is None  # there when it is imported
    assert mutant_of(mutants, "3 -> 4").functions() is None
    out = [0.0, 0.0]
    assert names["f"](1.0, out) == 2.0
    exchange(mutant_of(mutants, "x * 2.0 -> x / 2.0"), functions_by_place({str(path)})[str(path)])
    assert names["f"](1.0, out) == 0.5


def test_a_constant_gets_its_value_wherever_it_was_imported_to(monkeypatch):
    from bigcat.bayes import _laplace_plan, _low_rank_frame

    for module in (_laplace_plan, _low_rank_frame):
        monkeypatch.setattr(module, "MOST_TURNED", _low_rank_frame.MOST_TURNED)  # back in the end
    path = PACKAGE / "bayes" / "_low_rank_frame.py"
    mutant = mutant_of(mutants_of(path), "2048 -> 2049")
    assert mutant.functions() is None
    exchange(mutant, {})
    assert _low_rank_frame.MOST_TURNED == _laplace_plan.MOST_TURNED == 2049  # type: ignore
    default = next(m for m in mutants_of(path) if m.assignment() is None and not m.functions())
    assert "->" in default.what


@pytest.mark.slow
def test_a_default_is_another_one_where_examples_are_tried_as_well():
    """pytest imports a file whose examples it tries, and would find the one on the disk."""
    code = """
from tests.mutants import trial
from tests.mutants.mutations import mutants_of
path = trial.PACKAGE / "bayes" / "augment_reduce.py"
(mutant,) = [m for m in mutants_of(path) if m.what.startswith("0.3 -> ")]
looks = "tests/test_defaults.py::test_docstrings_name_the_defaults[AugmentReducePosterior]"
example = "src/bigcat/bayes/augment_reduce.py::bigcat.bayes.augment_reduce.AugmentReducePosterior"
print([trial._is_killed_from_import(mutant, tests, 5.0) for tests in ([example], [example, looks])])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.split("\n")[-2] == "[False, True]", done.stderr
