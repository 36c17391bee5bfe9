"""Threads and processes on one model, forks and fresh ones, and folders that cannot be written."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from joblib import Parallel, delayed

from bigcat import BayesianClassifier, LinearClassifier

N_THREADS, N_CALLS = 8, 40


def rows(n=400, n_features=12, n_classes=30):
    rng = np.random.default_rng(0)
    y = np.arange(n) % n_classes
    X = rng.standard_normal((n, n_features))
    X[np.arange(n), y % n_features] += 3.0
    return X, y


@pytest.fixture(scope="module")
def linear():
    X, y = rows()
    return LinearClassifier(
        method="augment-reduce", max_epochs=3, random_state=0, early_stopping=False
    ).fit(X, y)


@pytest.fixture(scope="module")
def posterior():
    X, y = rows(n_classes=3)
    return BayesianClassifier(random_state=0).fit(X, y)


def answers(model, X):
    """Return all kinds of predictions of a model for some rows."""
    found = [model.predict(X), model.predict_proba(X)]
    if isinstance(model, LinearClassifier):
        found += model.predict_top_k(X, k=3)
        labels = np.zeros(X.shape[0], np.int64)
        found.append(model.log_proba_of(X, labels))
    else:
        found += model.predict_interval(X)
    return found


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)  # by NumPy or by a kernel


@pytest.mark.parametrize("kind", ["linear", "posterior"])
@pytest.mark.parametrize("sparse", [False, True])
def test_many_threads_predict_by_one_model(request, kind, sparse):
    """From its first prediction on, when tables are made, and with rows of different numbers."""
    model = request.getfixturevalue(kind)
    X, _ = rows()
    X = scipy.sparse.csr_array(X) if sparse else X
    parts = [X[i : i + 1 + i % 7] for i in range(N_CALLS)]
    expected = [answers(model, part) for part in parts]
    fresh = pickle.loads(pickle.dumps(model))  # nothing is ready yet
    with ThreadPoolExecutor(N_THREADS) as pool:
        found = list(pool.map(lambda part: answers(fresh, part), parts))
    for one, other in zip(found, expected):
        assert_same(one, other)


@pytest.mark.parametrize(
    "model",
    [
        LinearClassifier(method="exact", solver="lbfgs", l2=1.0),
        BayesianClassifier("independent-binary"),
    ],
)
def test_predictions_during_fits_are_of_one_model(model):
    """Fits to other numbers of rows, features and classes go on while others predict."""
    sets = [rows(n_classes=3), rows(n_classes=5)]
    sets = [(X[:90, : 2 + 2 * i], [f"{i}{k}" for k in y[:90]]) for i, (X, y) in enumerate(sets)]
    known = [sorted(set(y)) for _, y in sets]
    model.fit(*sets[0])
    ended = threading.Event()

    def predict(i):
        found = 0
        while not ended.is_set():
            try:
                labels, proba = model.predict(sets[i][0][:5]), model.predict_proba(sets[i][0][:5])
            except ValueError as error:
                assert "features" in str(error)  # noqa: PT017
                continue
            assert set(labels) <= set(known[i])
            assert proba.shape == (5, len(known[i]))
            found += 1
        return found

    with ThreadPoolExecutor(2) as pool:
        numbers = [pool.submit(predict, i) for i in (0, 1)]
        for i in range(6):
            model.fit(*sets[(i + 1) % 2])
        ended.set()
        assert sum(number.result() for number in numbers) > 0


def test_many_threads_fit_models_of_their_own():
    X, y = rows()

    def fit(seed):
        return LinearClassifier(
            method="augment-reduce", max_epochs=2, random_state=seed, early_stopping=False
        ).fit(X, y)

    alone = [fit(seed).coef_ for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = [model.coef_ for model in pool.map(fit, range(4))]
    assert_same(alone, together)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib(linear, backend):
    X, _ = rows()
    expected = answers(linear, X)
    found = Parallel(n_jobs=2, backend=backend)(delayed(answers)(linear, X) for _ in range(3))
    for one in found:
        assert_same(one, expected)


def _fit_and_answer(model, X, y, out):
    fitted = LinearClassifier(
        method="augment-reduce", max_epochs=3, random_state=0, early_stopping=False
    ).fit(X, y)
    out.put([answers(model, X), [fitted.coef_, fitted.intercept_]])


@pytest.mark.parametrize("how", ["fork", slow("spawn")])
def test_processes_after_use(linear, how):
    """A process that has fitted, predicted and used threads goes on in a child, or starts one."""
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system does not {how}")
    X, y = rows()
    expected = answers(linear, X)
    LinearClassifier(method="augment-reduce", max_epochs=1, n_threads=2, early_stopping=False).fit(
        X, y
    )
    context = multiprocessing.get_context(how)
    out = context.Queue()
    child = context.Process(target=_fit_and_answer, args=(linear, X, y, out))
    child.start()
    found, weights = out.get(timeout=300)
    child.join()
    assert child.exitcode == 0
    assert_same(found, expected)
    assert_same(weights, [linear.coef_, linear.intercept_])


READ_ONLY = """
    import os, sys, warnings
    import numpy as np
    import bigcat
    from bigcat.estimators import History
    from bigcat.estimators.checkpoint_folder import CheckpointError
    from bigcat.linear import FullRankWeights

    folder = sys.argv[1]
    model = bigcat.LinearClassifier()
    model.restore(
        FullRankWeights(np.ones((3, 2), np.float32)), np.zeros(3, np.float32), np.arange(3),
        History([]),
    )
    model.n_features_in_, model.class_count_ = 2, np.ones(len(model.intercept_), int)
    bigcat.save_model(model, os.path.join(folder, "there"))
    os.chmod(folder, 0o555)
    if os.geteuid() == 0:  # who may write everywhere
        os.setuid(65534)
    for what in ("new", "there"):
        try:
            bigcat.save_model(model, os.path.join(folder, what))
        except PermissionError as error:
            print(error)
    fit = bigcat.LinearClassifier(checkpoint=os.path.join(folder, "fit"), random_state=0)
    try:
        fit.fit(np.eye(30), np.arange(30) % 3)
    except CheckpointError as error:
        print(error)
    print(bigcat.load_model(os.path.join(folder, "there")).coef_.sum(), os.listdir(folder))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs permissions")
def test_a_folder_that_is_read_only():
    """Not in pytest's own folder, where only its owner gets to."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "models"
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(READ_ONLY), str(folder)],
            capture_output=True,
            text=True,
        )
        os.chmod(folder, 0o755)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert len(words) == 4, done.stdout
    assert all("no permission to write to the folder" in line for line in words[:2])
    assert "could not begin a checkpoint" in words[2]
    assert words[3] == "6.0 ['there']"
