"""Ways to damage a file, chosen by a random generator."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

#: Numbers that a header or a field may lie with.
LIES = [b"0", b"-1", b"1", b"7", b"2147483648", b"9223372036854775808", b"1" + b"0" * 40, b"0.5"]
LIES += [b"1e999", b"nan", b"", b"true", b"null", b"1e-400", b"00", b'"x"']
Rng = np.random.Generator
Damage = Callable[[bytes, Rng], bytes]


def _place(content: bytes, rng: Rng) -> int:
    return int(rng.integers(max(len(content), 1)))


def _span(content: bytes, rng: Rng) -> tuple[int, int]:
    start = _place(content, rng)
    return start, min(len(content), start + int(rng.integers(1, 65)))


def flip_a_bit(content: bytes, rng: Rng) -> bytes:
    place = _place(content, rng)
    return content[:place] + bytes([content[place] ^ 1 << rng.integers(8)]) + content[place + 1 :]


def change_a_byte(content: bytes, rng: Rng) -> bytes:
    place = _place(content, rng)
    return content[:place] + rng.bytes(1) + content[place + 1 :]


def cut(content: bytes, rng: Rng) -> bytes:
    return content[: _place(content, rng)]


def drop(content: bytes, rng: Rng) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + content[stop:]


def repeat(content: bytes, rng: Rng) -> bytes:
    start, stop = _span(content, rng)
    return content[:stop] + content[start:]


def erase(content: bytes, rng: Rng) -> bytes:
    start, stop = _span(content, rng)
    return content[:start] + b"\0" * (stop - start) + content[stop:]


def insert(content: bytes, rng: Rng) -> bytes:
    place = _place(content, rng)
    return content[:place] + rng.bytes(int(rng.integers(1, 9))) + content[place:]


def append(content: bytes, rng: Rng) -> bytes:
    return content + rng.bytes(int(rng.integers(1, 65)))


def swap_blocks(content: bytes, rng: Rng) -> bytes:
    (a, b), size = sorted(_place(content, rng) for _ in range(2)), int(rng.integers(1, 17))
    if a + size > b or b + size > len(content):
        return content[b:] + content[:b]
    first, second = content[a : a + size], content[b : b + size]
    return content[:a] + second + content[a + size : b] + first + content[b + size :]


def swap_lines(content: bytes, rng: Rng) -> bytes:
    lines = content.split(b"\n")
    a, b = rng.integers(len(lines), size=2)
    lines[a], lines[b] = lines[b], lines[a]
    return b"\n".join(lines)


def repeat_a_line(content: bytes, rng: Rng) -> bytes:
    lines = content.split(b"\n")
    place = int(rng.integers(len(lines)))
    return b"\n".join([*lines[: place + 1], *lines[place:]])


def drop_a_line(content: bytes, rng: Rng) -> bytes:
    lines = content.split(b"\n")
    del lines[int(rng.integers(len(lines)))]
    return b"\n".join(lines)


def lie(content: bytes, rng: Rng) -> bytes:
    """Another number in the place of one."""
    numbers = list(re.finditer(rb"\d+", content[:20_000]))
    if not numbers:
        return flip_a_bit(content, rng)
    number = numbers[int(rng.integers(len(numbers)))]
    return content[: number.start()] + LIES[int(rng.integers(len(LIES)))] + content[number.end() :]


def change_a_mark(content: bytes, rng: Rng) -> bytes:
    """Another separator in the place of one."""
    marks = b'\n\r\t ,:"{}[]#\0'
    places = [i for i, byte in enumerate(content[:20_000]) if byte in marks]
    if not places:
        return change_a_byte(content, rng)
    place = places[int(rng.integers(len(places)))]
    return content[:place] + bytes([marks[rng.integers(len(marks))]]) + content[place + 1 :]


DAMAGES: tuple[Damage, ...] = (
    flip_a_bit,
    change_a_byte,
    cut,
    drop,
    repeat,
    erase,
    insert,
    append,
    swap_blocks,
    swap_lines,
    repeat_a_line,
    drop_a_line,
    lie,
    change_a_mark,
)


def damaged(content: bytes, rng: Rng) -> bytes:
    """One damage, sometimes a second one."""
    for _ in range(1 + (rng.random() < 0.2)):
        if content:
            content = DAMAGES[int(rng.integers(len(DAMAGES)))](content, rng)
    return content
