"""Families of a former reporting half, with its cuts of measured sets."""

from __future__ import annotations

from benchmarks.field import entries, forms, itself, real, signals
from benchmarks.field.dense import Size, cases, clouds, drawn, without_signal
from benchmarks.field.problem import Problem
from benchmarks.field.repeated import of_people
from benchmarks.field.signals import series
from benchmarks.field.sparse import topics


def problems() -> list[Problem]:
    """All of them, a family's problems one after another."""
    return [
        *_catalogue(),
        *_scikit_learn(),
        *itself.problems(),
        *_forms(),
        *_signals(),
        *_counts_and_texts(),
        *_codes_and_categories(),
        *_nothing_to_learn(),
    ]


def _catalogue() -> list[Problem]:
    return [
        *real.cuts("delicious", "1/9"),
        real.changed("delicious", "1/4", "against others", real.one_against_others(0)),
        real.changed("delicious", "1/2", "a tenth of the columns", real.some_columns(0.1)),
        *real.cuts("mnist", "1/90"),
        real.changed("mnist", "1/30", "in 20 components", real.as_components(20)),
        real.changed("mnist", "1/20", "hashed", real.as_hashed(100)),
        *real.cuts("wordnet", "1/11"),
        real.changed("wordnet", "1/3", "merged into 300", real.merged_classes(300)),
        real.changed("yelp", "1/7", "some classes", real.some_classes(500)),
        real.changed("yelp", "1/40", "hashed", real.as_hashed(2_000)),
        *real.cuts("stdlib", "1/80"),
        real.changed("stdlib", "1/25", "one class", real.one_against_others(2)),
        *real.cuts("geonames", "1/60"),
        real.in_other_words("geonames", "1/200", "counts"),
        real.changed("frogs", "1/4", "in bins", real.as_bins(6)),
        *real.cuts("detergent", "1/3"),
    ]


def _scikit_learn() -> list[Problem]:
    return [
        *real.splits("wine", 1, 0.4, first=30),
        *real.splits("breast_cancer", 1, first=30),
        real.derived("breast_cancer", "components", real.as_components(5)),
        real.derived("diabetes", "bins", real.as_bins(4)),
    ]


def _forms() -> list[Problem]:
    return [
        *cases(
            "surveys",
            forms.surveys,
            (Size(250, 20, 3), 1.5),
        ),
        *cases(
            "weather",
            lambda _, k, effect: forms.weather(k, effect),
            (Size(365, 7, 4), 1.0),
            (Size(9_000, 7, 10), 1.0),
        ),
        *cases(
            "loans",
            lambda d, _, *how: forms.loans(d, *how),
            (Size(500, 8, 2), 0.2, 2.0),
            (Size(15_000, 20, 2), 0.06, 2.0),
        ),
        *cases(
            "houses",
            lambda _, k, spread: forms.houses(k, spread),
            (Size(400, 5, 6), 0.7),
        ),
        *cases(
            "places",
            lambda _, k, blur: forms.places(k, blur),
            (Size(300, 2, 5), 0.3),
            (Size(12_000, 2, 150), 0.1),
        ),
        *cases(
            "connections",
            forms.connections,
            (Size(2_000, 12, 6), 0.8),
            (Size(20_000, 30, 20), 0.6),
        ),
        *cases(
            "cards",
            lambda *_: forms.cards(),
            (Size(5_000, 10, 4),),
        ),
        *cases(
            "parity",
            lambda d, _, right: forms.parity(d, right),
            (Size(1_500, 12, 2), 0.95),
        ),
        *cases(
            "genotypes",
            forms.genotypes,
            (Size(200, 3_000, 3), 0.15),
        ),
        *cases(
            "long tail",
            lambda d, k, share, spread: forms.long_tail(d, k, share, spread),
            (Size(600, 20, 8), 0.7, 0.8),
            (Size(6_000, 64, 20), 0.5, 1.0),
        ),
        *cases(
            "machines",
            forms.machines,
            (Size(600, 12, 4), 30.0, 1.0),
            (Size(8_000, 24, 10), 100.0, 1.0),
            make=of_people,
        ),
        *cases(
            "leaks",
            lambda d, k, distance, share: forms.with_leak(clouds(d, k, distance), share),
            (Size(300, 6, 3), 0.5, 1.0),
            (Size(5_000, 15, 30), 0.4, 0.8),
        ),
        *(
            drawn("sorted", f"{s} {kind}", draw, s.rows, forms.sorted_by_class)
            for s, kind, draw in (
                (Size(900, 10, 6), "clouds", clouds(10, 6, 0.5)),
                (Size(8_000, 4_000, 150), "texts", topics(4_000, 150, 0.25)),
            )
        ),
    ]


