"""First families of the development half."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn.datasets

from benchmarks.field import dense, real, sparse
from benchmarks.field.dense import SHAPES, Size, clouds, drawn
from benchmarks.field.problem import Problem


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [*_real(), *_dense(), *_sparse()]


def _real() -> list[Problem]:
    halves = ("1/32", "1/16", "1/8", "1/4", "1/2", "1")
    return [
        *real.cuts("bibtex", *halves),
        *real.cuts("omniglot", *halves[:4]),
        *real.cuts("20newsgroups", *halves),
        *real.cuts("ptb", "1/256", "1/128", "1/64", "1/32"),
        *real.cuts("beauty", *halves[:4]),
        *real.cuts("yso", "1/256", "1/64", "1/32", "1/16"),
        *real.small_tables("glass", 3),
        *real.splits("iris", 3),
        *real.splits("digits", 2, 0.06, 0.25),
    ]


def _dense() -> list[Problem]:
    return [
        *(
            drawn("clouds", f"{s} distance={d}", clouds(s.features, s.classes, d), s.rows)
            for s in (Size(400, 10, 5), Size(3_000, 20, 10), Size(12_000, 50, 50))
            for d in (0.15, 0.5, 1.5)
        ),
        *(
            drawn("noise", str(s), dense.noise(clouds(s.features, s.classes, 1.0, 0.5)), s.rows)
            for s in (
                Size(300, 5, 2),
                Size(500, 50, 10),
                Size(3_000, 20, 10),
                Size(3_000, 200, 50),
                Size(10_000, 50, 100),
                Size(5_000, 384, 300),
            )
        ),
        *(
            drawn("scales", str(s), dense.scaled(clouds(s.features, s.classes, 0.6), 1.0), s.rows)
            for s in SHAPES
        ),
        *(
            drawn("shift", str(s), dense.shifted(clouds(s.features, s.classes, 0.6), 50), s.rows)
            for s in SHAPES
        ),
        *(
            drawn("outlier row", str(s), clouds(s.features, s.classes, 0.6), s.rows, dense.outlier)
            for s in SHAPES
        ),
        *(
            drawn(
                "copies of rows",
                str(s),
                clouds(s.features, s.classes, 0.4),
                s.rows,
                dense.copies_of_rows(4),
            )
            for s in SHAPES
        ),
        *(
            drawn("embeddings", f"n={n} spread={w}", dense.unit_embeddings(384, 300, w), n)
            for n in (900, 3_000, 8_000)
            for w in (1.5, 4.0)
        ),
        *(
            drawn(
                "counts",
                f"{s} contrast={c}",
                dense.poisson_counts(s.features, s.classes, c),
                s.rows,
            )
            for s in (Size(600, 20, 5), Size(4_000, 60, 30))
            for c in (0.1, 0.5)
        ),
        *(
            drawn("many classes", str(s), clouds(s.features, s.classes, 0.8, 1.0), s.rows)
            for s in (
                Size(4_000, 20, 1_000),
                Size(20_000, 20, 1_000),
                Size(20_000, 20, 10_000),
                Size(10_000, 100, 3_000),
            )
        ),
        *(
            drawn(
                "rows per class",
                f"{rows} of K={k}",
                clouds(30, k, 0.5),
                rows * k,
            )
            for k in (20, 200)
            for rows in (3, 8, 40)
        ),
        *(
            drawn("two classes", f"{s} scale={w}", dense.utilities(s.features, 2, w), s.rows)
            for s in (Size(200, 2, 2), Size(300, 500, 2), Size(5_000, 30, 2))
            for w in (0.5, 4.0)
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
        *(_made_by_scikit_learn(*how) for how in ((500, 5), (4_000, 5), (4_000, 40))),
    ]


def _made_by_scikit_learn(n: int, n_informative: int) -> Problem:
    """`make_classification`: two clouds per class in a cube, useless and repeated columns."""

    def draw(rng: np.random.Generator, n_rows: int) -> tuple[Any, np.ndarray]:
        return sklearn.datasets.make_classification(
            n_rows,
            n_features=60,
            n_informative=n_informative,
            n_redundant=10,
            n_repeated=5,
            n_classes=8,
            random_state=int(rng.integers(2**31)),
        )

    return drawn("make_classification", f"n={n} informative={n_informative}", draw, n)


def _sparse() -> list[Problem]:
    return [
        *(
            drawn(
                "topics",
                f"{s} signal={w}",
                sparse.topics(s.features, s.classes, w),
                s.rows,
            )
            for s in (Size(1_000, 500, 20), Size(5_000, 3_000, 200), Size(20_000, 8_000, 2_000))
            for w in (0.1, 0.3, 0.7)
        ),
        *(
            drawn(
                "sparse noise",
                str(s),
                dense.noise(sparse.topics(s.features, s.classes, 0.5)),
                s.rows,
            )
            for s in (
                Size(500, 300, 5),
                Size(4_000, 2_000, 50),
                Size(10_000, 5_000, 1_000),
                Size(10_000, 500, 5_000),
            )
        ),
        *(
            drawn("baskets", f"{s} loyalty={w}", sparse.baskets(s.features, c, w), s.rows)
            for s, c in (
                (Size(3_000, 500, 500), 20),
                (Size(20_000, 3_000, 3_000), 100),
                (Size(30_000, 10_000, 10_000), 500),
            )
            for w in (0.5, 0.9)
        ),
        *(
            drawn("codes", f"n={n} K={k}", sparse.codes(k), n)
            for n, k in ((1_000, 100), (10_000, 1_000), (30_000, 10_000), (40_000, 100_000))
        ),
        *(
            drawn(
                "categories",
                f"{s} effect={w}",
                sparse.categories(c, s.classes, w),
                s.rows,
            )
            for s, c in (
                (Size(1_000, 113, 3), (3, 10, 100)),
                (Size(10_000, 1_560, 30), (10, 50, 500, 1_000)),
            )
            for w in (0.3, 1.0)
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
            drawn(
                "amounts",
                f"{s} sigma={w}",
                sparse.amounts(s.features, s.classes, 0.8, w),
                s.rows,
            )
            for s in (Size(1_200, 150, 5), Size(8_000, 1_000, 40))
            for w in (0.5, 1.5)
        ),
        *(
            drawn(
                "wide",
                f"{s} signal={w}",
                sparse.topics(s.features, s.classes, w, 0.5, words=60),
                s.rows,
            )
            for s in (Size(1_500, 30_000, 2), Size(6_000, 100_000, 20))
            for w in (0.05, 0.2)
        ),
    ]
