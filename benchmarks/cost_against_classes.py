"""Seconds to the same held-out quality, and seconds per row, against the number of classes.

Data (`coded_classes`): a class is a code of eight symbols of sixteen, a row shows that code with
some symbols replaced at random, a feature a group and symbol: 128 features, 8 of them a row, at
any number of classes.  Symbols are independent given the class, so a softmax that is linear in the
features is the truth, and the best log-likelihood is known.  Class frequencies follow Zipf's law
but for one row that every class has, so that all are there to be learned.

Quality is the part of the possible gain over the class frequencies that is reached, on rows that
were not trained on.  The defaults are compared with the exact softmax by damped steps over all
classes.  Rows grow with the classes, a number for each: with the same rows for all,
what few classes need would be over long before the first epoch is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks._curves import Curve, exponent, seconds_to_reach, watched_fit
from benchmarks._models import linear
from benchmarks._report import FIGURES, save, show
from bigcat import EarlyStopping, LinearClassifier
from bigcat.solvers import Damped

CLASSES = (10**3, 10**4, 10**5, 10**6)
ROWS_A_CLASS = 10
HELD_OUT = 400
QUALITY = 0.8
#: Up to here all classes are visited too, for comparison.
EXACT_UP_TO = 10**4
WARM_UP_CLASSES = 5_000

GROUPS, SYMBOLS, REPLACED = 8, 16, 0.3
_CHUNK = 1 << 20
#: Log-probability that a symbol adds to its class if it agrees with the class's code.
_AGREES = np.log1p((1.0 - REPLACED) * SYMBOLS / REPLACED)


@dataclass(frozen=True, eq=False)
class CodedClasses:
    """Training rows, and held-out rows with their true log-probabilities.

    ``baseline`` and ``best`` are the held-out rows' mean log-likelihoods, by the true class
    frequencies and by the true probabilities.
    """

    X: Any
    y: np.ndarray
    held_out: tuple[Any, np.ndarray]
    baseline: float
    best: float

    def quality(self, log_likelihood: Any) -> Any:
        """Return the share of the possible gain."""
        return (log_likelihood - self.baseline) / (self.best - self.baseline)

    def log_likelihood(self, quality: float) -> float:
        """The inverse of `quality`."""
        return self.baseline + quality * (self.best - self.baseline)


def coded_classes(
    n_classes: int, n_rows: int, n_held_out: int = HELD_OUT, seed: int = 0
) -> CodedClasses:
    """Draw data; memory is that of the rows and of eight bytes per class."""
    if n_rows < n_classes:
        raise ValueError(f"{n_classes:,} classes with a row each need more than {n_rows:,} rows")
    rng = np.random.default_rng(seed)
    codes = rng.integers(SYMBOLS, size=(n_classes, GROUPS), dtype=np.uint8)
    zipf = 1.0 / np.arange(1, n_classes + 1)
    zipf /= zipf.sum()
    y = np.concatenate([np.arange(n_classes), _draw(rng, zipf, n_rows - n_classes)])
    frequencies = (1.0 + (n_rows - n_classes) * zipf) / n_rows
    y_held_out = _draw(rng, frequencies, n_held_out)
    symbols = _shown(rng, codes, y_held_out)
    prior = np.log(frequencies)
    return CodedClasses(
        X=_csr(np.concatenate([_shown(rng, codes, y[i : i + _CHUNK]) for i in _starts(n_rows)])),
        y=y,
        held_out=(_csr(symbols), y_held_out),
        baseline=float(prior[y_held_out].mean()),
        best=float(true_log_probabilities(codes, prior, symbols, y_held_out).mean()),
    )


def true_log_probabilities(codes, prior, symbols, y) -> np.ndarray:
    """Return the true log-probability of the class of each row, given the row's symbols."""
    out = np.empty(len(y))
    for i, row in enumerate(symbols):
        scores = prior + _AGREES * (codes == row).sum(axis=1)
        top = scores.max()
        out[i] = scores[y[i]] - top - np.log(np.exp(scores - top).sum())
    return out


def _draw(rng, p: np.ndarray, n: int) -> np.ndarray:
    cumulative = np.cumsum(p)
    cumulative[-1] = 1.0
    return np.searchsorted(cumulative, rng.random(n), side="right")


def _shown(rng, codes, y) -> np.ndarray:
    other = rng.integers(SYMBOLS, size=(len(y), GROUPS), dtype=np.uint8)
    return np.where(rng.random(other.shape, np.float32) < REPLACED, other, codes[y])


def _starts(n: int) -> range:
    return range(0, n, _CHUNK)


def _csr(symbols: np.ndarray) -> Any:
    """Return rows with a single 1 per group, scaled to unit length."""
    columns = symbols.astype(np.int32)
    columns += SYMBOLS * np.arange(GROUPS, dtype=np.int32)
    values = np.full(symbols.size, GROUPS**-0.5, np.float32)
    ends = np.arange(0, symbols.size + 1, GROUPS, dtype=np.int64)
    if symbols.size < 2**31:
        ends = ends.astype(np.int32)
    shape = (len(symbols), GROUPS * SYMBOLS)
    return scipy.sparse.csr_matrix((values, columns.ravel(), ends), shape=shape)


