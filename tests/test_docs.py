"""The documentation is true: its commands, code, links, tables and skeletons are run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import slow

import bigcat
from bigcat import LinearClassifier, bounds, combinations, noise, samplers, solvers
from bigcat.numerics import random as _random

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SKELETONS = ("noise", "bound", "sampler", "solver")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


# Pages


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_work(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text)
    local = [t.partition("#")[0] for t in targets if not t.startswith(("http", "#"))]
    assert [t for t in local if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_are_python(page):
    faults = []
    for block in blocks(page, "python"):
        body = block if "# FILL" not in block else "def gap():\n" + indented(block, "    ")
        try:
            compile(body, name_of(page), "exec")
        except SyntaxError as error:
            faults.append(f"{error}: {error.text}")
    assert faults == []


# README and CONTRIBUTING


def test_readme_starts_with_pip_and_fits_one_screen():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert "pip install ." in lines[:12]
    assert "make test" in lines  # .ci/run reads it
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("max_rows", ["14_000", slow("50_000")])
def test_readme_python_runs(capsys, max_rows):
    """As it stands, which takes a minute; and otherwise with fewer rows."""
    (block,) = blocks(ROOT / "README.md", "python")
    assert block.count("max_rows=50_000") == 1
    block = block.replace("max_rows=50_000", f"max_rows={max_rows}")
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_readme_command_line_runs_on_a_file_of_ones_own(tmp_path, monkeypatch, capfd):
    from bigcat.cli import main

    rng = np.random.default_rng(0)
    sounds = {"cat": "meow purr", "dog": "bark growl", "cow": "moo low"}
    for file, n in (("train.tsv", 300), ("test.tsv", 60)):
        labels = rng.choice(list(sounds), n)
        lines = [
            f"{k}\t{rng.choice(sounds[k].split())} loud {rng.choice(['a', 'b'])}" for k in labels
        ]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    monkeypatch.chdir(tmp_path)
    (block,) = [b for b in blocks(ROOT / "README.md", "sh") if "bigcat fit" in b]
    for line in block.splitlines():
        program, *words = line.split("#")[0].split()
        assert program == "bigcat"
        assert main(words) == 0, line
    assert "cat" in capfd.readouterr().out


@pytest.mark.parametrize("block", blocks(ROOT / "CONTRIBUTING.md", "sh"))
@pytest.mark.slow
def test_contributing_commands_run(block, tmp_path):
    if not (ROOT / ".venv").exists():
        pytest.skip("no .venv in this checkout; `make test` makes one")
    environment = os.environ | {"PYTEST_ADDOPTS": f"-p no:cacheprovider --basetemp={tmp_path}/t"}
    for name in [n for n in environment if n.startswith("PYTEST_XDIST")]:
        del environment[name]
    done = subprocess.run(
        ["bash", "-euc", block], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# Conventions and methods


@pytest.mark.slow  # five kernels of its own
def test_conventions_hold():
    (block,) = blocks(DOCS / "conventions.md", "python")
    exec(compile(block, "docs/conventions.md", "exec"), {})  # its own assertions
    assert block.count("\nassert ") > 10


def test_bayesian_page_runs(capsys):
    names: dict = {}
    for block in blocks(DOCS / "bayesian.md", "python"):
        exec(compile(block, "docs/bayesian.md", "exec"), names)
    assert "(3, 5)" in capsys.readouterr().out


@pytest.mark.slow
def test_serving_page_runs():
    (block,) = blocks(DOCS / "serving.md", "python")
    names: dict = {}
    exec(compile(block, "docs/serving.md", "exec"), names)
    assert abs(names["loss"].mean()) < 0.01


def table_names(heading: str) -> list[str]:
    """First column of the table under a heading of methods.md, as code."""
    text = (DOCS / "methods.md").read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "registered"),
    [
        ("Methods", [m["name"] for m in bigcat.methods()]),
        ("Noises", list(noise.REGISTRY)),
        ("Bounds", list(bounds.REGISTRY)),
        ("Samplers", list(samplers.REGISTRY)),
        ("Solvers", list(solvers.REGISTRY)),
    ],
)
def test_methods_page_lists_what_is_registered(heading, registered):
    assert sorted(table_names(heading)) == sorted(registered)


# Examples


def examples():
    """All of them; those that take longest, for kernels of their own, are marked slow."""
    long = ("negatives.py", "noises.py", "word_vectors.py")
    for path in EXAMPLES:
        slow = path.name in long
        yield pytest.param(path, id=name_of(path), marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_are_short_and_name_what_there_is(example):
    source = example.read_text()
    assert len(source.splitlines()) <= 60
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(str(node.module))
            assert [a.name for a in node.names if not hasattr(module, a.name)] == []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            made = getattr(bigcat, node.func.id, None)
            if made is not None:
                known = inspect.signature(made).parameters
                assert [k.arg for k in node.keywords if k.arg and k.arg not in known] == []


@pytest.mark.parametrize("example", list(examples()))
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


# Skeletons


def indented(text: str, margin: str) -> str:
    return "".join(margin + line if line.strip() else line for line in text.splitlines(True))


def filled(name: str) -> str:
    """A skeleton with its gaps filled from the blocks of its page."""
    fills = {}
    for block in blocks(DOCS / "extending" / f"{name}.md", "python"):
        first, _, body = block.partition("\n")
        if first.startswith("# FILL: "):
            fills[first.removeprefix("# FILL: ")] = body
    lines = (DOCS / "skeletons" / f"{name}.py").read_text().splitlines(True)
    gaps = {i: line.partition("# FILL: ")[2].strip() for i, line in enumerate(lines)}
    gaps = {i: gap for i, gap in gaps.items() if gap}
    assert sorted(gaps.values()) == sorted(fills), "gaps of the skeleton and blocks of the page"
    for i, gap in gaps.items():
        margin = lines[i][: len(lines[i]) - len(lines[i].lstrip())]
        lines[i] = indented(fills[gap], margin)
    return "".join(lines)


def load(source: str, name: str, folder: Path):
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("skeletons")
    yield {name: load(filled(name), f"filled_{name}", folder) for name in SKELETONS}
    for name in SKELETONS:
        sys.modules.pop(f"filled_{name}", None)


@pytest.fixture(scope="module")
def digits():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    return train_test_split((X / 16.0).astype(np.float32), y, random_state=0)


BASELINE = -np.log(10.0)  # ten classes of about the same frequency


def learns(digits, better_by=1.0, **parameters):
    X_train, X_test, y_train, y_test = digits
    settings = {"max_epochs": 10, "random_state": 0, **parameters}
    model = LinearClassifier(**settings).fit(X_train, y_train)
    assert model.log_proba_of(X_test, y_test).mean() > BASELINE + better_by
    return model


def check_noise(member, points):
    """Derivatives are those of their functions, the density integrates to the distribution."""
    h = 1e-5
    for function in ("log_cdf", "log_pdf"):
        f = getattr(member, function)
        measured = (f(points + h) - f(points - h)) / (2 * h)
        stated = getattr(member, function + "_grad")(points)
        np.testing.assert_allclose(stated, measured, rtol=1e-4, atol=1e-8)
    hazard = np.exp(member.log_pdf(points) - member.log_cdf(points))
    np.testing.assert_allclose(member.log_cdf_grad(points), hazard, rtol=1e-11)


def test_noise_skeleton(parts):
    import mpmath

    student = parts["noise"].noise
    check_noise(student, np.array([-300.0, -20.0, -17.0, -3.0, 0.0, 0.3, 4.0, 30.0]))
    with mpmath.workdps(60):
        for t in (-1e6, -40.0, -17.4, -17.2, -2.0, 1.0, 9.0, 1e4):
            x = mpmath.mpf(t) / mpmath.sqrt(3)
            exact = mpmath.log(0.5 + (mpmath.atan(x) + x / (1 + x * x)) / mpmath.pi)
            assert float(student.log_cdf(t)) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.slow
def test_noise_of_the_package(tmp_path, digits, monkeypatch):
    (block,) = [
        b for b in blocks(DOCS / "extending" / "noise.md", "python") if not b.startswith("# FILL")
    ]
    module = load(block, "filled_sech", tmp_path)
    member = module.HyperbolicSecant()
    check_noise(member, np.array([-300.0, -21.0, -19.0, -3.0, -0.2, 0.4, 4.0, 15.0]))
    assert np.exp(member.log_cdf(0.0)) == pytest.approx(0.5)
    monkeypatch.setitem(noise.REGISTRY, member.name, member)
    learns(digits, noise="hyperbolic-secant", method="exact")


def test_bound_skeleton(parts):
    from bigcat.bounds._base import full_rows
    from bigcat.probabilities import log_probabilities_of
    from bigcat.verbs import step

    module = parts["bound"]
    gumbel = noise.Gumbel()
    rng = np.random.default_rng(0)
    scores, labels = rng.standard_normal((40, 6)), rng.integers(0, 6, 40)
    tag = module.MyBound(eta=6.0).lower(gumbel)
    state = _random.new_state(np.random.RandomState(0))

    def evaluate(scores):
        local, values, gradients = np.empty((40, 1)), np.empty(40), np.empty((40, 6))
        full_rows(tag, state, scores, labels, 0, np.arange(6), local, values, gradients, True)
        return values, gradients

    values, gradients = evaluate(scores)
    assert (values <= log_probabilities_of(gumbel, scores, labels)).all()
    h = 1e-6
    for k in range(6):
        shift = np.zeros(6)
        shift[k] = h
        difference = (evaluate(scores + shift)[0] - evaluate(scores - shift)[0]) / (2 * h)
        np.testing.assert_allclose(gradients[:, k], difference, atol=1e-7)
    np.testing.assert_allclose(gradients.sum(axis=1), 0.0, atol=1e-12)

    others = np.delete(scores[0], labels[0])
    sampled, label_gradients = [], []
    for pair in itertools.combinations(range(5), 2):  # of the others, each standing for 5/2
        counts, pair_gradients = np.full(3, 2.5), np.empty(3)
        row = (np.empty(0), 0.0, scores[0, labels[0]], others[list(pair)], counts, 2, 0)
        sampled.append(step(tag, state, *row, pair_gradients))
        label_gradients.append(pair_gradients[2])
    assert np.mean(sampled) == pytest.approx(values[0], rel=1e-12)
    assert np.mean(label_gradients) == pytest.approx(gradients[0, labels[0]], rel=1e-12)


@pytest.fixture
def registered(parts, monkeypatch):
    """The skeletons' parts under their names."""
    sampler, solver = parts["sampler"].MySampler, parts["solver"].MySolver
    monkeypatch.setitem(samplers.REGISTRY, sampler.name, sampler)
    monkeypatch.setitem(solvers.REGISTRY, solver.name, solver)
    monkeypatch.setattr(combinations, "_METHODS", dict(combinations._METHODS))
    combinations.register(parts["bound"].method(eta=10.0))


