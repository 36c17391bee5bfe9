"""Simulated families of a former reporting half: persons, later times, vectors, letters, items."""

from __future__ import annotations

import math

import numpy as np
import sklearn.datasets

from benchmarks.field import dense, ledgers, letters, repeated
from benchmarks.field.dense import Draw, Rows, Size, cases, clouds, drawn, without_signal
from benchmarks.field.problem import Problem


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [
        *_people_and_times(),
        *_tables(),
        *_vectors(),
        *_texts(),
        *_items(),
        *_nothing_to_learn(),
    ]


def _people_and_times() -> list[Problem]:
    return [
        *cases(
            "sessions",
            repeated.sessions,
            (Size(400, 12, 3), 6.0, 0.4, 1.0),
            (Size(4_000, 30, 12), 10.0, 0.5, 0.7),
            (Size(20_000, 20, 40), 25.0, 0.8, 0.5),
            make=repeated.of_people,
        ),
        *cases(
            "panels",
            repeated.panels,
            (Size(300, 8, 4), 5.0, 0.8, 1.0),
            (Size(6_000, 40, 15), 12.0, 0.4, 1.5),
            make=repeated.of_people,
        ),
        *cases(
            "visits",
            repeated.visits,
            (Size(800, 600, 5), 5.0, 0.15),
            (Size(8_000, 3_000, 60), 8.0, 0.2),
            make=repeated.of_people,
        ),
        *(
            drawn(
                "augmented",
                f"{s} {times} times",
                repeated.picture(math.isqrt(s.features), s.classes, contrast),
                s.rows,
                repeated.augmented(math.isqrt(s.features), times),
            )
            for s, contrast, times in (
                (Size(800, 64, 5), 0.7, 8),
                (Size(6_000, 144, 30), 0.35, 4),
            )
        ),
        *(
            drawn(
                "oversampled",
                f"{s} {'between' if between else 'copies'}",
                clouds(s.features, s.classes, 0.6, 2.0),
                s.rows,
                repeated.oversampled(between),
            )
            for s, between in ((Size(300, 10, 3), False), (Size(1_500, 20, 8), True))
        ),
        *cases(
            "moving",
            repeated.moving,
            (Size(600, 10, 4), 0.6, 0.5),
            (Size(5_000, 25, 30), 0.6, 0.8),
            (Size(30_000, 15, 8), 0.4, 1.0),
            make=repeated.at_times,
        ),
        *cases(
            "other frequencies",
            repeated.other_frequencies,
            (Size(800, 10, 5), 2.0),
            (Size(8_000, 20, 50), 3.0),
            make=repeated.at_times,
        ),
        *cases(
            "new words",
            repeated.new_words,
            (Size(1_500, 2_000, 10), 0.4),
            (Size(10_000, 8_000, 400), 0.5),
            make=repeated.at_times,
        ),
    ]


def _tables() -> list[Problem]:
    return [
        *cases(
            "several codes",
            lambda d, k, share: ledgers.with_several_codes(clouds(d, k, 0.7), share),
            (Size(400, 8, 3), 0.1),
            (Size(5_000, 25, 10), 0.2),
        ),
        *cases(
            "views",
            ledgers.views,
            (Size(300, 6, 3), 1.2),
            (Size(4_000, 30, 20), 1.0),
            (Size(20_000, 12, 5), 0.8),
        ),
        *cases(
            "laboratory",
            ledgers.laboratory,
            (Size(150, 20, 2), 0.3),
            (Size(3_000, 35, 15), 0.5),
        ),
        *cases(
            "fraud",
            lambda d, _, *how: ledgers.fraud(d, *how),
            (Size(4_000, 10, 2), 0.005, 3.0),
            (Size(20_000, 28, 2), 0.005, 4.0),
            (Size(60_000, 15, 2), 0.005, 2.5),
        ),
        *cases(
            "one price",
            lambda _, k, noise: ledgers.one_price(k, noise),
            (Size(60, 1, 2), 0.3),
            (Size(1_000, 1, 6), 0.2),
            (Size(15_000, 1, 40), 0.2),
        ),
        *cases(
            "number as class",
            ledgers.number_as_class,
            (Size(1_000, 10, 30), 0.2),
            (Size(10_000, 30, 90), 0.3),
        ),
        *cases(
            "codes as numbers",
            ledgers.codes_as_numbers,
            (Size(500, 6, 3), 5, 0.7),
            (Size(6_000, 12, 10), 12, 0.8),
        ),
        *cases(
            "annotators",
            lambda d, k, share: ledgers.with_annotators(clouds(d, k, 0.9), share),
            (Size(350, 6, 4), 0.3),
            (Size(6_000, 20, 25), 0.2),
        ),
        *cases(
            "spectra",
            ledgers.spectra,
            (Size(80, 1_000, 2), 0.15),
            (Size(240, 600, 3), 0.25),
            (Size(2_000, 300, 20), 0.4),
        ),
        *cases(
            "k-mers",
            lambda d, k, contrast: ledgers.k_mers(round(math.log(d, 4)), k, contrast),
            (Size(200, 256, 3), 0.2),
            (Size(4_000, 256, 25), 0.2),
            (Size(1_500, 1_024, 8), 0.1),
        ),
        *cases(
            "curves in polynomials",
            lambda _, k, degree: ledgers.polynomials(_moons if k == 2 else _spots(k), degree),
            (Size(200, 2, 2), 3),
            (Size(3_000, 2, 2), 6),
            (Size(5_000, 3, 6), 4),
        ),
    ]


