"""Mutants are small changes of what follows, and of nothing else."""

import ast
import textwrap

from tests.mutants.mutations import mutants_of
from tests.mutants.trial import PACKAGE, Reached, _Changed

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


def test_an_import_gives_the_changed_source():
    path = PACKAGE / "noise" / "gumbel.py"
    mutant = next(m for m in mutants_of(path) if m.what.startswith("-math.exp"))
    finder = _Changed(mutant)
    assert finder.find_spec("bigcat.noise.gaussian", None) is None
    spec = finder.find_spec("bigcat.noise.gumbel", None)
    assert spec.loader.get_data("").decode() == mutant.source() != path.read_text()


def test_tests_of_a_line_are_the_quickest_that_reach_it(tmp_path):
    path, mutants = mutants_of_source(tmp_path)
    inside = next(m for m in mutants if m.what == "g(x) -> pass")
    constant = next(m for m in mutants if m.what == "0.5 -> 0.75")
    seconds = {"slow": 9.0, "quick": 0.5, "other": 1.0}
    reached = Reached({str(path): {inside.line: ["slow", "quick"], 99: ["other"]}}, seconds)
    assert reached.tests_of(inside) == ["quick"]  # both together take too long
    assert reached.tests_of(constant) == ["quick", "other"]
