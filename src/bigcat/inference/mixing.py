"""R-hat and effective sample sizes of chains.

Names and definitions are ArviZ's, rank-normalised and of split chains (Vehtari, Gelman, Simpson,
Carpenter and Bürkner, 2021).  Numbers come as an array (iterations, chains, numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from bigcat.inference.protocol import Floats

#: Figures of chains.
NAMES = ("acceptance", "r_hat", "ess_bulk")
#: Fewer independent draws than this, or a larger R-hat, tell little about the spread of a scale.
TOO_FEW, LARGE_R_HAT = 10.0, 1.05


@dataclass(frozen=True)
class Mixing:
    """Mixing of chains.

    Parameters
    ----------
    acceptance : float
        The mean probability of a step of being accepted.
    r_hat : float
        The deviation of all chains together relative to that within chains, the largest of all
        numbers: 1 where chains agree.
    ess_bulk : float
        So many independent draws would tell the means as well, the smallest of all numbers.
    """

    acceptance: float
    r_hat: float
    ess_bulk: float

    @classmethod
    def of(cls, acceptance: float, seen: Floats) -> Mixing:
        """Compute from numbers of each iteration; NaN with fewer than four."""
        if len(seen) < 4:
            return cls(acceptance, np.nan, np.nan)
        return cls(acceptance, float(r_hat(seen).max()), float(ess_bulk(seen).min()))

    def as_dict(self) -> dict[str, float]:
        """Return the known figures, for ``history_.selection``."""
        every = {name: float(getattr(self, name)) for name in NAMES}
        return {name: value for name, value in every.items() if not np.isnan(value)}

    def warning(self) -> str | None:
        """Return the warning about chains that have not mixed; None if they have."""
        if not (self.ess_bulk < TOO_FEW or self.r_hat > LARGE_R_HAT):
            return None
        return (
            f"chains of the posterior have not mixed: r_hat={self.r_hat:.2f}, "
            f"ess_bulk={self.ess_bulk:.0f} for the scale of the prior (below {LARGE_R_HAT} and "
            "hundreds are best); raise n_draws of the method, or give a prior with a known scale"
        )


# Values are (iterations, C) of one number in C chains, or (iterations, C, ...) of several.


def r_hat(values: Floats) -> Floats:
    """Split R-hat: of the ranks, and of how far out they are, whichever is larger."""
    split = _split(values)
    folded = np.abs(split - np.median(split, axis=(0, 1)))
    return np.maximum(_r_hat(_normalised(split)), _r_hat(_normalised(folded)))


def ess_bulk(values: Floats) -> Floats:
    """Bulk effective sample size."""
    return _effective_size(_normalised(_split(values)))


def mean_error(draws: Floats, n_chains: int) -> Floats:
    """Monte-Carlo standard errors of the means of draws, those of an iteration side by side."""
    values = by_chain(draws, n_chains)
    if len(values) < 4:
        return np.full(draws.shape[1:], np.nan)
    error: Floats = values.std(axis=(0, 1), ddof=1) / np.sqrt(_effective_size(_split(values)))
    return error


def by_chain(draws: Floats, n_chains: int) -> Floats:
    """Return draws (S, ...), those of an iteration side by side, as (iterations, C, ...)."""
    n = len(draws) // n_chains
    return np.asarray(draws[: n * n_chains], np.float64).reshape(n, n_chains, *draws.shape[1:])


def _split(values: Floats) -> Floats:
    """Halves of chains as chains, (iterations / 2, 2 C, ...)."""
    half = len(values) // 2
    return np.concatenate([values[:half], values[-half:]], axis=1)


def _normalised(values: Floats) -> Floats:
    """Return normal scores of the ranks."""
    n = values.shape[0] * values.shape[1]
    ranks = rankdata(values.reshape(n, *values.shape[2:]), axis=0).reshape(values.shape)
    scores: Floats = ndtri((ranks - 0.375) / (n + 0.25))
    return scores


def _r_hat(values: Floats) -> Floats:
    n = len(values)
    within = values.var(axis=0, ddof=1).mean(axis=0)
    between = values.mean(axis=0).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sqrt((n - 1.0) / n + between / within)
    return np.where((within == 0.0) & (between == 0.0), 1.0, found)


def _effective_size(values: Floats) -> Floats:
    """Return the ESS by Geyer's initial monotone sequence of pairs of autocorrelations."""
    n, n_chains = values.shape[:2]
    powers = np.abs(np.fft.rfft(values - values.mean(axis=0), 2 * n, axis=0)) ** 2
    covariances = np.fft.irfft(powers, axis=0)[:n].mean(axis=1) / n
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + (values.mean(axis=0).var(axis=0, ddof=1) if n_chains > 1 else 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariances) / total
    rho[0] = 1.0
    n_pairs = max(1, (n - 1) // 2)
    pairs = rho[: n // 2 * 2].reshape(-1, 2, *rho.shape[1:])[:n_pairs]
    sums = pairs.sum(axis=1)
    positive = np.logical_and.accumulate(sums > 0.0)
    time = 2.0 * np.where(positive, np.minimum.accumulate(sums), 0.0).sum(axis=0) - 1.0
    # One more even autocorrelation, that after the last pair, where it is positive.
    ended = np.logical_not(positive)
    following = ended & np.concatenate([np.ones_like(ended[:1]), positive[:-1]])
    time = time + (following * np.maximum(pairs[:, 0], 0.0)).sum(axis=0)
    size: Floats = n * n_chains / np.maximum(time, 1.0 / np.log10(n * n_chains))
    return np.where(total == 0.0, float(n * n_chains), size)
