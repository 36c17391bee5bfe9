"""Texts and words as spans of one run of bytes, without an object for each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
        self._hashes, self._slots = np.empty(0, np.uint64), np.zeros(_SLOTS, np.uint64)

    def __len__(self) -> int:
        return self._n

    @property
    def words(self) -> Texts:
        ends = self._ends[: self._n + 1].copy()
        return Texts.one_after_the_other(self._names[: ends[-1]].tobytes(), ends)

    def add(self, words: Texts) -> np.ndarray:
        """Numbers of words, of which the new ones get the next."""
        return self._numbers(_eight_or_more(words.content), words.spans, True)

    def find(self, words: Texts) -> np.ndarray:
        """Numbers of words, -1 of those that are not in the table."""
        return self._numbers(_eight_or_more(words.content), words.spans, False)

    def add_words_of(
        self, texts: Texts, letters: np.ndarray, least: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the words of texts, of all of them, and where those of each text end.

        Words are runs of `least` or more characters for which `letters` is not 0: it has what is
        written for them.
        """
        from bigcat.kernels.number_words import cut_words

        # There is a character between two words, and a letter of two bytes may become three.
        n_words, n_bytes = texts.lengths // (least + 1) + 1, texts.lengths + texts.lengths // 2
        found, ends_of_texts, n = [np.zeros(0, np.int32)], np.zeros(len(texts) + 1, np.int64), 0
        for some in _together(n_bytes):
            spans = np.empty((int(n_words[some].sum()), 2), np.int64)
            names = np.empty(int(n_bytes[some].sum()) + 8, np.uint8)
            ends = np.zeros(some.stop - some.start + 1, np.int64)
            cut_words(texts.content, texts.spans[some], letters, least, names, spans, ends)
            names.setflags(write=False)  # as other texts are, which numba compiles for
            found.append(self._numbers(names, spans[: ends[-1]], True))
            ends_of_texts[some.start + 1 : some.stop + 1] = n + ends[1:]
            n += int(ends[-1])
        return np.concatenate(found), ends_of_texts

    def _numbers(self, text: np.ndarray, spans: np.ndarray, adds: bool) -> np.ndarray:
        from bigcat.kernels.number_words import fill_slots, number_words

        if adds:
            self._make_room(len(spans), int((spans[:, 1] - spans[:, 0]).sum()))
        numbers, k = np.empty(len(spans), np.int32), 0
        while True:
            table = (self._names, self._ends, self._hashes, self._slots, self._n)
            k, self._n = number_words(text, spans, k, self._secret, adds, *table, numbers)
            if k == len(spans):
                return numbers
            self._slots = np.zeros(4 * len(self._slots), np.uint64)
            fill_slots(self._hashes, self._n, self._slots)

    def _make_room(self, n_words: int, n_bytes: int) -> None:
        n = self._n + n_words
        self._names = _with_room(self._names, int(self._ends[self._n]) + n_bytes + 8)
        self._ends, self._hashes = _with_room(self._ends, n + 1), _with_room(self._hashes, n)


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
