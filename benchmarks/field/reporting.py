"""Reporting half: families that defaults may not be tuned on.

Once its results have been used, the half moves to `development` and another one takes its place:
measured sets with other features and labels (`views`), rows from Python and installed packages
(`installed`), and simulated rows of new kinds (`numeric`, `symbolic`).

The command is fixed together with the half: all problems, each with a grid of at most four
estimated seconds, which leaves expensive settings out of large problems:

    python -m benchmarks field --half reporting --max-seconds 4
"""

from __future__ import annotations

from benchmarks.field import installed, numeric, symbolic, views
from benchmarks.field.dense import Size, cases, drawn, without_signal
from benchmarks.field.forms import sorted_by_class
from benchmarks.field.problem import Problem
from benchmarks.field.repeated import of_people
from benchmarks.field.signals import series


def problems() -> list[Problem]:
    """Return all problems, with those of a family one after another."""
    return [
        *views.problems(),
        *installed.problems(),
        *_dense(),
        *_sparse(),
        *_without_signal(),
    ]


def _dense() -> list[Problem]:
    return [
        *cases("angles", numeric.angles, (Size(800, 6, 5), 1.0)),
        *cases("leaves", numeric.leaves, (Size(6_000, 12, 24), 0.1)),
        *cases("two populations", numeric.two_populations, (Size(2_000, 10, 3), 3.0)),
        *cases("not measured", numeric.not_measured, (Size(1_200, 25, 12), 0.4)),
        *cases("background", numeric.background, (Size(5_000, 8, 40), 0.5)),
        *cases("rankings", numeric.rankings, (Size(9_000, 24, 60), 0.7)),
        *cases("exposures", numeric.exposures, (Size(1_500, 20, 6), 0.3)),
        *cases("swiss roll", lambda _, k, w: numeric.swiss_roll(k, w), (Size(2_500, 3, 12), 0.5)),
        *cases("wide margins", numeric.wide_margins, (Size(4_000, 40, 30), 1.5)),
        *cases("oscillations", numeric.oscillations, (Size(2_000, 64, 6), 0.3)),
        *cases("typists", numeric.typists, (Size(15_000, 30, 250), 1.0, 0.7), make=series),
        *cases("other model", numeric.other_model, (Size(3_000, 20, 20), 1.5)),
        *cases("small integers", numeric.small_integers, (Size(12_000, 96, 2_500), 1.3)),
        *cases("tree", numeric.tree, (Size(10_000, 48, 600), 1.0)),
        *cases("passages", numeric.passages, (Size(5_000, 200, 80), 8.0, 1.5), make=of_people),
        drawn(
            "mixture",
            "sorted",
            numeric.mixture(16, 9, 25, 1.0),
            4_500,
            sorted_by_class,
        ),
    ]


def _sparse() -> list[Problem]:
    return [
        *cases("exclusive pairs", symbolic.exclusive_pairs, (Size(3_000, 10, 4), 0.9)),
        *cases("nested places", symbolic.nested_places, (Size(40_000, 4_000, 8), 0.7)),
        *cases("barcodes", symbolic.barcodes, (Size(30_000, 12, 1_000), 0.02)),
        *cases("given away", symbolic.given_away, (Size(5_000, 300, 15), 0.995)),
        *cases(
            "second order",
            lambda _, k, sharpness: symbolic.second_order(k, sharpness),
            (Size(25_000, 300, 150), 0.7),
            make=series,
        ),
        *cases("hidden states", symbolic.hidden_states, (Size(8_000, 40, 12), 0.9), make=series),
        *cases("splice sites", symbolic.splice_sites, (Size(1_000, 60, 3), 0.7)),
        *cases(
            "search sessions",
            symbolic.search_sessions,
            (Size(14_000, 2_000, 8_000), 5.0, 0.5),
            make=of_people,
        ),
        *cases("mass peaks", symbolic.mass_peaks, (Size(6_000, 2_000, 1_500), 0.7)),
        *cases("species", symbolic.species, (Size(600, 300, 10), 0.3)),
        *cases("portfolios", symbolic.portfolios, (Size(2_000, 3_000, 15), 0.2)),
        *cases("few texts each", symbolic.few_texts_each, (Size(15_000, 5_000, 8_000), 0.8)),
        *cases("words and numbers", symbolic.words_and_numbers, (Size(5_000, 3_000, 40), 0.35)),
        *cases(
            "differences",
            lambda d, _, effect: symbolic.differences(d, effect),
            (Size(3_000, 2_000, 3), 0.8),
        ),
        *cases(
            "weak words",
            lambda d, _, *how: symbolic.weak_words(d, *how),
            (Size(250, 5_000, 2), 0.4, 3.0),
            (Size(15_000, 30_000, 2), 0.2, 3.0),
        ),
    ]


def _without_signal() -> list[Problem]:
    """Rows with shuffled labels: only class frequencies can be learned."""
    return without_signal(
        "unrelated labels",
        {
            "heavy columns K=2": (numeric.heavy_columns(150, 2, 3.0), 300),
            "heavy columns K=500": (numeric.heavy_columns(12, 500, 2.0), 4_000),
            "rankings": (numeric.rankings(8, 5, 1.0), 1_000),
            "nested places": (symbolic.nested_places(1_000, 100, 1.0), 12_000),
            "species": (symbolic.species(200, 4, 0.4), 250),
        },
    )
