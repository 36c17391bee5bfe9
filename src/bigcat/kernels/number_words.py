"""The compiled scanner of words, and the table of them: which spans of a text are the same?"""

import numpy as np

from bigcat.compile import device, kernel

_IN_WORDS = np.array([chr(c).isalnum() or c == ord("_") for c in range(128)] + [False] * 128)


@device
def hash_span(text, begin, end, secret):
    """A number of all its bytes; who does not know the `secret`, which is odd, makes no clashes."""
    mixed = np.uint64(end - begin)
    for i in range(begin, end):
        mixed = (mixed ^ np.uint64(text[i])) * secret
        mixed ^= mixed >> np.uint64(29)
    return mixed


@device
def are_equal(text, first, second, length):
    k = 0
    while k < length and text[first + k] == text[second + k]:
        k += 1
    return k == length


@kernel
def number_spans(text, spans, secret, numbers, first):
    """Number the different words of a text by the order in which they are first met.

    ``spans`` are where words begin and end.  ``numbers`` gets the number of each, ``first`` the
    first span of each number.  Returns how many numbers there are.
    """
    size = 1024
    table = np.zeros(size, np.int64)  # of numbers, plus one
    n = 0
    for k in range(len(spans)):
        begin, end = spans[k, 0], spans[k, 1]
        place = np.int64(hash_span(text, begin, end, secret) & np.uint64(size - 1))
        while table[place] != 0:
            other = spans[first[table[place] - 1]]
            if other[1] - other[0] == end - begin and are_equal(text, other[0], begin, end - begin):
                break
            place = (place + 1) & (size - 1)
        if table[place] != 0:
            numbers[k] = table[place] - 1
            continue
        numbers[k], first[n] = n, k
        n += 1
        table[place] = n
        if 2 * n > size:  # a table that is less than half full is quick to look up
            size *= 4
            table = np.zeros(size, np.int64)
            for known in range(n):
                begin, end = spans[first[known], 0], spans[first[known], 1]
                place = np.int64(hash_span(text, begin, end, secret) & np.uint64(size - 1))
                while table[place] != 0:
                    place = (place + 1) & (size - 1)
                table[place] = known + 1
    return n


@kernel
def cut_words(text, texts, least, words, ends, is_ascii):
    r"""Find the runs of letters, digits and ``_`` in texts that are ASCII, from `least` letters on.

    ``texts`` are where texts begin and end.  ``words`` gets where words do, ``ends`` how many there
    are before each text and after the last, ``is_ascii`` which texts are; the others have no words.
    Returns how many words there are.
    """
    n = 0
    for k in range(len(texts)):
        i, end = texts[k]
        is_ascii[k] = True
        while i < end:
            begin = i
            while i < end and _IN_WORDS[text[i]]:
                i += 1
            if i - begin >= least:
                words[n, 0], words[n, 1] = begin, i
                n += 1
            if i < end and text[i] >= 128:
                is_ascii[k] = False
                n = ends[k]
                break
            i += 1
        ends[k + 1] = n
    return n