def _signals() -> list[Problem]:
    return [
        *cases(
            "photos",
            lambda d, k, contrast: signals.photos(d, k, contrast),
            (Size(300, 8, 4), 0.7),
        ),
        *cases(
            "sounds",
            lambda d, k, *how: signals.sounds(d, 16, k, *how),
            (Size(400, 12, 6), 40.0),
        ),
        *cases(
            "activities",
            signals.activities,
            (Size(700, 3, 6), 40.0, 0.6),
            make=of_people,
        ),
        *cases(
            "regimes",
            signals.regimes,
            (Size(1_000, 8, 4), 0.98, 0.9, 1.0),
            (Size(12_000, 20, 12), 0.99, 0.5, 0.5),
            make=series,
        ),
        *cases(
            "scans",
            signals.scans,
            (Size(90, 4_000, 2), 1.0),
            (Size(400, 2_000, 5), 0.7),
        ),
        *cases(
            "averages",
            signals.averages,
            (Size(1_000, 100, 8), 0.3),
        ),
        *cases(
            "boilerplate",
            signals.boilerplate,
            (Size(1_500, 128, 20), 3.0, 150),
            (Size(8_000, 256, 200), 3.0, 1_500),
        ),
    ]


def _counts_and_texts() -> list[Problem]:
    return [
        *cases(
            "cells",
            entries.cells,
            (Size(500, 1_000, 5), 0.4),
            (Size(4_000, 2_000, 25), 0.5),
        ),
        *cases(
            "tickets",
            entries.tickets,
            (Size(700, 3_000, 5), 0.15),
            (Size(8_000, 10_000, 80), 0.2),
        ),
        *cases(
            "reports",
            entries.reports,
            (Size(80, 5_000, 3), 2.0, 3_000),
        ),
        *cases(
            "proteins",
            lambda _, k, changed: entries.proteins(k, changed),
            (Size(300, 8_000, 6), 0.6),
            (Size(5_000, 8_000, 200), 0.6),
        ),
        *cases(
            "titles",
            entries.titles,
            (Size(1_500, 6_000, 25), 150),
            (Size(20_000, 30_000, 800), 1_500),
        ),
        *cases(
            "queries",
            entries.queries,
            (Size(3_000, 4_096, 200), 0.15),
            (Size(30_000, 16_384, 8_000), 0.1),
        ),
        *cases(
            "entities",
            entries.entities,
            (Size(4_000, 5_000, 3_000), 0.8),
            (Size(40_000, 30_000, 50_000), 0.8),
        ),
        *cases(
            "tail",
            entries.tail,
            (Size(2_000, 3_000, 10), 0.6),
            (Size(15_000, 12_000, 50), 0.5),
        ),
    ]


def _codes_and_categories() -> list[Problem]:
    return [
        *cases(
            "diagnoses",
            entries.diagnoses,
            (Size(800, 600, 3), 0.5),
            (Size(10_000, 3_000, 20), 0.4),
        ),
        *cases(
            "who and what",
            lambda d, _, things, sharpness: entries.who_and_what(d, things, sharpness),
            (Size(1_500, 300, 5), 120, 1.0),
            (Size(25_000, 4_000, 5), 1_500, 1.5),
        ),
        *cases(
            "hours",
            entries.hours,
            (Size(600, 30, 4), 0.7),
        ),
        *cases(
            "trips",
            lambda side, _, near: entries.trips(side, near),
            (Size(3_000, 12, 144), 0.7),
            (Size(30_000, 50, 2_500), 0.7),
        ),
        *cases(
            "recipes",
            entries.recipes,
            (Size(1_000, 500, 8), 0.15),
        ),
        *cases(
            "molecules",
            entries.molecules,
            (Size(600, 512, 2), 6.0, 0.3),
            make=of_people,
        ),
        *cases(
            "receipts",
            entries.receipts,
            (Size(1_000, 800, 4), 15.0, 0.25),
            (Size(10_000, 3_000, 25), 40.0, 0.3),
            make=of_people,
        ),
    ]


def _nothing_to_learn() -> list[Problem]:
    """Rows of the other families with shuffled labels."""
    draws = {
        "surveys": (forms.surveys(30, 5, 1.0), 1_200),
        "houses": (forms.houses(20, 0.7), 2_500),
        "scans": (signals.scans(1_500, 3, 1.0), 120),
        "tickets": (entries.tickets(4_000, 30, 0.3), 2_500),
        "titles": (entries.titles(5_000, 300, 200), 8_000),
        "hours": (entries.hours(100, 6, 0.7), 4_000),
    }
    return without_signal("only chance", draws)
