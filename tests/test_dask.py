"""`bigcat.dask`: the same answers on a cluster, whoever does the work."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from clusters import a_cluster
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

import bigcat
from bigcat.data import DataError, Shards, convert

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

from benchmarks.distributed.local import LOCAL_SETTINGS, local_cluster  # noqa: E402
from bigcat import Checkpoint, EarlyStopping  # noqa: E402
from bigcat.dask import LinearClassifier  # noqa: E402
from bigcat.dask.cluster import (  # noqa: E402
    Cluster,
    SchedulerLost,
    WorkersLost,
)
from bigcat.solvers import AdaGrad  # noqa: E402

#: Few rounds, so that a fit takes a moment.
SETTINGS: dict[str, Any] = {
    "rank": 8,
    "max_epochs": 6,
    "solver": AdaGrad(0.2, schedule="linear", power=1.25, batch_size=128),
    "rows_per_round": 512,
    "n_workers": 2,
    "random_state": 0,
}
N, D, K = 3_000, 80, 12


@pytest.fixture(scope="module")
def rows() -> tuple[Any, np.ndarray]:
    rng = np.random.RandomState(0)
    X = sp.random(N, D, 0.1, format="csr", random_state=rng, dtype=np.float32)
    scores = X @ rng.standard_normal((D, K)) * 3.0 + rng.gumbel(size=(N, K))
    return X, np.array([f"class {k:02d}" for k in range(K)])[scores.argmax(axis=1)]


@pytest.fixture(scope="module")
def folder(rows: tuple[Any, np.ndarray], tmp_path_factory: pytest.TempPathFactory) -> Shards:
    path = tmp_path_factory.mktemp("rows")
    labels = np.unique(rows[1], return_inverse=True)[1]
    dump_svmlight_file(rows[0], labels, str(path / "rows.svm"))
    return convert(path / "rows.svm", path / "rows", n_features=D, n_jobs=1, shard_bytes=1 << 14)


def csr(X: Any, size: int = 500) -> Any:
    """A Dask array of CSR chunks."""
    chunks = da.from_array(np.arange(X.shape[0]), chunks=size)
    return chunks.map_blocks(
        lambda i: X[i], chunks=(chunks.chunks[0], (X.shape[1],)), new_axis=1, dtype=X.dtype,
        meta=sp.csr_matrix((0, 0), dtype=X.dtype),
    )  # fmt: skip


def labels_of(y: np.ndarray, size: int = 500) -> Any:
    return da.from_array(y, chunks=size)


def same_bits(a: Any, b: Any) -> bool:
    return bool(
        (a.class_embedding_ == b.class_embedding_).all()
        and (a.embedding_ == b.embedding_).all()
        and (a.intercept_ == b.intercept_).all()
    )


@pytest.fixture(scope="module")
def fitted(client: Any, rows: tuple[Any, np.ndarray]) -> LinearClassifier:
    model = LinearClassifier(client=client, **SETTINGS)
    return model.fit(csr(rows[0]), labels_of(rows[1]))


# The same answers


def test_quality_is_that_of_one_process(client: Any, rows: tuple[Any, np.ndarray]) -> None:
    X, y = rows
    solver = bigcat.solvers.AdaGrad(0.2, schedule="linear", batch_size=128)
    same: dict[str, Any] = {"method": "exact", "rank": 8, "max_epochs": 6}
    one = bigcat.LinearClassifier(solver=solver, random_state=0, **same).fit(X, y)
    two = LinearClassifier(
        solver=solver, random_state=0, client=client, n_workers=2, rows_per_round=256, **same
    ).fit(csr(X), labels_of(y))
    ours, theirs = (m.log_proba_of(X, y).mean() for m in (two.to_local(), one))
    assert ours > theirs - 0.1 * abs(theirs)  # 24 steps a pass are few for two


def test_workers_do_not_matter(client: Any, fitted: Any, rows: tuple[Any, np.ndarray]) -> None:
    """One worker, or two: the split of the rows decides, not who works."""
    options: dict[str, Any] = {"processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as other,
    ):
        again = clone(fitted).set_params(client=other).fit(csr(rows[0]), labels_of(rows[1]))
    assert same_bits(again, fitted)


@pytest.mark.parametrize("form", ["dense", "frame", "folder", "folders"])
def test_forms_of_rows(
    client: Any, rows: tuple[Any, np.ndarray], folder: Shards, form: str
) -> None:
    X, y = rows
    model = LinearClassifier(client=client, **SETTINGS)
    if form == "dense":
        model.fit(da.from_array(X.toarray(), chunks=(500, 30)), labels_of(y, 700))
    elif form == "frame":
        frame = pd.DataFrame(X.toarray(), columns=[f"f{j}" for j in range(D)])
        frame = dd.from_pandas(frame, npartitions=4)
        model.fit(frame, dd.from_pandas(pd.Series(y), npartitions=4))
        assert model.feature_names_in_[0] == "f0"
        assert float(model.score(frame, dd.from_pandas(pd.Series(y), npartitions=4))) > 0.5
        with pytest.raises(ValueError, match="same order"):
            model.predict(frame[frame.columns[::-1].tolist()]).compute()
    else:
        model.fit(folder if form == "folder" else [folder, folder])
        y = np.unique(y, return_inverse=True)[1]
    assert model.to_local().score(X, y) > 0.5
    assert model.class_count_.sum() == N * (2 if form == "folders" else 1)


def test_folders_by_name(client: Any, folder: Shards) -> None:
    """The bits of the opened folder."""
    model = LinearClassifier(client=client, **SETTINGS | {"max_epochs": 1})
    expected = clone(model).fit(folder)
    assert same_bits(model.fit(str(folder.folder)), expected)


def test_a_folder_may_know_classes_that_have_no_rows(
    client: Any, folder: Shards, tmp_path: Path
) -> None:
    shutil.copytree(folder.folder, tmp_path / "rows")
    replace(folder.index, classes=[*folder.index.classes, 99]).write(tmp_path / "rows")
    model = LinearClassifier(client=client, **SETTINGS | {"max_epochs": 1})
    assert model.fit(tmp_path / "rows").classes_.tolist() == list(range(K))


def test_folders_that_are_not_there(client: Any, tmp_path: Path) -> None:
    model = LinearClassifier(client=client, **SETTINGS)
    with pytest.raises(DataError, match=r"none: expected index.json, .* found none"):
        model.fit(tmp_path / "none")


def test_warm_start_goes_on_from_the_weights(fitted: Any, rows: tuple[Any, np.ndarray]) -> None:
    X, y = csr(rows[0]), labels_of(rows[1])
    cold = clone(fitted).set_params(max_epochs=1).fit(X, y)
    warm = clone(fitted).set_params(max_epochs=1)
    warm.__dict__.update({k: v for k, v in vars(fitted).items() if k not in fitted.get_params()})
    warm.fit(X, y, warm_start=True)
    assert warm.history_["objective"][0] > cold.history_["objective"][0] + 0.1


def test_an_answer_to_another_question_is_not_believed() -> None:
    """The client asks for the workers every other second, and its answer may come in between."""

    class Client:
        answers: ClassVar = [{}, {"inproc://1": {"nthreads": 2, "memory_limit": 0}}]

        def scheduler_info(self, n_workers: int) -> dict[str, Any]:
            return {"workers": self.answers.pop(0) if self.answers else {}}

    client: Any = Client()
    assert Cluster(client).n_workers == 2
    with pytest.raises(ValueError, match="has no workers yet; start some"):
        Cluster(client)


def test_classes_of_one_chunk_and_empty_chunks(client: Any) -> None:
    """Rows that are sorted by label, the last chunk without any."""
    X = np.eye(6, dtype=np.float32).repeat(200, axis=0)
    y = np.arange(6).repeat(200)
    rows = da.concatenate([da.from_array(X, chunks=(300, 6)), da.zeros((0, 6), dtype=np.float32)])
    labels = da.concatenate([da.from_array(y, chunks=300), da.zeros(0, dtype=int)])
    model = LinearClassifier(client=client, **SETTINGS).fit(rows, labels)
    assert model.classes_.tolist() == list(range(6))
    assert model.to_local().score(X, y) == 1.0


def test_rows_of_weight_zero_are_not_there(client: Any, rows: tuple[Any, np.ndarray]) -> None:
    X, y = rows
    wrong = y.copy()
    wrong[::2] = y[0]
    weights = np.ones(N)
    weights[::2] = 0.0
    model = LinearClassifier(client=client, class_weight="balanced", **SETTINGS)
    model.fit(csr(X), labels_of(wrong), labels_of(weights))
    assert model.class_count_.sum() == N // 2
    assert model.to_local().score(X[1::2], y[1::2]) > 0.4


def test_early_stopping_keeps_the_best_epoch(client: Any, rows: tuple[Any, np.ndarray]) -> None:
    X, y = rows
    settings = SETTINGS | {"max_epochs": 12}
    model = LinearClassifier(
        client=client,
        early_stopping=EarlyStopping(tol=0.3, patience=1),
        **settings,
    )
    model.fit(csr(X[:2000]), labels_of(y[:2000]), X_val=csr(X[2000:]), y_val=labels_of(y[2000:]))
    scores = model.history_["validation_log_likelihood"]
    assert len(scores) < 12
    # The stacking weight is fitted on these rows, so their log-likelihood cannot fall.
    assert model.to_local().log_proba_of(X[2000:], y[2000:]).mean() >= scores.max() - 1e-3


def test_history_and_callbacks(client: Any, rows: tuple[Any, np.ndarray]) -> None:
    X, y = rows
    told: list[float] = []

    def listen(row: dict[str, Any]) -> bool:
        told.append(row["log_likelihood_of"](X[:100], y[:100]))
        return len(told) == 2

    model = LinearClassifier(client=client, **SETTINGS | {"progress": [listen]})
    model.fit(csr(X), labels_of(y))
    assert len(model.history_) == len(told) == 2
    assert told[1] > told[0]
    assert model.history_["epoch"].tolist() == [1, 2]
    assert "several machines" in model.selection_.reason


def test_solvers_whose_steps_do_not_add_up_are_refused(client: Any, rows: Any) -> None:
    for solver in ("lbfgs", "sgd"):
        with pytest.raises(ValueError, match=r"take solver='adagrad' or 'auto'"):
            LinearClassifier(client=client, solver=solver).fit(csr(rows[0]), labels_of(rows[1]))


# Predictions


def test_predictions_are_lazy_and_those_of_the_local_model(
    fitted: Any, rows: tuple[Any, np.ndarray]
) -> None:
    X, y = rows
    chunks, labels, local = csr(X), labels_of(y), fitted.to_local()
    lazy = {
        "predict": fitted.predict(chunks),
        "predict_proba": fitted.predict_proba(chunks),
        "predict_log_proba": fitted.predict_log_proba(chunks),
        "decision_function": fitted.decision_function(chunks),
    }
    for name, array in lazy.items():
        assert isinstance(array, da.Array), name
        expected = getattr(local, name)(X)
        assert array.shape == expected.shape
        assert array.dtype.kind == expected.dtype.kind
        np.testing.assert_array_equal(array.compute(), expected)
    classes, logs = fitted.predict_top_k(chunks, k=3)
    np.testing.assert_array_equal(classes.compute(), local.predict_top_k(X, k=3)[0])
    assert logs.shape == (N, 3)
    log_p = fitted.log_proba_of(chunks, labels)
    np.testing.assert_array_equal(log_p.compute(), local.log_proba_of(X, y))
    assert float(fitted.score(chunks, labels)) == pytest.approx(local.score(X, y))


def test_files_and_pickles_take_either(
    fitted: Any, rows: tuple[Any, np.ndarray], tmp_path: Path
) -> None:
    path = bigcat.save_model(fitted, tmp_path / "model.safetensors")
    loaded = bigcat.load_model(path)
    assert type(loaded) is bigcat.LinearClassifier
    assert same_bits(loaded, fitted)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.client is None
    assert same_bits(again, fitted)


def test_parameters_are_those_of_the_local_estimator() -> None:
    ours = set(LinearClassifier().get_params())
    assert ours - set(bigcat.LinearClassifier().get_params()) == {
        "client",
        "n_workers",
        "rows_per_round",
    }
    assert repr(LinearClassifier(rank=3)) == "LinearClassifier(rank=3)"
    with pytest.raises(TypeError, match="no_such"):
        LinearClassifier(no_such=1)


@pytest.mark.slow  # of processes
def test_as_many_local_workers_as_asked_for() -> None:
    with local_cluster(1) as client:
        assert len(client.scheduler_info(n_workers=-1)["workers"]) == 1
        assert client.run(_profiles) == dict.fromkeys(client.nthreads(), False)
    assert _profiles()  # of other clusters it is none of our business


def _profiles() -> bool:
    return bool(dask.config.get("distributed.worker.profile.enabled"))


# Faults


class Stop(Exception):
    """Error that ends a fit in the middle."""


def test_a_fit_goes_on_from_its_last_round(
    client: Any, fitted: Any, rows: tuple[Any, np.ndarray], tmp_path: Path
) -> None:
    X, y = csr(rows[0]), labels_of(rows[1])

    def give_up(row: dict[str, Any]) -> None:
        if row["epoch"] == 3:
            raise Stop

    kept = {"checkpoint": Checkpoint(tmp_path / "kept", 0.0)}
    model = clone(fitted).set_params(**kept)
    with pytest.raises(Stop):
        clone(model).set_params(progress=[give_up]).fit(X, y)
    other = clone(model).set_params(n_workers=3)
    with pytest.raises(ValueError, match="n_workers was 2 and is 3"):
        other.fit(X, y, resume=True)
    with pytest.raises(ValueError, match="rows holds other values"):
        clone(model).fit(X, y, da.full(N, 2.0, chunks=500), resume=True)
    with a_cluster() as another:
        model.set_params(client=another).fit(X, y, resume=True)
        assert len(model.history_) == 12
        assert same_bits(model, fitted)


def test_an_unreadable_shard_is_named(client: Any, folder: Shards, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder.folder, copy)
    shards = Shards(copy)
    values = copy / shards.index.arrays / "values.npy"
    with open(values, "r+b") as file:
        file.seek(5_000)
        file.write(b"\xff\xff\xff\x7f")
    with pytest.raises(DataError, match=r"copy: rows \d+ to \d+ \(shard \d+\) are damaged"):
        LinearClassifier(client=client, **SETTINGS).fit(shards)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((4, 2)), np.arange(4), "X is a ndarray in this process's memory; give a Dask"),
        (da.ones((4, 2), chunks=2), None, "y is missing"),
        (da.ones((4, 2), chunks=(2, 2)), da.arange(6, chunks=2), "X has 4 rows and y 6"),
        (da.ones((4, 2), chunks=(2, 2)), da.ones(4, chunks=2), "one class only"),
        (da.full((4, 2), np.nan, chunks=(2, 2)), da.arange(4, chunks=2), "X holds NaN in row"),
    ],
)
def test_what_cannot_be_meant(client: Any, X: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LinearClassifier(client=client, **SETTINGS).fit(X, y)


def test_workers_with_too_little_memory_are_told_before_any_work(rows: Any) -> None:
    with a_cluster(1, memory_limit="4GiB") as client:
        model = LinearClassifier(client=client, rank=4_000_000)
        with pytest.raises(MemoryError, match=r"memory_limit of 4,096 MiB 60% can be used"):
            model.fit(csr(rows[0]), labels_of(rows[1]))


def test_paused_workers_are_not_waited_for(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process alone takes more than that."""
    monkeypatch.setattr("bigcat.dask.cluster.PATIENCE", 0.5)
    with (
        a_cluster(1, memory_limit="8MB") as client,
        pytest.raises(MemoryError, match="all 1 workers were paused for 0 seconds"),
    ):
        LinearClassifier(client=client).fit(csr(rows[0]), labels_of(rows[1]))


