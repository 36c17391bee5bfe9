"""A part of one's own needs nothing but public names."""

import ast
from pathlib import Path

import pytest

import bigcat
from bigcat import extending

DOCS = Path(__file__).resolve().parents[1] / "docs"
PARTS = ("noise", "bound", "sampler", "solver")


def imported(source):
    """Modules of bigcat, and the names that are taken from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bigcat":
            for alias in node.names:
                yield node.module, alias.name
        if isinstance(node, ast.Import):
            for alias in node.names:
                assert not alias.name.startswith("bigcat."), alias.name


def code_of(page):
    blocks = page.split("```python\n")[1:]
    return [block.partition("```")[0] for block in blocks]


@pytest.mark.parametrize("part", PARTS)
def test_skeletons_and_pages_import_public_names_only(part):
    page = (DOCS / "extending" / f"{part}.md").read_text()
    whole = [block for block in code_of(page) if "import bigcat" in block or "from bigcat" in block]
    names = [pair for source in whole for pair in imported(source)]
    names += imported((DOCS / "skeletons" / f"{part}.py").read_text())
    assert names
    for module, name in names:
        assert module in ("bigcat", "bigcat.extending"), f"{name} comes from {module}"
        assert name in (bigcat.__all__ if module == "bigcat" else extending.__all__)
