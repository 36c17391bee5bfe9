"""The reporting half: families that no choice of defaults may look at.

Drawn up anew each time that the half has been looked at and something was changed because of it:
other shapes and seeds of every family, and kinds of rows that nobody had measured.  A family whose
cause of regret was removed goes to the development half.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets

from benchmarks.field import dense, real, sparse
from benchmarks.field.dense import Draw, Size, clouds, drawn
from benchmarks.field.problem import Problem

#: Shapes that families share in which something else is varied.
SHAPES = (Size(700, 12, 4), Size(2_000, 40, 40), Size(5_000, 25, 120), Size(15_000, 20, 8))


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [*_real(), *_dense(), *_sparse()]


def _real() -> list[Problem]:
    return [
        *real.cuts("delicious", "1/24", "1/12", "1/6", "2/3"),
        *real.cuts("mnist", "1/48", "1/24", "1/6"),
        *real.cuts("wordnet", "1/24", "1/12", "1/6", "1/3"),
        *real.cuts("yelp", "1/96", "1/48", "1/12"),
        *real.cuts("stdlib", "1/192", "1/96", "1/48"),
        *real.cuts("geonames", "1/192", "1/96", "1/48"),
        *real.cuts("frogs", "1/12", "1/3"),
        *real.cuts("detergent", "1/4", "3/4"),
        *real.splits("wine", 2, 0.4, first=3),
        *real.splits("breast_cancer", 1, 0.3, first=2),
        *real.splits("diabetes", 2, 0.5, first=3),
    ]


def _over_shapes(
    family: str, change: Callable[[Draw], Draw], distance: float, shapes: tuple[Size, ...] = SHAPES
) -> list[Problem]:
    return [
        drawn(family, str(s), change(clouds(s.features, s.classes, distance)), s.rows)
        for s in shapes
    ]


def _dense() -> list[Problem]:
    return [
        *(
            drawn("frequencies", f"{s} exponent={z}", clouds(s.features, s.classes, 0.4, z), s.rows)
            for s in (Size(1_000, 15, 30), Size(8_000, 60, 300))
            for z in (0.3, 1.2)
        ),
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
            drawn("D=150 K=250", f"n={n} distance={d}", clouds(150, 250, d), n)
            for n in (1_000, 4_000)
            for d in (0.2, 0.4)
        ),
        *(
            drawn("one column", f"n={n} K={k}", clouds(1, k, 2.0), n)
            for n, k in ((120, 3), (2_000, 20))
        ),
        *(
            drawn("utilities", f"{s} scale={w}", dense.utilities(s.features, s.classes, w), s.rows)
            for s in (Size(400, 30, 4), Size(4_000, 40, 150))
            for w in (1.0, 4.0)
        ),
        *(
            drawn(
                "shifted noise",
                str(s),
                dense.noise(dense.shifted(clouds(s.features, s.classes, 0.5, 0.5), 10.0)),
                s.rows,
            )
            for s in (Size(150, 10, 2), Size(800, 60, 6), Size(6_000, 50, 400))
        ),
        *(
            drawn("unit vectors", f"n={n} spread={w}", dense.unit_embeddings(200, 120, w), n)
            for n in (1_000, 5_000)
            for w in (1.0, 3.0)
        ),
        *(_rings(n, k) for n, k in ((300, 4), (6_000, 3))),
        *(_blobs(n, spread) for n, spread in ((250, 3.0), (8_000, 6.0))),
    ]


def _rings(n: int, n_classes: int) -> Problem:
    """`make_gaussian_quantiles`: classes are shells around the same middle, nothing linear."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        seed = int(rng.integers(2**31))
        return sklearn.datasets.make_gaussian_quantiles(
            n_samples=n_rows, n_features=7, n_classes=n_classes, random_state=seed
        )

    return drawn("rings", f"n={n} K={n_classes}", draw, n)


def _blobs(n: int, spread: float) -> Problem:
    """`make_blobs`: few columns, centres between -10 and 10."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        seed = int(rng.integers(2**31))
        return sklearn.datasets.make_blobs(
            n_rows, n_features=12, centers=18, cluster_std=spread, random_state=seed
        )

    return drawn("blobs", f"n={n} spread={spread}", draw, n)


def _sparse() -> list[Problem]:
    return [
        *(
            drawn(
                "word frequencies",
                f"{s} exponent={z}",
                sparse.topics(s.features, s.classes, 0.25, z, words=15),
                s.rows,
            )
            for s in (Size(1_500, 2_000, 100), Size(10_000, 5_000, 2_500))
            for z in (0.4, 1.1)
        ),
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
                "counts of noise",
                str(s),
                dense.noise(sparse.topics(s.features, s.classes, 0.5, unit=False)),
                s.rows,
            )
            for s in (Size(300, 500, 4), Size(3_000, 2_000, 40), Size(10_000, 4_000, 1_500))
        ),
        *(
            drawn(
                "copies of texts",
                str(s),
                sparse.topics(s.features, s.classes, 0.3),
                s.rows,
                dense.copies_of_rows(2),
            )
            for s in (Size(1_200, 1_500, 30), Size(8_000, 4_000, 600))
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
