"""The compiled scanners of numeric text: sparse rows ``label,label index:value ...`` and tables.

The text ends in a newline, so that no loop over a token has to look for the end of the array.
"""

import numpy as np

from bigcat.compile import device, kernel

# What went wrong, for the caller's message.
OK, BAD_LABEL, LABEL_TOO_LARGE, BAD_INDEX, INDEX_TOO_LARGE, BAD_VALUE = range(6)
BAD_FIELD, WRONG_WIDTH, OPEN_QUOTE = range(6, 9)

_SPACE, _TAB, _RETURN, _NEWLINE = 32, 9, 13, 10
_PLUS, _COMMA, _MINUS, _DOT, _ZERO, _NINE, _COLON, _HASH = 43, 44, 45, 46, 48, 57, 58, 35
_LETTER_E, _LETTER_e, _QUOTE = 69, 101, 34
_QUERY = (113, 105, 100, 58)  # "qid:"

_DIGITS_KEPT = 10**17  # a mantissa below this takes one more digit without leaving int64
_FLOAT32_END = 2.0**128 - 2.0**103  # from here on a float32 rounds to infinity
_EXACT_POWERS = 10.0 ** np.arange(23)  # 10**22 is the largest power of ten a double holds exactly


@device
def skip_blanks(text, i):
    """The first position from i on that is no space, tab or carriage return."""
    c = text[i]
    while c in (_SPACE, _TAB, _RETURN):
        i += 1
        c = text[i]
    return i


@device
def ends_token(c, svmlight):
    """Whether a token may end before character c."""
    blank = c in (_SPACE, _NEWLINE, _TAB, _RETURN)
    return blank or (svmlight and c == _HASH)


@device
def scan_integer(text, i):
    """Digits from position i: (value, position after them); no digits leave i where it is."""
    value = 0
    c = int(text[i])
    while _ZERO <= c <= _NINE:
        value = min(value * 10 + (c - _ZERO), _DIGITS_KEPT)
        i += 1
        c = int(text[i])
    return value, i


@device
def scan_float(text, i):
    """A decimal number from position i: (value, position after it); on failure position -1."""
    c = int(text[i])
    negative = c == _MINUS
    if negative or c == _PLUS:
        i += 1
        c = int(text[i])
    mantissa = 0
    exponent = 0
    found = False
    while _ZERO <= c <= _NINE:
        if mantissa < _DIGITS_KEPT:
            mantissa = mantissa * 10 + (c - _ZERO)
        else:
            exponent += 1
        found = True
        i += 1
        c = int(text[i])
    if c == _DOT:
        i += 1
        c = int(text[i])
        while _ZERO <= c <= _NINE:
            if mantissa < _DIGITS_KEPT:
                mantissa = mantissa * 10 + (c - _ZERO)
                exponent -= 1
            found = True
            i += 1
            c = int(text[i])
    if not found:
        return 0.0, -1
    if c in (_LETTER_e, _LETTER_E):
        i += 1
        c = int(text[i])
        sign = 1
        if c in (_MINUS, _PLUS):
            if c == _MINUS:
                sign = -1
            i += 1
        power, after = scan_integer(text, i)
        if after == i:
            return 0.0, -1
        exponent += sign * power
        i = after
    value = float(mantissa)
    if 0 < exponent <= 22:
        value *= _EXACT_POWERS[exponent]
    elif -22 <= exponent < 0:
        value /= _EXACT_POWERS[-exponent]
    elif exponent < -308:  # below the smallest float32 whatever the mantissa
        value = 0.0
    elif exponent != 0 and mantissa != 0:
        if exponent > 308:
            return 0.0, -1
        value *= 10.0**exponent
    if negative:
        value = -value
    return value, i


@device
def scan_labels(text, i, svmlight, n_classes):
    """Comma-separated labels from i: (first, how many, position after, error).

    A line that starts with ``index:value`` has none. On an error the position is the label's.
    """
    first = count = 0
    while True:
        begin = i
        negative = svmlight and text[i] == _MINUS
        if negative or (svmlight and text[i] == _PLUS):
            i += 1
        label, after = scan_integer(text, i)
        c = text[after]
        if after > i and c == _COLON and count == 0:
            return 0, 0, begin, OK
        if after == i or not (c == _COMMA or ends_token(c, svmlight)):
            return first, count, begin, BAD_LABEL
        if label >= n_classes:
            return first, count, begin, LABEL_TOO_LARGE
        if count == 0:
            first = -label if negative else label
        count += 1
        if c != _COMMA:
            return first, count, after, OK
        i = after + 1


@device
def skip_query(text, i):
    """The position after ``qid:number`` at i, or -1 where there is none."""
    for k in range(len(_QUERY)):
        if text[i + k] != _QUERY[k]:  # a newline before the end of _QUERY stops here as well
            return -1
    _, after = scan_integer(text, i + len(_QUERY))
    return after if after > i + len(_QUERY) and ends_token(text[after], True) else -1