def test_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise ValueError("No clients found")

    monkeypatch.setattr("bigcat.dask.cluster.default_client", none)
    with pytest.raises(ValueError, match="there is no Dask client; make one"):
        LinearClassifier().fit(None, None)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_ends_the_fit_within_a_minute(
    folder: Shards, tmp_path: Path
) -> None:
    where = ["--scheduler-file", str(tmp_path / "scheduler.json"), "--no-dashboard"]
    command = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen([*command, "scheduler", *where, "--port", "0"])
    worker = subprocess.Popen([*command, "worker", *where, "--nthreads", "1", "--no-nanny"])
    killed: list[float] = []

    def kill(row: dict[str, Any]) -> None:
        scheduler.kill()
        killed.append(time.monotonic())

    try:
        client = distributed.Client(scheduler_file=where[1], timeout=60)
        client.wait_for_workers(1, timeout=60)
        model = LinearClassifier(client=client, **SETTINGS | {"progress": [kill]})
        with pytest.raises(SchedulerLost, match=r"the scheduler was lost.*resume=True"):
            model.fit(folder)
        assert time.monotonic() - killed[0] < 60.0
    finally:
        for process in (worker, scheduler):
            process.kill()
            process.wait(timeout=60)
        client.close(timeout=1)


@pytest.mark.slow
def test_a_worker_over_its_memory_limit_ends_the_fit_within_a_minute() -> None:
    """Dask kills it, starts another, and gives up after the second one."""
    options: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    X = da.ones((400_000, 300), chunks=(400_000, 300))  # 960 MB in one chunk
    with (
        dask.config.set(LOCAL_SETTINGS),
        distributed.LocalCluster(memory_limit="500MB", **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        began = time.monotonic()
        with pytest.raises((WorkersLost, MemoryError), match="memory"):
            LinearClassifier(client=client).fit(X, da.arange(400_000, chunks=400_000) % 5)
    assert time.monotonic() - began < 60.0


def test_a_cluster_without_workers_is_not_waited_for(
    rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bigcat.dask.cluster.PATIENCE", 1.0)
    with a_cluster(1) as client:

        def end(row: dict[str, Any]) -> None:
            for worker in list(client.cluster.workers.values()):
                client.sync(worker.close)

        with pytest.raises(WorkersLost, match="there was no worker for 1 seconds; start others"):
            LinearClassifier(client=client, **SETTINGS | {"progress": [end]}).fit(
                csr(rows[0]), labels_of(rows[1])
            )


@pytest.mark.slow
def test_a_killed_worker_changes_no_bit_and_no_process_stays(folder: Shards) -> None:
    import psutil

    def children() -> set[int]:
        return {p.pid for p in psutil.Process().children(recursive=True)}

    before = children()
    with local_cluster(2) as client:
        model = LinearClassifier(client=client, **SETTINGS).fit(folder)
        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(target=_kill_soon, args=(pids[0],))

        def start(row: dict[str, Any]) -> None:
            if row["stage"] == "validation" and row["epoch"] == 1:
                killer.start()

        again = clone(model).set_params(progress=[start]).fit(folder)
        killer.join()
    assert same_bits(again, model)
    time.sleep(0.1)
    left = [p for p in children() - before if "resource_tracker" not in _command(p)]
    assert left == []


def _kill_soon(pid: int) -> None:
    time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    import psutil

    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return "resource_tracker"  # gone
