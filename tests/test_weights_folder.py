"""Weights in files that are mapped to memory: the same fit, with less memory and nothing left."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import bigcat
from bigcat import Checkpoint, LinearClassifier, storage
from bigcat.cli import main
from bigcat.estimators import checkpoint_folder as checkpoint
from bigcat.solvers import AdaGrad
from bigcat.training import passes

RNG = np.random.RandomState(0)
X = RNG.standard_normal((600, 4))
Y = (X @ RNG.standard_normal((4, 5)) + RNG.gumbel(size=(600, 5))).argmax(axis=1)
SPARSE = scipy.sparse.random(2_000, 300, 0.05, format="csr", random_state=0)
OF_SPARSE = (SPARSE @ RNG.standard_normal((300, 20))).argmax(axis=1)
DATA = {"dense": (X, Y), "sparse": (SPARSE, OF_SPARSE)}
ADAGRAD: dict[str, Any] = {"method": "augment-reduce", "solver": AdaGrad(batch_size=8)}
SGD: dict[str, Any] = {"method": "augment-reduce", "solver": "sgd", "l2": 3.0}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="looks at open files as POSIX has them"),
]


def classifier(
    folder: Any = None, checkpoint: Checkpoint | None = None, **options: Any
) -> LinearClassifier:
    defaults: dict[str, Any] = {"max_epochs": 3, "random_state": 0}
    if folder is not None:
        checkpoint = replace(checkpoint or Checkpoint(), weights_folder=folder)
    return LinearClassifier(**{**defaults, **options}, checkpoint=checkpoint)


def arrays_of(model: LinearClassifier) -> list[np.ndarray]:
    return [*model._weights().arrays().values(), model.intercept_]


def assert_same(mapped: LinearClassifier, usual: LinearClassifier) -> None:
    for ours, theirs in zip(arrays_of(mapped), arrays_of(usual), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert type(ours) is np.ndarray
        assert np.abs(theirs).max() > 0.0
    assert len(mapped.history_) == len(usual.history_)


def is_mapped(array: np.ndarray) -> bool:
    """Return True if a file lies below the folder."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview)


# The same bits


FITS: dict[str, dict[str, Any]] = {
    "a solver's memory": ADAGRAD,
    "one scale of all weights": SGD,
    "the best epoch": {"method": "augment-reduce", "early_stopping": True},
    "random weights": {**ADAGRAD, "solver": AdaGrad(batch_size=8, init="random")},
    "an average": {"method": "exact", "solver": bigcat.solvers.Damped(1.0, average=True)},
    "low rank": {"method": "exact", "solver": "adagrad", "rank": 8},
}


# Not an average of sparse rows, whose kernel would be no other test's.
@pytest.mark.parametrize(
    ("which", "form"),
    [(which, form) for which in FITS for form in DATA if (which, form) != ("an average", "sparse")],
)
def test_the_same_bits(which, form, tmp_path):
    usual = classifier(**FITS[which]).fit(*DATA[form])
    mapped = classifier(tmp_path, **FITS[which]).fit(*DATA[form])
    assert_same(mapped, usual)
    assert all(is_mapped(array) for array in arrays_of(mapped)[:-1])
    assert not any(is_mapped(array) for array in arrays_of(usual))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("which", ["a solver's memory", "the best epoch"])
def test_a_killed_fit_goes_on_with_or_without_files(which, tmp_path, monkeypatch):
    monkeypatch.setattr(passes, "FIRST_CHUNK", 64)
    monkeypatch.setattr(passes, "CHUNK_SECONDS", 1e-9)
    usual = classifier(**FITS[which]).fit(X, Y)
    put, left = checkpoint.FolderCheckpointer._put, [7]

    def put_and_die(self, kept):
        put(self, kept)
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.FolderCheckpointer, "_put", put_and_die)
    (tmp_path / "weights").mkdir()
    kept: dict[str, Any] = {"checkpoint": bigcat.Checkpoint(tmp_path / "kept", 0.0)}
    with pytest.raises(KeyboardInterrupt):
        classifier(**FITS[which], **kept).fit(X, Y)
    mapped = classifier(tmp_path / "weights", **FITS[which], **kept)
    assert_same(mapped.fit(X, Y, resume=True), usual)
    assert left[0] < 0
    assert is_mapped(mapped.coef_)