def _moons(rng: np.random.Generator, n: int) -> Rows:
    """scikit-learn's two moons."""
    seed = int(rng.integers(2**31))
    return sklearn.datasets.make_moons(n, noise=0.25, random_state=seed)


def _spots(n_classes: int) -> Draw:
    """Three clouds per class in three dimensions."""
    return dense.several_clouds(3, n_classes, 2.0)


def _vectors() -> list[Problem]:
    return [
        *cases(
            "whitened",
            ledgers.whitened,
            (Size(300, 50, 4), 1.5, 5),
            (Size(4_000, 120, 25), 1.5, 10),
            (Size(6_000, 200, 300), 2.5, 20),
        ),
        *cases(
            "few directions",
            ledgers.few_directions,
            (Size(800, 128, 10), 3.0, 4.0),
            (Size(5_000, 300, 150), 3.0, 6.0),
            (Size(8_000, 64, 1_200), 1.5, 3.0),
        ),
        *cases(
            "two vectors",
            ledgers.two_vectors,
            (Size(500, 200, 2), 5.0),
            (Size(6_000, 128, 4), 0.7),
        ),
        *cases(
            "nearly one each",
            ledgers.nearly_one_each,
            (Size(250, 40, 200), 0.8),
            (Size(2_500, 100, 2_000), 1.2),
            (Size(6_250, 64, 5_000), 0.7),
        ),
        *cases(
            "waves",
            lambda d, k, width: ledgers.waves(dense.several_clouds(5, k, 1.5), d, width),
            (Size(600, 200, 4), 3.0),
            (Size(6_000, 400, 12), 3.0),
        ),
        *cases(
            "hidden layer",
            lambda d, k, distance: ledgers.hidden_layer(clouds(24, k, distance), d),
            (Size(400, 128, 5), 0.5),
            (Size(5_000, 256, 60), 0.8),
            (Size(6_000, 512, 400), 1.0),
        ),
    ]


def _texts() -> list[Problem]:
    return [
        *cases(
            "names",
            letters.names,
            (Size(400, 1_024, 4), 0.6),
            (Size(5_000, 4_096, 30), 0.7),
            (Size(20_000, 16_384, 250), 0.9),
        ),
        *cases(
            "collocations",
            letters.collocations,
            (Size(1_000, 8_192, 6), 0.3),
            (Size(8_000, 32_768, 100), 0.4),
            (Size(5_000, 131_072, 20), 0.25),
        ),
        *cases(
            "log lines",
            letters.log_lines,
            (Size(1_200, 4_000, 12),),
            (Size(10_000, 20_000, 300),),
            (Size(25_000, 60_000, 2_500),),
        ),
        *cases(
            "short messages",
            letters.short_messages,
            (Size(600, 1_500, 3), 0.4),
            (Size(6_000, 8_000, 40), 0.4),
        ),
        *cases(
            "taxonomy",
            lambda d, _, branches, signal: letters.taxonomy(d, branches, signal),
            (Size(3_000, 4_000, 90), (3, 5, 6), 0.6),
            (Size(12_000, 10_000, 1_000), (10, 10, 10), 0.6),
            (Size(30_000, 15_000, 8_000), (20, 20, 20), 0.7),
        ),
    ]


def _items() -> list[Problem]:
    return [
        *cases(
            "boards",
            letters.boards,
            (Size(1_500, 36, 20), 1.0),
            (Size(10_000, 64, 600), 1.5),
        ),
        *cases(
            "matches",
            lambda d, _, scale: letters.matches(d, scale),
            (Size(300, 18, 3), 0.7),
            (Size(8_000, 400, 3), 1.0),
        ),
        *cases(
            "clicks",
            lambda d, _, *how: letters.clicks(d, *how),
            (Size(8_000, 500, 2), 0.02, 1.0),
            (Size(60_000, 20_000, 2), 0.005, 1.0),
        ),
        *cases(
            "playlists",
            lambda d, k, loyalty: letters.playlists(k, d - k, loyalty),
            (Size(3_000, 550, 500), 0.8),
            (Size(15_000, 4_400, 4_000), 0.9),
            (Size(40_000, 22_000, 20_000), 0.9),
        ),
        *cases(
            "neighbours",
            letters.neighbours,
            (Size(500, 400, 5), 0.4),
            (Size(8_000, 5_000, 80), 0.5),
        ),
    ]


def _nothing_to_learn() -> list[Problem]:
    """Rows of the other families with shuffled labels."""
    draws = {
        "names": (letters.names(2_048, 20, 0.5), 3_000),
        "playlists": (letters.playlists(1_000, 100, 0.8), 5_000),
        "spectra": (ledgers.spectra(400, 2, 0.5), 100),
        "views": (ledgers.views(10, 6, 0.5), 1_500),
        "few directions": (ledgers.few_directions(128, 50, 3.0, 5.0), 2_000),
        "matches": (letters.matches(30, 1.0), 400),
        "taxonomy": (letters.taxonomy(3_000, (5, 6, 10), 0.5), 6_000),
    }
    return without_signal("nothing to learn", draws)
