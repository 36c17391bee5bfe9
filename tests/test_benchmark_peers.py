"""The peer benchmark: problems, the harness with a stand-in for a peer, resuming, the report."""

from __future__ import annotations

import json
import textwrap
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import members
from benchmarks.peers import campaign, comparison, configuration, figure, jobs, problems, report
from benchmarks.peers.campaign import Runner
from benchmarks.peers.commands import matching
from benchmarks.peers.configuration import Contender
from benchmarks.peers.problems import Problem
from bigcat import LinearClassifier, solvers
from bigcat.data import Dataset

# Class frequencies with `extra` added to every count; what it does besides, its settings say.
STAND_IN = textwrap.dedent(
    """
    import time

    import numpy as np
    from scoring import Model


    def fit(
        rows, watch, extra=1.0, scale=1.0, epochs=0, nap=0.0, look=0.0, costly=False, crash=False,
        diverge=False
    ):
        if crash:
            raise RuntimeError("no such luck")
        p = np.bincount(rows.y, minlength=rows.n_classes) + extra
        log_p = np.log(scale * p / p.sum()) + (np.nan if diverge else 0.0)

        def log_proba(X):
            time.sleep(look)
            return np.tile(log_p, (X.shape[0], 1))

        time.sleep(nap if not epochs else 0.0)
        for epoch in range(1, epochs + 1):
            time.sleep(nap)
            if watch.after_epoch(epoch, log_proba):
                break
        if not costly:
            return Model(log_proba)
        return Model(log_proba, lambda X, k: np.tile(np.argsort(-log_p)[:k], (X.shape[0], 1)))
    """
)


def dataset(n: int, seed: int, n_classes: int = 6) -> Dataset:
    rng = np.random.default_rng(seed)
    X = sp.random(n, 9, 0.4, "csr", dtype=np.float32, random_state=seed)
    names = np.array([f"class {k}" for k in range(n_classes)])
    return Dataset(X, names[rng.choice(n_classes, n, p=np.arange(1, n_classes + 1) / 21)])


@pytest.fixture
def problem(tmp_path):
    matrices, facts = problems.prepare(dataset(200, 0), dataset(80, 1))
    problems.write(tmp_path / "cache" / "small", matrices, facts)
    return Problem("small", "nothing to load")


@pytest.fixture
def contender(tmp_path):
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)

    def make(*settings: dict, name: str = "stand-in") -> Contender:
        return Contender(name, path, "full-rank", {"any": list(settings)})

    return make


@pytest.fixture
def runner(tmp_path):
    def make(**options) -> Runner:
        places = {"records": tmp_path / "records", "cache": tmp_path / "cache"}
        return Runner(**{"limit": 20.0, "threads": 1} | places | options)

    return make


# Problems


def test_rows_of_unseen_classes_are_dropped_and_counted():
    train = Dataset(sp.eye(4, format="csr", dtype=np.float32) * 3, np.array([7, 3, 7, 5]))
    test = Dataset(sp.eye(4, format="csr", dtype=np.float32), np.array([5, 4, 9, 7]))
    matrices, facts = problems.prepare(train, test)
    assert matrices["y_train"].tolist() == [2, 0, 2, 1]
    assert matrices["y_test"].tolist() == [1, 2]
    assert matrices["X_test"].toarray().tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert facts["rows_of_unseen_classes"] == 2
    assert (facts["classes"], facts["rows_test"]) == (3, 2)
    assert facts["baseline"] == pytest.approx(np.log([2 / 7, 3 / 7]).mean())


def test_rows_have_unit_length_unless_told_otherwise():
    data = Dataset(np.array([[3, 4], [0, 0], [0, 2]], np.float32), np.array([0, 1, 0]))
    unit = problems.prepare(data, data)[0]["X_train"]
    given = problems.prepare(data, data, unit_rows=False)[0]["X_train"]
    np.testing.assert_allclose(unit.toarray(), [[0.6, 0.8], [0.0, 0.0], [0.0, 1.0]], rtol=1e-6)
    assert (given.toarray() == data.X).all()
    assert unit.dtype == np.float32
    assert unit.nnz == 3


