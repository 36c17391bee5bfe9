"""Families of earlier reporting halves that no other development family covers.

The measured sets of those halves are not among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets

from benchmarks.field import dense, sparse
from benchmarks.field.dense import Draw, Size, clouds, drawn
from benchmarks.field.problem import Problem

#: Shapes that families share in which something else is varied.
SHAPES = (Size(700, 12, 4), Size(2_000, 40, 40), Size(5_000, 25, 120), Size(15_000, 20, 8))


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [*_dense(), *_sparse()]


def _over_shapes(family: str, change: Callable[[Draw], Draw], distance: float) -> list[Problem]:
    return [
        drawn(family, str(s), change(clouds(s.features, s.classes, distance)), s.rows)
        for s in SHAPES
    ]


def _dense() -> list[Problem]:
    return [
        *_over_shapes("wide scales", lambda draw: dense.scaled(draw, 4.0), 0.5),
        *_over_shapes("correlated", lambda draw: dense.correlated(draw, 0.9), 0.6),
        *_over_shapes("marks", lambda draw: dense.rounded(draw, 5), 0.5),
        *_over_shapes("gaps", lambda draw: dense.with_gaps(dense.shifted(draw, 3.0), 0.3), 0.6),
        *_over_shapes("wrong labels", lambda draw: dense.with_wrong_labels(draw, 0.25), 0.8),
        *(
            drawn(
                "several clouds",
                f"{s} distance={d}",
                dense.several_clouds(s.features, s.classes, d),
                s.rows,
            )
            for s in (Size(900, 8, 4), Size(6_000, 30, 25))
            for d in (0.4, 1.0)
        ),
        *(
            drawn("rare class", f"n={n} share={p}", dense.rare_class(d, p, 2.0), n)
            for n, d, p in ((600, 6, 0.1), (3_000, 40, 0.02), (12_000, 15, 0.01))
        ),
        *(
            drawn(
                "heavy tails",
                f"{s} sigma={w}",
                dense.heavy_tailed(clouds(s.features, s.classes, 0.5), w),
                s.rows,
            )
            for s in (Size(350, 8, 3), Size(7_000, 20, 40))
            for w in (1.0, 1.7)
        ),
        *(
            drawn("mixed columns", f"n={n} K={k}", dense.mixed_columns(4, (4, 12, 30), k), n)
            for n, k in ((250, 3), (2_500, 12), (12_000, 25))
        ),
        *(
            drawn("one column", f"n={n} K={k}", clouds(1, k, 2.0), n)
            for n, k in ((120, 3), (2_000, 20))
        ),
        *(_rings(n, k) for n, k in ((300, 4), (6_000, 3))),
    ]


def _rings(n: int, n_classes: int) -> Problem:
    """`make_gaussian_quantiles`: classes are shells around the same middle, nothing linear."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        seed = int(rng.integers(2**31))
        return sklearn.datasets.make_gaussian_quantiles(
            n_samples=n_rows, n_features=7, n_classes=n_classes, random_state=seed
        )

    return drawn("rings", f"n={n} K={n_classes}", draw, n)


def _sparse() -> list[Problem]:
    return [
        *(
            drawn(
                "weighted texts",
                f"{s} main={w}",
                sparse.weighted_texts(s.features, s.classes, w),
                s.rows,
            )
            for s in (Size(800, 3_000, 8), Size(4_000, 8_000, 60), Size(15_000, 10_000, 1_500))
            for w in (0.6, 0.9)
        ),
        *(
            drawn("tags", f"{s} strength={w}", sparse.tags(s.features, s.classes, w), s.rows)
            for s in (Size(600, 200, 6), Size(5_000, 800, 80))
            for w in (0.3, 1.0)
        ),
        *(
            drawn(
                "latent baskets",
                f"n={n} items={k} sharpness={w}",
                sparse.latent_baskets(k, 8, w),
                n,
            )
            for n, k in ((2_000, 300), (10_000, 2_000))
            for w in (1.5, 4.0)
        ),
        *(
            drawn("crossed", f"n={n} K={k}", sparse.crossed(c, k, 0.8), n)
            for n, k, c in ((1_000, 3, 8), (6_000, 12, 20), (12_000, 100, 30))
        ),
        *(
            drawn("chains", f"{s} loyalty={w}", sparse.chains(s.features, 4, w), s.rows)
            for s in (Size(1_500, 200, 200), Size(12_000, 3_000, 3_000))
            for w in (0.5, 0.9)
        ),
        *(
            drawn(
                "word counts",
                f"{s} words={w}",
                sparse.topics(s.features, s.classes, 0.2, 0.8, words=w, unit=False),
                s.rows,
            )
            for s in (Size(600, 2_000, 5), Size(4_000, 3_000, 60))
            for w in (10, 80)
        ),
        *(
            drawn("many values", f"n={n} K={k}", sparse.categories((500, 49_000), k, 1.0), n)
            for n, k in ((2_000, 3), (12_000, 20))
        ),
        *(
            drawn(
                "texts per class", f"{rows} of K={k}", sparse.topics(3_000, k, 0.4, 0.0), rows * k
            )
            for k in (60, 1_000)
            for rows in (4, 12)
        ),
        drawn("most classes", "K=60000", sparse.topics(15_000, 60_000, 0.5, 0.8), 30_000),
    ]
