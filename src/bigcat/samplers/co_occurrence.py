"""Sampler of classes that share features with the row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bigcat.compile import implement, prefetch
from bigcat.numerics import random as _random
from bigcat.rows import Problem, is_sparse
from bigcat.samplers._alias import Alias, alias_draw, alias_table, mixture, pick
from bigcat.samplers._base import Sampler, always_in
from bigcat.samplers._features import FeatureIndex, add_shares, feature_index
from bigcat.samplers._merge import Places, add, forget, make_places
from bigcat.samplers.frequency import ALIAS_BYTES, check_mixture
from bigcat.verbs import draw


class CoOccurrenceTag(NamedTuple):
    """Tag of `CoOccurrence`."""

    head: np.ndarray  # classes that are always in
    table: Alias  # the background, over all others
    by_feature: FeatureIndex
    n_drawn: int
    background: float
    seen: Places
    drawn: np.ndarray  # scratch: the classes of a draw, and the label
    q: np.ndarray  # scratch: their probabilities


@dataclass(frozen=True, repr=False)
class CoOccurrence(Sampler):
    """`n_negatives` draws among the classes of training rows that share a feature with the row.

    Take this sampler for sparse rows such as texts, where the strongest rivals of a label are the
    classes seen with the same features. A draw takes one of the row's rarest features, then the
    label of a random training row with that feature. With probability `background` it comes from
    the mixture of `Frequency` instead. Class k has the probability

        q(k | x) = background q0(k) + (1 - background) mean_f n(f, k) / n(f),

    known exactly. Repetitions are merged and draws of the label dropped, as in `Frequency`. Tables
    take about 20 bytes per non-zero (4, plus 16 to 32 per pair of feature and class that occur
    together) and ``4 n_features`` bytes per row.

    Parameters
    ----------
    n_negatives : int, default=16
        Draws per row. More of them reduce the noise of steps, at proportional cost.
    n_features : int, default=4
        Features that a row draws by: its rarest ones in the training rows.
    background : float, default=0.3
        Share of draws from the background mixture, above 0. Rows without features use it alone.
        Raise it if rare classes get too high probabilities.
    power, uniform : float
        Background mixture, as in `Frequency`.
    exact_classes
        See `Sampler`.

    Examples
    --------
    Class 2 shares no feature with the first row, and is drawn from the background only.

    >>> import numpy as np
    >>> import scipy.sparse
    >>> from bigcat.samplers import CoOccurrence
    >>> X = scipy.sparse.csr_array(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> sampler = CoOccurrence(n_negatives=50)
    >>> classes, counts = sampler.sample(3, label=0, X=X, y=[0, 1, 2], row=0)
    >>> sorted(classes.tolist())
    [1, 2]
    """

    name: ClassVar[str] = "co-occurrence"
    summary: ClassVar[str] = "classes of rows that share a feature, beside a background"
    scratch: ClassVar[tuple[str, ...]] = ("seen", "drawn", "q")
    n_negatives: int = 16
    n_features: int = 4
    background: float = 0.3
    power: float = 1.0
    uniform: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mixture(self.power, self.uniform)
        if self.n_features < 1:
            raise ValueError(
                f"n_features={self.n_features!r} must be at least 1; take Frequency for draws "
                "that ignore features"
            )
        if not 0.0 < self.background <= 1.0:
            raise ValueError(
                f"background={self.background!r} must be above 0 and at most 1: without it "
                "classes that share no feature would never be drawn; set a small number such as "
                "0.05"
            )

    def check_rows(self, sparse: bool) -> None:
        """Raise ValueError for dense rows."""
        if not sparse:
            raise ValueError(
                f"sampler={self.name!r} draws classes by the features that a row has and needs "
                "sparse rows, not a dense array; pass scipy.sparse.csr_array(X), or take "
                "sampler='frequency'"
            )

    def lower(self, problem: Problem) -> CoOccurrenceTag:
        """Return the tag, with the tables of the training rows."""
        rows = problem.rows
        self.check_rows(is_sparse(rows))
        assert is_sparse(rows)
        q = mixture(problem.class_weights(), self.power, self.uniform, problem.head)
        n_drawn = self.n_negatives if q.any() else 0
        index = feature_index(problem, rows, self.n_features)
        return CoOccurrenceTag(
            problem.head,
            alias_table(q),
            index,
            n_drawn,
            float(self.background),
            make_places(n_drawn),
            np.empty(n_drawn + 1, np.int64),
            np.empty(n_drawn + 1, np.float32),
        )

    def width(self, n_classes: int, head: np.ndarray | None = None) -> int:
        """Return the maximal number of classes of one draw."""
        n_head = 0 if head is None else len(head)
        return n_head + min(self.n_negatives, n_classes - 1)

    def memory(self, n_rows: int, n_classes: int, nnz: int) -> int:
        """Return the bytes of the tables."""
        return ALIAS_BYTES * n_classes + 20 * nnz + 4 * self.n_features * n_rows


@implement(draw, CoOccurrenceTag)
def _(sampler, rng, rows, i, label, classes, counts):
    table, index, seen, q = sampler.table, sampler.by_feature, sampler.seen, sampler.q
    features, probability, drawn = index.rarest[i], table.probability, sampler.drawn
    n_drawn, n_features = sampler.n_drawn, 0
    while n_features < features.shape[0] and features[n_features] >= 0:
        # Small tables come while classes are drawn.
        f = features[n_features]
        first, last = index.first_slot[f], index.first_slot[f + 1]
        for line in range(first, min(last, first + 64), 8):
            prefetch(index.slots, line)
        n_features += 1
    background = sampler.background if n_features > 0 else 1.0
    to_background = 1.0 / background
    to_features = 1.0 / (1.0 - background) if background < 1.0 else 0.0
    # All draws first, so that the processor waits for all of their labels at once.
    for c in range(n_drawn):
        u = _random.uniform(rng)  # has bits enough for the whole draw
        if u < background:
            drawn[c] = alias_draw(table, u * to_background)
        else:
            at, rest = pick((u - background) * to_features, n_features)
            first = index.first_label[features[at]]
            at, _rest = pick(rest, index.first_label[features[at] + 1] - first)
            drawn[c] = index.labels[first + at]
    n = n_always = always_in(sampler.head, label, classes, counts)
    forget(seen)
    for c in range(n_drawn):
        k = drawn[c]
        if k != label and probability[k] > 0.0:  # that of the head is 0
            n = add(seen, k, n, classes, counts)
    n_new = n - n_always
    for c in range(n_new):
        drawn[c] = classes[n_always + c]
    drawn[n_new] = label
    for c in range(n_new + 1):
        q[c] = np.float32(background) * probability[drawn[c]]
    for at in range(n_features):
        first, last = index.first_slot[features[at]], index.first_slot[features[at] + 1]
        factor = np.float32((1.0 - background) / n_features)
        add_shares(index.slots, first, last, factor, drawn, n_new + 1, q)
    for c in range(n_new):
        counts[n_always + c] /= n_drawn * q[c]
    counts[n] = 1.0 / (n_drawn * q[n_new]) if probability[label] > 0.0 else 1.0
    return n, n_always
