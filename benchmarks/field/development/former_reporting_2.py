"""Made-up families of a former reporting half."""

from __future__ import annotations

import math

from benchmarks.field import sparse, tables, texts
from benchmarks.field.dense import Size, cases, clouds, drawn, without_signal
from benchmarks.field.problem import Problem


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [*_tables(), *_texts(), *_categories(), *_no_signal()]


def _tables() -> list[Problem]:
    return [
        *cases(
            "sensors",
            tables.sensors,
            (Size(150, 6, 3), 0.5, 3.0),
            (Size(1_500, 24, 8), 0.4, 1.0),
            (Size(9_000, 40, 30), 0.3, 5.0),
        ),
        *cases(
            "dates",
            lambda _, n_classes, effect: tables.dates(n_classes, effect),
            (Size(200, 6, 2), 1.0),
            (Size(3_000, 6, 5), 0.5),
            (Size(20_000, 6, 12), 1.0),
        ),
        *cases(
            "indicators",
            tables.indicators,
            (Size(120, 30, 2), 0.5),
            (Size(2_500, 100, 40), 0.4),
            (Size(60_000, 12, 3), 0.5),
            (Size(4_000, 300, 150), 0.6),
        ),
        *cases(
            "bursts",
            tables.bursts,
            (Size(250, 10, 3), 0.4),
            (Size(3_000, 50, 25), 0.3),
            (Size(12_000, 30, 6), 0.2),
        ),
        *cases(
            "components",
            tables.components,
            (Size(400, 100, 5), 0.8, 1.0, 5),
            (Size(3_000, 200, 60), 0.8, 0.7, 20),
            (Size(8_000, 64, 20), 0.3, 1.5, 64),
        ),
        *cases(
            "common direction",
            tables.common_direction,
            (Size(600, 300, 40), 1.5, 10.0),
            (Size(5_000, 128, 200), 2.0, 5.0),
            (Size(3_000, 768, 30), 3.0, 3.0),
        ),
        *cases(
            "hierarchy",
            lambda d, k, each, *how: tables.hierarchy(d, k // each, each, *how),
            (Size(1_000, 20, 48), 6, 1.0, 0.4),
            (Size(5_000, 25, 60), 5, 0.8, 0.6, 0.3),
            (Size(6_000, 40, 300), 20, 1.0, 0.5),
            (Size(8_000, 32, 1_000), 50, 1.0, 0.6),
        ),
        *cases(
            "lopsided",
            clouds,
            (Size(300, 5, 6), 0.8, 3.0),
            (Size(5_000, 20, 4), 0.5, 4.0),
            (Size(15_000, 10, 2), 1.0, 6.0),
        ),
        *cases(
            "genes",
            tables.genes,
            (Size(70, 2_000, 2), 30, 1.0),
            (Size(200, 6_000, 4), 40, 0.7),
            (Size(500, 1_500, 12), 60, 0.6),
        ),
        *cases(
            "tiny",
            clouds,
            (Size(60, 1, 2), 1.5),
            (Size(60, 5, 3), 0.8),
            (Size(90, 40, 2), 0.4),
        ),
        *cases(
            "ordered",
            tables.ordered,
            (Size(300, 6, 5), 2.0),
            (Size(6_000, 15, 30), 3.0),
            (Size(4_000, 50, 10), 1.0),
        ),
        *cases(
            "shares",
            tables.shares,
            (Size(200, 12, 4), 0.5),
            (Size(4_000, 40, 30), 0.4),
            (Size(3_000, 400, 12), 0.2),
        ),
        *cases(
            "pixels",
            lambda d, k, noise: tables.pixels(math.isqrt(d), k, noise),
            (Size(500, 144, 10), 120.0),
            (Size(4_000, 400, 26), 200.0),
        ),
        *cases(
            "unlike spreads",
            tables.unlike_spreads,
            (Size(500, 8, 4), 0.6),
            (Size(8_000, 20, 25), 0.5),
        ),
        *cases(
            "numbers of customers",
            lambda *how: tables.with_numbers_of_customers(clouds(*how)),
            (Size(250, 4, 3), 0.6),
            (Size(4_000, 10, 9), 0.6),
            (Size(20_000, 6, 20), 0.8),
        ),
        *cases(
            "dull columns",
            lambda *how: tables.with_dull_columns(clouds(*how)),
            (Size(400, 8, 4), 0.6),
            (Size(6_000, 20, 30), 0.5),
        ),
        *cases(
            "codes for missing",
            lambda d, k, share: tables.with_code_for_missing(clouds(d, k, 0.7), share),
            (Size(500, 10, 4), 0.03),
            (Size(8_000, 15, 12), 0.1),
        ),
        *(
            drawn(
                "near copies",
                f"{s} {copies} {jitter}",
                clouds(s.features, s.classes, 0.5),
                s.rows,
                tables.near_copies(copies, jitter),
            )
            for s, copies, jitter in ((Size(600, 20, 5), 5, 0.05), (Size(6_000, 30, 40), 3, 0.2))
        ),
    ]


def _texts() -> list[Problem]:
    return [
        *cases(
            "long texts",
            texts.long_texts,
            (Size(300, 8_000, 4), 0.03, 300),
            (Size(3_000, 20_000, 40), 0.05, 200),
            (Size(1_500, 50_000, 10), 0.02, 500),
        ),
        *cases(
            "hashed texts",
            lambda d, k, signal, words: texts.hashed(sparse.topics(words, k, signal), d),
            (Size(1_500, 256, 20), 0.3, 5_000),
            (Size(5_000, 1_024, 200), 0.4, 20_000),
            (Size(4_000, 16_384, 50), 0.2, 8_000),
        ),
        *cases(
            "grouped texts",
            lambda d, k, each, *how: texts.grouped_texts(d, k // each, each, *how),
            (Size(2_000, 3_000, 60), 6, 0.3, 0.1),
            (Size(8_000, 8_000, 900), 30, 0.3, 0.15),
            (Size(40_000, 20_000, 60_000), 100, 0.3, 0.2),
        ),
        *cases(
            "few texts",
            lambda d, k, words: sparse.topics(d, k, 0.1, 0.3, words=words),
            (Size(60, 50_000, 2), 80),
            (Size(400, 30_000, 5), 120),
            (Size(2_000, 40_000, 12), 40),
        ),
        *(
            drawn(
                "worn copies",
                f"{s} {copies} {kept}",
                sparse.topics(s.features, s.classes, 0.35),
                s.rows,
                texts.worn_copies(copies, kept),
            )
            for s, copies, kept in (
                (Size(2_400, 2_000, 40), 4, 0.8),
                (Size(9_000, 6_000, 800), 3, 0.7),
            )
        ),
    ]


def _categories() -> list[Problem]:
    return [
        *cases(
            "one category",
            lambda d, k, effect: sparse.categories((d,), k, effect),
            (Size(500, 40, 4), 1.0),
            (Size(8_000, 3_000, 100), 1.5),
            (Size(60_000, 5_000, 10), 1.0),
        ),
        *cases(
            "windows",
            lambda d, k, loyalty: sparse.chains(k, 5, loyalty, by_place=True),
            (Size(3_000, 1_200, 300), 0.7),
            (Size(15_000, 10_000, 2_500), 0.6),
        ),
        *cases(
            "ratings",
            texts.ratings,
            (Size(800, 200, 5), 1.0),
            (Size(8_000, 1_500, 20), 1.5),
        ),
        *cases(
            "events",
            texts.events,
            (Size(500, 100, 4), 0.6),
            (Size(6_000, 800, 30), 0.8),
            (Size(8_000, 2_000, 200), 1.0),
        ),
        *cases(
            "bins",
            lambda d, k, bins: texts.binned(clouds(d // bins, k, 0.5), bins),
            (Size(600, 80, 5), 10),
            (Size(6_000, 400, 60), 20),
        ),
        *cases(
            "shop",
            lambda d, _, clusters: sparse.baskets(d, clusters, 0.85, items=9),
            (Size(5_000, 1_500, 1_500), 75),
            (Size(30_000, 50_000, 50_000), 2_000),
        ),
    ]


def _no_signal() -> list[Problem]:
    """Rows with shuffled labels: only class frequencies can be learned."""
    draws = {
        "sensors": (tables.sensors(30, 100, 0.5, 2.0), 5_000),
        "indicators": (tables.indicators(60, 20, 0.5), 2_000),
        "numbers of customers": (tables.with_numbers_of_customers(clouds(3, 3, 0.5)), 400),
        "genes": (tables.genes(1_000, 3, 30, 1.0), 80),
        "long texts": (texts.long_texts(5_000, 6, 0.1, 150), 800),
        "grouped texts": (texts.grouped_texts(4_000, 20, 20, 0.3, 0.1), 8_000),
        "one category": (sparse.categories((1_000,), 8, 1.0), 3_000),
        "events": (texts.events(200, 5, 0.5), 1_000),
    }
    return without_signal("no signal", draws)