def test_a_tenth_of_the_rows_is_for_validation_and_always_the_same():
    one, other = (problems.prepare(dataset(200, 0), dataset(9, 1))[0] for _ in range(2))
    assert one["is_validation"].sum() == 20
    assert (one["is_validation"] == other["is_validation"]).all()


def test_many_classes_and_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(problems, "MOST_TEST_ROWS", 50)
    monkeypatch.setattr(problems, "MANY_CLASSES", 5)
    monkeypatch.setattr(problems, "COMMON_ROWS", 10)
    matrices, facts = problems.prepare(dataset(200, 0), dataset(80, 1))
    assert facts["rows_test"] == len(matrices["y_test"]) == 50
    assert facts["rows_of_unseen_classes"] == 0
    common = matrices["common_rows"]
    assert len(np.unique(common)) == 10
    assert common.max() < 50


# The harness


def test_a_contender_is_tuned_refitted_and_measured(problem, contender, runner, tmp_path):
    record = runner().run(problem, contender({"extra": 300.0}, {"extra": 1.0}))
    assert record["status"] == "ok", record.get("error")
    assert record["settings"] == {"extra": 1.0}
    assert (record["chosen_by"], record["settings_tried"]) == ("validation", 2)
    facts = problems.facts_of(problem, tmp_path / "cache")
    assert record["log_likelihood"] == pytest.approx(facts["baseline"])
    with np.load(tmp_path / "cache" / "small" / "labels.npz") as labels:
        y, y_test = labels["y_train"], labels["y_test"]
    order = np.argsort(-np.bincount(y))
    assert record["accuracy"] == pytest.approx((y_test == order[0]).mean())
    assert record["hit_at_5"] == pytest.approx(np.isin(y_test, order[:5]).mean())
    assert record["row_sum_mean"] == pytest.approx(1.0)
    assert np.mean(record["log_p_of_rows"]) == pytest.approx(record["log_likelihood"], abs=1e-5)
    assert record["rows_right"] == np.flatnonzero(y_test == order[0]).tolist()
    assert record["rows_asked"] == len(y_test)
    assert record["peak_megabytes"] > 1
    kept = [r["stage"] for r in campaign.read_all(tmp_path / "records")]
    assert kept == ["validation", "validation", "test"]


def test_fixed_takes_the_first_setting(problem, contender, runner, tmp_path):
    record = runner(fixed=True).run(problem, contender({"extra": 300.0}, {"extra": 1.0}))
    assert record["settings"] == {"extra": 300.0}
    assert record["chosen_by"] == "configuration"
    assert len(campaign.read_all(tmp_path / "records")) == 1


def test_probabilities_that_do_not_sum_to_one_are_renormalised_and_told(
    problem, contender, runner, tmp_path
):
    settings = {"scale": 0.5, "costly": True}
    record = runner(fixed=True).run(problem, contender(settings))
    facts = problems.facts_of(problem, tmp_path / "cache")
    assert record["log_likelihood"] == pytest.approx(facts["baseline"])
    assert record["row_sum_max"] == pytest.approx(0.5)
    assert record["rows_at_floor"] == 0
    assert record["top_seconds_per_1000"] > 0
    assert "**0.50**" in report.markdown([record], empty_campaign(contender))


def test_epochs_are_chosen_on_validation_rows(problem, contender, runner):
    record = runner().run(problem, contender({"epochs": 30, "look": 0.5}))
    assert record["settings"]["epochs"] == 1  # nothing is gained after the first
    assert [epoch for epoch, _, _ in record["curve"]] == [1]
    assert record["curve"][0][2] == pytest.approx(record["log_likelihood_without_floor"])
    assert record["curve"][0][1] < 0.5  # looking does not count
    assert record["fit_seconds"] < 0.5


