"""Tables of coverage on the pages come from the data sets that were measured."""

from __future__ import annotations

from benchmarks import interval_tables, intervals
from benchmarks._report import saved


def test_the_pages_are_those_of_the_file():
    rows = saved(intervals.NAME)
    assert len(rows) > 300
    for page in interval_tables.PAGES:
        text = (interval_tables.DOCS / page).read_text()
        assert interval_tables.with_tables(text, rows) == text, (
            "python -m benchmarks interval-coverage --sets 0"
        )