@pytest.mark.slow  # each of them is fitted by a test of its own
def test_bound_sampler_and_solver_skeletons_are_fitted_together(digits, registered):
    """One kernel of all three, where each by itself takes as long."""
    from bigcat.kernels.train_rows import train_rows

    X, y = digits[1], digits[3]
    mine = {"sampler": "systematic", "solver": registered["solver"].MySolver(learning_rate=0.1)}
    model = learns(digits, method="fixed-eta", **mine)
    assert (model.lower_bound(X, y) <= model.log_proba_of(X, y) + 1e-9).all()

    # A part from outside the package must not reach the cache on disk.
    dispatcher: Any = train_rows.dispatcher
    cache = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if cache is not None:  # not without a compiler, nor where no folder is writable
        outside = re.compile(r"\bTag\(")
        assert [s for s in dispatcher.signatures if outside.search(str(s))]
        assert [key for key in cache._load_index() if outside.search(str(key))] == []


def test_the_method_of_a_bound_skeleton_is_listed(parts, digits, registered):
    (found,) = [m for m in bigcat.methods() if m["name"] == "fixed-eta"]
    assert found["is_bound"]
    assert found["noises"] == ["gumbel"]
    with pytest.raises(ValueError, match="fixed-eta bound supports noise 'gumbel'"):
        LinearClassifier(noise="gaussian", method="fixed-eta").fit(digits[1], digits[3])


