"""Fits with more than one call or more than rows and labels; distributions without covariates."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.against import spell
from benchmarks.against.answers import of_categorical, of_linear
from benchmarks.against.cases import (
    FEW_PASSES,
    SAMPLED,
    WHOLE,
    Answer,
    case,
    labels_of,
    some_weights,
)
from benchmarks.against.problems import problem

# Rows with weights, rows for validation


@case("rows with weights")
def _() -> Answer:
    rows = problem("few")
    model = spell.linear(**SAMPLED).fit(rows.X, rows.y, sample_weight=some_weights(len(rows.y)))
    return of_linear(model, rows.X, labels_of(model, len(rows.y)))


@case("rows with weights, whole")
def _() -> Answer:
    rows = problem("few64")
    weights = 0.5 + some_weights(len(rows.y))
    model = spell.linear(**WHOLE).fit(rows.X, rows.y, sample_weight=weights)
    return of_linear(model, rows.X, rows.y)


def _validated(name: str, data: str, **options: Any) -> None:
    @case(name)
    def run() -> Answer:
        X, y = problem(data)
        # The last rows, of classes that others have too.
        known = np.isin(y, y[:-100])
        last = np.arange(len(y)) >= len(y) - 100
        model = spell.linear(**options).fit(
            X[~last], y[~last], X_val=X[last & known], y_val=y[last & known]
        )
        return of_linear(model, X, labels_of(model, len(y)))


_validated("validation rows", "few", **SAMPLED)
_validated("validation rows, stops early", "few32", early_stopping=True, **SAMPLED)
_validated("validation rows, ridge along a path", "few64", l2="path")
_validated("validation rows, auto", "rows32", max_epochs=8)


def _fitted_twice(name: str, data: str, **options: Any) -> None:
    @case(name)
    def run() -> Answer:
        X, y = problem(data)
        model = spell.linear(**options)
        return of_linear(model.fit(X, y).fit(X, y, warm_start=True), X, y)


_fitted_twice("warm start", "few", **SAMPLED)
_fitted_twice("warm start, dense64", "few64", **SAMPLED)
_fitted_twice("warm start, rank 5", "few", rank=5, **SAMPLED)
_fitted_twice("warm start, many classes", "many", **SAMPLED)
_fitted_twice("warm start, auto", "rows32", max_epochs=4)


def _in_batches(name: str, data: str, after_fit: bool = False, **options: Any) -> None:
    @case(name)
    def run() -> Answer:
        X, y = problem(data)
        model = spell.linear(**options)
        if after_fit:
            model.fit(X, y)
        classes = None if after_fit else np.unique(y)
        for batch in np.array_split(np.arange(len(y)), 3):
            model.partial_fit(X[batch], y[batch], classes=classes)
        return of_linear(model, X, y)


_in_batches("in batches", "few", **SAMPLED)
_in_batches("in batches, dense64, ridge", "few64", l2=2.0, **SAMPLED)
_in_batches("in batches, rank 5", "few", rank=5, **SAMPLED)
_in_batches("in batches, auto", "few32")
_in_batches("in batches, auto, rank 5", "many", rank=5, n_negatives=20)
_in_batches("in batches, auto, many classes", "many", rank=None, n_negatives=20)
_in_batches("in batches, probit", "few", noise="gaussian", method="augment-reduce")
_in_batches("in batches after a fit", "few", after_fit=True, **SAMPLED)
_in_batches("in batches after a fit, rank 5", "few", after_fit=True, rank=5, **SAMPLED)

# Without covariates


def _categorical(name: str, weighted: bool = False, **options: Any) -> None:
    @case(name)
    def run() -> Answer:
        rows = problem("rows")
        weights = some_weights(len(rows.y)) if weighted else None
        return of_categorical(spell.categorical(**options).fit(rows.y, sample_weight=weights))


for _method in ("augment-reduce", "one-vs-each", "implicit", "complementary"):
    _categorical(f"categorical {_method}", method=_method, n_negatives=6, **FEW_PASSES)
for _method in ("exact", "bouchard"):
    _categorical(f"categorical {_method}", method=_method, max_epochs=20, tol=None)
_categorical("categorical, weights", weighted=True, n_negatives=6, **FEW_PASSES)
