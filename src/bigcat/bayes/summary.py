"""A posterior as a table: a row for each weight that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._mixing import NAMES as MIXING
from bigcat.bayes._mixing import mean_error
from bigcat.bayes.posterior import BLOCK, GaussianPosterior, tails_of
from bigcat.training.history import html_table, text_table

#: Columns of the table; of draws there is one more.
COLUMNS = ("class", "feature", "mean", "sd", "low", "high")
#: More rows than this are nobody's table.
MOST_ROWS = 10_000_000
#: Rows of a table that are printed, where pandas is not installed.
PRINTED = 40


class Table(list[dict[str, Any]]):
    """A list of one dict per row that prints as a table; `attrs` says what the rows hold.

    Stands in for pandas.DataFrame where pandas is not installed.

    Examples
    --------
    >>> from bigcat.bayes.summary import Table
    >>> Table([{"class": "cat", "mean": 0.5}, {"class": "dog", "mean": -12.25}])
    class      mean
    cat      0.5000
    dog    -12.2500
    """

    def __init__(
        self, rows: Sequence[dict[str, Any]] = (), attrs: dict[str, Any] | None = None
    ) -> None:
        super().__init__(rows)
        self.attrs = attrs or {}

    def __repr__(self) -> str:
        if not self:
            return "an empty table"
        names = list(self[0])
        shown = [[_cell(row[name]) for name in names] for row in self[:PRINTED]]
        text = text_table(names, shown, [isinstance(self[0][name], float) for name in names])
        more = len(self) - PRINTED
        return f"{text}\n... and {more:,} more rows" if more > 0 else text

    def _repr_html_(self) -> str:
        names = list(self[0]) if self else []
        shown = [[_cell(row[name]) for name in names] for row in self[:PRINTED]]
        more = len(self) - PRINTED
        return html_table(names, shown) + (f"<p>... and {more:,} more rows</p>" if more > 0 else "")


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def summarise(
    posterior: GaussianPosterior,
    names: Sequence[str],
    *,
    classes: np.ndarray | None = None,
    columns: np.ndarray | None = None,
    top: int | None = None,
    level: float = 0.9,
    base: int | None = None,
    choice: Mapping[str, Any] | None = None,
) -> Any:
    """The table of some weights, those first that are surest to differ from 0.

    Parameters
    ----------
    posterior : GaussianPosterior
    names : sequence of M strings
        Of the columns of the weights, the intercept's last.
    classes, columns : arrays of int, optional
        Numbers of the classes and columns that are asked for; all of them by default.
    top : int, optional
        So many rows per class.
    level : float, default=0.9
        Of the intervals.
    base : int, optional
        Number of the class whose weights are taken off.
    choice : mapping, optional
        What the history says of the fit; how chains have mixed is told of draws.

    Returns
    -------
    pandas.DataFrame or Table
    """
    tails = tails_of(level)
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
    if len(classes) * per_class > MOST_ROWS:
        raise ValueError(
            f"the summary would have {len(classes) * per_class:,} rows, and {MOST_ROWS:,} is the "
            "most; ask for fewer with classes=, features= or top="
        )
    parts = [
        _of_classes(posterior, some, columns, per_class, tails, base)
        for some in _blocks(posterior, classes)
    ]
    numbers, chosen, values = (np.concatenate(found, axis=-1) for found in zip(*parts))
    order = np.argsort(-_sureness(values[0], values[1]), kind="stable")
    table: dict[str, Any] = {
        "class": posterior.classes[numbers[order]],
        "feature": np.asarray(names, dtype=object)[chosen[order]],
        **dict(zip(COLUMNS[2:], values[:, order])),
    }
    n_chains = (choice or {}).get("chains")
    draws = posterior.covariance_form.kept_draws(numbers[order], chosen[order], base)
    if n_chains and draws is not None:
        table["mcse"] = np.array([mean_error(of_weight, n_chains) for of_weight in draws.T])
    label = None if base is None else posterior.classes[base : base + 1].tolist()[0]
    attrs: dict[str, Any] = {"level": float(level), "base": label}
    if posterior.covariance_form.n_kept is not None and choice is not None:
        attrs |= {name: choice[name] for name in MIXING if name in choice}
    return _table(table, attrs)


def _of_classes(
    q: GaussianPosterior,
    classes: np.ndarray,
    columns: np.ndarray,
    per_class: int,
    tails: Floats,
    base: int | None,
) -> tuple[np.ndarray, np.ndarray, Floats]:
    """Class numbers, columns, and (mean, sd, low, high) of the surest weights of some classes."""
    form, shape = q.covariance_form, (len(classes), len(columns))
    mean = q.mean[classes][:, columns]
    if base is not None:
        mean = mean - q.mean[base, columns]
    sd = np.sqrt(form.difference_variances(classes, base)[:, columns])
    steps = form.quantiles(tails, classes, base)[:, :, columns]
    everything = np.empty((4, *shape))
    everything[0], everything[1] = mean, sd
    everything[2:] = mean + steps
    if per_class < len(columns):
        surest = np.argpartition(-_sureness(mean, everything[1]), per_class - 1, axis=1)
        surest = surest[:, :per_class]
    else:
        surest = np.broadcast_to(np.arange(len(columns)), shape)
    rows = np.arange(len(classes))[:, None]
    picked = everything[:, rows, surest].reshape(4, -1)
    return np.repeat(classes, surest.shape[1]), columns[surest].ravel(), picked


def _blocks(q: GaussianPosterior, classes: np.ndarray) -> list[np.ndarray]:
    """Classes a few at a time, so that no temporary grows with their number."""
    step = max(1, BLOCK // (q.mean.shape[1] * (q.covariance_form.n_kept or 1)))
    return [classes[start : start + step] for start in range(0, len(classes), step)]


def _sureness(mean: Floats, sd: Floats) -> Floats:
    return np.abs(mean) / np.maximum(sd, np.finfo(float).tiny)


def _table(columns: dict[str, Any], attrs: dict[str, Any]) -> Any:
    try:
        import pandas
    except ImportError:
        rows = zip(*[np.asarray(values).tolist() for values in columns.values()])
        return Table([dict(zip(columns, row)) for row in rows], attrs)
    table = pandas.DataFrame(columns)
    table.attrs.update(attrs)
    return table
