"""Check the prose of pages, docstrings and comments: `python docs/site/prose.py`, in `make lint`.

Sentences are short and begin with their subject, words are those of the field, and pages describe
the present: no earlier versions, aims or numbers of decisions.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGE = ROOT / "src" / "bigcat"
FOLDERS = (PACKAGE, *(ROOT / f for f in ("reference", "benchmarks", "examples", "tests", "docs")))
MODULES = sorted(
    p for f in FOLDERS for p in f.rglob("*.py") if not {".cache", ".envs"} & {*p.parts}
)
MAX_WORDS = 40

#: A pattern, and what to write instead.
WORDS = {
    r"rows? (?:that|who) judges?|held-out rows that ask": "validation rows",
    r"judged by": "scored on, measured by",
    r"rows that (?:stay|belong) together": "groups",
    r"near copies": "near-duplicates",
    r"(?:weights?|rows?|models?|fits?) (?:is|are) trusted|how far it is trusted": "stacking weight",
    r"too sure|timid": "overfits, underfits",
    r"(?:the|a) recipe\b": "fit configuration",
    r"\blanes?\b": "workers",
    r"\bslopes?\b": "gradient",
    r"\bbends?\b": "curvature",
    r"(?:is|are|was|were) told\b": "the action itself",
    r"\bpeople\b": "users",
    r"\bwarming\b": "precompilation",
    r"bigcat warm\b": "bigcat precompile",
    r"nobody": "no user, never",
    r"let do|is let\b": "may, is allowed to",
    r"\ba row's class is\b": "the observed class is",
    r"decision \d+": "the reason itself",
    r"(?:^|[.!?] )Before,": "what the library does now",
    r"an earlier (?:version|campaign)|\b[Mm]issed:|was the aim|had wanted": "the present result",
    r"\bbe it\b|whereof|wherefrom": "plain English",
}
#: The same for errors and warnings.
MESSAGES = WORDS | {
    r"\banew\b": "again",
    r"\bgo(?:es)? on\b": "continue",
    r"(?<!there )\bis no\b(?! (?:longer|more|less|larger))": "is not a",
    r"give what it was given|knows which": "the remedy in plain words",
}
#: Words that begin no sentence, unless it is a question.
OPENINGS = ("What", "Of", "Who", "Whose", "How")
#: Words that begin no docstring and no comment.
CODE_OPENINGS = re.compile(
    r"(What|Of|Where|How|Who|Whom|Whose|Why|Is|Are|Does|Do|Has|Can|May|Whether)\b"
)
#: Functions whose arguments are errors or warnings.
RAISED = re.compile(r"(?:Error|Warning|Lost|warn_caller|error_at)$")
INLINE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def blank(match: re.Match[str]) -> str:
    """Return the line ends of what was matched."""
    return "\n" * match[0].count("\n")


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each paragraph, list item and table row; no code, no headings."""
    text = re.sub(r"^```.*?^```$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^<!--.*?-->$", blank, text, flags=re.MULTILINE)
    started, lines = 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        begins = re.match(r"\s*(?:[-*] |\d+\. |\||#|>|!\[|:::)", line)
        if lines and (begins or not line.strip()):
            yield started, " ".join(lines)
            lines = []
        if line.strip() and not line.startswith(("#", "    ", "![", ":::")):
            started = started if lines else number
            lines.append(line.strip())


def sentences(paragraph: str) -> list[str]:
    """Split a paragraph into sentences, with a word in the place of each link and piece of code."""
    text = INLINE.sub("Code", LINK.sub("Link", paragraph))
    text = re.sub(r"^(?:[-*]|\d+\.) |\*\*[^*]*\*\*:?", "", text).strip()
    return re.split(r"(?<=[.!?]) +|(?<=[:;]) +(?=[A-Z])", text)


def poor_words(text: str, words: dict[str, str] = WORDS) -> Iterator[str]:
    """Yield words that have a better one."""
    for pattern, better in words.items():
        for found in re.finditer(pattern, text):
            yield f"{found[0]!r}: write {better}"


def faults(paragraph: str) -> Iterator[str]:
    """Yield what is wrong with a paragraph of prose or a row of a table."""
    plain = LINK.sub(r"\1", INLINE.sub("code", paragraph))
    yield from poor_words(plain)
    if plain.startswith("|"):
        return
    for sentence in sentences(paragraph):
        words = sentence.split()
        if len(words) > MAX_WORDS:
            yield f"{len(words)} words in a sentence, at most {MAX_WORDS}: {sentence[:60]}..."
        if words and words[0] in OPENINGS and "?" not in sentence:
            yield f"begin with the subject: {sentence[:60]}..."


def of_page(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and description of each fault of a page."""
    for line, paragraph in paragraphs(path.read_text()):
        yield from ((line, fault) for fault in faults(paragraph))


def of_module(path: Path) -> Iterator[tuple[int, str]]:
    """Yield faults of docstrings, comments and messages, and methods without a docstring."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef) and PACKAGE in path.parents:
            yield from undocumented(node)
        if isinstance(node, ast.Call) and RAISED.search(ast.unparse(node.func)):
            yield from ((node.lineno, fault) for fault in poor_words(message(node), MESSAGES))
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        summary = (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        line = getattr(node, "lineno", 1)
        if CODE_OPENINGS.match(summary) or summary.endswith("?"):
            yield line, f"begin with a verb or a noun: {summary[:60]}..."
        if not getattr(node, "name", "").startswith("_"):
            yield from ((line, fault) for fault in faults(summary))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        comment = token.string.lstrip("#: ")
        if token.type == tokenize.COMMENT and (
            CODE_OPENINGS.match(comment) or comment.endswith("?")
        ):
            yield token.start[0], f"give the reason: {comment[:60]}..."


def message(call: ast.Call) -> str:
    """Return the constant text of an error or a warning."""
    parts = (part for argument in call.args for part in ast.walk(argument))
    return " ".join(str(p.value) for p in parts if isinstance(p, ast.Constant))


@functools.cache
def classes() -> dict[str, ast.ClassDef]:
    """Return the classes of the package by name."""
    nodes = (node for path in MODULES for node in ast.walk(ast.parse(path.read_text())))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def documented(owner: ast.ClassDef, name: str) -> bool:
    """Return True if a method has a docstring in its class or in a base class."""
    for item in owner.body:
        if getattr(item, "name", "") == name and ast.get_docstring(item):  # type: ignore[arg-type]
            return True
    bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in owner.bases]
    return any(documented(classes()[base], name) for base in bases if base in classes())


def undocumented(owner: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield public methods of a public class that nothing documents; ruff does not see bases."""
    methods = [item for item in owner.body if isinstance(item, ast.FunctionDef)]
    for item in methods if not owner.name.startswith("_") else []:
        if not item.name.startswith("_") and not documented(owner, item.name):
            yield item.lineno, f"write a docstring for {owner.name}.{item.name}"


def main() -> int:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for paths, check in ((PAGES, of_page), (MODULES, of_module))
        for path in paths
        for line, fault in check(path)
    ]
    print("\n".join(found) or "prose: no faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
