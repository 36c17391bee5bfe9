"""Do chains agree, and how many independent draws are theirs worth?

Names and definitions are ArviZ's, rank-normalised and of split chains (Vehtari, Gelman, Simpson,
Carpenter and Bürkner, 2021).  Numbers come as an array (iterations, chains, numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from bigcat.bayes._arrays import Floats

#: What is told of chains.
NAMES = ("acceptance", "r_hat", "ess_bulk")
#: Fewer independent draws than this, or a larger R-hat, tell little about the spread of a scale.
TOO_FEW, LARGE_R_HAT = 10.0, 1.05


@dataclass(frozen=True)
class Mixing:
    """How well chains have mixed.

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
        """From what was seen in each iteration; NaN where four iterations are not to be had."""
        if len(seen) < 4:
            return cls(acceptance, np.nan, np.nan)
        columns = [seen[:, :, i] for i in range(seen.shape[2])]
        return cls(acceptance, max(map(r_hat, columns)), min(map(ess_bulk, columns)))

    def told(self) -> dict[str, float]:
        """For ``history_.choice``: what is known of them."""
        every = {name: float(getattr(self, name)) for name in NAMES}
        return {name: value for name, value in every.items() if not np.isnan(value)}

    def warning(self) -> str | None:
        if not (self.ess_bulk < TOO_FEW or self.r_hat > LARGE_R_HAT):
            return None
        return (
            f"chains of the posterior have not mixed: r_hat={self.r_hat:.2f}, "
            f"ess_bulk={self.ess_bulk:.0f} for the scale of the prior (below {LARGE_R_HAT} and "
            "hundreds are best); raise n_draws of the method, or give a prior with a known scale"
        )


def r_hat(values: Floats) -> float:
    """Of one number in several chains, (iterations, C): of its ranks, and of how far out it is."""
    split = _split(values)
    return max(_r_hat(_normalised(v)) for v in (split, np.abs(split - np.median(split))))


def ess_bulk(values: Floats) -> float:
    """Of one number in several chains, (iterations, C)."""
    return _effective_size(_normalised(_split(values)))


def mean_error(draws: Floats, n_chains: int) -> float:
    """Monte-Carlo standard error of the mean of draws, those of an iteration beside each other."""
    n = len(draws) // n_chains
    if n < 4:
        return float("nan")
    values = np.asarray(draws[: n * n_chains], np.float64).reshape(n, n_chains)
    return float(values.std(ddof=1) / np.sqrt(_effective_size(_split(values))))


def _split(values: Floats) -> Floats:
    """Halves of chains as chains, (iterations / 2, 2 C)."""
    half = len(values) // 2
    return np.concatenate([values[:half], values[-half:]], axis=1)


def _normalised(values: Floats) -> Floats:
    """Normal scores of the ranks."""
    ranks = rankdata(values).reshape(values.shape)
    scores: Floats = ndtri((ranks - 0.375) / (values.size + 0.25))
    return scores


def _r_hat(values: Floats) -> float:
    n = len(values)
    within = values.var(axis=0, ddof=1).mean()
    between = values.mean(axis=0).var(ddof=1)
    if within == 0.0:
        return 1.0 if between == 0.0 else np.inf
    return float(np.sqrt((n - 1.0) / n + between / within))


def _effective_size(values: Floats) -> float:
    """By Geyer's initial sequence: sums of two autocorrelations, as long as they fall above 0."""
    n, n_chains = values.shape
    powers = np.abs(np.fft.rfft(values - values.mean(axis=0), 2 * n, axis=0)) ** 2
    covariances = np.fft.irfft(powers, axis=0)[:n].mean(axis=1) / n
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + (values.mean(axis=0).var(ddof=1) if n_chains > 1 else 0.0)
    if total == 0.0:
        return float(values.size)
    rho = 1.0 - (within - covariances) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2)[: max(1, (n - 1) // 2)]
    sums = pairs.sum(axis=1)
    last = int(np.argmin(np.append(sums, -1.0) > 0.0))
    time = 2.0 * float(np.minimum.accumulate(sums[:last]).sum()) - 1.0
    if last < len(pairs):
        time += max(float(pairs[last, 0]), 0.0)
    return float(values.size / max(time, 1.0 / np.log10(values.size)))