def classifiers(n_classes: int, **options: Any) -> dict[str, LinearClassifier]:
    """Return the compared models: the defaults, and damped steps over all classes."""
    models = {"defaults": LinearClassifier(n_threads=2, **options)}
    if n_classes <= EXACT_UP_TO:
        models["exact"] = linear(
            method="exact",
            sampler="everything",
            solver=Damped(learning_rate=1.0, schedule="linear", batch_size=1),
            max_epochs=50,
            random_state=None,
            n_threads=2,
            early_stopping=EarlyStopping(validation_fraction=None, tol=1e-4),
        )
    return models


def _compile(name: str, n_classes: int, **options: Any) -> None:
    few = min(n_classes, WARM_UP_CLASSES)
    data = coded_classes(few, max(2 * few, 3_000), 50)
    model = classifiers(few, **options)[name].set_params(max_epochs=2)
    watched_fit(model, data.X, data.y, data.held_out)


def _row(name: str, n_classes: int, data: CodedClasses, curve: Curve, quality: float) -> dict:
    seconds = np.concatenate([[curve.before], curve.seconds])
    reached = np.concatenate([[0.0], data.quality(curve.values)])
    choice = curve.model.selection_.candidates[0].settings
    return {
        "method": name,
        "classes": n_classes,
        "rows": len(data.y),
        "possible gain": data.best - data.baseline,
        "quality at the end": float(reached[-1]),
        "epochs": len(curve.seconds),
        "seconds to quality": seconds_to_reach(quality, seconds, reached),
        "before the first epoch": curve.before,
        "microseconds per row": 1e6 * curve.epoch_seconds / len(data.y),
        "bound": choice.get("bound", "exact"),
        "sampler": choice.get("sampler", "everything"),
    }


def cost_against_classes(
    classes: list[int],
    n_rows: int | None = None,
    rows_a_class: int = ROWS_A_CLASS,
    quality: float = QUALITY,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Print a table and the exponents, and draw the curves; `options` go to the estimator."""
    rows = []
    for n_classes in classes:
        data = coded_classes(n_classes, n_rows or rows_a_class * n_classes)
        for name, model in classifiers(n_classes, **options).items():
            _compile(name, n_classes, **options)
            target = data.log_likelihood(quality)
            curve = watched_fit(model, data.X, data.y, data.held_out, target)
            rows.append(_row(name, n_classes, data, curve, quality))
            del model, curve
            save("cost_against_classes", rows)
    show(rows, as_json)
    if not as_json:
        for line in in_words(rows, quality):
            print(line)
    _draw_figure(rows, quality)


def in_words(rows: list[dict], quality: float) -> list[str]:
    """Describe how costs grow, in a sentence per method that was measured at two sizes or more."""
    lines = []
    for name in dict.fromkeys(row["method"] for row in rows):
        mine = [row for row in rows if row["method"] == name]
        missed = [row["classes"] for row in mine if row["seconds to quality"] is None]
        if missed:
            sizes = ", ".join(f"{k:,}" for k in missed)
            lines.append(f"{name}: {quality:.0%} of the possible gain not reached at K = {sizes}.")
        total, of_row, n_rows = (
            exponent([row["classes"] for row in mine], [row[column] for row in mine])
            for column in ("seconds to quality", "microseconds per row", "rows")
        )
        if total is not None and of_row is not None:
            lines.append(
                f"{name}: seconds to {quality:.0%} of the possible gain grow like K^{total:.2f} "
                f"where rows grow like K^{n_rows:.2f}; those of one row like K^{of_row:.2f}. Ten "
                f"times the classes take {10**total:.1f} times as long, "
                f"a row {10**of_row:.1f} times."
            )
    return lines


def _draw_figure(rows: list[dict], quality: float) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    labels = {
        "seconds to quality": f"seconds to {quality:.0%} of the possible gain",
        "microseconds per row": "microseconds per row",
    }
    for axes, (column, label) in zip(panels, labels.items()):
        for name in dict.fromkeys(row["method"] for row in rows):
            mine = [r for r in rows if r["method"] == name and r[column] is not None]
            sizes, costs = [r["classes"] for r in mine], [r[column] for r in mine]
            s = exponent(sizes, costs)
            power = "" if s is None else f": K^{s:.2f}"
            axes.plot(sizes, costs, "o-", label=f"{name}{power}")
        axes.set(xscale="log", yscale="log", xlabel="classes", ylabel=label)
        axes.legend()
    FIGURES.mkdir(exist_ok=True, parents=True)
    figure.savefig(FIGURES / "cost_against_classes.png", dpi=120)
    plt.close(figure)
