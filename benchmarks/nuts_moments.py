"""Means and standard deviations of the default posterior beside those of NUTS, weight by weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import intervals, yardsticks
from benchmarks._models import laplace
from benchmarks._report import save, show
from bigcat.inference.mixing import mean_error

SHAPES = [(5, 20, 5), (5, 100, 5)]
N_SETS, N_DRAWS = 4, 2_000
NUTS_OPTIONS = {"scale_width": intervals.WIDTH, "n_warmup": 500, "n_samples": N_DRAWS, "thin": 1}


def nuts_moments() -> None:
    """Differences of means and deviations, in units of their Monte-Carlo standard errors.

    Where both draw from one posterior, such differences have a root mean square of about 1, and
    one in twenty is beyond 2.  Weights are those of centred columns of size 1, with intercepts.
    """
    rows = []
    for shape in SHAPES:
        case = intervals.Case(*shape)
        sets = [intervals.draw(case, seed) for seed in range(N_SETS)]
        units = [(d.X.mean(axis=0), d.X.std(axis=0) * np.sqrt(case.n_features)) for d in sets]
        X = np.array([(d.X - means) / sizes for d, (means, sizes) in zip(sets, units)])
        y = np.array([d.y for d in sets])
        found = yardsticks.run("nuts", X, y, X[:, :1], y[:, :1], case.n_classes, **NUTS_OPTIONS)
        for seed in range(N_SETS):
            model = laplace(n_draws=N_DRAWS, random_state=seed)
            model.fit(X[seed], y[seed], classes=np.arange(case.n_classes))
            selection = model.history_.selection or {}
            own = model.posterior_.sample(N_DRAWS).reshape(N_DRAWS, -1)
            theirs = np.roll(found["samples"][seed], -1, axis=2).reshape(N_DRAWS, -1)
            rows.append(
                case._asdict() | {"seed": seed} | _compared(own, selection["chains"], theirs, 1)
            )
            show(rows[-1:])
        save("nuts_moments", rows)
    show(_summary(rows))


def _compared(
    first: np.ndarray, first_chains: int, second: np.ndarray, second_chains: int
) -> dict[str, Any]:
    """Compare two sets of draws (S, W), with the chains of an iteration in adjacent rows."""
    means, deviations = [], []
    for a, b in zip(first.T.astype(float), second.T):
        error = np.hypot(mean_error(a, first_chains), mean_error(b, second_chains))
        means.append((a.mean() - b.mean()) / error)
        squares = [np.square(x - x.mean()) for x in (a, b)]
        error = np.hypot(
            mean_error(squares[0], first_chains), mean_error(squares[1], second_chains)
        )
        deviations.append((a.var() - b.var()) / error)
    ratio = np.log(first.std(axis=0) / second.std(axis=0))
    return {
        "n_weights": first.shape[1],
        "means, rms": float(np.sqrt(np.mean(np.square(means)))),
        "means beyond 2": float((np.abs(means) > 2.0).mean()),
        "deviations, rms": float(np.sqrt(np.mean(np.square(deviations)))),
        "deviations beyond 2": float((np.abs(deviations) > 2.0).mean()),
        "deviations, ratio": float(np.exp(ratio.mean())),
        "ratio, spread": float(ratio.std()),
    }


def _summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the data sets of each shape."""
    names = list(rows[0])
    figures = names[names.index("means, rms") :]
    table = []
    for shape in SHAPES:
        own = [r for r in rows if tuple(r[n] for n in intervals.Case._fields[:3]) == shape]
        sizes = dict(zip(("classes", "rows per class", "features"), shape))
        table.append(sizes | {n: round(float(np.mean([r[n] for r in own])), 3) for n in figures})
    return table
