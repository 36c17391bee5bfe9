"""Samplers of the classes that a step visits besides the labels, on the device of the head.

A draw costs as much as the classes drawn, not as the classes that exist: no array of the size
of all classes is read or written, and nothing is sent to the host.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

#: Fixed-point units in one expected draw: probabilities are integers, equal on all devices.
_UNITS = 1 << 40


class Negatives(NamedTuple):
    """Drawn classes, and the logarithm of how many classes each one stands for.

    Both have the shape (n_negatives,), or (n_rows, n_negatives) for draws per row.  A class that is
    drawn c times while q draws of it are expected stands for c / q classes, so that weighted sums
    over the draws are unbiased.  ``label_log_weights``, (n_rows,), are those of the labels if they
    were drawn; the methods ``"importance"`` and ``"nce"`` use them.
    """

    classes: Tensor
    log_weights: Tensor
    label_log_weights: Tensor | None = None


class Sampler(nn.Module):
    """Sampler of negative classes; a subclass defines `forward` and `log_weight_of`.

    Parameters
    ----------
    n_classes, n_negatives : int
    per_row : bool, default=False
        Draw anew for each row instead of once for the batch.  Scores of shared draws are one
        matrix product; draws per row take ``n_rows * n_negatives * in_features`` numbers.
    """

    def __init__(self, n_classes: int, n_negatives: int, per_row: bool = False) -> None:
        super().__init__()
        if not 1 <= n_negatives <= n_classes:
            raise ValueError(
                f"n_negatives={n_negatives} does not lie between 1 and n_classes={n_classes}; "
                "lower it"
            )
        self.n_classes, self.n_negatives, self.per_row = n_classes, n_negatives, per_row

    def draw(
        self, n_rows: int, device: torch.device, generator: Generator | None = None
    ) -> Negatives:
        """Return classes for a batch of `n_rows`."""
        shape = (n_rows, self.n_negatives) if self.per_row else (self.n_negatives,)
        return self(shape, device, generator)

    def draw_for(self, target: Tensor, valid: Tensor, generator: Generator | None) -> Negatives:
        """Return classes for rows with these labels, some of which may not be valid."""
        drawn = self.draw(len(target), target.device, generator)
        return drawn._replace(label_log_weights=self.log_weight_of(target))

    def log_weight_of(self, classes: Tensor) -> Tensor:
        """Return the log weight that these classes have when they are drawn."""
        raise NotImplementedError


class Uniform(Sampler):
    """All classes with the same probability, one from each of `n_negatives` equal ranges."""

    def forward(
        self, shape: tuple[int, ...], device: torch.device, generator: Generator | None
    ) -> Negatives:
        """Draw one class per range."""
        place = torch.arange(self.n_negatives, device=device)
        low = place * self.n_classes // self.n_negatives
        width = (place + 1) * self.n_classes // self.n_negatives - low
        u = torch.rand(shape, device=device, generator=generator)
        # u is below 1, but its product with a wide range may be rounded up to the range.
        classes = low + torch.minimum((u * width).long(), width - 1)
        return Negatives(classes, width.log().expand(shape))

    def log_weight_of(self, classes: Tensor) -> Tensor:
        place = ((classes + 1) * self.n_negatives - 1) // self.n_classes
        low = place * self.n_classes // self.n_negatives
        return ((place + 1) * self.n_classes // self.n_negatives - low).log()


class Weighted(Sampler):
    """Classes with given probabilities, drawn nearly without replacement.

    Class k is drawn ``min(1, c q_k)`` times on average, with c such that these add up to
    `n_negatives`.  One class is drawn from each of `n_negatives` ranges of equal probability, so
    the most probable classes are always in, once, and the others seldom twice.

    Parameters
    ----------
    probabilities : tensor of shape (n_classes,)
        Positive; they need not add up to one.
    n_negatives : int
    per_row : bool, default=False
        As in `Sampler`.

    Examples
    --------
    >>> import torch
    >>> from bigcat.torch import Weighted
    >>> drawn = Weighted(torch.tensor([8.0, 1.0, 1.0, 1.0]), 2).draw(1, torch.device("cpu"))
    >>> int(drawn.classes[0]), drawn.log_weights.exp()
    (0, tensor([1., 3.]))
    """

    ends: Tensor
    order: Tensor
    log_weight: Tensor

    def __init__(self, probabilities: Tensor, n_negatives: int, per_row: bool = False) -> None:
        super().__init__(len(probabilities), n_negatives, per_row)
        q = torch.as_tensor(probabilities).detach().double()
        lowest = float(q.min())
        if not (lowest > 0.0 and math.isfinite(float(q.sum()))):
            raise ValueError(
                f"the smallest probability is {lowest:g}, but a class that cannot be drawn biases "
                "the loss; mix the probabilities with uniform ones"
            )
        q, order = q.sort(descending=True, stable=True)
        expected = _expected_draws(q, n_negatives)
        ends = (expected.cumsum(0) * _UNITS).round().long()
        ends[-1] = n_negatives * _UNITS
        widths = torch.diff(ends, prepend=ends.new_zeros(1)).clamp_min(1)
        log_weight = torch.empty(self.n_classes, dtype=torch.float32, device=q.device)
        log_weight[order] = (math.log(_UNITS) - widths.double().log()).float()
        # Made from the probabilities, so not part of the state.
        self.register_buffer("ends", ends, persistent=False)
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("log_weight", log_weight, persistent=False)

    def forward(
        self, shape: tuple[int, ...], device: torch.device, generator: Generator | None
    ) -> Negatives:
        """Draw one class per range of equal probability."""
        inside = torch.randint(_UNITS, shape, device=device, generator=generator)
        place = torch.arange(self.n_negatives, device=device) * _UNITS + inside
        classes = self.order[torch.searchsorted(self.ends, place, right=True)]
        return Negatives(classes, self.log_weight[classes])

    def log_weight_of(self, classes: Tensor) -> Tensor:
        return self.log_weight[classes]


def _expected_draws(q: Tensor, n: int) -> Tensor:
    """Return min(1, c q) with sum n, for q in falling order."""
    tail = q.flip(0).cumsum(0).flip(0)
    left = n - torch.arange(len(q), device=q.device)
    # The head ends before the first class whose share of what is left is below one draw.
    n_head = int(((q * left >= tail) & (left > 0)).long().cumprod(0).sum())
    expected = torch.ones_like(q)
    if n_head < len(q):
        expected[n_head:] = q[n_head:] * ((n - n_head) / tail[n_head])
    return expected


def by_count(
    class_counts: Tensor,
    n_negatives: int,
    *,
    power: float = 0.75,
    uniform_share: float = 0.1,
    per_row: bool = False,
) -> Weighted:
    """Return a sampler by class counts to a power, mixed with uniform draws.

    Parameters
    ----------
    class_counts : tensor of shape (n_classes,)
        Training rows per class.
    n_negatives : int
    power : float, default=0.75
    uniform_share : float, default=0.1
        Keeps classes without training rows in the sample now and then.
    per_row : bool, default=False
        As in `Sampler`.
    """
    p = torch.as_tensor(class_counts).double() ** power
    q = (1.0 - uniform_share) * p / p.sum() + uniform_share / len(p)
    return Weighted(q, n_negatives, per_row)


def log_uniform(n_classes: int, n_negatives: int, *, per_row: bool = False) -> Weighted:
    """Return a sampler for classes that are numbered by falling frequency (Zipf's law)."""
    k = torch.arange(n_classes, dtype=torch.float64)
    return Weighted(torch.log1p(1.0 / (k + 1.0)), n_negatives, per_row)


class InBatch(nn.Module):
    """The labels of the other rows of the batch as negatives.

    Parameters
    ----------
    class_counts : tensor of shape (n_classes,)
        Training rows per class: how often each label is expected in a batch.
    """

    log_share: Tensor

    def __init__(self, class_counts: Tensor) -> None:
        super().__init__()
        counts = torch.as_tensor(class_counts).double()
        self.register_buffer("log_share", (counts / counts.sum()).log().float(), persistent=False)

    def draw_for(self, target: Tensor, valid: Tensor, generator: Generator | None) -> Negatives:
        """Return the labels of the batch; rows that are not valid stand for no class."""
        others = (valid.sum() - 1).clamp_min(1)
        log_weights = -self.log_share[target] - others.log()
        return Negatives(target, log_weights.masked_fill(~valid, -math.inf), log_weights)
