"""What a fit needs in memory."""

from __future__ import annotations

from bigcat.bayes._design import CHUNK
from bigcat.bayes.covariance import PAIRS_CHUNK
from bigcat.bayes.independent_binary import Settings, block_scores, class_blocks
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
    settings: Settings,
    sharing: str,
) -> int:
    """Bytes that a fit needs beside the data.

    Parameters
    ----------
    stored : float or None
        Numbers that sparse rows hold; None for dense rows.
    sharing : {"shared", "class", "coordinate"}
        What the prior's precision has one of.
    """
    full, logit = settings.covariance == "full", settings.link == "logit"
    weights = n_classes * n_columns
    if stored is None:
        rows = 1.5 * n_rows * n_columns  # with the intercept; and in float32
    else:
        rows = 1.5 * stored + (0.0 if full else stored)  # and their squares
    numbers = rows + 2.0 * weights  # means, and once more with the other order of axes
    if full:
        matrices = n_classes if logit or sharing == "coordinate" else 0
        numbers += (6 + matrices) * n_columns**2
        numbers += weights if logit else 0  # X'(y - 1/2)
    elif logit or sharing != "shared":
        numbers += weights
    if sharing == "coordinate":
        numbers += 3 * weights
    elif sharing == "class":
        numbers += weights
    blocks = class_blocks(n_rows, n_classes, block_scores(full and logit))
    width = len(blocks[0])
    a_block = _SCORES_A_BLOCK * n_rows * width + 8.0 * n_columns * width + CHUNK
    if full and logit:
        a_block += 3.0 * width * n_columns**2 + PAIRS_CHUNK
    numbers += min(settings.n_threads, len(blocks)) * a_block + 8 * BLOCK
    return int(_DOUBLE * numbers)


def forecast_weight_posterior(
    n_rows: int,
    n_features: int,
    n_classes: int,
    *,
    stored: float,
    item: int,
    n_local: int,
    keeps_best: bool = False,
) -> int:
    """Bytes that `fit_weight_posterior` and its result need beside the data.

    Parameters
    ----------
    stored : float
        Numbers that the rows hold.
    item : int
        Bytes of a weight.
    n_local : int
        Local parameters a row.
    keeps_best : bool
        Whether the best epoch's posterior is kept beside the current one.
    """
    weights = (n_features + 1) * n_classes
    # Means, information, the solver's state and stamps; at the end means and scales twice (with
    # the other order of axes, with the intercepts), when the state is not yet gone.
    a_weight = 7 * item + 4 + (2 * item if keeps_best else 0)
    rows = stored * (item + 4) + 8 * n_rows * (n_local + 4)
    return int(weights * a_weight + rows)
