"""Texts and words as spans of one run of bytes, without an object for each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Slots of a new table.
_SLOTS = 1 << 10
#: Bytes of text whose words are cut at a time.
_PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts in UTF-8 that lie in one run of bytes, by where each begins and ends."""

    raw: bytes
    spans: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        return cls.one_after_the_other(b"".join(encoded), np.cumsum([0, *map(len, encoded)]))

    @classmethod
    def one_after_the_other(cls, raw: bytes, edges: np.ndarray) -> Texts:
        return cls(raw, np.stack([edges[:-1], edges[1:]], axis=1))

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def content(self) -> np.ndarray:
        return np.frombuffer(self.raw, np.uint8)

    @property
    def lengths(self) -> np.ndarray:
        """In bytes."""
        return np.asarray(self.spans[:, 1] - self.spans[:, 0])

    def take(self, kept: np.ndarray) -> Texts:
        return Texts(self.raw, self.spans[kept])

    def decoded(self) -> list[str]:
        return [self.raw[begin:end].decode() for begin, end in self.spans.tolist()]


class WordTable:
    """Words by number, in the order in which they are first met.

    A secret goes into their hashes, so that nobody can make a text whose words all meet.
    """

    def __init__(self) -> None:
        self._secret = np.uint64(int.from_bytes(os.urandom(8), "little") | 1)
        self._n = 0
        self._names, self._ends = np.empty(0, np.uint8), np.zeros(1, np.int64)
        self._hashes, self._slots = np.empty(0, np.uint64), np.zeros((_SLOTS, 2), np.uint64)

    def __len__(self) -> int:
        return self._n

    @property
    def words(self) -> Texts:
        ends = self._ends[: self._n + 1].copy()
        return Texts.one_after_the_other(self._names[: ends[-1]].tobytes(), ends)

    def add(self, words: Texts) -> np.ndarray:
        """Numbers of words, of which the new ones get the next."""
        return self._hashed_and_numbered(words, True)

    def find(self, words: Texts) -> np.ndarray:
        """Numbers of words, -1 of those that are not in the table."""
        return self._hashed_and_numbered(words, False)

    def add_words_of(
        self, texts: Texts, letters: np.ndarray, least: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the words of texts, of all of them, and where those of each text end.

        Words are runs of `least` or more characters for which `letters` is not 0: it has what is
        written for them.
        """
        from bigcat.kernels.number_words import cut_words

        of_bytes = np.arange(256, dtype=np.uint8)
        of_bytes[:128] = letters[:128]
        lengths = texts.lengths
        groups = list(_together(lengths))
        largest = int(max((lengths[some].sum() for some in groups), default=0))
        longest = max((some.stop - some.start for some in groups), default=0)
        room = _Room.for_texts(largest, longest, least)
        names = room.names.view()
        names.setflags(write=False)  # as other texts are, which numba compiles for
        found, ends_of_texts, n = [np.zeros(0, np.int32)], np.zeros(len(texts) + 1, np.int64), 0
        for some in groups:
            ends = np.zeros(some.stop - some.start + 1, np.int64)
            read = (texts.content, texts.spans[some], of_bytes, letters, least, self._secret)
            cut_words(*read, *room, ends)
            here = int(ends[-1])
            found.append(self._numbers(names, room.spans[:here], room.hashes[:here], True))
            ends_of_texts[some.start + 1 : some.stop + 1] = n + ends[1:]
            n += here
        return np.concatenate(found), ends_of_texts

    def _hashed_and_numbered(self, words: Texts, adds: bool) -> np.ndarray:
        from bigcat.kernels.number_words import hash_words

        text, hashes = _eight_or_more(words.content), np.empty(len(words), np.uint64)
        hash_words(text, words.spans, self._secret, hashes)
        return self._numbers(text, words.spans, hashes, adds)

    def _numbers(
        self, text: np.ndarray, spans: np.ndarray, hashes: np.ndarray, adds: bool
    ) -> np.ndarray:
        from bigcat.kernels.number_words import fill_slots, number_words

        if adds:
            self._make_room(len(spans), int((spans[:, 1] - spans[:, 0]).sum()))
        numbers, k = np.empty(len(spans), np.int32), 0
        while True:
            table = (self._names, self._ends, self._hashes, self._slots, self._n)
            k, self._n = number_words(text, spans, hashes, k, adds, *table, numbers)
            if k == len(spans):
                return numbers
            self._slots = np.zeros((2 * len(self._slots), 2), np.uint64)
            fill_slots(*table[:3], self._n, self._slots)

    def _make_room(self, n_words: int, n_bytes: int) -> None:
        n = self._n + n_words
        self._names = _with_room(self._names, int(self._ends[self._n]) + n_bytes + 8)
        self._ends, self._hashes = _with_room(self._ends, n + 1), _with_room(self._hashes, n)


class _Room(NamedTuple):
    """What words are written to when they are cut: one memory for all texts, a few at a time."""

    names: np.ndarray
    spare: int
    edges: np.ndarray
    spans: np.ndarray
    hashes: np.ndarray

    @classmethod
    def for_texts(cls, n_bytes: int, n_texts: int, least: int) -> _Room:
        """For so many texts that together have so many bytes."""
        spare = -(-(n_bytes + n_texts) // 64) * 64
        names = np.empty(spare + n_bytes + n_bytes // 2 + 8, np.uint8)  # of two bytes, three
        # There is a character between two words, or the end of a text.
        most = (n_bytes + n_texts) // (least + 1) + n_texts + 1
        spans, hashes = np.empty((most, 2), np.int64), np.empty(most, np.uint64)
        return cls(names, spare, np.empty(n_bytes + 2 * n_texts, np.int64), spans, hashes)


def _together(n_bytes: np.ndarray) -> Iterator[slice]:
    """Runs of texts of so many bytes: what is written for one stays in the processor's cache."""
    edges = np.cumsum(n_bytes)
    begin = 0
    while begin < len(n_bytes):
        before = int(edges[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(edges, before + _PIECE, side="right")))
        yield slice(begin, end)
        begin = end


def _eight_or_more(text: np.ndarray) -> np.ndarray:
    """The text, with something after it if it has less than eight bytes."""
    return text if len(text) >= 8 else np.frombuffer(text.tobytes() + bytes(8), np.uint8)


def _with_room(array: np.ndarray, size: int) -> np.ndarray:
    """The array, or a longer one: twice as long, lest a table that grows be copied each time."""
    if size <= len(array):
        return array
    longer = np.empty(max(size, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
