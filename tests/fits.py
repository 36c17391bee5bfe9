"""Fits of every method with every noise that it holds for."""

from collections.abc import Iterator

import bigcat

#: Each of these is a training kernel of its own, of a method and of a noise that others have too.
LONG = {
    ("augment-reduce", "logistic"),
    ("augment-reduce", "custom"),
    ("complementary", "gaussian"),
    ("complementary", "logistic"),
    ("complementary", "custom"),
}


def methods_and_noises(which: str) -> Iterator[tuple[dict, str]]:
    """Rows of `bigcat.methods()` with names of noises: all pairs, or those that are quick."""
    for row in bigcat.methods():
        for name in row["noises"]:
            if which == "all" or (row["name"], name) not in LONG:
                yield row, name
