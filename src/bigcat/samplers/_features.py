"""Tables of classes and features that occur together, for `CoOccurrence`.

A draw picks a feature of the row and then one of the labels of the rows with that feature. Its
importance weight needs the share of *every* drawn class among the labels of *every* feature of the
row. These look-ups are nearly all of the work, so each feature has its own hash table, of one or
two cache lines for rare features. A class is in one of two slots (cuckoo hashing; Pagh and Rodler,
2004): look-ups have no branch to mispredict, and run in parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bigcat.compile import device, float_of_bits, kernel
from bigcat.rows import Problem, SparseRows

_GOLDEN, _S40, _S16 = np.uint64(0x9E3779B97F4A7C15), np.uint64(40), np.uint64(16)
#: Empty slot: an invalid class with a share of 0.
_FREE = np.int64(0x7FFFFFFF << 32)
_NO_FEATURE = -1
#: Moves before a hash table counts as too small; cycles are short otherwise.
_MAX_MOVES = 50


class FeatureIndex(NamedTuple):
    """Labels and hash tables of the features that some row draws by."""

    rarest: np.ndarray  # (n_rows, n) int32: features that a row draws by, -1 where it has fewer
    first_label: np.ndarray  # (n_features + 1,) int64: a feature's place in `labels`
    labels: np.ndarray  # int32: of the rows that have the feature
    first_slot: np.ndarray  # (n_features + 1,) int64: a feature's hash table, a power of two long
    slots: np.ndarray  # int64: class, then the bits of its share of the labels


def feature_index(problem: Problem, rows: SparseRows, n: int) -> FeatureIndex:
    """Build the tables of the rows with positive weight, with the `n` rarest features per row."""
    counted, sizes = problem.row_weights > 0.0, (problem.n_features, problem.n_classes, n)
    return FeatureIndex(*_tables(rows.indptr, rows.indices, counted, problem.labels, *sizes))


@kernel
def _tables(indptr, indices, counted, row_labels, n_features, n_classes, n):
    n_with = np.zeros(n_features, np.int64)
    for i in range(counted.shape[0]):
        if counted[i]:
            for p in range(indptr[i], indptr[i + 1]):
                n_with[indices[p]] += 1
    rarest = np.full((counted.shape[0], n), _NO_FEATURE, np.int32)
    listed = np.zeros(n_features, np.bool_)
    _choose(indptr, indices, n_with, rarest, listed)
    for f in range(n_features):
        n_with[f] *= listed[f]
    first_label = _offsets(n_with)
    labels = np.empty(first_label[n_features], np.int32)
    _collect(indptr, indices, counted, row_labels, listed, first_label, labels)
    n_slots = np.zeros(n_features, np.int64)
    first_slot, slots = first_label, np.full(4, _FREE)  # room to try sizes
    number, entries = np.zeros(n_classes, np.int64), np.empty(n_classes, np.int64)
    for filling in range(2):  # find the tables' sizes, then fill them
        if filling:
            first_slot = _offsets(n_slots)
            slots = np.full(first_slot[n_features], _FREE)
        for f in range(n_features):
            n_found = _tally(labels, first_label[f], first_label[f + 1], number, entries)
            # At least twice its classes, and enough that all find a place.
            size, stuck = n_slots[f], n_found > 0
            while stuck:
                if not filling:
                    size = max(2 * size, 2)
                    while size < 2 * n_found:
                        size *= 2
                    if slots.shape[0] < size:
                        slots = np.empty(size, np.int64)
                    slots[:size] = _FREE
                    n_slots[f] = size
                first = first_slot[f] if filling else 0
                stuck = not _place(entries, n_found, slots, first, size)
    return rarest, first_label, labels, first_slot, slots


@device
def _offsets(lengths):
    offsets = np.zeros(lengths.shape[0] + 1, np.int64)
    for f in range(lengths.shape[0]):
        offsets[f + 1] = offsets[f] + lengths[f]
    return offsets


@device
def _choose(indptr, indices, n_with, rarest, listed):
    """Find the rarest features of each row, by insertion into a short sorted list."""
    most = rarest.shape[1]
    for i in range(rarest.shape[0]):
        row, n = rarest[i], 0
        for p in range(indptr[i], indptr[i + 1]):
            f = indices[p]
            if n_with[f] == 0 or (n == most and n_with[f] >= n_with[row[n - 1]]):
                continue
            n = min(n + 1, most)
            at = n - 1
            while at > 0 and n_with[f] < n_with[row[at - 1]]:
                row[at] = row[at - 1]
                at -= 1
            row[at] = f
        for at in range(n):
            listed[row[at]] = True


@device
def _collect(indptr, indices, counted, labels, listed, first_label, out):
    """Transpose the rows, with labels in place of row numbers."""
    end = first_label.copy()
    for i in range(counted.shape[0]):
        if counted[i]:
            for p in range(indptr[i], indptr[i + 1]):
                f = indices[p]
                if listed[f]:
                    out[end[f]] = labels[i]
                    end[f] += 1


@device
def _spots(k, mask):
    """Return the two slots of class k in a hash table; they may coincide.

    Unsigned, since for signed numbers numba checks each access for negative indices.
    """
    mixed = np.uint64(k) * _GOLDEN
    return (mixed >> _S40) & mask, (mixed >> _S16) & mask


@device
def _tally(labels, first, last, number, entries):
    """Write the classes of labels[first:last] with their shares to `entries`; return how many."""
    n = 0
    for p in range(first, last):
        if number[labels[p]] == 0:
            entries[n] = labels[p]
            n += 1
        number[labels[p]] += 1
    share = np.empty(1, np.float32)
    for e in range(n):
        k = entries[e]
        share[0] = number[k] / (last - first)
        number[k] = 0
        entries[e] = k << 32 | np.int64(share.view(np.int32)[0])
    return n


@device
def _place(entries, n, slots, first, size):
    """Insert entries, moving others to their second slot; return False if stuck."""
    mask = np.uint64(size - 1)
    for e in range(n):
        entry = entries[e]
        at, _two = _spots(entry >> 32, mask)
        for _ in range(_MAX_MOVES):
            place = np.uint64(first) + at
            here = slots[place]
            slots[place] = entry
            entry = here
            if here == _FREE:
                break
            one, two = _spots(entry >> 32, mask)
            at = two if at == one else one
        if entry != _FREE:
            return False
    return True


@device
def _bits_if(entry, k):
    """Return the entry if it belongs to class k, else 0; branch-free arithmetic."""
    return entry & (((entry >> 32) ^ k) - 1 >> 63)


@device
def add_shares(slots, first, last, factor, classes, n, total):
    """Add ``factor`` times each class's share of the labels of one feature to ``total``."""
    start, mask = np.uint64(first), np.uint64(last - first - 1)
    for c in range(n):
        k = classes[c]
        one, two = _spots(k, mask)
        entry = _bits_if(slots[start + one], k) | _bits_if(slots[start + two], k)
        total[c] += factor * float_of_bits(np.int32(entry))
