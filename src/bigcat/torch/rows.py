"""Rows of a parameter, with gradients that hold these rows alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def take_rows(
    weight: Tensor, bias: Tensor | None, classes: Tensor, sparse_grad: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the weights and intercepts of some classes.

    With `sparse_grad` the gradients are sparse tensors with one row per entry of `classes`, as
    those of ``nn.Embedding(sparse=True)``.
    """
    if not sparse_grad:
        return weight[classes], None if bias is None else bias[classes]
    return _take_sparse(weight, bias, classes)


@torch.compiler.disable  # no compiled graph can return a sparse gradient
def _take_sparse(
    weight: Tensor, bias: Tensor | None, classes: Tensor
) -> tuple[Tensor, Tensor | None]:
    rows: Tensor = _Rows.apply(weight, classes)
    return rows, None if bias is None else _Rows.apply(bias, classes)


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, parameter: Tensor, classes: Tensor) -> Tensor:
        ctx.shape = parameter.shape
        ctx.save_for_backward(classes)
        return parameter[classes]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (classes,) = ctx.saved_tensors
        index = classes.reshape(1, -1)
        values = grad.reshape(index.shape[1], *ctx.shape[1:])
        return torch.sparse_coo_tensor(index, values, ctx.shape, check_invariants=False), None


def merged(index: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Add up the values of equal indices, in arrays of the same shape as before.

    Unlike `Tensor.coalesce`, no shape depends on the data, so the host does not wait for the
    device.  Entries left over at the end repeat the first one.
    """
    index, order = index.sort()
    starts = torch.ones_like(index)
    starts[1:] = index[1:] != index[:-1]
    place = starts.cumsum(0) - 1
    sums = torch.zeros_like(values).index_add_(0, place, values[order])
    firsts = torch.zeros_like(index).scatter_(0, place, index)
    entry = torch.arange(len(index), device=index.device)
    entry = torch.where(entry <= place[-1], entry, 0)
    return firsts[entry], sums[entry]