@device
def scan_features(text, i, svmlight, n_features, entry, indices, values):
    """Entries from i to the line's end: (entries so far, position, whether they ascend, error).

    The position is that of the newline, or on an error that of the entry.
    """
    ascending = True
    previous = -1
    while True:
        i = skip_blanks(text, i)
        c = text[i]
        if c == _NEWLINE:
            return entry, i, ascending, OK
        if svmlight and c == _HASH:
            while text[i] != _NEWLINE:
                i += 1
            return entry, i, ascending, OK
        if svmlight and c == _QUERY[0]:
            after = skip_query(text, i)
            if after < 0:
                return entry, i, ascending, BAD_INDEX
            i = after
            continue
        index, after = scan_integer(text, i)
        if after == i or text[after] != _COLON:
            return entry, i, ascending, BAD_INDEX
        if index >= n_features:
            return entry, i, ascending, INDEX_TOO_LARGE
        value, end = scan_float(text, after + 1)
        if end < 0 or abs(value) >= _FLOAT32_END or not ends_token(text[end], svmlight):
            return entry, i, ascending, BAD_VALUE
        indices[entry] = index
        values[entry] = value
        ascending = ascending and index > previous
        previous = index
        entry += 1
        i = end


@kernel
def scan_rows(
    text, i, svmlight, single_label, n_classes, n_features, labels, lines, indptr, indices, values
):
    """Scan every line from position i on and fill the arrays of the rows that are kept.

    ``n_classes`` and ``n_features`` are exclusive limits. ``svmlight`` allows comments,
    ``qid:`` and signs before labels, and skips blank lines; otherwise a blank line is a row with
    nothing in it. Rows without a label are passed over, and with ``single_label`` those with more
    than one as well. ``lines`` gets the number of each kept row's line, the one at i being 0.

    Returns (rows kept, entries kept, rows in all, rows up to the last that is not blank,
    rows with several labels, rows without, whether each row's indices ascend strictly,
    error code, its position, its line).
    """
    row = entry = total = total_to_content = n_multi = n_unlabelled = line = 0
    all_ascend = True
    error = OK
    while i < len(text):
        i = skip_blanks(text, i)
        c = text[i]
        blank = c == _NEWLINE or (svmlight and c == _HASH)
        first = count = 0
        if not blank:
            first, count, i, error = scan_labels(text, i, svmlight, n_classes)
        row_start = entry
        ascending = True
        if error == OK:
            entry, i, ascending, error = scan_features(
                text, i, svmlight, n_features, entry, indices, values
            )
        if error != OK:
            break
        if not (blank and svmlight):
            total += 1
            n_multi += count > 1
            n_unlabelled += count == 0
        if not blank:
            total_to_content = total
        if count == 0 or (single_label and count > 1):
            entry = row_start
        else:
            labels[row] = first
            lines[row] = line
            row += 1
            indptr[row] = entry
            all_ascend = all_ascend and ascending
        line += 1
        i += 1
    return (
        row,
        entry,
        total,
        total_to_content,
        n_multi,
        n_unlabelled,
        all_ascend,
        error,
        i,
        line,
    )


@device
def scan_number_field(text, i):
    """A number, quoted or not, up to a comma or newline: (value, position there or -1)."""
    i = skip_blanks(text, i)
    quoted = text[i] == _QUOTE
    value, i = scan_float(text, i + quoted)
    if i < 0 or abs(value) >= _FLOAT32_END or (quoted and text[i] != _QUOTE):
        return value, -1
    i = skip_blanks(text, i + quoted)
    return value, i if text[i] in (_COMMA, _NEWLINE) else -1


@device
def skip_field(text, i):
    """The comma or newline after a field (-1 where a quote stays open), and newlines inside it."""
    newlines = 0
    if text[i] == _QUOTE:
        i += 1
        while True:
            if i >= len(text):
                return -1, newlines
            if text[i] == _QUOTE:
                i += 1
                if text[i] != _QUOTE:  # two quotes in a row stand for one
                    break
            newlines += text[i] == _NEWLINE
            i += 1
    while text[i] not in (_COMMA, _NEWLINE):
        i += 1
    return i, newlines


@kernel
def scan_table(text, i, n_columns, label_at, values, spans):
    """Scan comma-separated rows from position i on: numbers, and one column of labels.

    ``values`` gets the numbers row after row, ``spans`` the positions where each label begins and
    ends. Blank lines are skipped.

    Returns (rows, error code, its position, its line with the one at i being 0, its column).
    """
    row = entry = line = 0
    while i < len(text):
        i = skip_blanks(text, i)
        first_line = line
        if text[i] == _NEWLINE:
            line += 1
            i += 1
            continue
        column = 0
        while True:
            if column == n_columns:
                return row, WRONG_WIDTH, i, first_line, column
            begin = i
            if column == label_at:
                i, newlines = skip_field(text, i)
                if i < 0:
                    return row, OPEN_QUOTE, begin, line, column
                line += newlines
                spans[row, 0] = begin
                spans[row, 1] = i
            else:
                value, i = scan_number_field(text, i)
                if i < 0:
                    return row, BAD_FIELD, begin, line, column
                values[entry] = value
                entry += 1
            column += 1
            i += 1
            if text[i - 1] == _NEWLINE:
                break
        if column != n_columns:
            return row, WRONG_WIDTH, i - 1, first_line, column
        row += 1
        line += 1
    return row, OK, i, line, 0
