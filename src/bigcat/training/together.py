"""Which rows stay on one side of every split: groups, near copies, neighbours, or copies alone."""

from __future__ import annotations

from bigcat.caller import warn_caller
from bigcat.training.near_copies import kinds_of
from bigcat.training.neighbours import with_neighbours
from bigcat.training.sample import Kinds, Sample


def rows_that_stay_together(sample: Sample) -> Kinds:
    """The groups that were given, or what the rows themselves say; people are told of that."""
    kinds = kinds_of(sample)
    if not kinds.depend:
        kinds = with_neighbours(sample, kinds)
    told = None
    if "near_copies" in kinds.told:
        told = (
            f"{kinds.told['near_copies']:.0%} of the rows are nearly copies of other rows of "
            "their class; these stay together where rows are held out to judge the fit.  If rows "
            "come in groups, such as users, sessions or pictures, give fit their groups=, or "
            "X_val and y_val of other groups than X has"
        )
    if "neighbours" in kinds.told:
        length = kinds.told["neighbours"]["rows_held_out_together"]
        told = (
            "neighbouring rows are more alike than other rows of their classes, as those of one "
            f"user, session or time are; so {length} rows in a row are held out together to judge "
            "the fit.  If you know which rows belong together, give fit their groups=; if new "
            "rows are of the same users as these, shuffle the rows"
        )
    if told is not None:
        warn_caller(told)
    return kinds
