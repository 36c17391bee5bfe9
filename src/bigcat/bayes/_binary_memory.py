"""What independent binary regressions need in memory."""

from __future__ import annotations

from bigcat.bayes._design import CHUNK
from bigcat.bayes.binary_fit import block_scores, class_blocks
from bigcat.bayes.covariance import PAIRS_CHUNK
from bigcat.bayes.posterior import BLOCK

_DOUBLE = 8
#: Arrays of a block's scores that live at once in a Newton step: scores, slopes, row variances,
#: the direction's scores, trial scores, a product's result, and the curvature in float32.
_SCORES_A_BLOCK = 6.5


def forecast(
    n_rows: int,
    n_columns: int,
    n_classes: int,
    *,
    stored: float | None,
    full: bool,
    row_variances: bool,
    sharing: str,
    n_threads: int,
) -> int:
    """Bytes that a fit needs beside the data.

    Parameters
    ----------
    stored : float or None
        Numbers that sparse rows hold; None for dense rows.
    full : bool
        Are covariances matrices?
    row_variances : bool
        Does the link see the variance of each row's score, so that classes differ in covariance?
    sharing : {"shared", "class", "coordinate"}
        What the prior's precision has one of.
    """
    weights = n_classes * n_columns
    if stored is None:
        rows = 1.5 * n_rows * n_columns  # with the intercept; and in float32
    else:
        rows = 1.5 * stored + (0.0 if full else stored)  # and their squares
    numbers = rows + 2.0 * weights  # means, and once more with the other order of axes
    if full:
        matrices = n_classes if row_variances or sharing == "coordinate" else 0
        numbers += (6 + matrices) * n_columns**2
        numbers += weights if row_variances else 0  # X'(y - 1/2)
    elif row_variances or sharing != "shared":
        numbers += weights
    if sharing == "coordinate":
        numbers += 3 * weights
    elif sharing == "class":
        numbers += weights
    blocks = class_blocks(n_rows, n_classes, block_scores(full and row_variances))
    width = len(blocks[0])
    a_block = _SCORES_A_BLOCK * n_rows * width + 8.0 * n_columns * width + CHUNK
    if full and row_variances:
        a_block += 3.0 * width * n_columns**2 + PAIRS_CHUNK
    numbers += min(n_threads, len(blocks)) * a_block + 8 * BLOCK
    return int(_DOUBLE * numbers)
