"""The reporting half: families that no choice of defaults may look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.datasets

from benchmarks.field import dense, real, sparse
from benchmarks.field.dense import SHAPES, Draw, Size, clouds, drawn
from benchmarks.field.problem import Problem


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [*_real(), *_dense(), *_sparse()]


def _real() -> list[Problem]:
    halves = ("1/32", "1/16", "1/8", "1/4", "1/2", "1")
    return [
        *real.cuts("delicious", *halves),
        *real.cuts("mnist", *halves[:4]),
        *real.cuts("wordnet", *halves[:5]),
        *real.cuts("yelp", "1/128", "1/32", "1/16", "1/8"),
        *real.cuts("stdlib", "1/256", "1/128", "1/64", "1/32"),
        *real.cuts("geonames", "1/256", "1/64", "1/32"),
        *real.cuts("frogs", "1/16", "1/4", "1"),
        *real.cuts("detergent", "1/8", "1/2", "1"),
        *real.splits("wine", 3),
        *real.splits("breast_cancer", 2, 0.15),
        *real.splits("diabetes", 3),
    ]


def _over_shapes(family: str, change: Callable[[Draw], Draw], distance: float) -> list[Problem]:
    return [
        drawn(family, str(s), change(clouds(s.features, s.classes, distance)), s.rows)
        for s in SHAPES
    ]


def _dense() -> list[Problem]:
    return [
        *(
            drawn(
                "frequencies",
                f"{s} exponent={z}",
                clouds(s.features, s.classes, 0.5, z),
                s.rows,
            )
            for s in (Size(2_000, 20, 50), Size(12_000, 40, 500))
            for z in (0.5, 1.0, 2.0)
        ),
        *_over_shapes("wide scales", lambda draw: dense.scaled(draw, 3.0), 0.6),
        *_over_shapes("large column", dense.with_large_column, 0.6),
        *_over_shapes(
            "shift and scales",
            lambda draw: dense.scaled(dense.shifted(draw, 20, signs=True), 1.0),
            0.6,
        ),
        *_over_shapes("copies of columns", lambda draw: dense.with_copies_of_columns(draw, 5), 0.4),
        *(
            drawn(
                "heavy tails",
                f"{s} sigma={w}",
                dense.heavy_tailed(clouds(s.features, s.classes, 0.6), w),
                s.rows,
            )
            for s in (Size(600, 20, 5), Size(5_000, 30, 20))
            for w in (0.7, 2.0)
        ),
        *(
            drawn("mixed columns", f"n={n} K={k}", dense.mixed_columns(6, (3, 8, 20, 50), k), n)
            for n, k in ((400, 2), (1_500, 6), (8_000, 6), (8_000, 40))
        ),
        *(
            drawn("D=200 K=400", f"n={n} distance={d}", clouds(200, 400, d), n)
            for n in (1_500, 6_000)
            for d in (0.15, 0.35)
        ),
        *(
            drawn("one column", f"n={n} K={k}", clouds(1, k, 3.0), n)
            for n, k in ((200, 2), (1_000, 5), (4_000, 5), (5_000, 50))
        ),
        *(
            drawn(
                "centres of low rank",
                str(s),
                clouds(s.features, s.classes, 0.7, 0.7, rank=6),
                s.rows,
            )
            for s in (Size(1_500, 50, 100), Size(6_000, 100, 1_000), Size(12_000, 300, 400))
        ),
        *(
            drawn("utilities", f"{s} scale={w}", dense.utilities(s.features, s.classes, w), s.rows)
            for s in (Size(800, 15, 8), Size(6_000, 80, 60))
            for w in (0.5, 2.0, 8.0)
        ),
        *(
            drawn(
                "shifted noise",
                str(s),
                dense.noise(dense.shifted(clouds(s.features, s.classes, 0.5, 1.0), 5.0)),
                s.rows,
            )
            for s in (Size(250, 30, 3), Size(2_500, 100, 10), Size(4_000, 30, 1_000))
        ),
        *(_rings(n, k) for n, k in ((500, 3), (4_000, 6))),
        *(_blobs(n, spread) for n, spread in ((400, 4.0), (5_000, 8.0))),
    ]


def _rings(n: int, n_classes: int) -> Problem:
    """`make_gaussian_quantiles`: classes are shells around the same middle, nothing linear."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        seed = int(rng.integers(2**31))
        return sklearn.datasets.make_gaussian_quantiles(
            n_samples=n_rows, n_features=10, n_classes=n_classes, random_state=seed
        )

    return drawn("rings", f"n={n} K={n_classes}", draw, n)


def _blobs(n: int, spread: float) -> Problem:
    """`make_blobs`: few columns, centres between -10 and 10."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        seed = int(rng.integers(2**31))
        return sklearn.datasets.make_blobs(
            n_rows, n_features=8, centers=30, cluster_std=spread, random_state=seed
        )

    return drawn("blobs", f"n={n} spread={spread}", draw, n)


def _sparse() -> list[Problem]:
    return [
        *(
            drawn(
                "word frequencies",
                f"{s} exponent={z}",
                sparse.topics(s.features, s.classes, 0.3, z, words=10),
                s.rows,
            )
            for s in (Size(2_500, 1_000, 300), Size(15_000, 6_000, 5_000))
            for z in (0.0, 0.7, 1.5)
        ),
        *(
            drawn("chains", f"{s} loyalty={w}", sparse.chains(s.features, 3, w), s.rows)
            for s in (Size(2_000, 300, 300), Size(15_000, 2_000, 2_000), Size(30_000, 8_000, 8_000))
            for w in (0.3, 0.8)
        ),
        *(
            drawn(
                "word counts",
                f"{s} words={w}",
                sparse.topics(s.features, s.classes, 0.15, 0.5, words=w, unit=False),
                s.rows,
            )
            for s in (Size(800, 1_000, 10), Size(5_000, 4_000, 100))
            for w in (15, 150)
        ),
        *(
            drawn(
                "scales of sparse columns",
                str(s),
                dense.scaled(sparse.topics(s.features, s.classes, 0.3), 1.0),
                s.rows,
            )
            for s in (Size(1_500, 800, 20), Size(8_000, 3_000, 500))
        ),
        *(
            drawn(
                "categories and numbers",
                f"n={n} K={k}",
                sparse.categories((5, 50, 2_000), k, 0.7, n_numeric=4),
                n,
            )
            for n, k in ((1_000, 4), (10_000, 4), (10_000, 100))
        ),
        *(
            drawn("many values", f"n={n} K={k}", sparse.categories((1_000, 99_000), k, 1.0), n)
            for n, k in ((3_000, 2), (20_000, 10))
        ),
        *(
            drawn(
                "counts of noise",
                str(s),
                dense.noise(sparse.topics(s.features, s.classes, 0.5, unit=False)),
                s.rows,
            )
            for s in (Size(400, 1_000, 3), Size(5_000, 5_000, 100), Size(20_000, 3_000, 3_000))
        ),
        *(
            drawn(
                "copies of texts",
                str(s),
                sparse.topics(s.features, s.classes, 0.3),
                s.rows,
                dense.copies_of_rows(3),
            )
            for s in (Size(1_500, 1_000, 50), Size(12_000, 5_000, 1_000))
        ),
        *(
            drawn(
                "texts per class",
                f"{rows} of K={k}",
                sparse.topics(4_000, k, 0.4, 0.0),
                rows * k,
            )
            for k in (100, 1_500)
            for rows in (3, 15)
        ),
        drawn("most classes", "K=100000", sparse.topics(20_000, 100_000, 0.5, 0.8), 40_000),
    ]