# Models fitted in files


def test_a_fitted_model_is_like_any_other(tmp_path):
    folder = tmp_path / "weights"
    folder.mkdir()
    usual = classifier(**ADAGRAD).fit(X, Y)
    mapped = classifier(folder, **ADAGRAD).fit(X, Y)
    expected = usual.predict_proba(X)
    np.testing.assert_array_equal(mapped.predict_proba(X), expected)
    joblib.dump(mapped, tmp_path / "model.joblib")
    copies = [
        pickle.loads(pickle.dumps(mapped)),
        joblib.load(tmp_path / "model.joblib"),
        bigcat.load_model(bigcat.save_model(mapped, tmp_path / "model.safetensors")),
    ]
    del mapped
    folder.rmdir()
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_proba(X), expected)
        assert not is_mapped(copy.coef_)
    kept = Checkpoint(weights_folder=folder)
    assert [copy.checkpoint for copy in copies] == [kept, kept, None]
    assert clone(classifier(folder)).get_params()["checkpoint__weights_folder"] == folder


# Refused input


def test_folders_that_cannot_be_meant(tmp_path):
    with pytest.raises(ValueError, match="weights_folder=3 must be the name of a folder, or None"):
        classifier(3, **SGD).fit(X, Y)
    with pytest.raises(FileNotFoundError, match=r"none' is no folder; make it first, on a disk"):
        classifier(tmp_path / "none", **SGD).fit(X, Y)


def test_fits_on_a_cluster_are_refused(tmp_path):
    on_dask = pytest.importorskip("bigcat.dask").LinearClassifier(
        checkpoint=Checkpoint(weights_folder=tmp_path)
    )
    with pytest.raises(ValueError, match=r"is for fits in one process, .*; leave it out, or set a"):
        on_dask.fit(None)


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="a system without fallocate")
@pytest.mark.parametrize(
    ("call", "code"), [("fallocate", errno.ENOSPC), ("file", errno.EACCES)], ids=["full", "locked"]
)
def test_a_full_disk_or_a_read_only_folder(call, code, tmp_path, monkeypatch):
    """Told before X is looked at; the estimator stays as it was."""

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    model = classifier(tmp_path, **SGD).fit(X, Y)
    before = model.coef_
    where = (os, "posix_fallocate") if call == "fallocate" else (storage.tempfile, "TemporaryFile")
    monkeypatch.setattr(*where, fail)
    text = f"could not make a file of 1 bytes for weights in .*: {os.strerror(code)}; choose anoth"
    with pytest.raises(OSError, match=text) as caught:
        model.fit("no rows", Y)
    assert caught.value.errno == code
    assert model.coef_ is before
    assert not any(tmp_path.iterdir())


def test_too_little_room_is_told_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(bigcat.estimators.linear, "train", lambda *_, **__: pytest.fail("work"))
    free = storage.shutil.disk_usage(tmp_path)._replace(free=1 << 20)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: free)
    wide = scipy.sparse.csr_array((np.ones(9), (range(9), range(9))), shape=(9, 1 << 17))
    with pytest.raises(OSError, match=r"needs 0.02 GiB for its weights in .*, where 0.00 GiB are"):
        classifier(tmp_path, **ADAGRAD).fit(wide, np.arange(9))


# Memory


def test_the_forecast_counts_no_weights_in_files(tmp_path):
    sizes = (1_000, 50_000, 20_000)
    usual = classifier(**ADAGRAD).memory_forecast(*sizes)
    mapped = classifier(tmp_path, **ADAGRAD).memory_forecast(*sizes)
    assert usual - mapped == 2 * 4 * 50_000 * 20_000
    assert mapped < usual / 100


