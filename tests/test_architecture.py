"""`docs/architecture.md` is true: its picture, the way of a row, and where to add what."""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "bigcat"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
#: A code span that is a path, with or without a name in that file, or a folder.
PATH = re.compile(r"[\w./-]+\.(?:py|md|toml)(?::[\w.]+)?|[\w./-]+/")
FENCE = re.compile(r"^```text\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def picture() -> list[tuple[int, str]]:
    """Level and module of each line, from the top."""
    (drawn,) = FENCE.findall(PAGE)
    found = [re.fullmatch(r"(\d+) +(\w+) +\S.*", line) for line in drawn.splitlines()]
    assert all(found), "each line is a level, a module and what lives there"
    return [(int(match[1]), match[2]) for match in found if match]


def spans() -> list[str]:
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", PAGE))


def resolved(path: str, name: str) -> Any:
    """Return the object of that name in a file of the package."""
    parts = ["bigcat", *path.removesuffix(".py").split("/")]
    found = importlib.import_module(".".join(p for p in parts if p != "__init__"))
    for attribute in name.split("."):
        found = getattr(found, attribute)
    return found


def test_levels_are_those_that_import_linter_checks():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    drawn = [{name for _, name in group} for _, group in groupby(picture(), lambda line: line[0])]
    assert drawn == [set(layer.split(" | ")) for layer in layers]
    levels = [level for level, _ in picture()]
    assert sorted(set(levels), reverse=True) == list(range(len(layers), 0, -1))


def test_every_module_is_in_the_picture():
    there = {p.stem for p in PACKAGE.glob("*.py")}
    there |= {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    drawn = {name for _, name in picture()}
    assert drawn <= there
    assert {name for name in there - drawn if f"`{name}.py`" not in PAGE} == set()


@pytest.mark.parametrize("span", sorted({s for s in spans() if PATH.fullmatch(s)}))
def test_paths_and_names_exist(span):
    path, _, name = span.partition(":")
    assert (PACKAGE / path).exists() or (ROOT / path).exists()
    if name:
        assert resolved(path, name) is not None


def imports() -> list[tuple[str, str, str]]:
    """Package that imports, module and name of each import within bigcat."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bigcat"):
                found += [(package, node.module or "", alias.name) for alias in node.names]
    return found


def test_private_names_stay_in_their_package():
    crossing = []
    for package, module, name in imports():
        _, home, *inner = [*module.split("."), ""]
        private = name.startswith("_") and not name.startswith("__")
        private = private or any(part.startswith("_") for part in inner)
        if private and home != package:
            crossing.append((package, module, name))
    assert crossing == []


#: Names that mean the same in another library's words: PyTorch's and Dask's.
TWINS = {"LinearClassifier", "Noise", "Sampler", "Uniform"}


def test_a_class_name_has_one_meaning():
    homes: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(PACKAGE)))
    twice = {name: files for name, files in homes.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in TWINS} == {}
