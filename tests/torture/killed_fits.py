"""Fits that are killed at any moment, again and again, and end with the same bits."""

from __future__ import annotations

import os
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bigcat import BayesianClassifier, Checkpoint, LinearClassifier
from bigcat.bayes import AugmentReducePosterior
from bigcat.data import Shards, convert, open_shards
from bigcat.solvers import Implicit

#: Seconds between two checkpoints: often, so that kills meet them.
EVERY = 0.01


class KilledFits(NamedTuple):
    """Findings after all kills."""

    kills: int
    fits: int  # that ended, each after some kills
    same_bits: int  # as without a kill
    by_kind: dict[str, int]  # kills of each kind of fit


def _data() -> tuple[tuple[Any, np.ndarray], tuple[Any, np.ndarray]]:
    """Dense and sparse rows that take a fit some tenths of a second."""
    rng = np.random.RandomState(0)
    dense = rng.standard_normal((6_000, 10))
    labels = (dense @ rng.standard_normal((10, 30)) + rng.gumbel(size=(6_000, 30))).argmax(axis=1)
    sparse = scipy.sparse.random(6_000, 800, 0.02, format="csr", random_state=0)
    of_sparse = (sparse @ rng.standard_normal((800, 60))).argmax(axis=1)
    return (dense, labels), (sparse, of_sparse)


def _rows_in_files(rows: tuple[Any, np.ndarray], folder: Path) -> Shards:
    """Dense rows that are visited a tenth at a time."""
    table = np.column_stack(rows)
    header = ",".join([*(f"x{i}" for i in range(table.shape[1] - 1)), "label"])
    form = ["%.6g"] * (table.shape[1] - 1) + ["%d"]
    np.savetxt(folder / "rows.csv", table, form, ",", header=header, comments="")
    n_bytes = convert(folder / "rows.csv", folder / "rows", shard_bytes=1 << 16).n_bytes
    return open_shards(folder / "rows", window_bytes=n_bytes // 10)


def cases(folder: Path) -> dict[str, tuple[Callable[[], Any], tuple[Any, ...]]]:
    """Estimators, each made anew, with their data: methods, solvers, ranks, a posterior, files."""
    dense, sparse = _data()
    in_files = _rows_in_files(dense, folder)
    linear: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
        "augment-reduce": ({"method": "augment-reduce", "max_epochs": 12}, dense),
        "adagrad": ({"method": "augment-reduce", "solver": "adagrad", "max_epochs": 12}, dense),
        "ridge": (
            {"method": "augment-reduce", "solver": "sgd", "l2": 3.0, "max_epochs": 12},
            dense,
        ),
        "damped": ({"method": "exact", "solver": "damped", "max_epochs": 12}, dense),
        "implicit": (
            {"method": "implicit", "solver": Implicit(batch_size=8), "max_epochs": 5},
            dense,
        ),
        "one-vs-each": ({"method": "one-vs-each", "max_epochs": 12}, dense),
        "umax": ({"method": "umax", "max_epochs": 12}, dense),
        "streams": ({"method": "augment-reduce", "max_epochs": 12}, (in_files,)),
        "streams, low rank": (
            {"method": "complementary", "sampler": "shared", "rank": 8, "max_epochs": 12},
            (in_files,),
        ),
        "early stopping": (
            {"method": "augment-reduce", "early_stopping": True, "max_epochs": 12},
            dense,
        ),
        "low rank": ({"rank": 16}, sparse),
        "the defaults": ({}, sparse),
    }

    def make(options: dict[str, Any]) -> Callable[[], Any]:
        return lambda: LinearClassifier(random_state=0, n_threads=1, **options)

    found: dict[str, Any] = {name: (make(how), data) for name, (how, data) in linear.items()}
    method = AugmentReducePosterior(n_negatives=4, max_epochs=12, tol=0.0)
    found["posterior"] = (lambda: BayesianClassifier(method, random_state=0), dense)
    return found


def fitted_arrays(model: Any) -> list[np.ndarray]:
    """All that predictions are made of."""
    if isinstance(model, BayesianClassifier):
        return [model.posterior_.mean, model.posterior_.scale]
    return [*model.linear_model().weights.arrays().values(), model.intercept_]


def kill_fits(n: int, folder: Path, seed: int = 0, names: list[str] | None = None) -> KilledFits:
    """Kill fits at random moments, `n` times in all; each is begun again until it ends."""
    rng = np.random.default_rng(seed)
    known = {name: case for name, case in cases(folder).items() if names is None or name in names}
    never, seconds = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (make, data) in known.items():
            make().fit(*data)  # compiles
            began = time.perf_counter()
            never[name] = fitted_arrays(make().fit(*data))
            seconds[name] = time.perf_counter() - began
    kills = fits = same = 0
    by_kind = dict.fromkeys(known, 0)
    while kills < n:
        for name, (make, data) in known.items():
            checkpoint, result = folder / "fit", folder / "result.npz"
            estimator = make().set_params(checkpoint=Checkpoint(checkpoint, EVERY))
            most = 0  # so many kills at most, or a fit that is killed before it gets on never ends
            while not _fit_in_child(estimator, data, result, rng, seconds[name], most < 8):
                kills += 1
                most += 1
            by_kind[name] += most
            with np.load(result) as kept:
                ours = [kept[f"arr_{i}"] for i in range(len(kept.files))]
            fits += 1
            same += all(np.array_equal(a, b) for a, b in zip(ours, never[name], strict=True))
            result.unlink()
            shutil.rmtree(checkpoint)
            if kills >= n:
                break
    return KilledFits(kills, fits, same, by_kind)


def _fit_in_child(
    estimator: Any,
    data: tuple[Any, ...],
    result: Path,
    rng: np.random.Generator,
    seconds: float,
    may_die: bool,
) -> bool:
    """Return True if the fit ended before it was killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            warnings.simplefilter("ignore")
            estimator.fit(*data, resume=True)
            np.savez(result, *fitted_arrays(estimator))
            code = 0
        finally:
            os._exit(code)
    if may_die:
        time.sleep(rng.uniform(0.0, 1.2 * seconds + 0.05))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, "a fit that was not killed has failed"
        return True
    result.unlink(missing_ok=True)  # it may have been killed while it wrote that
    return False
