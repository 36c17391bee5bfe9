"""Leakage between rows: near-duplicates and serial dependence.

A validation row that has a near-duplicate among the training rows, or comes from the same session,
looks easier to predict than a new row.  Ridges, epochs and ensembles are then selected for rows
that the model has already seen.

Near-duplicates are found by a gap.  Without them, in m dimensions, the k-th nearest row of the same
class is closer than a fraction r of the next one with probability r^(m k).  A row has
near-duplicates where that probability is tiny.  Serial dependence is found by comparing each row
with the next one and with another row of that one's class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.preprocessing import normalize

from bigcat.estimators.inputs import check_groups, labelled_rows

#: Minimum share of rows with near-duplicates; texts repeat themselves up to there by nature.
MIN_SHARE = 0.2
#: Minimum of serial dependence, as a cosine and in standard errors.
MIN_COSINE, MIN_ERRORS = 0.05, 4.0
#: Columns of the sketch in which rows are compared.
SKETCH_COLUMNS = 32
#: Rows for the quartiles that scale dense columns; maximal number of values of a column of grades.
QUARTILE_ROWS, MAX_GRADES = 1_000, 16
#: Maximum number of equal rows, or of near-duplicates of a row; more of them repeat by nature.
MAX_COPIES = 16
#: Neighbours per row; the dimension is estimated from the more distant half.
NEIGHBOURS = 32
#: Minimum ratio of distances at a gap, and maximum probability of such a gap by chance.
MIN_RATIO, MAX_CHANCE = 2.0, 1e-4
#: Maximum number of rows of a cell, and number of random trees, each of which splits elsewhere.
CELL_ROWS, TREES = 1_024, 3
#: Rows from which the dimension is estimated.
DIMENSION_ROWS = 2_000
#: Squared distances below this share of the squared lengths are rounding errors.
ROUNDING = 1e-12
#: Minimum number of distinct rows of a class.
MIN_CLASS_ROWS = 4
#: Minimum number of rows, minimum and maximum number of pairs for serial dependence.
MIN_ROWS, MIN_PAIRS, MAX_PAIRS = 100, 30, 4_000
#: Lags at which dependence is measured again, until this share of it is left.
LAGS, SHARE_LEFT = (4, 16, 64, 256), 0.2
#: Minimum number of blocks of rows.
MIN_BLOCKS = 20


@dataclass(frozen=True, repr=False, eq=False)
class LeakageReport:
    """Result of :func:`check_leakage`.

    Parameters
    ----------
    n_rows : int
    n_groups : int or None
        Number of groups given; None without groups.
    near_duplicate_share : float
        Share of the rows with a near-duplicate, or an equal row, of the same class in another
        group.  Without groups each row counts as a group.
    near_duplicate_groups : array of shape (n_rows,) or None
        Number of each row's group, for ``fit(X, y, groups=...)``: near-duplicates and rows of one
        given group share a number.  None where the share is below 20 %.
    serial_dependence : float
        Mean cosine between a row and the next one in another group, minus the mean cosine between
        that row and a random row of the next one's class.  NaN for fewer than 100 rows or 30 pairs.
    standard_error : float
        Standard error of `serial_dependence`.
    block_length : int or None
        Number of consecutive rows that depend on each other; None without serial dependence.
    recommendation : str
    """

    n_rows: int
    n_groups: int | None
    near_duplicate_share: float
    near_duplicate_groups: np.ndarray | None
    serial_dependence: float
    standard_error: float
    block_length: int | None
    recommendation: str

    def __repr__(self) -> str:
        where = "one group per row" if self.n_groups is None else f"{self.n_groups:,} groups"
        share = f"{100.0 * self.near_duplicate_share:.1f} % of rows"
        serial, block = "too few pairs of rows", ""
        if not np.isnan(self.serial_dependence):
            serial = f"{self.serial_dependence:.3f} +- {self.standard_error:.3f}"
        if self.block_length is not None:
            block = f", blocks of {self.block_length}"
        return (
            f"rows                {self.n_rows:,}, {where}\n"
            f"near-duplicates     {share}\n"
            f"serial dependence   {serial}{block}\n"
            f"{self.recommendation}"
        )


def check_leakage(
    X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
) -> LeakageReport:
    """Report near-duplicates and serial dependence among rows, and recommend ``groups=``.

    The report does not depend on a seed.  Time grows in proportion to the number of rows.

    Parameters
    ----------
    X : array, data frame, CSR matrix of shape (n, n_features), or folder of rows
        Anything that ``LinearClassifier.fit`` accepts.
    y : array of shape (n,), optional
        Labels; None for a folder of rows, which has them.
    groups : array of shape (n,), optional
        Label of each row's group.  Only leakage across groups is then reported.

    Returns
    -------
    LeakageReport

    Raises
    ------
    ValueError
        If X, y or groups are not what ``fit`` accepts.

    Examples
    --------
    >>> import numpy as np
    >>> from bigcat.inspection import check_leakage
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((300, 20)), rng.integers(3, size=300)
    >>> check_leakage(X, y).near_duplicate_share
    0.0
    >>> repeated = np.concatenate([X, X + 0.01 * rng.standard_normal(X.shape)])
    >>> report = check_leakage(repeated, np.concatenate([y, y]))
    >>> report.near_duplicate_share, len(np.unique(report.near_duplicate_groups))
    (1.0, 300)
    """
    X, _, labels = labelled_rows(X, y, "check_leakage")
    given = check_groups(groups, X, None)
    group = np.arange(len(labels)) if given is None else given
    rng = np.random.RandomState(0)
    sketch = _sketch(X, rng)
    component = _near_duplicates(X, sketch, labels, rng)
    share = float(_in_several_groups(component, group).mean())
    merged = _merged(component, group) if share >= MIN_SHARE else None
    serial, error = _serial_dependence(sketch, labels, (group, component), 1)
    block = None
    if serial > max(MIN_COSINE, MIN_ERRORS * error):
        lags = (_serial_dependence(sketch, labels, (group, component), lag)[0] for lag in LAGS)
        reach = next((k for k, left in zip(LAGS, lags) if not left > SHARE_LEFT * serial), LAGS[-1])
        block = min(2 * reach, max(len(labels) // MIN_BLOCKS, 2))
    n_groups = None if given is None else int(given.max()) + 1
    advice = _recommendation(share, merged, serial, block, given is not None)
    return LeakageReport(len(labels), n_groups, share, merged, serial, error, block, advice)


def _recommendation(
    share: float, merged: np.ndarray | None, serial: float, block: int | None, has_groups: bool
) -> str:
    advice = []
    if share >= MIN_SHARE:
        where = "other groups" if has_groups else "other rows"
        remedy = "pass groups=report.near_duplicate_groups"
        if merged is None:
            remedy = "drop them, because they connect all rows"
        advice.append(
            f"{share:.0%} of the rows have near-duplicates in {where}: {remedy}, unless new rows "
            "will repeat these rows as well."
        )
    if block is not None:
        remedy = "groups= with a label per user, session or recording"
        blocks = f", or blocks of rows (groups=np.arange(len(y)) // {block})"
        advice.append(
            "Neighbouring rows depend on each other: pass "
            + ("larger groups" if has_groups else remedy + blocks)
            + ", or X_val of other groups; shuffle the rows if new rows come from the same users."
        )
    if not advice and np.isnan(serial):
        return "Few or no near-duplicates; too few pairs of neighbouring rows to check dependence."
    nothing = "Few or no near-duplicates, no serial dependence: rows can be split at random."
    return "\n".join(advice) or nothing


def _sketch(X: Any, rng: np.random.RandomState) -> np.ndarray:
    """Return scaled and bounded rows in at most 32 random directions, (n, columns)."""
    n, n_features = X.shape
    if n_features <= SKETCH_COLUMNS:
        directions = np.eye(n_features)
    else:
        directions = rng.standard_normal((n_features, SKETCH_COLUMNS)) / np.sqrt(SKETCH_COLUMNS)
    if scipy.sparse.issparse(X):
        squares = np.bincount(X.indices, X.data.astype(np.float64) ** 2, n_features)
        scale = np.sqrt(squares / np.maximum(np.bincount(X.indices, minlength=n_features), 1))
        values = _bounded(X.data / np.where(scale > 0.0, scale, 1.0)[X.indices])
        return np.asarray(
            scipy.sparse.csr_array((values, X.indices, X.indptr), X.shape) @ directions
        )
    some = np.sort(X[np.sort(rng.permutation(n)[:QUARTILE_ROWS])].astype(np.float64), axis=0)
    quarter = len(some) // 4
    middle, spread = some[len(some) // 2], some[len(some) - 1 - quarter] - some[quarter]
    varies = spread > 0.0
    n_values = 1 + (some[1:] > some[:-1]).sum(axis=0)
    measured = varies & (n_values > MAX_GRADES)
    usual = spread[measured if measured.any() else varies]
    # Scaling up columns of small spread, such as the border of pictures, would amplify noise.
    scale = np.maximum(spread, np.median(usual) if len(usual) else 1.0)
    return np.concatenate(
        [_bounded((X[rows] - middle) / scale) @ directions for rows in _blocks(X)]
    )


def _bounded(Z: np.ndarray) -> np.ndarray:
    """Return values unchanged up to size 1 and compressed to sizes below 2 beyond.

    Otherwise rows that share an extreme value, such as a code for missing values, look alike.
    """
    size = np.maximum(np.abs(Z), 1.0)
    bounded: np.ndarray = Z / size * (2.0 - 1.0 / size)
    return bounded


def _blocks(X: Any) -> Iterator[slice]:
    """Yield slices of rows: of an array, with about a million values each."""
    n, n_features = X.shape
    step = n if scipy.sparse.issparse(X) else max(1, (1 << 20) // n_features)
    yield from (slice(i, i + step) for i in range(0, n, step))


def _near_duplicates(
    X: Any, sketch: np.ndarray, labels: np.ndarray, rng: np.random.RandomState
) -> np.ndarray:
    """Return a number for each row, shared with its near-duplicates and with no other row."""
    point, is_copied = _points(X, labels, rng)
    first = np.unique(point, return_index=True)[1]
    sketch, labels = sketch[first], labels[first]
    classes = np.split(np.argsort(labels, kind="stable"), np.bincount(labels).cumsum()[:-1])
    cells = [
        cell
        for tree in range(TREES)
        for rows in classes
        if len(rows) >= MIN_CLASS_ROWS and (tree == 0 or len(rows) > CELL_ROWS)
        for cell in _split(sketch, rows, rng)
    ]
    rng.shuffle(cells)
    n_cells = 1 + int(np.searchsorted(np.cumsum([len(cell) for cell in cells]), DIMENSION_ROWS))
    growth = [_growth(_neighbours(sketch, cell)[0]) for cell in cells[:n_cells]]
    dimension = 1.0 / max(float(np.median(np.concatenate(growth))), 1e-9) if cells else 0.0
    ends = [np.empty((2, 0), np.intp)]
    for cell in cells:
        distances, others = _neighbours(sketch, cell)
        is_near = np.arange(others.shape[1]) < _number_before_gap(distances, dimension)[:, None]
        ends.append(np.stack([np.repeat(cell, is_near.sum(axis=1)), others[is_near]]))
    edges = np.concatenate(ends, axis=1)
    is_copied[edges] = True
    number = _components(edges, len(first))[point]
    alone = ~is_copied[point]  # single rows, and rows that coincide by chance
    number[alone] = len(first) + np.flatnonzero(alone)
    return np.asarray(number)


def _points(
    X: Any, labels: np.ndarray, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of each row's point, and for each point whether its rows are copies.

    A point is a pair of values and label.  Rows that coincide by chance, such as those of one
    category, are not copies: there are many of them, or their labels differ, or more rows coincide
    in half of the columns, or most equal rows of the data have different labels.
    """
    factors = rng.standard_normal((X.shape[1], 3))
    factors[np.arange(X.shape[1]), rng.permutation(X.shape[1]) % 2] = 0.0
    # A product with a CSR matrix gives the same bits for equal rows; one with an array may not.
    sums = np.concatenate([scipy.sparse.csr_array(X[rows]) @ factors for rows in _blocks(X)])
    halves, values = sums[:, :2], np.unique(sums[:, 2], return_inverse=True)[1]
    point = np.unique(values * (labels.max() + 1) + labels, return_inverse=True)[1]
    first, size = np.unique(point, return_index=True, return_counts=True)[1:]
    n_equal = np.bincount(values)[values[first]]
    is_copied = (n_equal > 1) & (n_equal <= MAX_COPIES)
    agrees = size == n_equal
    is_copied &= agrees & (agrees[is_copied].sum() > 0.5 * is_copied.sum())
    for half in halves.T:
        alike = np.unique(half, return_inverse=True)[1]
        is_copied &= np.bincount(alike)[alike[first]] <= 2 * size
    return point, is_copied


