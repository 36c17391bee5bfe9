"""The field test of the defaults: its halves, its rows, what regret is, and runs that go on."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from benchmarks.__main__ import make_parser
from benchmarks.field import (
    dense,
    entries,
    families,
    field,
    forms,
    grid,
    itself,
    ledgers,
    letters,
    measure,
    real,
    repeated,
    results,
    run,
    signals,
    sparse,
    summary,
    tables,
    texts,
)
from benchmarks.field.grid import Frequencies, Logistic, Shape
from benchmarks.field.measure import Mean, regret
from benchmarks.field.problem import (
    BLOCK,
    Data,
    Problem,
    from_groups,
    from_one_pool,
    from_ordered,
    from_two_pools,
)
from bigcat.data import DataError

# Families and halves


def test_halves_have_no_family_in_common():
    halves = {half: families.problems_of(half) for half in families.HALVES}
    assert list(halves) == ["development", "reporting"]
    first, second = ({problem.family for problem in problems} for problems in halves.values())
    assert not first & second
    for problems in halves.values():
        assert 60 <= len(problems) <= 600
        names = [problem.name for problem in problems]
        assert len(set(names)) == len(names)
        in_order = [problem.family for problem in problems]
        changes = sum(a != b for a, b in itertools.pairwise(in_order))
        assert changes == len(set(in_order)) - 1  # a set that is read once serves its family


def test_problems_are_found_by_words_and_spread_out():
    found = families.problems_of("development", only=["noise", "iris"])
    assert {problem.family for problem in found} == {"iris", "noise", "sparse noise"}
    few = families.problems_of("development", limit=10)
    assert len(few) == 10
    assert len({problem.family for problem in few}) == 10
    assert len(families.problems_of("development", only=["iris"], limit=50)) == 3


# Rows


def small(family: str = "small", n: int = 150, distance: float = 1.5) -> Problem:
    return dense.drawn(family, f"n={n}", dense.clouds(4, 3, distance), n, n_test=200)


def as_array(X: Any) -> np.ndarray:
    return X.toarray() if scipy.sparse.issparse(X) else X


NEW_DRAWS = {
    "sensors": tables.sensors(4, 3, 0.5, 2.0),
    "dates": tables.dates(3, 1.0),
    "customers": tables.with_numbers_of_customers(dense.clouds(2, 3, 1.0)),
    "indicators": tables.indicators(6, 3, 1.0),
    "bursts": tables.bursts(6, 3, 0.5),
    "components": tables.components(8, 3, 1.0, 1.0, 3),
    "common direction": tables.common_direction(8, 3, 1.0, 9.0),
    "hierarchy": tables.hierarchy(4, 3, 2, 1.0, 0.5, 0.2),
    "genes": tables.genes(100, 2, 10, 1.0),
    "ordered": tables.ordered(3, 4, 1.0),
    "shares": tables.shares(5, 3, 0.5),
    "pixels": tables.pixels(5, 3, 50.0),
    "unlike spreads": tables.unlike_spreads(3, 3, 0.5),
    "dull columns": tables.with_dull_columns(dense.clouds(3, 3, 1.0)),
    "codes for missing": tables.with_code_for_missing(dense.clouds(3, 3, 1.0), 0.1),
    "long texts": texts.long_texts(200, 3, 0.3, 30),
    "hashed": texts.hashed(sparse.topics(40, 3, 0.5), 8),
    "grouped texts": texts.grouped_texts(40, 3, 2, 0.3, 0.3),
    "windows": sparse.chains(20, 3, 0.5, by_place=True),
    "ratings": texts.ratings(30, 3, 1.0),
    "events": texts.events(30, 3, 0.5),
    "bins": texts.binned(dense.clouds(3, 3, 1.0), 5),
    "views": ledgers.views(4, 3, 0.5),
    "laboratory": ledgers.laboratory(4, 3, 0.5),
    "fraud": ledgers.fraud(4, 0.1, 2.0),
    "one price": ledgers.one_price(3, 0.2),
    "number as class": ledgers.number_as_class(3, 5, 0.2),
    "codes as numbers": ledgers.codes_as_numbers(3, 3, 4, 0.5),
    "spectra": ledgers.spectra(20, 2, 0.3),
    "k-mers": ledgers.k_mers(2, 3, 0.3, letters=20),
    "whitened": ledgers.whitened(6, 3, 1.0, 2),
    "few directions": ledgers.few_directions(8, 3, 1.0, 3.0),
    "two vectors": ledgers.two_vectors(8, 2, 0.5),
    "nearly one each": ledgers.nearly_one_each(4, 48, 0.5),
    "several codes": ledgers.with_several_codes(dense.clouds(3, 3, 1.0), 0.2),
    "polynomials": ledgers.polynomials(dense.clouds(2, 3, 1.0), 2),
    "waves": ledgers.waves(dense.clouds(2, 3, 1.0), 6, 2.0),
    "hidden layer": ledgers.hidden_layer(dense.clouds(3, 3, 1.0), 6),
    "annotators": ledgers.with_annotators(dense.clouds(3, 3, 1.0), 0.2),
    "pictures": repeated.picture(4, 3, 0.5),
    "names": letters.names(64, 3, 0.5),
    "collocations": letters.collocations(128, 3, 0.3, n_words=50),
    "log lines": letters.log_lines(80, 3),
    "short messages": letters.short_messages(40, 3, 0.4),
    "taxonomy": letters.taxonomy(60, (2, 2, 2), 0.6),
    "boards": letters.boards(9, 4, 1.0),
    "matches": letters.matches(6, 1.0),
    "clicks": letters.clicks(60, 0.1, 1.0),
    "playlists": letters.playlists(40, 8, 0.8),
    "neighbours": letters.neighbours(40, 4, 0.5),
    "surveys": forms.surveys(10, 3, 1.0),
    "weather": forms.weather(3, 1.0),
    "loans": forms.loans(6, 0.2, 2.0),
    "houses": forms.houses(3, 0.7),
    "places": forms.places(3, 0.2),
    "connections": forms.connections(6, 3, 0.5, kinds=20),
    "cards": forms.cards(),
    "parity": forms.parity(5, 0.9),
    "genotypes": forms.genotypes(12, 3, 0.3),
    "long tail": forms.long_tail(4, 3, 0.7, 0.5),
    "leaks": forms.with_leak(dense.clouds(3, 3, 1.0), 0.8),
    "photos": signals.photos(4, 3, 0.5),
    "sounds": signals.sounds(3, 6, 3, 40.0),
    "regimes": signals.regimes(3, 3, 0.9, 0.5, 1.0),
    "scans": signals.scans(60, 2, 1.0),
    "averages": signals.averages(6, 3, 0.5, n_words=50),
    "boilerplate": signals.boilerplate(8, 3, 2.0, 10),
    "cells": entries.cells(30, 3, 0.5),
    "tickets": entries.tickets(60, 3, 0.3),
    "reports": entries.reports(60, 3, 2.0, 40),
    "proteins": entries.proteins(3, 0.3, length=20),
    "titles": entries.titles(800, 4, 20),
    "queries": entries.queries(128, 4, 0.1),
    "entities": entries.entities(50, 8, 0.8),
    "diagnoses": entries.diagnoses(60, 3, 0.5),
    "who and what": entries.who_and_what(20, 10, 1.0),
    "hours": entries.hours(10, 3, 0.7),
    "trips": entries.trips(6, 0.7),
    "recipes": entries.recipes(40, 3, 0.3),
    "tail": entries.tail(60, 3, 0.7),
}


@pytest.mark.parametrize(
    "problem",
    [
        small(),
        dense.drawn("outlier", "", dense.clouds(4, 3, 1.0), 60, dense.outlier, n_test=40),
        dense.drawn("topics", "", sparse.topics(30, 5, 0.5), 60, n_test=40),
        dense.drawn("chains", "", sparse.chains(20, 3, 0.5), 60, n_test=40),
        dense.drawn("categories", "", sparse.categories((3, 5), 4, 1.0, 2), 60, n_test=40),
        dense.drawn("baskets", "", sparse.baskets(30, 5, 0.9), 60, n_test=40),
        *(dense.drawn(family, "", draw, 60, n_test=40) for family, draw in NEW_DRAWS.items()),
        repeated.of_people("sessions", "", repeated.sessions(3, 3, 4.0, 1.0, 0.5), 60, 40),
        repeated.of_people("panels", "", repeated.panels(3, 3, 4.0, 1.0, 0.5), 60, 40),
        repeated.of_people("visits", "", repeated.visits(30, 3, 4.0, 0.3), 60, 40),
        repeated.of_people("machines", "", forms.machines(3, 3, 5.0, 1.0), 60, 40),
        repeated.of_people("activities", "", signals.activities(2, 3, 5.0, 0.5), 60, 40),
        repeated.of_people("molecules", "", entries.molecules(40, 2, 5.0, 0.3), 60, 40),
        repeated.of_people("receipts", "", entries.receipts(60, 3, 5.0, 0.3), 60, 40),
        repeated.at_times("moving", "", repeated.moving(3, 3, 0.5, 1.0), 60, 40),
        repeated.at_times("other", "", repeated.other_frequencies(3, 3, 1.0), 60, 40),
        repeated.at_times("new words", "", repeated.new_words(50, 3, 0.5), 60, 40),
    ],
    ids=lambda problem: problem.family,
)
def test_problems_are_the_same_every_time(problem):
    once, again = problem.data(), problem.data()
    for name in ("X", "y", "is_validation", "X_test", "y_test"):
        a, b = getattr(once, name), getattr(again, name)
        assert np.array_equal(as_array(a), as_array(b))
    assert once.n_dropped == again.n_dropped
    other = Problem(problem.family, "another", problem.make).data()
    assert not np.array_equal(as_array(once.X), as_array(other.X))


def test_no_row_is_in_two_parts():
    X = np.arange(400.0).reshape(-1, 1)
    y = np.repeat(np.arange(4), 100)
    data = from_one_pool(X, y, 120, np.random.default_rng(0))
    parts = [data.train[0], data.validation[0], data.X_test]
    assert [len(part) for part in parts] == [210, 70, 120]
    assert len(np.unique(np.concatenate(parts))) == 400


def test_rows_of_unseen_classes_are_dropped_and_counted():
    X, y = np.arange(12.0).reshape(-1, 1), np.arange(12) % 3
    y[8:] = [7, 7, 7, 0]
    data = from_two_pools(X[:8], y[:8], X[8:], y[8:], np.random.default_rng(0))
    assert data.n_dropped == 3
    assert data.y_test.tolist() == [0]
    lonely = Data(X[:3], np.array([0, 0, 1]), np.array([False, True, True]), X[8:], y[8:], 0)
    assert lonely.validation[1].tolist() == [0]


def test_only_training_rows_are_spoiled():
    problem = dense.drawn("outlier", "", dense.clouds(4, 3, 1.0), 60, dense.outlier, n_test=40)
    data = problem.data()
    assert (np.abs(data.X).max(axis=1) > 100).sum() == 1
    assert np.abs(data.X_test).max() < 10
    copies = dense.drawn("c", "", dense.clouds(4, 3, 1.0), 60, dense.copies_of_rows(3), n_test=40)
    assert len(np.unique(copies.data().X, axis=0)) == 20


def test_recipes_are_not_chosen_by_copies_nor_by_an_outlier():
    copies = dense.drawn("c", "", dense.clouds(4, 3, 1.0), 60, dense.copies_of_rows(3), n_test=40)
    data = copies.data()
    train, validation = ({tuple(row) for row in X} for X, _ in (data.train, data.validation))
    assert len(validation) == 5
    assert not train & validation
    for k in range(10):
        one = dense.drawn("o", f"{k}", dense.clouds(4, 3, 1.0), 60, dense.outlier, n_test=40)
        data = one.data()
        assert data.is_validation.sum() == 14
        assert not data.is_validation[np.abs(data.X).max(axis=1).argmax()]


@pytest.mark.parametrize(
    ("draw", "spoil"),
    [
        (dense.clouds(4, 3, 1.0), tables.near_copies(3, 0.1)),
        (sparse.topics(50, 3, 0.5), texts.worn_copies(3, 0.7)),
        (repeated.picture(6, 3, 0.5), repeated.augmented(6, 3)),
    ],
    ids=["near", "worn", "augmented"],
)
def test_copies_that_are_not_alike_stay_together(draw, spoil):
    X, y = draw(np.random.default_rng(0), 60)
    changed, labels, groups = spoil(np.random.default_rng(1), X, y)
    assert len(np.unique(as_array(changed), axis=0)) == 60
    assert groups.tolist() == 3 * list(range(20))
    assert (labels == y[groups]).all()
    data = from_two_pools(changed, labels, X, y, np.random.default_rng(2), groups)
    assert not set(groups[data.is_validation]) & set(groups[~data.is_validation])


def test_rows_that_come_again_stay_with_the_first():
    X, y = dense.clouds(3, 4, 1.0, 1.5)(np.random.default_rng(0), 80)
    for between in (False, True):
        more, labels, groups = repeated.oversampled(between)(np.random.default_rng(1), X, y)
        assert len(set(np.bincount(labels))) == 1  # all classes are as frequent
        assert np.array_equal(more[:80], X)
        assert (labels == y[groups]).all()
        assert np.array_equal(more, X[groups]) == (not between)


def test_people_are_in_one_part_only():
    seen: dict[tuple[float, ...], int] = {}

    def draw(rng, n):
        X, y, person = repeated.sessions(3, 3, 5.0, 1.0, 0.5)(rng, n)
        seen.update(zip(map(tuple, X), person.tolist()))
        return X, y, person

    data = repeated.of_people("people", "", draw, 200, 80).data()
    parts = [{seen[tuple(row)] for row in X} for X in data_parts(data)]
    assert all(parts)
    assert not parts[0] & parts[1]
    assert not (parts[0] | parts[1]) & parts[2]


def data_parts(data: Data) -> list[np.ndarray]:
    return [data.X[~data.is_validation], data.X[data.is_validation], data.X_test]


def test_pools_are_split_by_group_and_in_order():
    rng = np.random.default_rng(0)
    groups = rng.integers(20, size=200)
    X, y = groups[:, None].astype(float), np.arange(200) % 2
    train, validation, test = (
        set(part[:, 0]) for part in data_parts(from_groups(X, y, groups, 50, rng))
    )
    assert not train & validation
    assert not (train | validation) & test
    data = from_ordered(np.arange(200.0)[:, None], y, 50, rng)
    assert (np.diff(data.X[:, 0]) > 0).all()
    assert len(data.X_test) == 50


@pytest.mark.slow  # parses the standard library, and reads measured sets where they are
def test_reporting_problems_make_data():
    for problem in families.problems_of("reporting"):
        try:
            data = problem.data()
        except DataError:
            continue
        for X, y in ((data.X, data.y), (data.X_test, data.y_test)):
            assert X.shape == (len(y), data.X.shape[1]), problem.name
            assert np.isfinite(X.data if scipy.sparse.issparse(X) else X).all(), problem.name
        assert len(np.unique(data.y)) >= 2, problem.name
        assert np.isin(data.y_test, data.y).all(), problem.name
        assert min(len(data.validation[1]), len(data.y_test)) >= 20, problem.name
        assert np.array_equal(problem.data().y, data.y), problem.name


def test_test_rows_are_later():
    told = {}

    def draw(rng, times):
        told["times"] = times
        return np.arange(float(len(times)))[:, None], np.zeros(len(times), int)

    data = repeated.at_times("times", "", draw, 60, 40).data()
    times = [told["times"][X[:, 0].astype(int)] for X in (data.X, data.X_test)]
    assert times[0].max() < repeated.LATER < times[1].min()


def test_rows_of_more_kinds_are_what_they_say():
    rng = np.random.default_rng(0)
    X, _ = ledgers.whitened(6, 3, 1.0, 2)(rng, 300)
    assert np.allclose(X.T @ X / 300, np.eye(6), atol=1e-6)
    _, y = ledgers.nearly_one_each(4, 48, 0.5)(rng, 100)
    assert np.bincount(np.bincount(y[:60])).tolist() == [0, 36, 12]
    X, _ = ledgers.k_mers(2, 3, 0.3, letters=20)(rng, 30)
    assert (X.sum(axis=1) == 19.0).all()
    _, y = ledgers.fraud(4, 0.1, 2.0)(rng, 500)
    assert y.mean() == pytest.approx(0.1, abs=0.005)
    X, _ = letters.matches(6, 1.0)(rng, 50)
    assert (np.asarray(X.sum(axis=1)) == 0.0).all()
    assert (np.diff(X.indptr) == 2).all()
    X, _ = letters.short_messages(40, 3, 0.4)(rng, 200)
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    assert set(lengths.round(5)) == {0.0, 1.0}  # some rows are empty
    X, _ = letters.names(64, 3, 0.5)(rng, 50)
    assert np.diff(X.indptr).max() <= 10 + 9 + 8


def test_rows_that_people_bring_are_what_they_say():
    rng = np.random.default_rng(0)
    X, _ = forms.surveys(10, 3, 1.0)(rng, 300)
    asked = X[:, 0] == 1.0
    assert (X[~asked, 1:5] == forms.NOT_ASKED).all()
    assert X[asked, 1:5].min() >= 1.0
    _, y = forms.loans(6, 0.2, 2.0)(rng, 500)
    assert y.mean() == pytest.approx(0.2, abs=0.005)
    X, y = forms.parity(5, 1.0)(rng, 200)
    assert np.array_equal(y, X[:, :3].sum(axis=1) % 2)
    X, y = forms.cards()(rng, 2_000)
    assert (y > 0).mean() == pytest.approx(0.49, abs=0.05)  # a pair at least
    _, y = forms.long_tail(4, 3, 0.5, 0.5)(rng, 1_000)
    assert (np.bincount(y)[3:] <= 6).all()
    X, _ = forms.connections(6, 3, 0.5, kinds=20)(rng, 500)
    assert len(np.unique(X, axis=0)) < 0.7 * 500
    X, y = forms.with_leak(dense.clouds(2, 3, 1.0), 1.0)(rng, 100)
    assert np.array_equal(X[:, 2:].argmax(axis=1), y)
    X, y = np.arange(40.0)[:, None], rng.integers(4, size=40)
    _, in_order, _ = forms.sorted_by_class(rng, X, y)
    assert (np.diff(in_order) >= 0).all()
    X, _ = signals.photos(4, 3, 0.5)(rng, 50)
    assert (X.dtype, X.shape) == (np.uint8, (50, 48))
    _, y = signals.regimes(3, 3, 0.95, 0.5, 1.0)(rng, 2_000)
    assert (np.diff(y) == 0).mean() > 0.9
    X, _ = entries.proteins(3, 0.3, length=20)(rng, 30)
    assert (X.sum(axis=1) == 18.0).all()


def test_the_last_rows_of_a_series_are_for_the_test():
    def draw(rng, n):
        return np.arange(float(n))[:, None], np.zeros(n, int)

    data = signals.series("series", "", draw, 400, 100).data()
    assert data.X.max() < data.X_test.min()
    blocks = [set((X[:, 0] // BLOCK).tolist()) for X in data_parts(data)[:2]]
    assert blocks[1]
    assert not blocks[0] & blocks[1]


@pytest.mark.slow  # parses the standard library
def test_python_brings_rows_along():
    names, categories = itself._characters()
    assert categories[names.index("LATIN SMALL LETTER A")] == "Ll"
    said, modules = itself._docstrings()
    assert "statistics" in modules
    assert not set(modules) & itself.LEFT_OUT
    assert all(said)


def test_ratings_shares_and_codes_are_what_they_say():
    rng = np.random.default_rng(0)
    X, _ = texts.ratings(30, 3, 1.0)(rng, 200)
    assert set(np.unique(X.data)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    X, _ = tables.shares(5, 3, 0.5)(rng, 50)
    assert np.allclose(X.sum(axis=1), 1.0)
    X, _ = tables.with_code_for_missing(dense.clouds(10, 3, 1.0), 0.2)(rng, 500)
    assert (X == -999.0).mean() == pytest.approx(0.2, abs=0.03)
    X, _ = texts.binned(dense.clouds(3, 3, 1.0), 5)(rng, 400)
    assert (X.sum(axis=1) == 3.0).all()
    assert np.asarray(X.sum(axis=0)).ravel() == pytest.approx(np.full(15, 80.0), abs=1.0)


def test_what_rows_of_a_set_are_made_into():
    rng = np.random.default_rng(0)
    X, y = sparse.topics(60, 8, 0.5)(rng, 300)
    pools = (X[:200], y[:200], X[200:], y[200:])
    dense_rows, _, dense_test, labels = real.as_components(4)(rng, pools)
    assert (dense_rows.shape, dense_test.shape) == ((200, 4), (100, 4))
    squares = (dense_rows**2).sum(axis=0)
    assert (np.diff(squares) < 0.0).all()
    assert (labels == y[200:]).all()
    hashed, _, hashed_test, _ = real.as_hashed(16)(rng, pools)
    assert (hashed.shape, hashed_test.shape) == ((200, 16), (100, 16))
    counts = np.sort(np.bincount(y[:200]))[::-1]
    _, two, _, _ = real.one_against_others(1)(rng, pools)
    assert two.sum() == counts[1]
    few, kept, _, kept_test = real.some_classes(3)(rng, pools)
    assert few.shape[0] == len(kept)
    assert len(np.unique(kept)) == 3
    assert set(kept_test) <= set(kept)
    white, _, _, _ = real.as_whitened(4)(rng, pools)
    assert np.allclose(white.std(axis=0), 1.0)
    _, together, _, together_test = real.merged_classes(3)(rng, pools)
    both = {*zip([*y[:200], *y[200:]], [*together, *together_test])}
    assert len(both) == 8  # a class goes where it goes
    assert {k for _, k in both} == {0, 1, 2}
    half, _, _, _ = real.some_columns(0.5)(rng, pools)
    assert half.shape == (200, 30)
    marked, _, _, _ = real.as_indicators()(rng, pools)
    assert set(marked.data) == {1.0}
    assert marked.nnz == X[:200].nnz
    table = (dense_rows, y[:200], dense_test, y[200:])
    assert real.as_polynomials(2)(rng, table)[0].shape == (200, 14)
    bins = real.as_bins(5)(rng, table)[0]
    assert bins.shape == (200, 20)
    assert (bins.sum(axis=1) == 4.0).all()


def test_noise_says_nothing_about_labels():
    X, y = dense.noise(dense.clouds(1, 2, 5.0))(np.random.default_rng(0), 4_000)
    assert abs(X[y == 0].mean() - X[y == 1].mean()) < 5 * X.std() * (2 / 2_000) ** 0.5
    X, y = dense.clouds(1, 2, 5.0)(np.random.default_rng(0), 4_000)
    assert abs(X[y == 0].mean() - X[y == 1].mean()) > 1.0


# Regret


def test_regret_is_the_missed_part_of_the_gain():
    assert regret(0.2, Mean(2.0, 0.01), entropy=3.0) == pytest.approx(0.1)
    assert regret(-0.2, Mean(2.0, 0.01), entropy=3.0) == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("gain", "entropy", "floor"),
    [
        (Mean(0.0, 0.0), 0.7, measure.LEAST_GAIN),
        (Mean(-0.3, 0.001), 2.0, measure.LEAST_GAIN),
        (Mean(0.1, 0.001), 9.0, 9.0 * measure.LEAST_PART_OF_ENTROPY),
        (Mean(0.1, 0.3), 2.0, 0.6),
    ],
)
def test_regret_without_signal_is_relative_to_a_floor(gain, entropy, floor):
    assert regret(0.03, gain, entropy) == pytest.approx(0.03 / floor)


def test_means_have_standard_errors():
    rows = np.random.default_rng(0).normal(1.0, 2.0, 10_000)
    mean = Mean.of(rows)
    assert mean.value == pytest.approx(1.0, abs=0.1)
    assert mean.error == pytest.approx(0.02, rel=0.05)
    assert Mean.of(np.array([3.0])) == (3.0, 0.0)


# The grid


def test_recipes_beyond_the_budget_are_left_out():
    for shape in (
        Shape(500, 10, 5, 10.0, False),
        Shape(30_000, 12_000, 10_000, 8.0, True),
        Shape(20_000, 20, 4_000, 20.0, False),
    ):
        tried, skipped = grid.affordable(shape)
        assert tried[0].name == "frequencies"
        assert len(tried) > 2
        assert sum(recipe.seconds for recipe in tried) <= grid.MOST_SECONDS
        assert {r.name for r in tried} | set(skipped) == {r.name for r in grid.grid(shape)}
    assert skipped
    assert not grid.affordable(Shape(500, 10, 5, 10.0, False))[1]


def test_dense_rows_have_every_recipe_of_ours_twice():
    recipes = grid.grid(Shape(500, 40, 50, 40.0, False))
    names = [recipe.name for recipe in recipes]
    assert len(set(names)) == len(names)
    plain = {name for name in names if not name.endswith(", scaled")}
    scaled = {name.removesuffix(", scaled") for name in names if name.endswith(", scaled")}
    assert scaled - plain == {f"LogisticRegression C={C}" for C in ("1", "100", "0.01")}
    assert plain - scaled == {"frequencies"}
    assert not any(r.scaled for r in grid.grid(Shape(500, 40, 50, 4.0, True)))


def test_scaled_columns_are_those_of_the_rows_trained_on():
    X = np.array([[0.0, 1e6], [2.0, 3e6], [1.0, 2e6]])
    recipe = grid.Recipe("", 0.0, lambda n_threads: Keeps()).with_scaled_columns()
    fitted = recipe.fit(X, np.arange(3), 1)
    assert np.allclose(fitted.model.X.mean(axis=0), 0.0)
    assert np.allclose(fitted.model.X.std(axis=0), 1.0)
    assert fitted.predict(np.array([[1.0, 2e6]])) == pytest.approx(0.0)


class Keeps:
    def fit(self, X, y):
        self.X = X
        return self

    def predict(self, X):
        return X


@pytest.mark.parametrize("n_classes", [2, 4])
def test_log_probabilities_of_peers(n_classes):
    rng = np.random.default_rng(0)
    X, y = dense.clouds(3, n_classes, 1.0)(rng, 80)
    y = 10 * y
    model = Logistic(C=1.0).fit(X, y)
    expected = model.model.predict_log_proba(X)[np.arange(80), y // 10]
    assert np.allclose(model.log_proba_of(X, y), expected)
    frequencies = Frequencies().fit(X, y)
    assert np.exp(frequencies.log_proba).sum() == pytest.approx(1.0)
    assert frequencies.predict(X)[0] == 10 * np.bincount(y // 10).argmax()


# A case, end to end


@pytest.fixture
def few_recipes(monkeypatch):
    """Only what compiles nothing of its own."""

    def affordable(shape: Shape, _: float) -> tuple[list[grid.Recipe], list[str]]:
        kept = ("frequencies", "lbfgs l2=1", "LogisticRegression C=1, scaled")
        return [recipe for recipe in grid.grid(shape) if recipe.name in kept], []

    monkeypatch.setattr(measure, "affordable", affordable)


def test_a_case_runs(few_recipes):
    record = json.loads(json.dumps(measure.run(small())))
    assert record["recipe"] != "frequencies"
    assert set(record["tried"]) == {"frequencies", "lbfgs l2=1", "LogisticRegression C=1, scaled"}
    assert record["gain"] > 0.3
    assert record["default"]["log_likelihood"] - record["best"]["log_likelihood"] == pytest.approx(
        record["difference"]
    )
    assert record["regret"] == pytest.approx(-record["difference"] / record["gain"])
    assert record["over_frequencies"] == pytest.approx(record["gain"] + record["difference"])
    assert abs(record["regret"]) < 0.2
    assert record["default"]["accuracy"] > 0.6
    assert record["default"]["cpu"] > 0.0
    assert (record["rows"], record["validation_rows"], record["test_rows"]) == (150, 37, 200)
    again = measure.run(small(), chosen=record["recipe"])
    assert again["best"]["log_likelihood"] == record["best"]["log_likelihood"]
    assert again["tried"] == {}


def test_the_default_gets_all_training_rows_and_no_other(few_recipes, monkeypatch):
    seen: dict[str, Any] = {}
    data = small().data()

    class Watched(Frequencies):
        def fit(self, X, y):
            seen["fit"] = X
            return super().fit(X, y)

    monkeypatch.setattr(measure, "default", lambda n_threads: Watched())
    record = measure.run(small())
    assert np.array_equal(seen["fit"], data.X)
    rows = {tuple(row) for row in data.X}
    assert not any(tuple(row) in rows for row in data.X_test)
    assert record["default"]["log_likelihood"] == pytest.approx(record["frequencies"])
    assert record["regret"] == pytest.approx(1.0)


@pytest.mark.parametrize("tell", [False, True])
def test_the_default_alone_learns_of_groups(few_recipes, monkeypatch, tell):
    people = repeated.sessions(3, 2, 5.0, 1.0, 0.5)
    problem = repeated.of_people("people", "few", people, 100, 50)
    seen = []

    class Watched(Frequencies):
        def fit(self, X, y, **told):
            seen.append(told)
            return super().fit(X, y)

    monkeypatch.setattr(measure, "default", lambda n_threads: Watched())
    measure.run(problem, tell_groups=tell)
    (told,) = seen
    if not tell:
        assert told == {}
        return
    data = problem.data()
    assert data.groups is not None
    assert np.array_equal(told["groups"], data.groups)
    assert len(data.groups) == len(data.y)
    assert len(np.unique(data.groups)) < len(data.y)


def test_a_default_that_raises_is_a_finding(few_recipes, monkeypatch):
    class Broken:
        def fit(self, X, y):
            raise FloatingPointError("too large")

    monkeypatch.setattr(measure, "default", lambda n_threads: Broken())
    record = measure.run(small())
    assert record["regret"] == 1.0
    assert record["default"]["error"].startswith("FloatingPointError: too large")
    assert record["difference"] is None
    assert summary.summary([record])["cases that raised"] == 1
    assert summary.far_cases([record])[0]["default is"] == record["default"]["error"]


def test_luck_is_no_reason_to_choose_a_recipe():
    tried: dict[str, Any] = {
        "frequencies": {"gain": 0.0, "gain_error": 0.0},
        "lucky": {"gain": 0.5, "gain_error": 0.3},
        "good": {"gain": 0.2, "gain_error": 0.05},
        "better": {"gain": 0.4, "gain_error": 0.1},
        "broken": {"gain": None, "error": "ValueError"},
    }
    assert measure.ranking(tried) == ["better", "good"]


@pytest.mark.slow
@pytest.mark.parametrize("draw", [dense.clouds(40, 560, 1.0), sparse.topics(40, 560, 0.5, 0.0)])
def test_all_recipes_of_the_grid_fit(draw):
    data = dense.drawn("any", "", draw, 1_700, n_test=100).data()
    for recipe in grid.grid(Shape.of(data.X, data.y)):
        if recipe.name != "lbfgs l2=path":
            rows = recipe.fit(data.X, data.y, 1).log_proba_of(data.X_test, data.y_test)
            assert np.isfinite(rows).all(), recipe.name


# Runs


@pytest.fixture
def two_families(few_recipes, monkeypatch):
    def problems() -> list[Problem]:
        return [small("a"), small("b"), Problem("absent", "all", _absent), small("b", 90)]

    monkeypatch.setitem(families.HALVES, "development", problems)


def _absent(rng: np.random.Generator) -> Data:
    raise DataError("no data folder")


def arguments(*words: Any):
    return make_parser().parse_args(["field", *map(str, words)])


def test_a_run_that_was_cut_off_goes_on(two_families, tmp_path, monkeypatch, capsys):
    path = tmp_path / "run.jsonl"
    ran = []
    original = measure.run

    def counted(problem, *how):
        ran.append(problem.name)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return original(problem, *how)

    monkeypatch.setattr(measure, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        field(arguments("--output", path))
    with path.open("a") as file:
        file.write('{"case": "b/n=150", "regr')  # the power went
    with pytest.raises(SystemExit, match="--resume"):
        field(arguments("--output", path))
    records = field(arguments("--output", path, "--resume"))
    assert ran == ["a/n=150", "b/n=150", "b/n=150", "absent/all", "b/n=90"]
    assert "absent/all is skipped: no data folder" in capsys.readouterr().err
    assert [record["case"] for record in records] == ["a/n=150", "b/n=150", "b/n=90"]
    assert results.read(path) == records


def test_choices_of_an_earlier_run_are_taken_over(two_families, tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    before = field(arguments("--output", first, "--only", "a/"))
    after = field(arguments("--output", second, "--only", "a/", "--grid", first))
    assert [record["recipe"] for record in after] == [record["recipe"] for record in before]
    assert before[0]["tried"]
    assert not after[0]["tried"]


def test_cases_are_listed(capsys):
    run(arguments("--list", "--half", "development", "--only", "wine"))
    names = ["wine/split 30", "wine/part 0.4"]
    assert capsys.readouterr().out.split("\n") == [*names, ""]


# The summary


def record(case: str, regret: float, over: float = 1.0, cpu: float = 2.0) -> dict[str, Any]:
    return {
        "case": case,
        "family": case.partition("/")[0],
        "regret": regret,
        "recipe": "lbfgs l2=1",
        "frequencies": -3.0,
        "gain": 2.0,
        "difference": -2.0 * regret,
        "difference_error": 0.01,
        "over_frequencies": over,
        "over_frequencies_error": 0.1,
        "default": {"log_likelihood": -1.0 - 2.0 * regret, "cpu": cpu, "reason": "few rows"},
        "best": {"log_likelihood": -1.0, "cpu": 1.0},
        "seconds": 5.0,
    }


RECORDS = [record("a/1", 0.01), record("a/2", 0.05), record("b/1", 30.0, over=-0.2, cpu=8.0)]
RECORDS += [record("b/2", -0.02, over=-0.05)]


def test_numbers_of_a_run():
    found = summary.summary(RECORDS)
    assert found["cases"] == 4
    assert found["mean regret"] == pytest.approx((0.01 + 0.05 + 1.0 - 0.02) / 4)
    assert found["mean regret, none below 0"] == pytest.approx((0.01 + 0.05 + 1.0) / 4)
    assert found["median regret"] == pytest.approx(0.03)
    shares = [found[f"share with regret up to {part}"] for part in ("2%", "6%", "10%")]
    assert shares == [0.5, 0.75, 0.75]
    assert found["cases above 10%"] == 1
    assert found["cases below class frequencies"] == 1  # not b/2, which is within its error
    assert found["mean ratio of seconds"] == pytest.approx(3.5)
    assert found["median ratio of seconds"] == pytest.approx(2.0)
    assert [row["case"] for row in summary.far_cases(RECORDS)] == ["b/1"]
    assert [row["case"] for row in summary.cases_below(RECORDS)] == ["b/1"]
    rows = {row["family"]: row for row in summary.by_family(RECORDS)}
    assert rows["a"]["mean regret"] == pytest.approx(0.03)
    assert (rows["b"]["worst regret"], rows["b"]["below frequencies"]) == (30.0, 1)


def test_class_frequencies_take_no_time_to_compare_with():
    free = record("a/1", 0.0) | {"recipe": "frequencies"}
    assert summary.seconds_ratio(free) is None
    assert summary.summary([free])["median ratio of seconds"] is None


def test_two_runs_side_by_side(tmp_path, capsys):
    after = [record("b/1", 0.02), record("a/1", 0.02), record("c/1", 0.5)]
    numbers, changed = summary.beside(RECORDS, after)
    by_name = {row[""]: row for row in numbers}
    assert by_name["cases"] == {"": "cases", "before": 2, "after": 2}
    assert by_name["mean regret"]["before"] == pytest.approx(0.505)
    assert by_name["mean regret"]["after"] == pytest.approx(0.02)
    assert [row["case"] for row in changed] == ["b/1"]
    with pytest.raises(ValueError, match="no case in common"):
        summary.beside(RECORDS, [record("c/1", 0.5)])
    paths = [tmp_path / "before.jsonl", tmp_path / "after.jsonl"]
    for path, records in zip(paths, (RECORDS, after)):
        for row in records:
            results.append(path, row)
    run(arguments("--summary", paths[1], "--beside", paths[0]))
    text = capsys.readouterr().out
    assert "| mean regret | 0.5050 | 0.0200 |" in text
    assert "| c | 1 | 0.5000 | 0.5000 | 1 | 0 | 2.0000 |" in text
    run(arguments("--summary", paths[0], "--json"))
    tables = json.loads(capsys.readouterr().out)
    assert tables["Regret above 10%"][0]["case"] == "b/1"
