"""Tables of coverage on the pages come from the data sets that were measured."""

from __future__ import annotations

import pytest

from benchmarks import interval_tables, intervals
from benchmarks._report import saved, written_between


def row(coverage, seed, form="draws", **case):
    shape = intervals.Case(**{"n_classes": 5, "rows_per_class": 20, "n_features": 50} | case)
    measured = {"seed": seed, "coverage": coverage, "width": 0.2, "scale": 1.0, "form": form}
    return shape._asdict() | measured | {"CPU seconds": 1.0}


ROWS = [
    row(0.80, 0),
    row(0.84, 1),
    row(0.90, 0, n_features=200),
    row(0.91, 0, rows="sparse", noise="logistic"),
    row(0.82, 0, form=interval_tables.NUTS),
]


def test_the_page_holds_what_was_measured():
    names = (
        "interval-coverage",
        "interval-coverage of other data",
        "interval-coverage beside NUTS",
    )
    page = "".join(f"<!-- begin: {n} -->\nold\n<!-- end: {n} -->\n" for n in names)
    found = interval_tables.with_tables(page, ROWS).splitlines()
    assert "| 5 | 20 | **0.820 +- 0.020** (2) | 0.900 (1) |" in found
    assert "| sparse rows, logistic | 20 | 50 | 0.910 (1) |" in found
    assert "|  | 5 | 20 | 50 | 1 | 0.800 +- nan | 0.820 +- nan | -0.020 +- nan | 1.00 |" in found
    assert "old" not in found
    assert interval_tables.with_tables("another page", ROWS) == "another page"


def test_a_page_without_the_end_of_a_table_is_left_alone():
    with pytest.raises(ValueError, match="needs one line '<!-- begin: x -->'"):
        written_between("<!-- begin: x -->\n", "x", "table")


def test_the_pages_are_those_of_the_file():
    rows = saved(intervals.NAME)
    assert len(rows) > 300
    for page in interval_tables.PAGES:
        text = (interval_tables.DOCS / page).read_text()
        assert interval_tables.with_tables(text, rows) == text, (
            "python -m benchmarks interval-coverage --sets 0"
        )