def test_sampler_skeleton(parts):
    from bigcat.rows import Problem, as_rows
    from bigcat.samplers._base import sample_many

    kind = parts["sampler"].MySampler
    n_classes, label, n, draws = 23, 7, 6, 40_000
    rows = as_rows(np.empty((1, 0)), np.float64)
    tag = kind(n_negatives=n).lower(Problem(rows, np.array([label]), np.ones(1), 0, n_classes))
    classes, counts = np.empty((draws, n), np.int64), np.full((draws, n + 1), np.nan)
    state = _random.new_state(np.random.RandomState(0))
    sample_many(tag, state, rows, 0, label, classes, counts)
    assert (np.diff(np.sort(classes, axis=1), axis=1) > 0).all()
    frequency = np.bincount(classes.ravel(), minlength=n_classes) / draws
    assert frequency[label] == 0.0
    p = n / (n_classes - 1)
    deviation = np.abs(np.delete(frequency, label) - p) / np.sqrt(p * (1 - p) / draws)
    assert deviation.max() < 5.0  # false alarms: 22 * 6e-7
    np.testing.assert_allclose(counts, 1 / p)  # the label's, in the last place, too
    everyone, _ = kind(n_negatives=99).sample(n_classes, label)
    assert sorted(everyone) == [k for k in range(n_classes) if k != label]


def test_sampler_skeleton_keeps_no_class_exact(parts, digits):
    with pytest.raises(ValueError, match="cannot keep 3 classes exact"):
        learns(digits, sampler=parts["sampler"].MySampler(4, exact_classes=3), method="one-vs-each")


def test_solver_skeleton(parts):
    from bigcat.verbs import coordinate_rate, move

    kind = parts["solver"].MySolver
    tag = kind().lower()
    weights, state = np.zeros(2), np.zeros(2)
    for gradient in (0.5, -2.0, 0.0, 3.0):
        before, remembered = weights.copy(), state.copy()
        move(tag, 0.1, weights, state, 1, gradient)
        if gradient == 0.0:
            assert (weights == before).all()
            assert (state == remembered).all()
        step = coordinate_rate(tag, 0.1, state, 1) * gradient
        assert weights[1] - before[1] == pytest.approx(step)
    assert weights[0] == 0.0


@pytest.mark.slow
def test_solver_skeleton_is_fitted(digits, registered):
    X_train, X_test, y_train, y_test = digits
    solver = registered["solver"].MySolver(learning_rate=0.1)
    model = learns(digits, method="exact", solver=solver, l2=1.0, max_epochs=30)
    best = LinearClassifier(method="exact", l2=1.0, max_epochs=500).fit(X_train, y_train)
    gap = best.log_proba_of(X_test, y_test).mean() - model.log_proba_of(X_test, y_test).mean()
    assert abs(gap) < 0.04
