"""Rules for docstrings and comments that ruff does not have: openings, invented words, coverage."""

import ast
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Packages that still have findings.
UNCHECKED = (
    "auto",
    "bayes",
    "choice",
    "cli",
    "compile",
    "dask",
    "data",
    "estimators",
    "files",
    "inference",
    "inspection",
    "plots",
    "reporting",
    "serving",
    "torch",
    "training",
)
FILES = [
    path.relative_to(ROOT)
    for folder in ("src/bigcat", "reference")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not {*path.relative_to(ROOT).parts} & {*UNCHECKED}
]
OPENINGS = re.compile(
    r"(What|Of|Where|How|Who|Whom|Whose|Why|Is|Are|Does|Do|Has|Can|May|Whether)\b"
)
#: Words in place of those of the field; see the glossary in CONTRIBUTING.md.
INVENTED = re.compile(
    r"\b(near[- ]cop(y|ies)|rows that judge|rows that stay together|timid|too sure|nobody"
    r"|(is|are|was|were|been) told|recipes?|lanes?|slopes?|bends?|trust(ed)?|people|warming"
    r"|whereof|be it)\b",
    re.IGNORECASE,
)
Definition = ast.ClassDef | ast.FunctionDef


def definitions(tree: ast.Module) -> list[tuple[str, ast.Module | Definition]]:
    found: list[tuple[str, ast.Module | Definition]] = [("module", tree)]
    found += [(n.name, n) for n in ast.walk(tree) if isinstance(n, Definition)]
    return found


def comments(path: Path) -> list[str]:
    with open(path, "rb") as file:
        tokens = tokenize.tokenize(file.readline)
        return [token.string for token in tokens if token.type == tokenize.COMMENT]


def classes() -> dict[str, ast.ClassDef]:
    trees = (ast.parse(p.read_text()) for p in (ROOT / "src/bigcat").rglob("*.py"))
    return {n.name: n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}


def documented(known: dict[str, ast.ClassDef], owner: ast.ClassDef, name: str) -> bool:
    """Return True if the method has a docstring in the class or in one of its base classes."""
    for item in owner.body:
        if isinstance(item, ast.FunctionDef) and item.name == name and ast.get_docstring(item):
            return True
    bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in owner.bases]
    return any(documented(known, known[b], name) for b in bases if b in known)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_docstrings_and_comments_are_in_plain_english(path):
    findings = []
    for name, node in definitions(ast.parse((ROOT / path).read_text())):
        docstring = ast.get_docstring(node) or ""
        summary = docstring.split("\n\n")[0]
        if OPENINGS.match(summary) or summary.endswith("?"):
            findings.append(f"{name}: {summary}")
        findings += [f"{name}: {found[0]!r}" for found in INVENTED.finditer(docstring)]
    for comment in comments(ROOT / path):
        text = comment.lstrip("#: ")
        if INVENTED.search(text) or OPENINGS.match(text) or text.endswith("?"):
            findings.append(comment)
    assert not findings


def test_public_methods_have_docstrings_of_their_own_or_of_a_base_class():
    known = classes()
    missing = [
        f"{path}: {node.name}.{item.name}"
        for path in FILES
        for _, node in definitions(ast.parse((ROOT / path).read_text()))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for item in node.body
        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")
        if path.parts[0] == "src" and not documented(known, node, item.name)
    ]
    assert not missing