LIMITED = """
    import resource, sys
    from pathlib import Path
    import numpy as np
    import scipy.sparse
    from bigcat import Checkpoint, LinearClassifier
    from bigcat.samplers import Uniform
    from bigcat.solvers import AdaGrad

    X = scipy.sparse.csr_matrix((np.ones(4_000), (range(4_000), range(4_000))))
    y = np.arange(4_000) % 400

    def fit(folder, n_classes):
        model = LinearClassifier(
            method="augment-reduce", sampler=Uniform(2), max_epochs=2, random_state=0,
            solver=AdaGrad(batch_size=8), early_stopping=False,
            checkpoint=folder and Checkpoint(weights_folder=folder)
        )
        return model.fit(X, y % n_classes)

    fit(sys.argv[1], 2).predict(X)  # compiles, or loads what is compiled
    lines = Path("/proc/self/status").read_text().splitlines()
    taken = next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmData"))
    # The weights and their sums of squares take 12.8 MB each, and their float32 6.4.
    resource.setrlimit(resource.RLIMIT_DATA, (taken + (6 << 20), resource.RLIM_INFINITY))
    try:
        fit(None, 400)
    except MemoryError:
        print("refused")
    model = fit(sys.argv[1], 400)
    print(model.coef_.shape, np.count_nonzero(model.coef_) > 0)
"""


def started(script: str, *words: object, **options: Any) -> subprocess.Popen[str]:
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, words)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes, **options)


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA limits it on Linux alone")
def test_a_fit_with_less_memory_than_its_weights(tmp_path):
    """The system refuses more: in memory the fit fails, and in files it does not."""
    out, error = started(LIMITED, tmp_path).communicate(timeout=120)
    assert out.splitlines() == ["refused", "(400, 4000) True"], error
    assert not any(tmp_path.iterdir())


KILLED = """
    import sys, time
    import numpy as np
    from bigcat import Checkpoint, LinearClassifier

    def tell(row):
        print("an epoch", flush=True)
        time.sleep(60)

    rng = np.random.RandomState(0)
    model = LinearClassifier(
        method="augment-reduce", max_epochs=3, random_state=0, solver="sgd", l2=3.0,
        progress=[tell], checkpoint=Checkpoint(weights_folder=sys.argv[1])
    )
    model.fit(rng.standard_normal((600, 4)), np.arange(600) % 5)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_process_leaves_nothing(tmp_path):
    process = started(KILLED, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "an epoch\n"
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert f"{tmp_path}/" in maps  # there is a file, which has no name any more
    assert not any(tmp_path.iterdir())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    assert not any(tmp_path.iterdir())


# The command line


def test_the_command_line(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", X=X, y=Y)
    (tmp_path / "weights").mkdir()
    words = ["fit", str(tmp_path / "train.npz"), "--method", "augment-reduce"]
    words += ["--epochs", "2", "--negatives", "2", "--json", "--model"]
    assert main([*words, str(tmp_path / "usual.safetensors")]) == 0
    folder = ["--weights-folder", str(tmp_path / "weights")]
    assert main([*words, str(tmp_path / "mapped.safetensors"), *folder]) == 0
    models = [bigcat.load_model(tmp_path / f"{n}.safetensors") for n in ("mapped", "usual")]
    assert_same(*models)
    assert not any((tmp_path / "weights").iterdir())
    capsys.readouterr()
    missing = ["--weights-folder", str(tmp_path / "none")]
    assert main([*words, str(tmp_path / "no.safetensors"), *missing]) == 2
    error = capsys.readouterr().err
    assert f"{tmp_path / 'none'}" in error
    assert "is no folder; make it first" in error
    assert main([*words, str(tmp_path / "no.safetensors"), "--bayesian", *folder]) == 2
    assert not (tmp_path / "no.safetensors").exists()
