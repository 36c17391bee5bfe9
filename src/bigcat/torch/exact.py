"""The softmax over all classes, a block of classes at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

#: Scores held at a time: 64 MB in single precision.
BLOCK_SCORES = 1 << 24
#: Fewer classes per block would make matrix products slow.
MIN_BLOCK = 256


def blocks(n_rows: int, weight: Tensor, bias: Tensor | None) -> list[tuple[Tensor, Tensor | None]]:
    """Split weights and intercepts into blocks of classes whose scores are held at a time."""
    size = max(MIN_BLOCK, BLOCK_SCORES // max(n_rows, 1))
    weights = weight.split(size)
    return list(zip(weights, [None] * len(weights) if bias is None else bias.split(size)))


def precise(tensor: Tensor) -> Tensor:
    """Return at least single precision, in which scores are added up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which products have the precision of their factors."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def scores_of(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return the scores of some classes in at least single precision."""
    scores = precise(hidden) @ precise(weight).T
    return scores if bias is None else scores + precise(bias)


def _log_sum(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return scores_of(hidden, weight, bias).logsumexp(1)


def _log_normaliser(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return log sum_k exp(psi_k) of each row; the backward pass computes the scores again."""
    parts = [
        checkpoint(_log_sum, hidden, w, b, use_reentrant=False, preserve_rng_state=False)
        for w, b in blocks(len(hidden), weight, bias)
    ]
    return torch.stack(parts).logsumexp(0)


def log_softmax_of(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """Return the log-probability of one class per row.

    All scores are kept if they fit in one block.  Otherwise torch's own chunked loss takes over
    if it exists (from 2.13), and `_log_normaliser` if not.
    """
    if len(hidden) * len(weight) <= BLOCK_SCORES:
        scores = scores_of(hidden, weight, bias)
        return -functional.cross_entropy(scores, target, reduction="none")
    same_type = hidden.dtype == weight.dtype == precise(hidden).dtype
    if same_type and hasattr(functional, "linear_cross_entropy"):
        options = nn.LinearCrossEntropyOptions()
        loss: Tensor = functional.linear_cross_entropy(
            hidden, weight, target, linear_bias=bias, reduction="none", options=options
        )
        return -loss
    label = (precise(hidden) * precise(weight[target])).sum(1)
    if bias is not None:
        label = label + precise(bias[target])
    return label - _log_normaliser(hidden, weight, bias)
