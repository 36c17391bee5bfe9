"""The site: every page has its place, links lead somewhere, and pages with code run."""

from __future__ import annotations

import ast
import gzip
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bigcat

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Pages of which every block of Python and every command is run, in the order of the page.
RUN = [
    *(DOCS / name for name in ("start.md", "checkpoints.md", "data.md")),
    *sorted([*DOCS.glob("how-to/*.md"), *DOCS.glob("tutorials/*.md")]),
]
#: Replacements that shorten pages in `make test`; `make test-slow` runs such pages as they are.
SHORTER = {
    "many-classes.md": (
        "max_rows=50_000, max_features=2_000, min_classes=500",
        "max_rows=6_000, max_features=1_000, min_classes=100",
    )
}
#: Commands of other programs, which a test of pages has no need to run.
NOT_RUN = {"pip install ."}


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Navigation and links


def test_the_navigation_names_every_page_once():
    text = (ROOT / "mkdocs.yml").read_text()
    entries = re.findall(r"([\w./*-]+\.md)$", text.partition("\nnav:\n")[2], re.MULTILINE)
    site = hooks()
    pages = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
    named = site.with_stars([e for e in entries if e not in site.PROJECT], pages)
    assert sorted(named) == pages
    assert set(site.PROJECT) <= set(entries)
    assert [e for e in entries if "*" in e and site.with_stars(e, pages) == []] == []


def test_documented_parameters_are_those_of_the_source():
    """As the builder of the site reads it, for which another name is an error."""
    wrong = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            function = node if isinstance(node, ast.FunctionDef) else constructor(node)
            found = set(documented(node)) - taken_by(function) if function else set()
            if found and not node.name.startswith("_"):
                wrong[f"{path.name}:{node.lineno} {node.name}"] = sorted(found)
    assert wrong == {}


def constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    """None where a dataclass or a NamedTuple has none of its own."""
    made = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    return made[0] if made else None


def documented(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)",
        inspect.cleandoc(ast.get_docstring(node) or ""),
        re.DOTALL | re.MULTILINE,
    )
    lines = re.findall(r"^(\S.*?)\s*(?::.*)?$", section[1], re.MULTILINE) if section else []
    return [name.strip().lstrip("*") for line in lines for name in line.split(",")]


def taken_by(function: ast.FunctionDef) -> set[str]:
    given = function.args
    named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return {argument.arg for argument in named if argument is not None}


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_asks_nobody(tmp_path):
    pytest.importorskip("mkdocs", reason="`make docs` installs it: pip install '.[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING -" not in done.stderr
    loaded = re.compile(r"<(?:script|img|iframe)[^>]*src=\"https?:|<link[^>]*href=\"https?:")
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 60
    assert [p.name for p in pages if loaded.search(p.read_text())] == []
    documented = "".join(p.read_text() for p in (tmp_path / "reference").glob("*.html"))
    shown = {name.rpartition(".")[2] for name in re.findall(r'id="(bigcat[\w.]*)"', documented)}
    assert [name for name in public_names() if name not in shown] == []


def public_names() -> list[str]:
    """Classes and functions that the package and its public modules offer."""
    found = []
    for module in (bigcat, *(getattr(bigcat, name) for name in sorted(bigcat._SUBMODULES))):
        members = {name: getattr(module, name) for name in module.__all__}
        found += [n for n, m in members.items() if inspect.isclass(m) or inspect.isfunction(m)]
    return found


# Pages that are run


@pytest.fixture
def files_of_ones_own(tmp_path, monkeypatch):
    """The files that pages speak of, in a folder of their own."""
    rng = np.random.default_rng(0)
    sounds = {"cat": "meow purr", "dog": "bark growl", "cow": "moo low"}
    sizes = {"train.tsv": 240, "test.tsv": 60, "new.txt": 5, "history.tsv": 120}
    sizes |= {"monday.tsv": 30, "tuesday.tsv": 40, "wednesday.tsv": 20}
    for file, n in sizes.items():
        lines = []
        for label in rng.choice(list(sounds), n):
            words = f"{rng.choice(sounds[label].split())} loud {rng.choice(['a', 'b'])}"
            lines.append(words if file == "new.txt" else f"{label}\t{words}")
        text = "\n".join(lines) + "\n"
        (tmp_path / file).write_text(text)
        (tmp_path / f"{file}.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.chdir(tmp_path)


def run(page: Path, instead: tuple[str, str]) -> None:
    from bigcat.cli import main

    names: dict[str, Any] = {}
    fences = re.compile(r"^```(python|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    found = fences.findall(page.read_text())
    assert found
    for language, block in found:
        if language == "python":
            exec(compile(block.replace(*instead), str(page), "exec"), names)
            continue
        for line in block.splitlines():
            program, *words = line.split()
            assert program == "bigcat" or line in NOT_RUN, line
            assert program != "bigcat" or main(words) == 0, line


def pages_and_sizes():
    for page in RUN:
        name = f"{page.parent.name}/{page.name}"
        if page.name in SHORTER:
            yield pytest.param(page, ("", ""), id=f"{name}, as it is", marks=pytest.mark.slow)
        yield pytest.param(page, SHORTER.get(page.name, ("", "")), id=name)


@pytest.mark.parametrize(("page", "instead"), list(pages_and_sizes()))
def test_pages_run(page, instead, files_of_ones_own):
    assert instead == ("", "") or page.read_text().count(instead[0]) == 1
    if page.name == "output-layer.md":
        pytest.importorskip("torch", reason="PyTorch is missing: pip install 'bigcat[torch]'")
    run(page, instead)
