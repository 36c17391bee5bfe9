"""Words as numbers: each different one is looked at once, however often it occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from bigcat.data.spans import Texts, WordTable


class Numbered(NamedTuple):
    """Labels or words, one after the other."""

    numbers: np.ndarray
    names: list[Any]  # by number, in the order in which they are first met

    @classmethod
    def of(cls, words: Iterable[Any]) -> Numbered:
        known: dict[Any, int] = {}
        numbers = [known.setdefault(word, len(known)) for word in words]
        return cls(np.array(numbers, np.int32), list(known))

    @classmethod
    def of_spans(
        cls, raw: bytes, spans: np.ndarray, spelled: Callable[[int, int], Any]
    ) -> Numbered:
        """Words from where they begin to where they end in a text.

        `spelled` makes a name of such a span; of spans of the same bytes it sees the first.
        """
        numbers = WordTable().add(Texts(raw, spans))
        first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several, the last one stays
        found = cls.of(spelled(begin, end) for begin, end in spans[first].tolist())
        return cls(found.numbers[numbers], found.names)

    def spelled(self) -> list[Any]:
        return [self.names[number] for number in self.numbers.tolist()]

    def without_empty(self) -> tuple[np.ndarray, Numbered]:
        """Which are not empty, and these."""
        named = np.array([name != "" for name in self.names], bool)
        kept = named[self.numbers]
        place = np.cumsum(named) - 1
        return kept, Numbered(place[self.numbers[kept]], [name for name in self.names if name])
