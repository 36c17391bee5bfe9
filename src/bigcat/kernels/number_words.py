"""The compiled scanner of words, and the table of them: which words of many texts are the same?

A table has, by number, the words' bytes one after the other, where each ends, and its hash.  Slots
lead from a hash to the number: half of the hash, by which most others are told apart without a look
at their bytes, and the number plus one.

Loops over words call no function that takes arrays and returns from several places, and no name
of an array becomes another one within them: numba would count references, which took half the time.
"""

import numpy as np

from bigcat.compile import device, eight_bytes, kernel, prefetch

_HALF, _LOW_HALF, _ALL = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)
#: How many texts or words ahead memory is asked for.
_AHEAD = 8
#: Numbers that are sorted by insertion before they are merged.
_RUN = 16


@device
def piece_at(text, i, end):
    """The bytes from i to the end as a number; of more than eight the first eight.

    The text has eight bytes or more.
    """
    within = min(i, len(text) - 8)
    piece = eight_bytes(text, within) >> np.uint64(8 * (i - within))
    n = min(end - i, 8)
    return piece & (_ALL >> np.uint64(64 - 8 * n))


@device
def hash_span(text, begin, end, secret):
    """A number of all its bytes; who does not know the `secret`, which is odd, makes no clashes.

    Four bytes at a time: what they change always reaches the upper half of the number, which the
    next four cannot change back.
    """
    mixed = np.uint64(end - begin)
    for i in range(begin, end, 8):
        piece = piece_at(text, i, end)
        mixed = (mixed ^ (piece & _LOW_HALF)) * secret
        mixed ^= mixed >> _HALF
        mixed = (mixed ^ (piece >> _HALF)) * secret
        mixed ^= mixed >> _HALF
    return mixed


@kernel
def fill_slots(hashes, n, slots):
    """Put `n` different words into slots, all of which are empty."""
    last = len(slots) - 1
    for number in range(n):
        place = np.int64(hashes[number] & np.uint64(last))
        while slots[place] != 0:
            place = (place + 1) & last
        slots[place] = (hashes[number] >> _HALF << _HALF) | np.uint64(number + 1)


@kernel
def number_words(text, spans, k, secret, adds, names, ends, hashes, slots, n, numbers):
    """Number words, from the k-th on, by the order in which they are first met.

    ``spans`` are where words begin and end in the text, which has eight bytes or more.  ``names``,
    ``ends``, ``hashes`` and ``slots`` are a table of `n` words.  It gets the others, and has room
    for them but for its slots: as soon as half of these are full, nothing more is done.  Or, if it
    adds none, their number is -1.  ``numbers`` gets the number of each word.  Returns how many
    words were numbered, and how many the table has.
    """
    last = len(slots) - 1
    mixed = np.empty(len(spans), np.uint64)
    for j in range(k, len(spans)):
        mixed[j] = hash_span(text, spans[j, 0], spans[j, 1], secret)
    while k < len(spans) and (2 * n <= last or not adds):
        if k + _AHEAD < len(spans):
            prefetch(slots, np.int64(mixed[k + _AHEAD] & np.uint64(last)))
        begin, end = spans[k, 0], spans[k, 1]
        place = np.int64(mixed[k] & np.uint64(last))
        number = np.int64(-1)
        while number < 0 and slots[place] != 0:
            if slots[place] >> _HALF == mixed[k] >> _HALF:
                known = np.int64(slots[place] & _LOW_HALF) - 1
                if ends[known + 1] - ends[known] == end - begin:
                    i, on = begin, ends[known] - begin
                    while i < end and piece_at(text, i, end) == piece_at(names, i + on, end + on):
                        i += 8
                    if i >= end:
                        number = known
            place = (place + 1) & last
        if number < 0 and adds:  # the place is that of an empty slot
            number = np.int64(n)
            for i in range(begin, end):
                names[ends[n] + i - begin] = text[i]
            ends[n + 1] = ends[n] + end - begin
            hashes[n] = mixed[k]
            slots[place] = (mixed[k] >> _HALF << _HALF) | np.uint64(n + 1)
            n += 1
        numbers[k] = number
        k += 1
    return k, n


@device
def letter_at(text, i):
    """The character at i of a text in UTF-8, and where the next one is."""
    c, n = int(text[i]), 0
    if c >= 0xF0:
        c, n = c & 0x07, 3
    elif c >= 0xE0:
        c, n = c & 0x0F, 2
    elif c >= 0x80:
        c, n = c & 0x1F, 1
    for k in range(1, n + 1):
        c = c << 6 | (int(text[i + k]) & 0x3F)
    return c, i + n + 1


@device
def write_letter(c, names, i):
    """Write a character in UTF-8; where the next one goes."""
    n = 0 if c < 0x80 else 1 if c < 0x800 else 2 if c < 0x10000 else 3
    names[i] = c if n == 0 else (0xFF00 >> (n + 1) & 0xFF) | c >> 6 * n
    for k in range(1, n + 1):
        names[i + k] = 0x80 | (c >> 6 * (n - k) & 0x3F)
    return i + n + 1


