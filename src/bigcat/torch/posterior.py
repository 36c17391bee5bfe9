"""The posterior of a trained head's weights, and its predictions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from bigcat.torch import exact

if TYPE_CHECKING:
    from bigcat.torch.head import CategoricalHead

#: Numbers held at a time: 256 MB in single precision.
_BLOCK = 1 << 26


class Interval(NamedTuple):
    """Ends of a central credible interval, and the mean."""

    low: Tensor
    mean: Tensor
    high: Tensor


class HeadPosterior:
    """Laplace approximation of the posterior of a softmax head, a matrix per class.

    The precision of the weights and the intercept of class k is
    ``prior_precision I + sum_n p_nk (1 - p_nk) z_n z_n'``, with z the hidden features and a one;
    classes are independent.  It takes ``n_classes * (in_features + 1)**2`` numbers.  Weights should
    be at the mode: trained with the weight decay that `prior_precision` says.

    Parameters
    ----------
    head : CategoricalHead
        With Gumbel noise and a bias.
    loader : iterable of pairs (hidden, target)
        The training rows, once; the targets say which rows are ignored.
    prior_precision : float

    Examples
    --------
    >>> import torch
    >>> from bigcat.torch import CategoricalHead
    >>> _ = torch.manual_seed(0)
    >>> head = CategoricalHead(4, 30, method="exact")
    >>> hidden, target = torch.randn(200, 4), torch.randint(30, (200,))
    >>> posterior = head.posterior([(hidden, target)])
    >>> low, mean, high = posterior.interval(hidden[:2], target[:2], level=0.9)
    >>> bool(((low < mean) & (mean < high)).all())
    True
    """

    @torch.no_grad()
    def __init__(
        self,
        head: CategoricalHead,
        loader: Iterable[tuple[Tensor, Tensor]],
        prior_precision: float = 1.0,
    ) -> None:
        if not head.noise.is_gumbel or head.bias is None:
            raise ValueError(
                f"a posterior is for noise='gumbel' and a bias, not for {head.noise.name!r} and "
                f"bias={head.bias is not None}; give bigcat.BayesianClassifier the hidden features"
            )
        if not prior_precision > 0.0:
            raise ValueError(f"prior_precision={prior_precision} is not positive")
        self.head = head
        size = head.in_features + 1
        dtype = exact.precise(head.weight).dtype
        precision = torch.zeros(head.n_classes, size * size, dtype=dtype, device=head.weight.device)
        for hidden, target in loader:
            hidden = hidden.reshape(-1, head.in_features)[target.reshape(-1) != head.ignore_index]
            for rows in hidden.split(max(1, _BLOCK // (size * size))):
                z = self._with_one(rows)
                squares = (z[:, :, None] * z[:, None, :]).flatten(1)
                total = exact.log_normaliser(rows, head.weight, head.bias)
                for block in exact.blocks(len(rows), head.n_classes):
                    psi = exact.block_scores(rows, head.weight, head.bias, block)
                    p = torch.exp(psi - total[:, None])
                    precision[block].addmm_((p * (1.0 - p)).T, squares)
        precision = precision.reshape(-1, size, size)
        precision.diagonal(dim1=1, dim2=2).add_(prior_precision)
        #: Lower Cholesky factors of the precisions, (n_classes, in_features + 1, in_features + 1).
        self.root = torch.linalg.cholesky(precision, out=precision)

    def _with_one(self, hidden: Tensor) -> Tensor:
        hidden = exact.precise(hidden)
        return torch.cat([hidden, torch.ones_like(hidden[:, :1])], 1)

    @torch.no_grad()
    def score_variance(self, hidden: Tensor) -> Tensor:
        """Return the posterior variances of all scores.

        Parameters
        ----------
        hidden : tensor of shape (n, in_features)

        Returns
        -------
        tensor of shape (n, n_classes)
        """
        z = self._with_one(hidden).T
        found = []
        for root in self.root.split(max(1, _BLOCK // z.numel())):
            solved = torch.linalg.solve_triangular(root, z.expand(len(root), *z.shape), upper=False)
            found.append((solved * solved).sum(1))
        return torch.cat(found).T

    @torch.no_grad()
    def draws(
        self,
        hidden: Tensor,
        classes: Tensor,
        n_draws: int = 400,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return draws of the probabilities of given classes.

        Parameters
        ----------
        hidden : tensor of shape (n, in_features)
        classes : tensor of shape (n,) or (n, m)
        n_draws : int, default=400
        generator : Generator, optional

        Returns
        -------
        tensor of shape (n_draws, n) or (n_draws, n, m)
        """
        head, found = self.head, []
        step = max(1, _BLOCK // (n_draws * head.n_classes))
        for rows, wanted in zip(hidden.split(step), classes.split(step)):
            psi = exact.scores_of(rows, head.weight, head.bias)
            spread = self.score_variance(rows).sqrt()
            noise = torch.randn(
                (n_draws, *psi.shape), generator=generator, device=psi.device, dtype=psi.dtype
            )
            scores = noise.mul_(spread).add_(psi)
            index = wanted.reshape(len(rows), -1).expand(n_draws, len(rows), -1)
            log_p = scores.gather(2, index) - scores.logsumexp(2, keepdim=True)
            found.append(log_p.exp().reshape(n_draws, *wanted.shape))
        return torch.cat(found, 1)

    def interval(
        self,
        hidden: Tensor,
        classes: Tensor,
        level: float = 0.9,
        n_draws: int = 400,
        generator: torch.Generator | None = None,
    ) -> Interval:
        """Return central credible intervals of class probabilities.

        Parameters
        ----------
        hidden : tensor of shape (n, in_features)
        classes : tensor of shape (n,) or (n, m)
        level : float, default=0.9
        n_draws : int, default=400
        generator : Generator, optional

        Returns
        -------
        Interval
            Three tensors of the shape of `classes`.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level} does not lie between 0 and 1")
        drawn = self.draws(hidden, classes, n_draws, generator)
        tails = torch.tensor([0.5 - 0.5 * level, 0.5 + 0.5 * level], dtype=drawn.dtype)
        low, high = torch.quantile(drawn, tails.to(drawn.device), dim=0)
        return Interval(low, drawn.mean(0), high)

    def log_prob(
        self,
        hidden: Tensor,
        target: Tensor,
        n_draws: int = 400,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return the log of the mean probability of each target, (n,).

        Parameters
        ----------
        hidden : tensor of shape (n, in_features)
        target : tensor of shape (n,)
        n_draws : int, default=400
        generator : Generator, optional
        """
        return self.draws(hidden, target, n_draws, generator).mean(0).log()