def test_an_epoch_that_would_end_too_late_is_not_begun(problem, contender, runner):
    slow = contender({"epochs": 50, "nap": 0.4})
    record = runner(fixed=True, limit=1.0).run(problem, slow)
    assert record["status"] == "ok"
    assert record["stopped_by_limit"]
    assert len(record["curve"]) in (1, 2)  # 2, unless the machine is very busy


def test_what_does_not_stop_is_cut(problem, contender, runner, monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "SLACK_SECONDS", 0.2)
    stuck = contender({"nap": 60.0})
    started = time.monotonic()
    record = runner(fixed=True, limit=0.5).run(problem, stuck)
    assert record["status"] == "cut"
    assert "0.5 s" in record["error"]
    assert time.monotonic() - started < 20
    assert "**cut**" in report.markdown([record], empty_campaign(contender))


def test_a_crash_is_told_with_its_cause(problem, contender, runner, capsys):
    record = runner().run(problem, contender({"crash": True}))
    assert record["status"] == "failed"
    assert record["stage"] == "test"
    assert record["error"].endswith("RuntimeError: no such luck")
    assert "no such luck" in capsys.readouterr().err
    text = report.markdown([record], empty_campaign(contender))
    assert "| stand-in | full-rank | **failed** |" in text
    assert "- stand-in: failed, RuntimeError: no such luck" in text


def test_a_fit_that_diverges_has_failed(problem, contender, runner):
    record = runner(fixed=True).run(problem, contender({"diverge": True}))
    assert record["status"] == "failed"
    assert record["error"] == "the log-likelihood is nan"


def test_a_campaign_goes_on_where_it_was_left(problem, contender, runner, monkeypatch):
    both = contender({"extra": 1.0}, {"extra": 2.0})
    calls = []
    run = jobs.run

    def count(*args, **options):
        calls.append(args[2:4])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return run(*args, **options)

    monkeypatch.setattr(jobs, "run", count)
    with pytest.raises(KeyboardInterrupt):
        runner().run(problem, both)
    record = runner().run(problem, both)
    assert [stage for stage, _ in calls] == ["validation", "validation", "validation", "test"]
    assert calls[1] == calls[2]  # the one that was under way, not the one before
    assert runner().run(problem, both) == record
    assert len(calls) == 4
    fixed = runner(fixed=True).run(problem, contender(record["settings"]))
    assert fixed["chosen_by"] == "configuration"  # told anew, but not run again
    assert len(calls) == 4
    runner(again=True, fixed=True).run(problem, both)
    assert len(calls) == 5


def test_more_time_gives_what_was_cut_another_chance(problem, contender, runner, monkeypatch):
    limits = []

    def fake(*args, limit, **options):
        limits.append(limit)
        return {"status": "cut" if limit < 9 else "failed", "error": "why", "curve": []}

    monkeypatch.setattr(jobs, "run", fake)
    for limit in (5.0, 5.0, 3.0, 9.0, 20.0):
        runner(fixed=True, limit=limit).run(problem, contender({}))
    assert limits == [5.0, 9.0]


# The configuration


def test_the_configuration_is_complete():
    known = configuration.read()
    assert set(known.default_problems) | set(known.quick["problems"]) <= set(known.problems)
    assert set(known.quick["contenders"]) <= set(known.contenders)
    for contender in known.contenders.values():
        assert contender.adapter.exists()
        assert contender.environment is None or contender.environment.exists()
        assert set(contender.settings) - {"any"} <= set(known.problems)
        assert set(contender.skip) <= set(known.problems)
        assert all(contender.settings_for(problem) for problem in known.problems)


def test_versions_are_pinned():
    folder = configuration._HERE / "environments"
    lines = [line for file in folder.glob("*.txt") for line in file.read_text().split("\n") if line]
    assert lines
    assert all("==" in line for line in lines)


def test_peers_are_found_by_the_start_of_their_names():
    known = configuration.read()
    assert matching(known, None) == list(known.contenders)
    assert matching(known, ["napkinxc"]) == ["napkinXC OVR", "napkinXC HSM", "napkinXC PLT"]
    with pytest.raises(SystemExit, match="unknown peer nobody"):
        matching(known, ["omikuji", "nobody"])