@kernel
def cut_words(text, texts, letters, least, names, spans, ends):
    """Find the words of texts in UTF-8, from `least` letters on.

    ``texts`` are where texts begin and end.  ``letters`` has what is written for each character of
    a word, and 0 for those that are in none.  ``names`` gets the words one after the other,
    ``spans`` where each begins and ends there, ``ends`` where those of each text end among them.
    """
    n = at = 0
    for k in range(len(texts)):
        if k + _AHEAD < len(texts):
            prefetch(text, texts[k + _AHEAD, 0])
            prefetch(text, texts[k + _AHEAD, 0] + 64)
        i, end = texts[k, 0], texts[k, 1]
        while i < end:
            begin, more = at, 0  # bytes than letters
            while i < end:
                if text[i] < 0x80:
                    letter = letters[text[i]]
                    i += 1
                    if letter == 0:
                        break
                    names[at] = letter
                    at += 1
                else:
                    c, i = letter_at(text, i)
                    letter = letters[c]
                    if letter == 0:
                        break
                    after = write_letter(letter, names, at)
                    at, more = after, more + after - at - 1
            if at - begin - more >= least:
                spans[n, 0], spans[n, 1] = begin, at
                n += 1
            else:
                at = begin
        ends[k + 1] = n


@kernel
def count_in_rows(ends, numbers, last, times):
    """Rows of words as rows of different words and how often they are there, in the same place.

    ``last`` has -1 for each word.
    """
    n = 0
    begin = ends[0]
    for row in range(len(ends) - 1):
        first, end = n, ends[row + 1]
        for j in range(begin, end):
            number = numbers[j]
            if last[number] >= first:
                times[last[number]] += 1
            else:
                last[number] = n
                numbers[n], times[n] = number, 1
                n += 1
        begin = end
        ends[row + 1] = n


@kernel
def count_in_columns(numbers, times, rows, total):
    """Of each word: how many ``rows`` have it, and how often it is there in ``total``."""
    for j in range(len(numbers)):
        rows[numbers[j]] += 1
        total[numbers[j]] += times[j]


@device
def in_order(keys, spare, n):
    """The first `n` of some numbers, sorted: in the one array or in the other."""
    for first in range(0, n, _RUN):
        for k in range(first + 1, min(first + _RUN, n)):
            key, i = keys[k], k
            while i > first and keys[i - 1] > key:
                keys[i] = keys[i - 1]
                i -= 1
            keys[i] = key
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            i, j = first, middle
            for k in range(first, end):
                if i < middle and (j == end or keys[i] <= keys[j]):
                    spare[k] = keys[i]
                    i += 1
                else:
                    spare[k] = keys[j]
                    j += 1
        keys, spare = spare, keys
        width *= 2
    return keys


@kernel
def put_in_columns(ends, numbers, times, columns, signs, keys, spare):
    """Rows of words as rows of columns in order, in the place of the former.

    Word k is in column ``columns[k]``, or in none if that is below 0, and counts ``signs[k]`` each
    time; what is in the same column is added up.  ``keys`` and ``spare`` have room for the longest
    row.
    """
    n = 0
    begin = ends[0]
    for row in range(len(ends) - 1):
        m = 0
        for j in range(begin, ends[row + 1]):
            column = columns[numbers[j]]
            if column >= 0:  # both in one number, of which the upper half decides the order
                keys[m] = (column << 32) + signs[numbers[j]] * times[j]
                m += 1
        begin = ends[row + 1]
        found = in_order(keys, spare, m)
        before = -1
        for k in range(m):
            column = (found[k] + (1 << 31)) >> 32
            value = found[k] - (column << 32)
            if column == before:
                times[n - 1] += value
            else:
                numbers[n], times[n] = column, value
                before = column
                n += 1
        ends[row + 1] = n


@device
def turned(x, k):
    """32 bits, turned left by k."""
    return (x << k | x >> (32 - k)) & 0xFFFFFFFF


@device
def murmur_mixed(x):
    return turned(x * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF


@kernel
def murmur_hashes(text, spans, hashes):
    """MurmurHash3 of 32 bits with the seed 0, signed: scikit-learn's hashed columns go by it."""
    for k in range(len(spans)):
        i, end = spans[k, 0], spans[k, 1]
        h = 0
        while i + 4 <= end:
            piece = int(text[i]) | int(text[i + 1]) << 8
            piece |= int(text[i + 2]) << 16 | int(text[i + 3]) << 24
            h = (turned(h ^ murmur_mixed(piece), 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
            i += 4
        piece = 0
        for j in range(i, end):
            piece |= int(text[j]) << 8 * (j - i)
        h ^= murmur_mixed(piece) ^ (end - spans[k, 0])
        h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
        h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
        h ^= h >> 16
        hashes[k] = h - ((h >> 31) << 32)
