"""The softmax over all classes, a block of classes at a time."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

#: Scores held at a time: 64 MB in single precision.
BLOCK_SCORES = 1 << 24
#: Fewer classes per block would make matrix products slow.
MIN_BLOCK = 256


def blocks(n_rows: int, n_classes: int) -> list[slice]:
    """Return ranges of classes whose scores for so many rows fill one block."""
    size = max(MIN_BLOCK, BLOCK_SCORES // max(n_rows, 1))
    return [slice(k, min(k + size, n_classes)) for k in range(0, n_classes, size)]


def precise(tensor: Tensor) -> Tensor:
    """Return at least single precision, in which scores are added up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which products have the precision of their factors."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def block_scores(hidden: Tensor, weight: Tensor, bias: Tensor | None, block: slice) -> Tensor:
    """Return the scores of a block of classes in at least single precision."""
    scores = precise(hidden) @ precise(weight[block]).T
    return scores if bias is None else scores + precise(bias[block])


def log_normaliser(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return log sum_k exp(psi_k) of each row, without a gradient."""
    n, n_classes = len(hidden), len(weight)
    total = torch.full((n,), -torch.inf, dtype=precise(hidden).dtype, device=hidden.device)
    for block in blocks(n, n_classes):
        part = block_scores(hidden, weight, bias, block).logsumexp(1)
        total = torch.logaddexp(total, part)
    return total


def log_softmax_of(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Tensor:
    """Return the log-probability of one class per row.

    All scores are kept where they fit in one block.  Otherwise torch's own chunked loss takes over
    where there is one (from 2.13), and `_LogSoftmaxOf` elsewhere.
    """
    if len(hidden) * len(weight) <= BLOCK_SCORES:
        scores = block_scores(hidden, weight, bias, slice(None))
        return -functional.cross_entropy(scores, target, reduction="none")
    same_type = hidden.dtype == weight.dtype == precise(hidden).dtype
    if same_type and hasattr(functional, "linear_cross_entropy"):
        options = nn.LinearCrossEntropyOptions()
        loss: Tensor = functional.linear_cross_entropy(
            hidden, weight, target, linear_bias=bias, reduction="none", options=options
        )
        return -loss
    value: Tensor = _LogSoftmaxOf.apply(hidden, weight, bias, target)[0]
    return value


class _LogSoftmaxOf(torch.autograd.Function):
    """Scores are computed again in the backward pass."""

    @staticmethod
    def forward(hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor) -> Any:
        normaliser = log_normaliser(hidden, weight, bias)
        label = (precise(hidden) * precise(weight[target])).sum(1)
        if bias is not None:
            label = label + precise(bias[target])
        return label - normaliser, normaliser

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Any:
        hidden, weight, bias, target, normaliser = ctx.saved_tensors
        rows = precise(hidden)
        d_hidden = grad[:, None] * precise(weight[target])
        d_weight = torch.empty_like(weight)
        d_bias = None if bias is None else torch.empty_like(bias)
        for block in blocks(len(hidden), len(weight)):
            scores = block_scores(hidden, weight, bias, block)
            slopes = -grad[:, None] * torch.exp(scores - normaliser[:, None])
            d_hidden += slopes @ precise(weight[block])
            # Labels outside of the block go to an additional column.
            place = target - block.start
            inside = (place >= 0) & (target < block.stop)
            width = block.stop - block.start
            slopes = slopes.scatter_add(
                1, place.clamp(0, width - 1)[:, None], (grad * inside)[:, None]
            )
            d_weight[block] = (slopes.T @ rows).to(weight.dtype)
            if d_bias is not None:
                d_bias[block] = slopes.sum(0).to(d_bias.dtype)
        return d_hidden.to(hidden.dtype), d_weight, d_bias, None
