"""A page about a model: its quality, calibration, confusions and features."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from bigcat._io.atomic import replacing
from bigcat.files import check_destination
from bigcat.plots import require_matplotlib
from bigcat.reporting.content import MAX_ROWS, Source, collect
from bigcat.reporting.page import render, render_tables

__all__ = ["MAX_ROWS", "report"]


def report(
    model: Any,
    X: Any,
    y: ArrayLike | None = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    feature_names: Sequence[str] | None = None,
    facts: dict[str, Any] | None = None,
    max_rows: int = MAX_ROWS,
    random_state: int = 0,
    alternatives: Any = None,
    available: Any = None,
) -> Path:
    """Write a self-contained HTML page about a fitted model.

    It opens without a network, in light and dark, on a phone and on paper.  What there is no data
    for, it says.

    Parameters
    ----------
    model : fitted LinearClassifier, BayesianClassifier or ChoiceModel, or pipeline that ends in one
    X : array or CSR matrix of shape (n, n_features), `bigcat.data.Shards`, or as the pipeline takes
        Rows that the model has not seen; shards have labels, too.
    y : array of shape (n,)
        Their labels; rows of classes that the model does not know are left out and counted.
    path : path, default="report.html"
        The file to write, whole or not at all.
    title : str, optional
    feature_names : sequence of str, optional
        Names of the columns, such as ``vectorizer.get_feature_names_out()``; those that the model
        was fitted with by default.
    facts : dict, optional
        What else to say about the model, such as where its data came from.
    max_rows : int, default=20,000
        Of more rows that many are drawn at random, and the page says so.
    random_state : int, default=0
        Of that draw.
    alternatives, available
        For a `ChoiceModel`, as in its `predict_proba`; `X` is a table of choices then, and the page
        has the tables of its `report_tables`.

    Returns
    -------
    pathlib.Path

    Examples
    --------
    >>> import os, tempfile, bigcat
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = bigcat.LinearClassifier(random_state=0).fit(X[::2], y[::2])
    >>> folder = tempfile.TemporaryDirectory()
    >>> page = bigcat.report(model, X[1::2], y[1::2], os.path.join(folder.name, "iris.html"))
    >>> page.read_text(encoding="utf-8").startswith("<!doctype html>")
    True
    >>> folder.cleanup()
    """
    target = check_destination(path)
    if max_rows < 1:
        raise ValueError(f"max_rows is {max_rows}; it has to be at least 1")
    if hasattr(model, "report_tables"):
        tables = model.report_tables(X, alternatives=alternatives, available=available)
        return _written(target, path, render_tables(tables, title or "A choice model"))
    require_matplotlib()
    source = Source(model, X, y, feature_names, facts or {}, max_rows, random_state)
    text = render(collect(source), title or f"A model of {len(source.model.classes_):,} classes")
    return _written(target, path, text)


def _written(target: Path, path: str | os.PathLike[str], text: str) -> Path:
    with replacing(target) as file:
        file.write(text.encode("utf-8"))
    return Path(path)
