"""The numbers of a report: everything that the page shows, before it is shown.

A section that cannot be had holds ``missing``, the reason, instead of its numbers.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from bigcat import inspection, metrics
from bigcat._version import __version__
from bigcat.estimators.inputs import rows_and_labels_of
from bigcat.inspection.features import mean_weights, names_of_features, strongest, weights_of
from bigcat.inspection.similarity import similarities
from bigcat.metrics import RowMeasures
from bigcat.pipelines import apart

#: Rows that are measured; more are drawn from.
MAX_ROWS = 20_000
#: Number of most probable classes per row, and number that count as a hit.
LOOK_AT, HITS = 100, 5
#: Pairs of classes that are shown, and classes that are never predicted.
PAIRS, NEVER = 20, 20
#: Classes, the most frequent ones, whose features and neighbours are shown.
DETAILED = 1_000
FEATURES, NEIGHBOURS = 8, 5
#: Numbers that a block of weights may hold.
BLOCK = 1 << 24
#: Features of a row that an example shows.
EXAMPLE_FEATURES = 10
#: Columns of a learning curve; methods of `bigcat.bayes` may have none of them.
CURVES = ("bound", "log_likelihood", "validation_log_likelihood")

#: Maximal number of probabilities whose intervals are computed.
INTERVALS = 1 << 20

Section = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Model, validation rows, and facts that the caller adds."""

    given: Any  # the model, or a pipeline that ends in it
    X: Any
    y: ArrayLike | None
    feature_names: Sequence[str] | None
    facts: dict[str, Any]
    max_rows: int
    random_state: int

    @cached_property
    def model(self) -> Any:
        """Fitted classifier, without the steps of a pipeline."""
        return apart(self.given).classifier

    @cached_property
    def names(self) -> Sequence[str]:
        """Names of the features."""
        return names_of_features(self.given, self.feature_names)

    @cached_property
    def rows(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """X, y and the numbers of the rows that are used."""
        X, y = rows_and_labels_of(self.X, self.y)
        X, y = X.tocsr() if hasattr(X, "tocsr") else X, np.asarray(y)
        numbers = np.arange(len(y))
        if len(y) > self.max_rows and len(y) == self.n_rows:
            rng = np.random.default_rng(self.random_state)
            numbers = np.sort(rng.permutation(len(y))[: self.max_rows])
            X, y = _safe_indexing(X, numbers), y[numbers]
        X = apart(self.given).transform(X)
        return X if scipy.sparse.issparse(X) else np.asarray(X), y, numbers

    @cached_property
    def n_rows(self) -> int:
        """Number of rows given."""
        return _num_samples(self.X)  # type: ignore[no-any-return]

    @cached_property
    def measured(self) -> RowMeasures:
        """Measures of each row."""
        X, y, _ = self.rows
        return metrics.measure(self.model, X, y, min(LOOK_AT, len(self.model.classes_)))

    @property
    def counts(self) -> np.ndarray:
        """Training rows of each class."""
        return np.asarray(self.model.class_count_)


def collect(source: Source) -> dict[str, Section]:
    """All sections by name."""
    start = time.perf_counter()
    sections = {
        "model": _model(source),
        "fit": _fit(source),
        "quality": _quality(source),
        "frequencies": _frequencies(source),
        "honesty": _honesty(source),
        "intervals": _intervals(source),
        "confusions": _confusions(source),
        "learned": _learned(source),
        "map": _map(source),
        "classes": _classes(source),
    }
    sections["model"]["facts"].append(("this page took", f"{time.perf_counter() - start:.1f} s"))
    return sections


# --- what it is ---------------------------------------------------------------------------------


def _model(source: Source) -> Section:
    model = source.model
    rows: list[tuple[str, str]] = [
        ("estimator", type(model).__name__),
        ("classes", f"{len(model.classes_):,}"),
        ("features", f"{model.n_features_in_:,}"),
    ]
    rows.append(("training rows", f"{int(source.counts.sum()):,}"))
    weights = weights_of(model)
    if hasattr(model, "linear_model"):
        rank = weights.kind.rank
        rows.append(("weights", "full rank" if rank is None else f"rank {rank}"))
    else:
        rows.append(("posterior", repr(model.posterior_).split("\n")[0]))
    selection = getattr(model, "selection_", None)
    if selection is not None and selection.candidates:
        for candidate in selection.candidates:
            if candidate.weight > 0.0:
                settings = ", ".join(f"{k} {v}" for k, v in candidate.settings.items())
                weight = f"stacking weight {candidate.weight:.2f}"
                rows.append((candidate.name, f"{weight}; {settings}"))
        rows.append(("selection", selection.reason))
    posterior = getattr(model.history_, "selection", None) or {}
    rows += [
        (name, str(posterior[name]))
        for name in ("noise", "bound", "sampler", "solver", "covariance", "prior", "reason")
        if posterior.get(name) is not None
    ]
    rows += [(str(name), str(value)) for name, value in source.facts.items()]
    rows.append(("written by", f"bigcat {__version__}, Python {platform.python_version()}"))
    return {"facts": rows}


def _fit(source: Source) -> Section:
    history = source.model.history_
    if not len(history):
        return {"missing": "The model has no history of its fit."}
    seconds = history[-1].get("seconds", float("nan"))
    forecast = getattr(history, "forecast_seconds", None)
    return {
        "history": history,
        "curve": any(np.isfinite(row.get(name, np.nan)) for row in history for name in CURVES),
        "seconds": seconds,
        "forecast": forecast,
        "epochs": len(history),
        "baseline": _baseline(source),
    }


def _baseline(source: Source) -> float:
    """Return the log-likelihood of the class frequencies."""
    counts = source.counts
    log_proba = np.log((counts + 1.0) / (counts.sum() + len(counts)))
    return float(log_proba[source.measured.position].mean())


# --- how good, how honest -----------------------------------------------------------------------


def _quality(source: Source) -> Section:
    rows = source.measured
    error = rows.log_proba.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else float("nan")
    return {
        "log_likelihood": float(rows.log_proba.mean()),
        "log_likelihood_error": float(error),
        "accuracy": float(rows.hit().mean()),
        f"hit_at_{HITS}": float(rows.hit(HITS).mean()),
        "baseline": _baseline(source),
        "rows": len(rows),
        "rows_given": source.n_rows,
        "dropped": rows.dropped,
        "hits": inspection.hit_curve(rows),
    }


def _frequencies(source: Source) -> Section:
    return {"bins": metrics.frequency_bins(source.measured, source.counts, k=HITS)}


def _honesty(source: Source) -> Section:
    rows = source.measured
    k = min(HITS, rows.top_log_proba.shape[1])
    edges = np.linspace(min(-1.0, float(np.floor(rows.log_proba.min()))), 0.0, 31)
    histogram = np.histogram(rows.log_proba, edges)[0]
    return {
        "first": metrics.reliability(rows.confidence(), rows.hit()),
        "best": metrics.reliability(rows.confidence(k), rows.hit(k)),
        "k": k,
        "stacking": _stacking(source),
        "sharpness": float(rows.confidence().mean()),
        "accuracy": float(rows.hit().mean()),
        "edges": edges,
        "histogram": histogram,
        "quantiles": {
            share: float(np.quantile(rows.log_proba, share)) for share in (0.05, 0.25, 0.5, 0.75)
        },
    }


def _stacking(source: Source) -> Section:
    """Return calibration errors on validation rows, of candidates and of the stacked model."""
    selection = getattr(source.model, "selection_", None)
    if selection is None or np.isnan(selection.calibration_error):
        return {"missing": "The fit stacked no candidates of a softmax."}
    alone = {one.name: one.calibration_error for one in selection.candidates}
    return {
        "alone": {name: error for name, error in alone.items() if not np.isnan(error)},
        "stacked": selection.calibration_error,
        "rows": selection.n_validation_rows,
    }


def _intervals(source: Source) -> Section:
    model = source.model
    if not hasattr(model, "predict_interval"):
        return {"missing": "Intervals belong to a BayesianClassifier, and this is none."}
    X, _, _ = source.rows
    rows = source.measured
    most = max(1, INTERVALS // len(model.classes_))
    some = np.linspace(0, len(rows) - 1, min(most, len(rows))).astype(int)
    low, high = model.predict_interval(X[rows.row[some]], level=0.9)
    at = np.arange(len(some)), rows.predicted[some]
    low, high = low[at], high[at]
    confidence, right = rows.confidence()[some], rows.hit()[some]
    bins = []
    for b in range(10):
        inside = (confidence * 10).astype(int).clip(0, 9) == b
        if inside.any():
            bins.append(
                {
                    "rows": int(inside.sum()),
                    "confidence": float(confidence[inside].mean()),
                    "low": float(low[inside].mean()),
                    "high": float(high[inside].mean()),
                    "right": float(right[inside].mean()),
                }
            )
    return {
        "rows": len(some),
        "level": 0.9,
        "width": float((high - low).mean()),
        "width_quantiles": np.quantile(high - low, [0.1, 0.5, 0.9]).tolist(),
        "bins": bins,
    }


# --- what it confuses, what it learned ----------------------------------------------------------


def _confusions(source: Source) -> Section:
    rows, model = source.measured, source.model
    X, _, numbers = source.rows
    pairs = inspection.confusions(model, rows, top=PAIRS)
    for pair in pairs:
        pair["examples"] = [
            {"row": int(numbers[i]), "features": _example(source, X[i : i + 1], pair)}
            for i in pair["examples"]
        ]
    predicted = np.bincount(rows.predicted, minlength=len(model.classes_))
    seen = np.bincount(rows.position, minlength=len(model.classes_))
    never = np.flatnonzero((predicted == 0) & (seen > 0))
    never = never[np.argsort(-seen[never], kind="stable")]
    return {
        "pairs": pairs,
        "contributions": not scipy.sparse.issparse(X),
        "wrong": int((~rows.hit()).sum()),
        "never_count": len(never),
        "never": [(model.classes_[k], int(seen[k])) for k in never[:NEVER]],
        "seen": int((seen > 0).sum()),
    }


def _example(source: Source, row: Any, pair: dict[str, Any]) -> str:
    """Return the words of a sparse row, and what speaks most for the mistake in a dense one."""
    if scipy.sparse.issparse(row):
        return _words(source, row)
    found = inspection.explain(
        source.model,
        row,
        pair["predicted"],
        pair["truth"],
        top=EXAMPLE_FEATURES,
        feature_names=source.names,
    )
    words = [
        f"{one['feature']} = {one['value']:.3g} ({one['contribution']:+.2g})"
        for one in found["features"]
        if one["contribution"] > 0.0
    ]
    return ", ".join(words) or "the intercepts alone"


def _words(source: Source, row: Any) -> str:
    """Return the features of a row that are not zero, largest first, as text."""
    sparse = scipy.sparse.csr_matrix(row)
    order = np.argsort(-np.abs(sparse.data), kind="stable")[:EXAMPLE_FEATURES]
    words = []
    for i in order:
        name, value = source.names[sparse.indices[i]], float(sparse.data[i])
        words.append(name if value == 1.0 else f"{name} = {value:.3g}")
    more = len(sparse.data) - len(order)
    return ", ".join(words) + (f", and {more:,} more" if more else "")


def _learned(source: Source) -> Section:
    """Return strong features and similar classes of the most frequent classes."""
    model = source.model
    weights = weights_of(model)
    shown = _by_frequency(source)[:DETAILED]
    mean = mean_weights(weights)
    vectors = weights.class_vectors
    middle = vectors.mean(axis=0)
    size = max(1, BLOCK // max(weights.shape))
    details = []
    for start in range(0, len(shown), size):
        part = shown[start : start + size]
        rows = weights.take(part).dense() - mean
        cosines = similarities(vectors, middle, part)
        for number, row, cosine in zip(part, rows, cosines):
            cosine[number] = -np.inf
            near = np.argsort(-cosine, kind="stable")[: min(NEIGHBOURS, len(vectors) - 1)]
            details.append(
                {
                    "class": int(number),
                    "features": [
                        (found["feature"], round(found["weight"], 3))
                        for found in strongest(row, source.names, FEATURES)
                    ],
                    "near": [(int(k), round(float(cosine[k]), 2)) for k in near],
                }
            )
    return {"details": details, "all": len(shown) == len(model.classes_)}


def _by_frequency(source: Source) -> np.ndarray:
    return np.argsort(-source.counts, kind="stable")


def _map(source: Source) -> Section:
    if len(source.model.classes_) < 3:
        return {"missing": "Two classes have no map."}
    numbers, places, share = inspection.class_map(source.model)
    spread = np.abs(places).max() or 1.0
    return {"numbers": numbers, "places": places / spread, "share": share.tolist()}


def _classes(source: Source) -> Section:
    """Return columns with one value per class."""
    rows, model = source.measured, source.model
    n_classes = len(model.classes_)
    seen = np.bincount(rows.position, minlength=n_classes)
    predicted = np.bincount(rows.predicted, minlength=n_classes)
    right = np.bincount(rows.position[rows.hit()], minlength=n_classes)
    log_proba = np.bincount(rows.position, rows.log_proba, n_classes)
    confidence = np.bincount(rows.predicted, rows.confidence(), n_classes)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "names": [str(name) for name in model.classes_.tolist()],
            "train": source.counts,
            "test": seen,
            "accuracy": right / seen,
            "log_proba": log_proba / seen,
            "predicted": predicted,
            "precision": right / predicted,
            "confidence": confidence / predicted,
        }
