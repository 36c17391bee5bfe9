"""A posterior as a table: one row per weight, class by class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from bigcat.inference.mixing import NAMES as MIXING
from bigcat.inference.mixing import by_chain, ess_bulk, mean_error, r_hat
from bigcat.inference.protocol import BLOCK, Floats, Posterior
from bigcat.inference.table import ResultsTable, quantile_names, tails_of

#: Maximum rows of a table.
MAX_ROWS = 10_000_000


def summarise(
    posterior: Posterior,
    names: Sequence[str],
    *,
    classes: np.ndarray | None = None,
    columns: np.ndarray | None = None,
    top: int | None = None,
    level: float = 0.9,
    base: int | None = None,
    selection: Mapping[str, Any] | None = None,
) -> ResultsTable:
    """Return the table of some weights, class by class.

    Parameters
    ----------
    posterior : Posterior
    names : sequence of M strings
        Of the columns of the weights, the intercept's last.
    classes, columns : arrays of int, optional
        Numbers of the classes and columns that are asked for; all of them by default.
    top : int, optional
        Rows per class, those first whose mean is largest relative to its deviation.
    level : float, default=0.9
        Of the intervals.
    base : int, optional
        Number of the class whose weights are taken off.
    selection : mapping, optional
        ``history_.selection``, with the number of chains and how they have mixed.
    """
    tails, ends = tails_of(level), quantile_names(level)
    if classes is None:
        classes = np.arange(posterior.n_classes)
    classes = classes[classes != base] if base is not None else classes
    if columns is None:
        columns = np.arange(len(names))
    per_class = len(columns) if top is None else min(int(top), len(columns))
    if not len(classes) or not per_class:
        raise ValueError(
            "the summary would have no rows; ask for at least one feature, and for a class other "
            "than base="
        )
    if len(classes) * per_class > MAX_ROWS:
        raise ValueError(
            f"the summary would have {len(classes) * per_class:,} rows, and {MAX_ROWS:,} is the "
            "most; ask for fewer with classes=, features= or top="
        )
    parts = [
        _of_classes(posterior, some, columns, per_class, tails, base)
        for some in _blocks(posterior, classes)
    ]
    numbers, chosen, (mean, sd, low, high) = (
        np.concatenate(found, axis=-1) for found in zip(*parts)
    )
    table: dict[str, Any] = {
        "class": posterior.classes[numbers],
        "feature": np.asarray(names, dtype=object)[chosen],
        "mean": mean,
        "sd": sd,
        ends[0]: low,
        ends[1]: high,
        "sign_probability": ndtr(_sureness(mean, sd)),
    }
    if base is not None and posterior.odds_are_scores:
        with np.errstate(over="ignore"):
            table["odds_ratio"] = np.exp(mean)
    kept, n_chains = posterior.covariance_form.n_kept, (selection or {}).get("chains")
    if kept is not None:
        table["sign_probability"] = np.empty(len(mean))
        if n_chains:
            table |= {name: np.empty(len(mean)) for name in ("mcse", "ess_bulk", "r_hat")}
        for some in _steps(len(mean), max(1, BLOCK // kept)):
            draws = posterior.covariance_form.kept_draws(numbers[some], chosen[some], base)
            assert draws is not None
            table["sign_probability"][some] = _same_sign(mean[some], draws)
            if n_chains:
                table["mcse"][some] = mean_error(draws, n_chains)
                chains = by_chain(draws, n_chains)
                enough = len(chains) >= 4
                table["ess_bulk"][some] = ess_bulk(chains) if enough else np.nan
                table["r_hat"][some] = r_hat(chains) if enough else np.nan
    figures: dict[str, Any] = {}
    if base is not None:
        figures["base"] = posterior.classes[base : base + 1].tolist()[0]
    if kept is not None and selection is not None:
        figures |= {name: selection[name] for name in MIXING if name in selection}
    return ResultsTable(table, figures=figures)


def _of_classes(
    q: Posterior,
    classes: np.ndarray,
    columns: np.ndarray,
    per_class: int,
    tails: Floats,
    base: int | None,
) -> tuple[np.ndarray, np.ndarray, Floats]:
    """Return classes, columns, and (mean, sd, low, high) of the most certain weights."""
    form, shape = q.covariance_form, (len(classes), len(columns))
    mean = q.mean[classes][:, columns]
    if base is not None:
        mean = mean - q.mean[base, columns]
    sd = np.sqrt(form.difference_variances(classes, base)[:, columns])
    steps = form.quantiles(tails, classes, base)[:, :, columns]
    everything = np.empty((4, *shape))
    everything[0], everything[1] = mean, sd
    everything[2:] = mean + steps
    places = np.broadcast_to(np.arange(len(columns)), shape)
    if per_class < len(columns):
        order = np.argsort(-_sureness(mean, everything[1]), axis=1, kind="stable")
        places = order[:, :per_class]
    rows = np.arange(len(classes))[:, None]
    picked = everything[:, rows, places].reshape(4, -1)
    return np.repeat(classes, places.shape[1]), columns[places].ravel(), picked


def _blocks(q: Posterior, classes: np.ndarray) -> list[np.ndarray]:
    """Classes a few at a time, so that no temporary grows with their number."""
    step = max(1, BLOCK // (q.mean.shape[1] * (q.covariance_form.n_kept or 1)))
    return [classes[some] for some in _steps(len(classes), step)]


def _steps(n: int, step: int) -> Iterator[slice]:
    return (slice(start, start + step) for start in range(0, n, step))


def _sureness(mean: Floats, sd: Floats) -> Floats:
    return np.abs(mean) / np.maximum(sd, np.finfo(float).tiny)


def _same_sign(mean: Floats, deviations: Floats) -> Floats:
    """Return the share of draws that have the sign of their mean."""
    share: Floats = ((mean + deviations) * np.sign(mean) > 0.0).mean(axis=0)
    return share