# Our own methods through the same harness


@pytest.mark.slow
def test_our_methods_run_like_any_peer(problem, runner):
    known = configuration.read().contenders["bigcat augment-reduce"]
    solver = {"name": "adagrad", "learning_rate": 0.1}
    settings = {"method": "augment-reduce", "epochs": 3, "n_negatives": 2, "solver": solver}
    ours = Contender("ours", known.adapter, "full-rank", {"any": [settings]})
    record = runner(fixed=True).run(problem, ours)
    assert record["status"] == "ok", record.get("error")
    assert [epoch for epoch, _, _ in record["curve"]] == [1, 2, 3]
    assert record["curve"][-1][2] == pytest.approx(record["log_likelihood_without_floor"], abs=1e-5)
    assert record["fit_seconds"] >= record["curve"][-1][1]
    assert sorted(record["cpu_seconds_of_epochs"]) == record["cpu_seconds_of_epochs"]
    assert record["fit_cpu_seconds"] >= record["cpu_seconds_of_epochs"][-1]


@pytest.mark.slow
def test_a_fit_made_elsewhere_is_measured_like_a_run(problem, runner, tmp_path):
    folder = problems.folder_of(problem, tmp_path / "cache")
    X, y = sp.load_npz(folder / "X_train.npz"), np.load(folder / "labels.npz")["y_train"]
    X_test, y_test = sp.load_npz(folder / "X_test.npz"), np.load(folder / "labels.npz")["y_test"]
    named: dict[str, Any] = {
        "solver": solvers.AdaGrad(0.1),
        "max_epochs": 2,
        "n_threads": 1,
        "random_state": 0,
    }
    model = LinearClassifier(method="augment-reduce", n_negatives=2, rank=None, **named).fit(X, y)
    members.keep_as_peer(problem, model, {"wall": 100.0, "cpu": 90.0}, runner(fixed=True))
    (record,) = campaign.read_all(tmp_path / "records")
    assert record["contender"] == "bigcat defaults"
    compiled = model.history_[-1]["compile_seconds"]
    assert (record["fit_seconds"], record["fit_cpu_seconds"]) == (100 - compiled, 90 - compiled)
    right = model.predict(X_test) == y_test
    assert record["rows_right"] == np.flatnonzero(right).tolist()
    assert record["accuracy"] == right.mean()
    own = model.log_proba_of(X_test, y_test)
    assert record["log_p_of_rows"] == pytest.approx(own, abs=1e-4)


# The report


def empty_campaign(contender) -> configuration.Campaign:
    return configuration.Campaign(
        {"small": Problem("small", "")}, {"stand-in": contender({})}, [], {}
    )


def finished(name: str, value: float, when: float, **more) -> dict:
    record = {
        "problem": "small",
        "contender": name,
        "kind": "tree",
        "stage": "test",
        "when": when,
        "status": "ok",
        "settings": {"C": 10.0, "solver": {"name": "sgd", "decay": 0.9}},
        "settings_tried": 2,
        "log_likelihood": value,
        "rows_at_floor": 3,
        "rows_scored": 80,
        "row_sum_mean": 1.0,
        "row_sum_min": 0.9999,
        "row_sum_max": 1.0,
        "accuracy": 0.25,
        "hit_at_5": 0.5,
        "fit_seconds": 12.0,
        "fit_cpu_seconds": 23.5,
        "proba_seconds_per_1000": 0.5,
        "peak_megabytes": 1234.5,
        "stopped_by_limit": False,
        "curve": [],
    }
    return record | more


