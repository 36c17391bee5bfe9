"""The compiled scanner of words, and the table of them: which words of many texts are the same?

A table has, by number, the words' bytes one after the other, where each ends, and its hash.  Slots
lead from a hash to the number.  A slot is the word itself, if that has no more than eight bytes, or
else its hash; and, in the upper half of a second number, how long the word is, or `_LONG`, and in
the lower half its number plus one.  So most words are found by a look at one place of memory.

Bytes are looked at eight at a time, as one number whose lowest byte is the first.

Loops over words call no function that takes arrays and returns from several places, and no name
of an array becomes another one within them: numba would count references, which took half the time.
Places that are unsigned need no look whether they are counted from the end.
"""

import numpy as np

from bigcat.compile import device, eight_bytes, kernel, prefetch, trailing_zeros

_HALF, _LOW_HALF, _ALL = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFFFFFFFFFF)
#: The highest bit of each of eight bytes; and a factor that puts their lowest bits side by side, at
#: the top of the product.
_TOPS, _GATHER = np.uint64(0x8080808080808080), np.uint64(0x0102040810204080)
_ONE = np.uint64(1)
#: In a slot, the length of words of more than eight bytes.
_LONG = np.uint64(9)
#: How many texts or words ahead memory is asked for.
_AHEAD = 8
#: Numbers that are sorted by insertion before they are merged.
_RUN = 16


@device
def piece_at(text, i, end):
    """The bytes from i to the end as a number: of more than eight the first eight, 0 of none.

    The text has eight bytes or more.  Shifts are done in halves, as one by 64 bits has no result.
    """
    within = min(i, len(text) - 8)
    before = np.uint64(4 * min(i - within, 8))
    after = np.uint64(4 * (8 - max(min(end - i, 8), 0)))
    return eight_bytes(text, within) >> before >> before & (_ALL >> after >> after)


@device
def bits_of_letters(piece):
    """A bit for each of eight bytes, the lowest for the first: whether the byte is not 0."""
    tops = (((piece & ~_TOPS) + ~_TOPS) | piece) & _TOPS
    return (tops >> np.uint64(7)) * _GATHER >> np.uint64(56)


@device
def mix(mixed, piece, secret):
    """Four bytes at a time: what they change always reaches the upper half of the number, which the
    next four cannot change back."""
    mixed = (mixed ^ (piece & _LOW_HALF)) * secret
    mixed ^= mixed >> _HALF
    mixed = (mixed ^ (piece >> _HALF)) * secret
    return mixed ^ mixed >> _HALF


@device
def hash_span(text, begin, end, secret):
    """A number of all its bytes, and all bits that any eight of them have.

    Who does not know the `secret`, which is odd, makes no clashes.  Sixteen bytes are taken in any
    case, so that most words take no branch of their own.
    """
    first, second = piece_at(text, begin, end), piece_at(text, begin + 8, end)
    mixed = mix(mix(np.uint64(end - begin), first, secret), second, secret)
    bits = first | second
    for i in range(begin + 16, end, 8):
        piece = piece_at(text, i, end)
        mixed, bits = mix(mixed, piece, secret), bits | piece
    return mixed, bits


@kernel
def hash_words(text, spans, secret, hashes):
    """Hashes of words, by where they begin and end in the text, which has eight bytes or more."""
    for k in range(len(spans)):
        hashes[k], _ = hash_span(text, spans[k, 0], spans[k, 1], secret)


@device
def slot_of(text, begin, end, mixed):
    """What is in the slot of a word, but for its number."""
    if end - begin > 8:
        return mixed, _LONG << _HALF
    return piece_at(text, begin, end), np.uint64(end - begin) << _HALF


@kernel
def fill_slots(names, ends, hashes, n, slots):
    """Put the `n` words of a table into slots, all of which are empty."""
    last = len(slots) - 1
    for number in range(n):
        place = np.int64(hashes[number] & np.uint64(last))
        while slots[place, 1] != 0:
            place = (place + 1) & last
        word, length = slot_of(names, ends[number], ends[number + 1], hashes[number])
        slots[place, 0], slots[place, 1] = word, length | np.uint64(number + 1)


