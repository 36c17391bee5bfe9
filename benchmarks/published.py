"""The figures of the papers: `published.toml`, read once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

NOT_GIVEN = "–"


@dataclass(frozen=True)
class Quantity:
    """Column of figures, with its tolerance and the direction of better values."""

    name: str
    tolerance: float
    better: str  # "larger", "smaller", or "equal" where neither is

    def verdict(self, published: float, ours: float) -> str:
        """Return the verdict in two words."""
        if ours != ours:
            return "overflow"
        if abs(ours - published) <= self.tolerance:
            return "as published"
        if self.better == "equal":
            return "differs"
        return "better" if (ours > published) == (self.better == "larger") else "worse"


@dataclass(frozen=True)
class Published:
    """A table of a paper."""

    paper: str
    where: str
    title: str
    keys: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    lines: tuple[tuple[Any, ...], ...]

    def rows(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        """Return the key (a tuple) and the figures of each line; None for missing figures."""
        n = len(self.keys)
        for line in self.lines:
            figures = (None if value == NOT_GIVEN else value for value in line[n:])
            yield line[:n], tuple(figures)

    def values(self, quantity: str) -> dict[Any, Any]:
        """One column, by key."""
        place = [q.name for q in self.quantities].index(quantity)
        return {key: figures[place] for key, figures in self.rows()}


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "published.toml").read_text())


def published(name: str) -> Published:
    """The table of that name."""
    entry = _file()[name]
    return Published(
        entry["paper"],
        entry["where"],
        entry["title"],
        tuple(entry["keys"]),
        tuple(Quantity(**quantity) for quantity in entry["quantities"]),
        tuple(tuple(row) for row in entry["rows"]),
    )


def known() -> list[str]:
    """Names of all tables."""
    return list(_file())
