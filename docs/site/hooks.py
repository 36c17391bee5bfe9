"""Hooks of MkDocs: pages from outside `docs`, and stars in the navigation.

Pages are written for the repository, where a link may leave `docs` for the README, an example or a
folder. On the site each file that is linked so is a page of its own, and links go there.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
#: Pages of the root that are shown with those of `docs`.
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def with_stars(entry: Any, pages: list[str]) -> Any:
    """A part of `nav` with the pages that its patterns match; decisions and others by name."""
    if isinstance(entry, dict):
        return {title: with_stars(below, pages) for title, below in entry.items()}
    if isinstance(entry, list):
        found = [with_stars(part, pages) for part in entry]
        return [page for part in found for page in (part if isinstance(part, list) else [part])]
    if "*" in entry:
        return [page for page in pages if PurePosixPath(page).match(entry)]
    return entry


def on_config(config: Any) -> Any:
    pages = sorted(str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md"))
    config.nav = with_stars(config.nav, pages)
    return config


def targets(text: str) -> Iterator[str]:
    """Yield the targets of links of a page, except web addresses and anchors of the page."""
    for _, target, _ in LINK.findall(FENCED.sub("", text)):
        if not target.startswith(("http", "#", "mailto:")):
            yield target.partition("#")[0]


def outside(page: str, text: str) -> set[str]:
    """Paths in the repository, outside of `docs`, that a page (of the repository) links to."""
    paths = {posixpath.normpath(posixpath.join(posixpath.dirname(page), t)) for t in targets(text)}
    return {path for path in paths if not path.startswith("docs/")}


def page_of(path: str) -> str:
    """Return the page of the site for a path of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return path if path in PROJECT else f"repository/{path.removesuffix('.md')}.md"


def shown(path: str) -> str:
    """Return the text of the page of a file or folder outside of `docs`."""
    place = ROOT / path
    if place.is_dir():
        files = sorted(p for p in place.iterdir() if p.suffix == ".py" and p.name[0] != "_")
        lines = [f"- [{p.name}]({place.name}/{p.name})" for p in files]
        return f"# {path}\n\n" + "\n".join(lines) + "\n"
    text = place.read_text()
    if place.suffix == ".md":
        return text
    return f"# {place.name}\n\n```{'python' if place.suffix == '.py' else 'text'}\n{text}```\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from outside, those that they link to, and so on."""
    from mkdocs.structure.files import File

    wanted = set(PROJECT)
    for file in files.documentation_pages():
        wanted |= outside(f"docs/{file.src_uri}", file.content_string)
    done: set[str] = set()
    while wanted - done:
        path = min(wanted - done)
        done.add(path)
        text = shown(path)
        wanted |= outside(path, text)
        files.append(File.generated(config, page_of(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links of the repository as links of the site."""
    uri = page.file.src_uri
    if page.file.generated_by is None:
        path = f"docs/{uri}"
    elif uri in PROJECT:
        path = uri
    else:
        path = uri.removeprefix("repository/")

    def moved(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if target.startswith(("http", "#", "mailto:")):
            return match[0]
        file, mark, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(path), file))
        there = posixpath.relpath(page_of(place), posixpath.dirname(uri) or ".")
        return before + there + mark + anchor + after

    parts = FENCED.split(markdown)
    fences = FENCED.findall(markdown)
    texts = [LINK.sub(moved, part) for part in parts]
    return "".join(text + fence for text, fence in zip(texts, [*fences, ""]))
