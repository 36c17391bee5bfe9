"""An output layer over very many classes whose training step visits a few of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Generator, Tensor, nn

from bigcat.torch import exact, losses
from bigcat.torch.losses import METHODS, NEVER, Local, Scores
from bigcat.torch.noise import Noise, resolve
from bigcat.torch.rows import take_rows
from bigcat.torch.samplers import InBatch, Negatives, Sampler, Uniform, by_count

if TYPE_CHECKING:
    from bigcat.torch.posterior import HeadPosterior

#: `auto` takes the exact loss up to this many classes per negative, by type of device.
CROSSOVER = {"cpu": 4, "cuda": 400}


class HeadSelection(NamedTuple):
    """Method of a head, and why it was taken."""

    method: str
    reason: str


class TopK(NamedTuple):
    """The best classes of each row, best first."""

    log_prob: Tensor
    classes: Tensor


class CategoricalHead(nn.Module):
    """Linear output layer and loss for very many classes.

    The model is ``argmax_k weight[k] @ hidden + bias[k] + noise_k``; Gumbel noise makes it the
    softmax.  `forward` returns the training loss.  A sampled method reads the weights of the labels
    and of `n_negatives` other classes, and leaves a gradient with those rows alone, so with
    `RowSparseAdam` or `RowSparseAdagrad` no part of a step costs more where there are more classes.

    Parameters
    ----------
    in_features, n_classes : int
    noise : {"gumbel", "gaussian", "logistic"} or Noise, default="gumbel"
        Softmax, probit, logistic, or a noise of your own.
    method : str, default="auto"
        ``"exact"``: all classes, in blocks.  ``"complementary"``: unbiased normaliser, the least
        variance.  ``"augment-reduce"``: bound that is unbiased over the draws.  For Gumbel noise
        also ``"one-vs-each"`` (bound), ``"importance"`` (sampled softmax), ``"nce"``, ``"umax"``
        and ``"implicit"``.  ``"auto"``: exact for few classes, else complementary; `selection` says
        which and why.
    n_negatives : int, default=512
        Classes drawn per step, or per row if the sampler draws per row.
    sampler : Sampler or InBatch, optional
        By default `by_count` if there are `class_counts`, else `Uniform`.
    class_counts : tensor of shape (n_classes,), optional
        Training rows per class.
    bias : bool, default=True
    weight : Parameter of shape (n_classes, in_features), optional
        Tied weights, as those of an embedding.
    class_weight : tensor of shape (n_classes,), optional
        As ``weight`` of `torch.nn.CrossEntropyLoss`.
    ignore_index : int, default=-100
        Rows with this target do not count.
    n_rows : int, optional
        Training rows, for methods with a local parameter per row: ``"umax"`` and ``"implicit"``
        need it, ``"augment-reduce"`` may have it.  Then `forward` takes ``rows``.
    local_rate : float, default=0.5
        Size of the local parameters' steps.  An implicit step moves weights and local parameters
        together: give the learning rate of plain SGD on the loss with ``reduction="sum"``.
    sparse_grad : bool, optional
        Leave row-sparse gradients.  By default if the method samples.
    device, dtype : optional
        As for `torch.nn.Linear`.

    Attributes
    ----------
    selection : HeadSelection
        The method, and why it was taken.
    weight, bias : Parameter
        As those of `torch.nn.Linear`, whose ``state_dict`` fits.

    Examples
    --------
    >>> import torch
    >>> from bigcat.torch import CategoricalHead, RowSparseAdam
    >>> _ = torch.manual_seed(0)
    >>> head = CategoricalHead(8, 100_000, n_negatives=64)
    >>> head.selection.method
    'complementary'
    >>> loss = head(torch.randn(5, 8), torch.randint(100_000, (5,)))
    >>> loss.backward()
    >>> head.weight.grad._nnz()
    69
    >>> RowSparseAdam(head.parameters()).step()
    >>> head.top_k(torch.randn(5, 8), 3).classes.shape
    torch.Size([5, 3])
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    class_weight: Tensor | None
    local: Tensor | None

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        *,
        noise: str | Noise = "gumbel",
        method: str = "auto",
        n_negatives: int = 512,
        sampler: Sampler | InBatch | None = None,
        class_counts: Tensor | None = None,
        bias: bool = True,
        weight: nn.Parameter | None = None,
        class_weight: Tensor | None = None,
        ignore_index: int = -100,
        n_rows: int | None = None,
        local_rate: float = 0.5,
        sparse_grad: bool | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes = in_features, n_classes
        self.ignore_index = ignore_index
        self.local_rate = local_rate
        self.noise = resolve(noise)
        if weight is None:
            weight = nn.Parameter(torch.empty(n_classes, in_features, **kind))
            nn.init.normal_(weight, std=0.1 / math.sqrt(in_features))
        if weight.shape != (n_classes, in_features):
            raise ValueError(
                f"weight has the shape {tuple(weight.shape)}, not {(n_classes, in_features)}"
            )
        self.weight = weight
        kind["device"] = weight.device
        self.bias = nn.Parameter(torch.zeros(n_classes, **kind)) if bias else None
        self.register_buffer("class_weight", class_weight, persistent=False)
        self.selection = _select(method, self.noise, n_classes, n_negatives, weight.device)
        self.method = self.selection.method
        if n_rows is None and self.method != "exact" and METHODS[self.method].loss is None:
            raise ValueError(
                f"method={self.method!r} keeps a number per training row; give n_rows, and rows to "
                "each call"
            )
        n_local = 1 if self.noise.is_gumbel else 2
        self.register_buffer(
            "local", None if n_rows is None else torch.full((n_rows, n_local), torch.nan, **kind)
        )
        self.sampler: Sampler | InBatch | None = None
        if self.method != "exact":
            self.sampler = sampler or _sampler(class_counts, n_classes, n_negatives)
            self.sampler.to(weight.device)
        self.sparse_grad = self.method != "exact" if sparse_grad is None else sparse_grad

    def extra_repr(self) -> str:
        """Return what the layer's line in a printed network says."""
        return (
            f"in_features={self.in_features}, n_classes={self.n_classes}, "
            f"noise={self.noise.name!r}, method={self.method!r}, sparse_grad={self.sparse_grad}"
        )

    # Training

    def forward(
        self,
        hidden: Tensor,
        target: Tensor,
        *,
        reduction: str = "mean",
        row_weight: Tensor | None = None,
        rows: Tensor | None = None,
        negatives: Negatives | tuple[Tensor, ...] | None = None,
        generator: Generator | None = None,
    ) -> Tensor:
        """Return the training loss.

        Parameters
        ----------
        hidden : tensor of shape (..., in_features)
        target : tensor of shape (...)
            Classes, or `ignore_index`.
        reduction : {"mean", "sum", "none"}, default="mean"
            The mean divides by the sum of the weights; it is 0 where all rows are ignored.
        row_weight : tensor of shape (...), optional
        rows : tensor of shape (...), optional
            Numbers of the training rows, for local parameters.
        negatives : tuple of tensors, optional
            Your own `Negatives`: classes, and minus the logarithm of their expected number of
            draws, both of shape (m,) or (n, m).  The methods ``"importance"`` and ``"nce"`` also
            need this log weight of each label, of shape (n,), as a third tensor.
        generator : Generator, optional
            Source of the draws; by default torch's own, which `torch.manual_seed` seeds.

        Returns
        -------
        tensor
            Of shape (...) for ``reduction="none"``, else a number.
        """
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction={reduction!r} is not 'mean', 'sum' or 'none'; choose one")
        shape = target.shape
        hidden, label, valid = self._flattened(hidden, target)
        hidden = hidden.masked_fill(~valid[:, None], 0.0)
        with exact.without_autocast(hidden.device):
            if self.sampler is None:
                loss = -self._log_prob(hidden, label)
            else:
                if negatives is None:
                    drawn = self.sampler.draw_for(label, valid, generator)
                else:
                    drawn = self._given(negatives)
                # Ignored rows point to a class that is visited in any case.
                visited = torch.where(valid, label, drawn.classes.reshape(-1)[0])
                scores = self._scores(hidden, visited, drawn)
                loss = self._sampled_loss(scores, hidden, valid, rows)
        weights = valid.to(loss.dtype)
        if self.class_weight is not None:
            weights = weights * self.class_weight[label]
        if row_weight is not None:
            weights = weights * row_weight.reshape(-1)
        loss = loss.masked_fill(~valid, 0.0) * weights
        if reduction == "none":
            return loss.reshape(shape)
        total = loss.sum()
        if reduction == "sum":
            return total
        return total / weights.sum().clamp_min(torch.finfo(loss.dtype).tiny)

    def _given(self, negatives: Negatives | tuple[Tensor, ...]) -> Negatives:
        drawn = Negatives(*negatives)
        if drawn.label_log_weights is None and self.method in ("importance", "nce"):
            raise ValueError(
                f"negatives has no log weights of the labels, which method={self.method!r} needs; "
                "give negatives=(classes, log_weights, label_log_weights)"
            )
        return drawn

    def _scores(self, hidden: Tensor, label: Tensor, drawn: Negatives) -> Scores:
        classes, log_weights, label_log_weights = drawn
        n = len(label)
        visited = torch.cat([label, classes.reshape(-1)])
        weight, bias = take_rows(self.weight, self.bias, visited, self.sparse_grad)
        hidden, weight = exact.precise(hidden), exact.precise(weight)
        hidden = hidden.to(torch.promote_types(hidden.dtype, weight.dtype))
        weight = weight.to(hidden.dtype)
        own = (hidden * weight[:n]).sum(1)
        if classes.dim() == 1:
            others = hidden @ weight[n:].T
        else:
            others = torch.einsum("nd,nmd->nm", hidden, weight[n:].reshape(*classes.shape, -1))
        if bias is not None:
            own, others = own + bias[:n], others + bias[n:].reshape(classes.shape)
        log_weights = log_weights.to(others.dtype).clamp_min(NEVER)
        log_weights = log_weights.expand(others.shape).masked_fill(classes == label[:, None], NEVER)
        if label_log_weights is None:
            label_log_weights = torch.zeros_like(own)
        return Scores(own, others, log_weights, label_log_weights.to(own.dtype))

    def _sampled_loss(
        self, scores: Scores, hidden: Tensor, valid: Tensor, rows: Tensor | None
    ) -> Tensor:
        method = METHODS[self.method]
        if self.local is None or method.by_row is None:
            assert method.loss is not None
            return method.loss(self.noise, scores)
        if rows is None:
            raise ValueError("the head has local parameters of n_rows training rows; give rows=")
        rows = rows.reshape(-1)
        stored, fresh = self.local[rows], losses.best_local(self.noise, scores)
        old = torch.where(stored.isnan(), fresh, stored.to(fresh.dtype))
        squared_norm = (hidden.detach() ** 2).sum(1).to(old.dtype) + (self.bias is not None)
        local = Local(old, fresh, self.local_rate, squared_norm)
        loss, new = method.by_row(self.noise, scores, local)
        self.local[rows] = torch.where(valid[:, None], new.to(stored.dtype), stored)
        return loss

    # Evaluation

    def log_prob(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return the exact log-probability of each target, in blocks of classes.

        Parameters
        ----------
        hidden : tensor of shape (..., in_features)
        target : tensor of shape (...)

        Returns
        -------
        tensor of shape (...)
            0 for ignored rows.
        """
        return self._evaluated(hidden, target, self._log_prob)

    def lower_bound(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Return the method's bound on each log-probability, over all classes.

        Local parameters are at their best.  For the softmax the bound of augment-and-reduce is then
        the log-probability itself.

        Parameters
        ----------
        hidden : tensor of shape (..., in_features)
        target : tensor of shape (...)
        """
        bound = METHODS[self.method].bound
        if bound is None:
            raise ValueError(
                f"the loss of method={self.method!r} is not a bound; take log_prob, or a head with "
                "method='one-vs-each' or 'augment-reduce'"
            )
        return -self._evaluated(hidden, target, lambda h, y: self._over_all(h, y, bound))

    def _evaluated(self, hidden: Tensor, target: Tensor, function: Any) -> Tensor:
        """Apply a function of rows and labels to the valid rows."""
        rows, label, valid = self._flattened(hidden, target)
        with exact.without_autocast(hidden.device):
            value: Tensor = function(rows, label)
        return value.masked_fill(~valid, 0.0).reshape(target.shape)

    def _log_prob(self, hidden: Tensor, target: Tensor) -> Tensor:
        if self.noise.is_gumbel:
            return exact.log_softmax_of(hidden, self.weight, self.bias, target)
        return -self._over_all(hidden, target, losses.complementary)

    def _over_all(self, hidden: Tensor, target: Tensor, loss: Any) -> Tensor:
        """Return a loss over all classes, for a block of rows at a time."""
        n = max(1, exact.BLOCK_SCORES // self.n_classes)
        found = []
        for i in range(0, len(target), n):
            part, label = hidden[i : i + n], target[i : i + n]
            psi = exact.scores_of(part, self.weight, self.bias)
            own = psi.gather(1, label[:, None])[:, 0]
            log_weights = torch.zeros_like(psi).scatter(1, label[:, None], NEVER)
            scores = Scores(own, psi, log_weights, torch.zeros_like(own))
            found.append(loss(self.noise, scores))
        return torch.cat(found) if found else hidden.new_zeros(0)

    @torch.no_grad()
    def top_k(self, hidden: Tensor, k: int) -> TopK:
        """Return the k most probable classes of each row, best first.

        Parameters
        ----------
        hidden : tensor of shape (..., in_features)
        k : int

        Returns
        -------
        TopK
            Their log-probabilities and numbers, both of shape (..., k).
        """
        self._refuse_shards(hidden)
        if not 1 <= k <= self.n_classes:
            raise ValueError(f"k={k} does not lie between 1 and n_classes={self.n_classes}")
        rows = hidden.reshape(-1, self.in_features)
        n = rows.shape[0]
        with exact.without_autocast(hidden.device):
            best = rows.new_zeros(n, 0, dtype=exact.precise(rows).dtype)
            classes = torch.zeros(n, 0, dtype=torch.long, device=rows.device)
            total = torch.full_like(rows[:, 0], -torch.inf, dtype=best.dtype)
            start = 0
            for weight, bias in exact.blocks(n, self.weight, self.bias):
                psi = exact.scores_of(rows, weight, bias)
                total = torch.logaddexp(total, psi.logsumexp(1))
                values, found = psi.topk(min(k, psi.shape[1]), dim=1)
                best = torch.cat([best, values], 1)
                classes = torch.cat([classes, found + start], 1)
                best, place = best.topk(min(k, best.shape[1]), dim=1)
                classes = classes.gather(1, place)
                start += len(weight)
            if self.noise.is_gumbel:
                log_prob = best - total[:, None]
            else:
                log_prob = torch.stack([self._log_prob(rows, c) for c in classes.T], 1)
        shape = (*hidden.shape[:-1], k)
        return TopK(log_prob.reshape(shape), classes.reshape(shape))

    def posterior(
        self, loader: Iterable[tuple[Tensor, Tensor]], *, prior_precision: float = 1.0
    ) -> HeadPosterior:
        """Return the `HeadPosterior` of the weights.

        Parameters
        ----------
        loader : iterable of pairs (hidden, target)
            The training rows.
        prior_precision : float, default=1.0
            Precision of the Gaussian prior of each weight.
        """
        from bigcat.torch.posterior import HeadPosterior

        return HeadPosterior(self, loader, prior_precision)

    def _refuse_shards(self, hidden: Tensor) -> None:
        for name, tensor in (("weight", self.weight), ("hidden", hidden)):
            if type(tensor).__name__ == "DTensor":
                raise TypeError(
                    f"{name} is a DTensor, and the head takes rows of plain tensors; call "
                    f"{name}.full_tensor(), or leave the head out of the sharded modules"
                )

    def _flattened(self, hidden: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows, labels, which are 0 for ignored rows, and which rows are not ignored."""
        self._refuse_shards(hidden)
        if hidden.shape[-1] != self.in_features or hidden.shape[:-1] != target.shape:
            raise ValueError(
                f"hidden has the shape {tuple(hidden.shape)} and target {tuple(target.shape)}; "
                f"they should be (..., {self.in_features}) and (...)"
            )
        target = target.reshape(-1)
        valid = target != self.ignore_index
        return hidden.reshape(-1, self.in_features), torch.where(valid, target, 0), valid


def _select(
    method: str, noise: Noise, n_classes: int, n_negatives: int, device: torch.device
) -> HeadSelection:
    if method == "auto":
        most = CROSSOVER.get(device.type, CROSSOVER["cuda"]) * n_negatives
        if n_classes <= most:
            return HeadSelection(
                "exact", f"{n_classes:,} classes are at most {most:,}, so all of them are cheap"
            )
        return HeadSelection(
            "complementary",
            f"{n_classes:,} classes are more than {most:,}, so {n_negatives:,} are drawn per step",
        )
    if method not in METHODS:
        raise ValueError(
            f"method={method!r} is not known; choose 'auto' or one of "
            f"{', '.join(map(repr, METHODS))}"
        )
    if not (METHODS[method].any_noise or noise.is_gumbel):
        raise ValueError(
            f"method={method!r} holds for noise='gumbel', not for {noise.name!r}; take "
            "'complementary', 'augment-reduce' or 'exact', which hold for every noise"
        )
    return HeadSelection(method, "as asked for")


def _sampler(class_counts: Tensor | None, n_classes: int, n_negatives: int) -> Sampler:
    n_negatives = min(n_negatives, n_classes)
    if class_counts is None:
        return Uniform(n_classes, n_negatives)
    if len(class_counts) != n_classes:
        raise ValueError(
            f"class_counts has {len(class_counts)} entries, not {n_classes}; give one per class"
        )
    return by_count(class_counts, n_negatives)
