"""Compiled code: cached between processes, never stale, and the same as plain Python.

The first tests fit every registered method and noise, here and in other processes.  They use the
ordinary cache, and rows as those of other files are: what is compiled serves them, or the other way
round.
"""

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from fits import LONG, weights_of_fits

import bigcat
from bigcat.compile import cache, generic, implement, kernel, sources
from bigcat.noise import Gaussian
from bigcat.verbs import log_cdf

PACKAGE = Path(bigcat.__file__).parent

ONE_KERNEL = """
import json
import numpy as np
import bigcat
from bigcat.compile import source_hash
from bigcat.noise import Gaussian, _base
out = np.empty(1)
_base._map_verb(Gaussian().lower(), _base._LOG_CDF, np.array([0.5]), out)
value = float(out[0])
misses = sum(_base._map_verb.dispatcher.stats.cache_misses.values())
where = getattr(_base._map_verb.dispatcher._cache, "cache_path", None)
print(json.dumps([value, misses, where, source_hash(), bigcat.__file__]))
"""


FITS = (Path(__file__).parent / "fits.py").read_text()


def run(script, tmp_path, path=None, arguments=(), **environment):
    """Run a script from a file in a new process; its printed JSON."""
    file = tmp_path / "script.py"
    file.write_text(script)
    kept = "NUMBA_CACHE_DIR"
    clean = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_") or k == kept}
    path = os.pathsep.join([str(path or PACKAGE.parent), str(Path(__file__).parent)])
    environment = {**clean, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(
        [sys.executable, str(file), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module", params=["quick", pytest.param("all", marks=pytest.mark.slow)])
def which(request):
    return request.param


@pytest.fixture(scope="module")
def first(which):
    """Weights of all fits there are, or nearly so; their kernels are in the cache from now on."""
    return weights_of_fits(which)


LOOPS = ("bigcat.kernels.train_rows.train_rows", "bigcat.bounds._base.full_rows")


def test_a_second_process_compiles_nothing(first, which, tmp_path):
    second = run(FITS, tmp_path, arguments=[which])
    assert Path(second["file"]).parent == PACKAGE
    assert {name: misses for name, (_, misses) in second["stats"].items() if misses} == {}
    for name in LOOPS:
        hits, _ = second["stats"][name]
        assert hits >= 4
    assert second["weights"] == first  # and the bits are the same


def test_every_registered_method_and_noise_was_fitted(first, which):
    found = [name.rsplit(" ", 1) for name in first]
    rows = bigcat.methods()
    assert {method for method, _ in found} == {row["name"] for row in rows}
    assert {noise for _, noise in found} == {name for row in rows for name in row["noises"]}
    left_out = sum(len(row["noises"]) for row in rows) - len(found)
    assert left_out == (0 if which == "all" else len(LONG))
    for weights in first.values():
        assert np.isfinite(weights[0]).all()


def test_plain_python_gives_the_same_fits(first, which, tmp_path):
    plain = run(FITS, tmp_path, arguments=[which], NUMBA_DISABLE_JIT="1")
    assert plain["stats"] == {}  # nothing was compiled
    assert plain["weights"].keys() == first.keys()
    for name, weights in plain["weights"].items():
        for found, expected in zip(weights, first[name]):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, err_msg=name)


@pytest.fixture
def copied(tmp_path):
    """The package, copied to where it can be edited."""
    home = tmp_path / "copy"
    shutil.copytree(PACKAGE, home / "bigcat", ignore=shutil.ignore_patterns("__pycache__"))
    return home


def test_an_edit_of_what_compiles_changes_the_hash_and_no_other(copied, monkeypatch):
    root = copied / "bigcat"
    monkeypatch.setattr(sources, "__file__", str(root / "compile" / "sources.py"))
    hash_now = sources.source_hash.__wrapped__
    hashes = {hash_now()}
    assert hashes == {hash_now()}
    for edited in ("numerics/special.py", "noise/gaussian.py", "kernels/train_rows.py", "verbs.py"):
        with (root / edited).open("a") as file:
            file.write("\n# edited\n")
        hashes.add(hash_now())
    (root / "noise" / "new.py").write_text("")
    hashes.add(hash_now())
    (root / "noise" / "new.py").rename(root / "noise" / "newer.py")
    hashes.add(hash_now())
    assert len(hashes) == 7
    for edited in ("cli/demo.py", "estimators/linear.py", "data/files.py", "training/loop.py"):
        with (root / edited).open("a") as file:
            file.write("\n# edited\n")
        hashes.add(hash_now())
    assert len(hashes) == 7


@functools.cache
def syntax_trees():
    """Every file of the package: its name inside it, and its syntax tree."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [(p.relative_to(PACKAGE).as_posix(), ast.parse(p.read_text())) for p in paths]


def imported(tree):
    """Modules that a file imports, whole names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_every_kernel_is_in_the_hash():
    """`lint-imports` holds what is hashed to importing nothing else; so here kernels suffice."""
    hashed = {name for name, _ in sources.compiled_sources()}
    decorators = {f"bigcat.compile.{name}" for name in ("device", "implement", "kernel")}
    compiles = {name for name, tree in syntax_trees() if decorators & set(imported(tree))}
    assert len(compiles) > 30
    assert compiles - {"extending.py"} <= hashed  # which has no kernels


def test_only_one_package_talks_to_numba():
    talks = {
        name
        for name, tree in syntax_trees()
        if any(module.split(".")[0] in ("numba", "llvmlite") for module in imported(tree))
    }
    assert {name.split("/")[0] for name in talks} == {"compile"}


def test_an_edited_callee_is_not_served_from_the_cache(copied, tmp_path):
    """An edit in another file than the entry point, which numba by itself misses."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first, misses, where, stamp, file = run(ONE_KERNEL, tmp_path, copied, **cache)
    assert Path(file).parent == copied / "bigcat"
    assert str(tmp_path / "cache") in where
    assert misses == 1
    again, misses, _, _, _ = run(ONE_KERNEL, tmp_path, copied, **cache)
    assert (again, misses) == (first, 0)
    callee = copied / "bigcat" / "numerics" / "special.py"
    text = callee.read_text()
    assert "    return rest + vector_log(below), " in text
    callee.write_text(text.replace("return rest + vector_log", "return 1.0 + rest + vector_log"))
    edited, misses, _, new_stamp, _ = run(ONE_KERNEL, tmp_path, copied, **cache)
    assert misses == 1
    assert new_stamp != stamp
    assert edited == pytest.approx(1.0 + first)
    # The old version's code is not left behind.
    assert len(list((tmp_path / "cache").rglob("*_map_verb-*.nbc"))) == 1


def test_works_where_nothing_is_writable(copied, tmp_path):
    for folder in [p for p in (copied / "bigcat").rglob("*") if p.is_dir()] + [copied / "bigcat"]:
        (folder / "__pycache__").write_text("a file where numba wants a folder")
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    nowhere = str(blocked / "deeper")
    places = {"NUMBA_CACHE_DIR": nowhere, "XDG_CACHE_HOME": nowhere, "HOME": nowhere}
    value, _, where, _, _ = run(ONE_KERNEL, tmp_path, copied, **places)
    assert where is None
    assert value == pytest.approx(-0.36894641528865635)


def test_processes_that_compile_at_once_do_not_mix_up_kernels(tmp_path, monkeypatch):
    """Both look at the index before either writes to it."""
    files = [cache._CacheFiles(str(tmp_path), "kernel-1.py311", "stamp") for _ in range(2)]
    before = files[0]._load_index()
    files[0].save("of a", "code a")
    monkeypatch.setattr(files[1], "_load_index", lambda: dict(before))
    files[1].save("of b", "code b")
    files[0].save("of c", "code c")
    third = cache._CacheFiles(str(tmp_path), "kernel-1.py311", "stamp")
    assert third.load("of a") in (None, "code a")
    assert third.load("of b") in (None, "code b")
    assert third.load("of c") == "code c"
    fresh = cache._CacheFiles(str(tmp_path), "kernel-1.py311", "another stamp")
    assert fresh.load("of c") is None
    fresh.save("of c", "newer code")
    assert fresh.load("of c") == "newer code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1


class GoneTag(NamedTuple):
    unit: int = 0


def test_an_index_that_names_a_tag_which_is_gone_is_not_read(tmp_path, monkeypatch):
    """Unpickling fails before the stamp of the version can be read."""
    files = cache._CacheFiles(str(tmp_path), "kernel-1.py311", "stamp")
    files.save(GoneTag(), "old code")
    assert files.load(GoneTag()) == "old code"
    monkeypatch.delitem(globals(), "GoneTag")
    assert files.load("of b") is None
    files.save("of b", "new code")
    assert files.load("of b") == "new code"
    assert len(list(tmp_path.glob("*.nbc"))) == 1  # what nobody can name is not left behind


class LonelyTag(NamedTuple):
    unit: int = 0


@kernel
def call_log_cdf(noise):
    return log_cdf(noise, 0.0)


def test_a_tag_without_an_implementation_is_named():
    with pytest.raises(numba.TypingError, match=r"LonelyTag has no implementation of log_cdf\(\)"):
        call_log_cdf(LonelyTag())
    with pytest.raises(TypeError, match=r"LonelyTag has no implementation of log_cdf\(\)"):
        log_cdf(LonelyTag(), 0.0)


class OrdinaryTag(NamedTuple):
    unit: int = 0


class SpecialTag(NamedTuple):
    factor: float


@generic
def scaled(part, x):
    """x, unless the part has a rule of its own."""


@implement(scaled, None)
def _(part, x):
    return x


@implement(scaled, SpecialTag)
def _(part, x):
    return part.factor * x


@kernel
def call_scaled(part, x):
    return scaled(part, x)


@pytest.mark.parametrize("call", [call_scaled, scaled], ids=["compiled", "plain"])
def test_a_default_holds_where_a_tag_has_no_implementation(call):
    assert call(OrdinaryTag(), 1.5) == call(LonelyTag(), 1.5) == 1.5
    assert call(SpecialTag(3.0), 1.5) == 4.5
    assert scaled.__doc__ == "x, unless the part has a rule of its own."


def test_a_default_does_not_reach_what_is_no_tag():
    with pytest.raises(numba.TypingError):
        call_scaled(1.0, 1.5)


def test_a_kernel_is_ready_once_it_is_compiled():
    names: dict[str, Any] = {}
    exec("def twice(x): return 2.0 * x", names)  # no module and no file
    call = kernel(names["twice"])
    assert not call.is_ready(1.5)
    assert call(1.5) == 3.0
    assert call.is_ready(2.5)
    assert not call.is_ready(np.zeros(3))


def test_parts_from_outside_the_package_are_not_cached_on_disk():
    """Their source is not in the package's hash: an edited one would run its old code."""
    tag = numba.typeof(LonelyTag())
    nested = numba.typeof((1, (LonelyTag(), 2.0)))
    inside = numba.typeof(Gaussian().lower())
    assert cache._has_outside_part([inside, tag])
    assert cache._has_outside_part([nested])
    assert not cache._has_outside_part([inside, numba.typeof(1.0), numba.typeof((inside.name, 1))])