def _split(
    sketch: np.ndarray, rows: np.ndarray, rng: np.random.RandomState
) -> Iterator[np.ndarray]:
    """Yield cells of neighbouring rows, by halving them along random directions."""
    if len(rows) <= CELL_ROWS:
        yield rows
        return
    middle = len(rows) // 2
    order = np.argpartition(sketch[rows] @ rng.standard_normal(sketch.shape[1]), middle)
    yield from _split(sketch, rows[order[:middle]], rng)
    yield from _split(sketch, rows[order[middle:]], rng)


def _neighbours(sketch: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return increasing distances of the rows of a cell to their nearest rows, and these rows."""
    Z = sketch[cell] - sketch[cell].mean(axis=0)
    squares = np.einsum("nd,nd->n", Z, Z)
    sums = squares[:, None] + squares
    distances = np.maximum(sums - 2.0 * (Z @ Z.T), ROUNDING * sums)
    np.fill_diagonal(distances, np.inf)
    n = min(NEIGHBOURS, len(cell) - 1)
    places = np.argpartition(distances, n - 1, axis=1)[:, :n]
    found = np.take_along_axis(distances, places, axis=1)
    order = np.argsort(found, axis=1, kind="stable")
    found = np.maximum(np.take_along_axis(found, order, axis=1), np.finfo(np.float64).tiny)
    return np.sqrt(found), cell[np.take_along_axis(places, order, axis=1)]


def _growth(distances: np.ndarray) -> np.ndarray:
    """Return an estimate of 1 / m for each row in m dimensions, from its further neighbours.

    From the j-th to the n-th neighbour the log distance grows by the sum of 1 / (i m) over i from
    j to n - 1 on average.
    """
    n = min(distances.shape[1], max(3, len(distances) // 2))  # beyond, the farthest rows of a class
    logs = np.log(distances[:, :n])
    sums = (1.0 / np.arange(1, n))[::-1].cumsum()[::-1][n // 2 :]
    median = sums.mean() * (1.0 - 1.0 / (3.0 * len(sums)))  # as of a gamma distribution
    growth: np.ndarray = (logs[:, -1:] - logs[:, n // 2 : -1]).mean(axis=1) / median
    return growth


def _number_before_gap(distances: np.ndarray, dimension: float) -> np.ndarray:
    """Return the number of near-duplicates of each row: its neighbours before the clearest gap."""
    jumps = np.diff(np.log(distances[:, :MAX_COPIES]), axis=1)
    jumps[jumps < np.log(MIN_RATIO)] = 0.0
    k = np.arange(1, jumps.shape[1] + 1)
    # Minus the log probability, reduced for larger k: all rows of a chance cluster share its gap.
    rarity = dimension * k * jumps * 2.0 / (k + 1.0)
    return np.where(rarity.max(axis=1) > -np.log(MAX_CHANCE), rarity.argmax(axis=1) + 1, 0)


def _components(edges: np.ndarray, n: int) -> np.ndarray:
    """Return the number of each node's connected component."""
    graph = scipy.sparse.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(n, n))
    numbers: np.ndarray = connected_components(graph, directed=False)[1].astype(np.intp)
    return numbers


