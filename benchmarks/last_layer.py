"""Our Gaussians beside those of laplace-torch, at one mode, with one prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import yardsticks
from benchmarks._models import laplace
from benchmarks._report import clock, save, show
from benchmarks.intervals import (
    LEVEL,
    NUTS_OPTIONS,
    Case,
    Data,
    draw,
    draw_scales,
    measure_by_nuts,
)
from bigcat import noise as noises
from bigcat.bayes import GaussianPrior
from bigcat.inference.table import tails_of
from bigcat.probabilities import log_probabilities

#: Shapes, and the structures that their sizes allow: theirs, and ours.  Their diagonal takes all
#: derivatives of scores by weights: with 200 classes 11 seconds for 180 rows.
SHAPES = {
    Case(20, 20, 20): (("full", "kron", "diag"), ("full", "class")),
    Case(200, 20, 50): (("kron",), ("class",)),
}
N_DRAWS = 400
#: With more classes NUTS takes hours for the usual number of draws.
MAX_CLASSES_OF_NUTS = 50
SHORT_NUTS: dict[str, Any] = {"n_warmup": 40, "n_samples": 40, "thin": 1}


def last_layer(n_sets: int = 2) -> None:
    """Measure seconds after the mode is known, and coverage of 90 % intervals."""
    rows = []
    for case, (theirs, ours) in SHAPES.items():
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(n_sets):
            data = draw(case, seed)
            scale, intercept_scale = draw_scales(case, seed)
            scale /= np.sqrt(case.n_features)
            prior = GaussianPrior(scale=scale, intercept_scale=intercept_scale)
            mode = None
            for form in ours:
                model = laplace(covariance=form, prior=prior, n_draws=N_DRAWS)
                with clock() as times:
                    model.fit(data.X, data.y, classes=np.arange(case.n_classes))
                low, high = model.predict_interval(data.X_test, LEVEL)
                name, held = f"bigcat, {form}", _held(low, high, data)
                found.setdefault(name, []).append((times["cpu"], held))
                mode = model.posterior_.mean if mode is None else mode
            assert mode is not None
            for structure in theirs:
                seconds, held = _theirs(data, case, mode, structure, scale, intercept_scale)
                found.setdefault(f"laplace-torch, {structure}", []).append((seconds, held))
        for name, values in found.items():
            seconds, covered = np.transpose(values)
            rows.append(
                {
                    "classes, rows per class, features": str(case[:3]),
                    "posterior": name,
                    "CPU seconds": float(np.median(seconds)),
                    "coverage": float(covered.mean()),
                    "data sets": len(values),
                }
            )
            show(rows[-1:])
    show(rows)
    save("last_layer", rows)


def _theirs(
    data: Data, case: Case, mode: np.ndarray, structure: str, scale: float, intercept_scale: float
) -> tuple[float, float]:
    """Return seconds of curvature and draws, and coverage of the intervals."""
    found = yardsticks.run(
        "laplace-torch",
        data.X,
        data.y,
        data.X_test,
        np.zeros(len(data.X_test)),
        case.n_classes,
        init_mean=np.column_stack([mode[:, -1], mode[:, :-1]]),
        structure=structure,
        sigma=scale,
        intercept_sigma=intercept_scale,
        n_samples=N_DRAWS,
    )
    draws = found["samples"][0]
    rows = np.column_stack([np.ones(len(data.X_test)), data.X_test])
    scores = np.einsum("nm,skm->snk", rows, draws)
    flat = log_probabilities(noises.resolve("gumbel"), scores.reshape(-1, case.n_classes))
    drawn = np.exp(flat).reshape(scores.shape)
    low, high = np.quantile(drawn, tails_of(LEVEL), axis=0)
    return float(found["seconds"].sum()), _held(low, high, data)


def _held(low: Any, high: Any, data: Data) -> float:
    return float(((low <= data.truth) & (data.truth <= high)).mean())


def posterior_seconds(n_classes: list[int] | None = None) -> None:
    """Measure seconds and coverage of the default, laplace-torch and NUTS, all from the rows on.

    NUTS has the prior of the default.  With many classes it has few draws, which say how long each
    takes and no more.
    """
    rows: list[dict[str, Any]] = []
    for k in n_classes or (5, 50, 500):
        case = Case(k, 20, 20)
        data = draw(case, 0)
        scale, intercept_scale = draw_scales(case, 0)
        prior = GaussianPrior(scale / np.sqrt(case.n_features), intercept_scale=intercept_scale)

        def add(name: str, seconds: float, covered: float, draws: int, k: int = k) -> None:
            rows.append(
                {
                    "classes": k,
                    "posterior": name,
                    "CPU seconds": seconds,
                    "coverage": covered,
                    "draws": draws,
                }
            )
            show(rows[-1:])
            save("posterior_seconds", rows)

        model = laplace()
        with clock() as times:
            model.fit(data.X, data.y, classes=np.arange(k))
            low, high = model.predict_interval(data.X_test, LEVEL)
        add("bigcat, default", times["cpu"], _held(low, high, data), N_DRAWS)
        with clock() as times:
            known = laplace(covariance="class", prior=prior).fit(data.X, data.y)
        mode = known.posterior_.mean
        for structure in ("full", "kron") if k == 5 else ("kron",):
            seconds, covered = _theirs(
                data, case, mode, structure, scale / np.sqrt(case.n_features), intercept_scale
            )
            add(f"laplace-torch, {structure}", times["cpu"] + seconds, covered, N_DRAWS)
        options = NUTS_OPTIONS if k <= MAX_CLASSES_OF_NUTS else SHORT_NUTS
        for row in measure_by_nuts(case, [0], **options):
            n_draws = int(options["n_samples"] // options["thin"])
            add("NUTS", row["CPU seconds"], row["coverage"], n_draws)