def test_the_report_has_the_best_on_top_and_the_latest_only(contender, tmp_path):
    curve = [[1, 0.5, -3.0], [2, 1.0, -2.01], [3, 1.5, -2.0]]
    records = [
        finished("second", -1.0, when=1),
        finished("first", -2.0, when=2, curve=curve, stopped_by_limit=True),
        finished("second", -2.5, when=3),
        finished("never", -0.5, when=4, stage="validation"),
    ]
    known = empty_campaign(contender)
    lines = report.markdown(records, known).splitlines()
    assert lines[0] == "### small"
    rows = [line.split(" | ") for line in lines if line.startswith(("| first", "| second"))]
    assert [row[0] for row in rows] == ["| first", "| second"]
    measures = ["-2.000", "3/80", "1", "0.250", "0.500"]
    expected = [*measures, "12.0", "23.5", "1.0", "0.50", "1,234"]
    assert rows[0][2:12] == expected
    assert rows[0][12].startswith(
        "C=10.0, solver=sgd(decay=0.9) (2), stopped by the limit after epoch 3"
    )
    assert rows[1][9] == "–"  # never near the best
    figure.draw(records, _with_names(known), tmp_path / "peers.png", {})
    assert (tmp_path / "peers.png").stat().st_size > 1000


def _with_names(known: configuration.Campaign) -> configuration.Campaign:
    (one,) = known.contenders.values()
    contenders = {
        name: Contender(name, one.adapter, "tree", one.settings) for name in ("first", "second")
    }
    return configuration.Campaign(known.problems, contenders, [], {})


def test_the_report_says_who_was_not_run_and_why(contender):
    stand_in = contender({})
    skipped = Contender(
        "slow one", stand_in.adapter, "tree", {"any": [{}]}, skip={"small": "hours"}
    )
    known = configuration.Campaign({"small": Problem("small", "")}, {"slow one": skipped}, [], {})
    text = report.markdown([finished("first", -2.0, when=1)], known)
    assert "- not run (hours): slow one" in text


def test_differences_from_the_defaults_are_paired(contender):
    rows = {"rows_asked": 4, "log_likelihood_without_floor": -5.5}
    ours = rows | {"log_p_of_rows": [-1.0, -20.0], "rows_right": [0, 1]}
    its = rows | {"log_p_of_rows": [-2.0, -16.0], "rows_right": [0]}
    records = [
        finished("bigcat defaults", -2.0, when=1, **ours),
        finished("peer", -2.5, when=2, **its),
    ]
    lines = comparison.beside_defaults(records, empty_campaign(contender)).splitlines()
    cells = [cell.strip() for cell in lines[-1].split("|")][1:-1]
    assert cells[:2] == ["", "peer"]
    assert cells[3] == "+0.500 +- 0.500"  # the second rows are both at the floor
    assert cells[5] == "-1.500 +- 2.500"
    assert cells[7] == "+0.250 +- 0.250"


def test_time_to_the_quality_of_the_exact_path(contender):
    exact = {
        "curve": [[1, 40.0, -3.0], [2, 80.0, -2.0]],
        "cpu_seconds_of_epochs": [20.0, 60.0],
        "log_likelihood_without_floor": -2.1,
    }
    ours = {
        "curve": [[1, 2.0, -2.5]],
        "cpu_seconds_of_epochs": [1.0],
        "log_likelihood_without_floor": -1.5,
    }
    records = [
        finished("bigcat all classes", -2.1, when=1, **exact),
        finished("bigcat defaults", -1.5, when=2, **ours),
    ]
    text = comparison.time_to_quality(records, empty_campaign(contender))
    cells = [cell.strip() for cell in text.splitlines()[-1].split("|")][1:-1]
    # to -2.02: 98 % of the exact path's second epoch, 48 % of the rest of the defaults' fit
    assert cells[-6:] == ["59.2", "11.8", "5.0", "79.2", "6.8", "11.6"]
    assert comparison.seconds_to([(1.0, -3.0)], -2.0) is None
    assert comparison.seconds_to([(1.0, -1.0)], -2.0) == 1.0


def test_records_are_json(problem, contender, runner, tmp_path):
    record = runner(fixed=True).run(problem, contender({}))
    (path,) = (tmp_path / "records" / "small").glob("*.json")
    assert json.loads(path.read_text()) == record
