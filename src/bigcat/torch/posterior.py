"""The posterior of a trained head's weights, and intervals of its probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from bigcat.torch import exact

if TYPE_CHECKING:
    from bigcat.torch.head import CategoricalHead


class Interval(NamedTuple):
    """Ends of a central credible interval, and the mean."""

    low: Tensor
    mean: Tensor
    high: Tensor


class HeadPosterior:
    """Gaussian approximation of the posterior of a softmax head, class by class.

    The precision of the weights and the intercept of class k is
    ``prior_precision I + sum_n p_nk (1 - p_nk) z_n z_n'``, with z the hidden features and a one.
    The head should be at the mode: trained with `prior_precision` as the weight decay of a loss
    that is summed over the rows.  The mean is one Newton step away, towards the maximum of the
    expected log posterior.  With v_nk the variance of a score, the expected log-likelihood is lower
    by ``0.5 sum_nk p_nk (1 - p_nk) v_nk``, to second order.  Draws around the mode itself would
    raise the normaliser and make probable classes look less probable.

    The posterior takes ``n_classes * (in_features + 1)**2`` numbers.

    Parameters
    ----------
    head : CategoricalHead
        With Gumbel noise and a bias.
    loader : iterable of pairs (hidden, target)
        The training rows, as a list or a `DataLoader`: it is read twice.  The targets say which
        rows are ignored.
    prior_precision : float

    Attributes
    ----------
    mean : tensor of shape (n_classes, in_features + 1)
        Of the weights and the intercept of each class.
    covariance : tensor of shape (n_classes, in_features + 1, in_features + 1)

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
            raise ValueError(
                f"prior_precision={prior_precision} is not positive; give the weight decay"
            )
        if isinstance(loader, Iterator):
            raise ValueError(
                f"loader is a {type(loader).__name__}, which can be read only once; give a list or "
                "a DataLoader"
            )
        self.mean = exact.precise(torch.cat([head.weight, head.bias[:, None]], 1))
        size = self.mean.shape[1]
        prior = prior_precision * torch.eye(size).to(self.mean)
        precision = prior.flatten().repeat(head.n_classes, 1)
        for z, p in self._probabilities(head, loader):
            precision.addmm_((p * (1.0 - p)).T, _squares(z))
        root = torch.linalg.cholesky(precision.reshape(-1, size, size))
        self.covariance = torch.cholesky_inverse(root)
        gradient = torch.zeros_like(self.mean)
        for z, p in self._probabilities(head, loader):
            by_p = (1.0 - 2.0 * p) * self._variance(z)
            by_score = p * (by_p - (p * by_p).sum(1, keepdim=True))
            gradient.addmm_(by_score.T, z, alpha=-0.5)
        self.mean += (self.covariance @ gradient[:, :, None])[:, :, 0]

    def _probabilities(
        self, head: CategoricalHead, loader: Iterable[tuple[Tensor, Tensor]]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features and probabilities of some training rows at a time."""
        n_classes, size = self.mean.shape
        for hidden, target in loader:
            kept = hidden.reshape(-1, size - 1)[target.reshape(-1) != head.ignore_index]
            for rows in kept.split(max(1, exact.BLOCK_SCORES // max(n_classes, size * size))):
                yield _with_one(rows), exact.scores_of(rows, head.weight, head.bias).softmax(1)

    def _variance(self, z: Tensor) -> Tensor:
        return _squares(z) @ self.covariance.flatten(1).T

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
        found = []
        step = max(1, exact.BLOCK_SCORES // (n_draws * len(self.mean)))
        for rows, wanted in zip(hidden.split(step), classes.split(step)):
            z = _with_one(rows)
            psi, spread = z @ self.mean.T, self._variance(z).sqrt()
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
        """Return means and central credible intervals of the probabilities of given classes.

        Parameters are those of `draws`, and the level of the intervals.

        Returns
        -------
        Interval
            Three tensors of the shape of `classes`.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level} does not lie between 0 and 1; 0.9 is usual")
        drawn = self.draws(hidden, classes, n_draws, generator)
        tails = torch.tensor([0.5 - 0.5 * level, 0.5 + 0.5 * level], dtype=drawn.dtype)
        low, high = torch.quantile(drawn, tails.to(drawn.device), dim=0)
        return Interval(low, drawn.mean(0), high)


def _with_one(hidden: Tensor) -> Tensor:
    hidden = exact.precise(hidden)
    return torch.cat([hidden, torch.ones_like(hidden[:, :1])], 1)


def _squares(z: Tensor) -> Tensor:
    """Return z z' of each row as one vector."""
    return (z[:, :, None] * z[:, None, :]).flatten(1)
