"""What independent binary regressions need in memory."""

from __future__ import annotations

from bigcat.bayes._design import CHUNK
from bigcat.bayes.binary_fit import block_scores, class_blocks
from bigcat.bayes.covariance import PAIRS_CHUNK, PAIRS_UP_TO
from bigcat.bayes.posterior import BLOCK

_DOUBLE = 8
#: Arrays of a block's scores that live at once in a Newton step: scores, slopes, the direction's
#: scores, a product's result, and the curvature in float32; row variances where the link sees them.
_SCORES_A_BLOCK, _OF_ROW_VARIANCES = 4.7, 2.0
#: Arrays of a block's scores that live at once where the likelihoods are compared on draws, and
#: where every class has row variances of its own.
_SCORES_OF_DRAWS, _OF_CLASS_VARIANCES = 9.5, 2.0


def forecast(
    n_rows: int,
    n_columns: int,
    n_classes: int,
    *,
    stored: float | None,
    full: bool,
    row_variances: bool,
    sharing: str,
    averages: bool,
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
    averages : bool
        Are the two likelihoods compared after the fit?
    """
    weights = n_classes * n_columns
    if stored is None:
        rows = 1.5 * n_rows * n_columns  # with the intercept; and in float32
    else:
        rows = 1.5 * stored + (0.0 if full else stored)  # and their squares
    if full:
        matrices = n_classes if row_variances or sharing == "coordinate" else 0
        covariance = matrices * n_columns**2
    else:
        covariance = weights if row_variances or sharing != "shared" else 0
    posterior = weights + covariance

    fit = rows + posterior
    if full:
        fit += 6 * n_columns**2
        fit += weights if row_variances else 0  # X'(y - 1/2)
    if sharing == "coordinate":
        fit += 3 * weights
    elif sharing == "class":
        fit += weights
    blocks = class_blocks(n_rows, n_classes, block_scores(full and row_variances))
    width = len(blocks[0])
    a_block = (_SCORES_A_BLOCK + _OF_ROW_VARIANCES * row_variances) * n_rows * width
    if full and row_variances:
        pairs = min(PAIRS_CHUNK, n_rows * n_columns**2 / 2)
        a_block = max(a_block, 3.0 * n_rows * width + pairs)
        a_block += (1.5 if n_columns <= PAIRS_UP_TO else 2.0) * width * n_columns**2
    elif row_variances and stored is None:
        a_block += min(CHUNK, n_rows * n_columns)  # squares of the rows
    fit += min(n_threads, len(blocks)) * (a_block + 8.0 * n_columns * width)

    numbers = fit
    if averages:
        some = min(n_rows, BLOCK // n_classes + 1)
        arrays = _SCORES_OF_DRAWS + _OF_CLASS_VARIANCES * (covariance > 0)
        draws = arrays * some * n_classes + (some * n_columns if stored is None else 0)
        numbers = max(fit, posterior + weights + draws)  # weights with the other order of axes
    return int(_DOUBLE * numbers)
