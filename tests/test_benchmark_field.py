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
    families,
    field,
    grid,
    measure,
    repeated,
    results,
    sparse,
    summary,
)
from benchmarks.field.grid import Frequencies, Shape
from benchmarks.field.measure import Mean, regret
from benchmarks.field.problem import (
    Data,
    Problem,
    from_one_pool,
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


# Rows


def small(family: str = "small", n: int = 150, distance: float = 1.5) -> Problem:
    return dense.drawn(family, f"n={n}", dense.clouds(4, 3, distance), n, n_test=200)


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


# Regret


def test_regret_is_the_missed_part_of_the_gain():
    assert regret(0.2, Mean(2.0, 0.01), entropy=3.0) == pytest.approx(0.1)
    assert regret(-0.2, Mean(2.0, 0.01), entropy=3.0) == pytest.approx(-0.1)


# The grid


# A case, end to end


@pytest.fixture
def few_settings(monkeypatch):
    """Only what compiles nothing of its own."""

    def affordable(shape: Shape, _: float) -> tuple[list[grid.Setting], list[str]]:
        kept = ("frequencies", "lbfgs l2=1", "LogisticRegression C=1, scaled")
        return [setting for setting in grid.grid(shape) if setting.name in kept], []

    monkeypatch.setattr(measure, "affordable", affordable)


def test_a_case_runs(few_settings):
    record = json.loads(json.dumps(measure.run(small())))
    assert record["setting"] != "frequencies"
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
    again = measure.run(small(), chosen=record["setting"])
    assert again["best"]["log_likelihood"] == record["best"]["log_likelihood"]
    assert again["tried"] == {}


def test_the_default_gets_all_training_rows_and_no_other(few_settings, monkeypatch):
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


@pytest.mark.slow
@pytest.mark.parametrize("draw", [dense.clouds(40, 560, 1.0), sparse.topics(40, 560, 0.5, 0.0)])
def test_all_settings_of_the_grid_fit(draw):
    data = dense.drawn("any", "", draw, 1_700, n_test=100).data()
    for setting in grid.grid(Shape.of(data.X, data.y)):
        if setting.name != "lbfgs l2=path":
            rows = setting.fit(data.X, data.y, 1).log_proba_of(data.X_test, data.y_test)
            assert np.isfinite(rows).all(), setting.name


# Runs


@pytest.fixture
def two_families(few_settings, monkeypatch):
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


# The summary


def record(case: str, regret: float, over: float = 1.0, cpu: float = 2.0) -> dict[str, Any]:
    return {
        "case": case,
        "family": case.partition("/")[0],
        "regret": regret,
        "setting": "lbfgs l2=1",
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
