"""Text and HTML tables for representations of results."""

from __future__ import annotations

import html
from collections.abc import Sequence


def text_table(names: Sequence[str], cells: Sequence[Sequence[str]], right: Sequence[bool]) -> str:
    """Return a text table with columns of numbers aligned on the right."""
    widths = [max(map(len, column)) for column in zip(names, *cells)]
    lines = []
    for row in [names, *cells]:
        parts = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def html_table(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Return an HTML table, for notebooks."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    rows = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in cells]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
