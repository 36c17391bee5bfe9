"""Optimisers whose step costs as much as the rows that have a gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import EllipsisType
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.optim import Optimizer

from bigcat.torch.rows import merged

#: Numbers of rows, or all rows.
Index: TypeAlias = Tensor | EllipsisType


class _RowSparse(Optimizer):
    """Optimiser of rows; a subclass turns their gradients into steps.

    Weight decay is that of AdamW: a step multiplies weights by 1 - lr * weight_decay.  A row
    that was not touched for some steps catches up on the next touch, and `settle` makes all rows
    catch up.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        for name in ("lr", "eps", "weight_decay"):
            if not defaults[name] >= 0.0:
                raise ValueError(f"{name}={defaults[name]} is negative; give a number from 0 on")
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step; rows without a gradient are neither read nor written.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients again.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["log_decay"] = group.get("log_decay", 0.0) + _log_decay(group)
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    self._start(state, p)
                    if group["weight_decay"]:
                        state["log_decay"] = p.new_zeros(p.shape[:1], dtype=torch.float32)
                if p.grad.is_sparse:
                    index, grad = merged(p.grad._indices()[0], p.grad._values())
                else:
                    index, grad = ..., p.grad
                rows = p[index]
                if group["weight_decay"]:
                    rows = self._decayed(rows, state, group, index)
                rows = rows - group["lr"] * self._direction(state, group, index, grad).to(p.dtype)
                p[index] = rows  # those of equal indices are equal
        return loss

    @torch.no_grad()
    def settle(self) -> None:
        """Apply the weight decay that is still due to rows without recent gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "log_decay" in state:
                    p.copy_(self._decayed(p, state, group, ...))

    @staticmethod
    def _decayed(
        rows: Tensor, state: dict[str, Tensor], group: dict[str, Any], index: Index
    ) -> Tensor:
        due = group["log_decay"] - state["log_decay"][index]
        state["log_decay"][index] = group["log_decay"]
        return rows * _per_row(due.exp(), rows).to(rows.dtype)

    def _start(self, state: dict[str, Any], p: Tensor) -> None:
        raise NotImplementedError

    def _direction(
        self, state: dict[str, Tensor], group: dict[str, Any], index: Index, grad: Tensor
    ) -> Tensor:
        raise NotImplementedError


class RowSparseAdam(_RowSparse):
    """Adam for row-sparse gradients.

    Moments and their bias corrections count the updates of each row, not the steps of the
    optimiser, so a row that is drawn for the first time after 100,000 steps moves like one that is
    drawn in the first.  Parameters with dense gradients are optimised as by `torch.optim.AdamW`.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them, as for `torch.optim.Adam`.
    lr : float, default=1e-3
    betas : tuple of two floats, default=(0.9, 0.999)
    eps : float, default=1e-8
    weight_decay : float, default=0
        Decoupled, and made up for where steps left a row out.

    Examples
    --------
    >>> import torch
    >>> from bigcat.torch import RowSparseAdam
    >>> embedding = torch.nn.Embedding(1000, 4, sparse=True)
    >>> before = embedding.weight.detach().clone()
    >>> optimizer = RowSparseAdam(embedding.parameters(), lr=0.1)
    >>> embedding(torch.tensor([7, 7, 3])).sum().backward()
    >>> optimizer.step()
    >>> (embedding.weight != before).any(1).nonzero().ravel()
    tensor([3, 7])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not all(0.0 <= beta < 1.0 for beta in betas):
            raise ValueError(f"betas={betas} do not lie in [0, 1); give two such numbers")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def _start(self, state: dict[str, Any], p: Tensor) -> None:
        state["exp_avg"] = torch.zeros_like(p)
        state["exp_avg_sq"] = torch.zeros_like(p)
        state["updates"] = p.new_zeros(p.shape[:1], dtype=torch.float32)

    def _direction(
        self, state: dict[str, Tensor], group: dict[str, Any], index: Index, grad: Tensor
    ) -> Tensor:
        first, second = group["betas"]
        updates = state["updates"][index] + 1.0
        mean = torch.lerp(grad, state["exp_avg"][index], first)
        square = torch.lerp(grad * grad, state["exp_avg_sq"][index], second)
        state["updates"][index] = updates
        state["exp_avg"][index] = mean
        state["exp_avg_sq"][index] = square
        mean_scale = _per_row(1.0 - first**updates, mean)
        square_scale = _per_row((1.0 - second**updates).sqrt(), mean)
        return mean / mean_scale / (square.sqrt() / square_scale + group["eps"])


class RowSparseAdagrad(_RowSparse):
    """Adagrad for row-sparse gradients.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them.
    lr : float, default=1e-2
    eps : float, default=1e-10
    weight_decay : float, default=0
        Decoupled, and made up for where steps left a row out.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        eps: float = 1e-10,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "eps": eps, "weight_decay": weight_decay})

    def _start(self, state: dict[str, Any], p: Tensor) -> None:
        state["sum"] = torch.zeros_like(p)

    def _direction(
        self, state: dict[str, Tensor], group: dict[str, Any], index: Index, grad: Tensor
    ) -> Tensor:
        total = state["sum"][index] + grad * grad
        state["sum"][index] = total
        return grad / (total.sqrt() + group["eps"])


def _log_decay(group: dict[str, Any]) -> float:
    kept = 1.0 - group["lr"] * group["weight_decay"]
    if kept <= 0.0:
        raise ValueError(
            f"lr * weight_decay is {1.0 - kept:g}, which leaves nothing of the weights; lower one"
        )
    return math.log(kept)


def _per_row(values: Tensor, rows: Tensor) -> Tensor:
    return values.reshape((*values.shape, *(1,) * (rows.dim() - values.dim())))