@kernel
def number_words(text, spans, mixed, k, adds, names, ends, hashes, slots, n, numbers):
    """Number words, from the k-th on, by the order in which they are first met.

    ``spans`` are where words begin and end in the text, which has eight bytes or more, and
    ``mixed`` are their hashes.  ``names``, ``ends``, ``hashes`` and ``slots`` are a table of `n`
    words.  It gets the others, and has room for them but for its slots: as soon as half of these
    are full, nothing more is done.  Or, if it adds none, their number is -1.  ``numbers`` gets the
    number of each word.  Returns how many words were numbered, and how many the table has.
    """
    last = len(slots) - 1
    while k < len(spans) and (2 * n <= last or not adds):
        if k + _AHEAD < len(spans):
            prefetch(slots, 2 * np.int64(mixed[k + _AHEAD] & np.uint64(last)))
        begin, end = spans[k, 0], spans[k, 1]
        word, length = slot_of(text, begin, end, mixed[k])
        place = np.int64(mixed[k] & np.uint64(last))
        number = np.int64(-1)
        while number < 0 and slots[place, 1] != 0:
            if slots[place, 0] == word and slots[place, 1] >> _HALF << _HALF == length:
                known = np.int64(slots[place, 1] & _LOW_HALF) - 1
                if end - begin <= 8:
                    number = known
                elif ends[known + 1] - ends[known] == end - begin:
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
            slots[place, 0], slots[place, 1] = word, length | np.uint64(n + 1)
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


@device
def find_runs(letters, end, edges):
    """Where runs of bytes that are not 0 begin and end, one after the other; how many edges.

    After the end there are zeros, up to the next multiple of 64.  Bytes are taken as the bits of a
    number, 64 at a time: no branch depends on how long a run is.
    """
    n, before = 0, np.uint64(0)  # the bit of the byte before these
    for first in range(0, end, 64):
        found = np.uint64(0)
        for k in range(8):
            bits = bits_of_letters(eight_bytes(letters, first + 8 * k))
            found |= bits << np.uint64(8 * k)
        changes = found ^ (found << _ONE | before)
        before = found >> np.uint64(63)
        while changes != 0:
            edges[n] = first + trailing_zeros(changes)
            changes &= changes - _ONE
            n += 1
    return n


@kernel
def cut_words(
    text, texts, of_bytes, letters, least, secret, names, spare, edges, spans, hashes, ends
):
    """Find the words of texts in UTF-8, from `least` letters on.

    ``texts`` are where texts begin and end.  ``letters`` has what is written for each character of
    a word, and 0 for those that are in none; ``of_bytes`` is the same of ASCII, and has other bytes
    as they are.  ``names`` gets the words: those of ASCII as far apart as in the texts, before
    `spare`, the others one after the other from there on.  ``spans`` gets where each begins and
    ends there, ``hashes`` its hash, and ``ends`` where those of each text end among them.
    ``edges`` is for runs of letters and of characters beyond ASCII.
    """
    at = 0
    for k in range(len(texts)):
        if k + _AHEAD < len(texts):
            prefetch(text, texts[k + _AHEAD, 0])
            prefetch(text, texts[k + _AHEAD, 0] + 64)
        first, length = np.uint64(texts[k, 0]), np.uint64(texts[k, 1] - texts[k, 0])
        for j in range(length):
            names[np.uint64(at) + j] = of_bytes[text[first + j]]
        at += texts[k, 1] - texts[k, 0] + 1
        names[at - 1] = 0
        ends[k + 1] = at  # of the text, until its words are counted
    names[at : min(at + 64, spare)] = 0
    n = k = 0
    for run in range(0, find_runs(names, at, edges), 2):
        begin, end = edges[run], edges[run + 1]
        while begin >= ends[k + 1]:
            k += 1
            ends[k] = n
        hashed, any_top = hash_span(names, begin, end, secret)
        if any_top & _TOPS == 0:
            spans[n, 0], spans[n, 1], hashes[n] = begin, end, hashed
            n += end - begin >= least
            continue
        while begin < end:
            word, more = spare, 0  # bytes than letters
            while begin < end:
                c, begin = letter_at(names, begin)
                letter = letters[c]
                if letter == 0:
                    break
                after = write_letter(letter, names, spare)
                spare, more = after, more + after - spare - 1
            if spare - word - more >= least:
                spans[n, 0], spans[n, 1] = word, spare
                hashes[n], _ = hash_span(names, word, spare, secret)
                n += 1
            else:
                spare = word
    ends[k + 1 :] = n


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
            column = np.int64(columns[numbers[j]])
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