def _merged(component: np.ndarray, group: np.ndarray) -> np.ndarray | None:
    """Return groups that hold whole groups and whole components; None if one holds all rows."""
    edges = np.stack([component, component.max() + 1 + group])
    numbers = _components(edges, int(edges.max()) + 1)[component]
    numbers = np.unique(numbers, return_inverse=True)[1]
    return numbers if numbers.max() > 0 else None


def _in_several_groups(component: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return for each row whether its component has rows in several groups."""
    pairs = np.unique(component * (group.max() + 1) + group)
    n_groups = np.bincount(pairs // (group.max() + 1))
    return np.asarray(n_groups[component] > 1)


def _serial_dependence(
    sketch: np.ndarray,
    labels: np.ndarray,
    kept_apart: tuple[np.ndarray, ...],
    lag: int,
) -> tuple[float, float]:
    """Return how much more alike rows at this lag are, as a cosine, and its standard error.

    The reference is another row of the later row's class, so the order of the classes does not
    matter.  Pairs that share a number of `kept_apart` are left out.
    """
    rng = np.random.RandomState(0)
    rows = np.arange(max(len(labels) - lag, 0))
    later = rows + lag
    by_class, counts = np.argsort(labels, kind="stable"), np.bincount(labels)
    first = counts.cumsum() - counts
    places = (rng.random_sample(len(rows)) * counts[labels[later]]).astype(np.intp)
    others = by_class[first[labels[later]] + places]
    usable = others != later
    for number in kept_apart:
        usable &= (number[rows] != number[later]) & (number[rows] != number[others])
    chosen = rng.permutation(np.flatnonzero(usable))[:MAX_PAIRS]
    if len(labels) < MIN_ROWS or len(chosen) < MIN_PAIRS:
        return float("nan"), float("nan")
    middle = sketch[rows[chosen]].mean(axis=0)
    earlier, following, reference = (
        normalize(sketch[of[chosen]] - middle) for of in (rows, later, others)
    )
    more = np.einsum("nd,nd->n", earlier, following - reference)
    return float(more.mean()), float(more.std() / np.sqrt(len(more)))
