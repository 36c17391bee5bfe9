"""Processor seconds of a first fit and its predictions, each in a fresh process.

Cold begins with an empty folder for compiled kernels; warm is the next process with that folder.
Seconds beyond ``import sklearn.linear_model`` are what bigcat itself costs.  `--python` names the
interpreter of another environment, such as one with a wheel; the default is this checkout.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def _iris() -> tuple[Any, np.ndarray]:
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    return X, y


def _dense() -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(5_000) % 50
    return rng.standard_normal((50, 100))[y] + 2.0 * rng.standard_normal((5_000, 100)), y


def _texts() -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 1_000
    words = np.array([f"word{i}" for i in range(20_000)])
    common = rng.zipf(1.3, (20_000, 20)) % 20_000
    own = 20 * y[:, None] + rng.integers(0, 20, (20_000, 6))
    return [" ".join(row) for row in words[np.concatenate([common, own], axis=1)]], y


def _linear() -> Any:
    from bigcat import LinearClassifier

    return LinearClassifier(random_state=0, progress=False)


def _pipeline() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), _linear())


def _bayesian() -> Any:
    from bigcat import BayesianClassifier

    return BayesianClassifier(random_state=0, progress=False)


#: Data and estimator by the name of the case.
CASES: dict[str, tuple[Callable[[], tuple[Any, np.ndarray]], Callable[[], Any]]] = {
    "iris, LinearClassifier()": (_iris, _linear),
    "dense 5,000 x 100, 50 classes": (_dense, _linear),
    "tf-idf, 20,000 rows, 1,000 classes": (_texts, _pipeline),
    "iris, BayesianClassifier()": (_iris, _bayesian),
}


def start_up(python: str | None, words: list[str], as_json: bool = False) -> None:
    """Print a row per case, cold and warm, and the import alone."""
    from benchmarks._report import save, show

    python = python or sys.executable
    empty = _run(python, "import sklearn.linear_model", None)["seconds"]
    rows: list[dict[str, Any]] = [{"case": "import sklearn.linear_model", "seconds": empty}]
    alone = _run(python, "from bigcat import LinearClassifier", None)["seconds"]
    rows.append({"case": "import LinearClassifier", "seconds": alone, "beyond": alone - empty})
    for case in CASES:
        if words and not any(word in case for word in words):
            continue
        with tempfile.TemporaryDirectory() as cache:
            for start in ("cold", "warm"):
                found = _run(python, case, cache)
                beyond = found["seconds"] - empty
                rows.append({"case": case, "start": start, **found, "beyond": beyond})
    save("start_up", rows)
    show(rows if as_json else [{k: v for k, v in r.items() if k != "names"} for r in rows], as_json)


def _run(python: str, case: str, cache: str | None) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    command = [python, __file__, case]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _child(case: str) -> dict[str, Any]:
    """Run one case in this fresh process."""
    if case not in CASES:
        before = time.process_time()
        exec(case)
        return {"seconds": time.process_time(), "import": time.process_time() - before}
    data, estimator = CASES[case]
    X, y = data()
    made = time.process_time()
    model = estimator()
    from bigcat.compile import watching

    compiled: list[str] = []
    imported = time.process_time()
    with watching(lambda name: None if name is None else compiled.append(name)):
        model.fit(X, y)
        fitted = time.process_time()
        model.predict(X)
        model.predict_proba(X)
    ended = time.process_time()
    return {
        "seconds": ended,
        "import": imported - made,
        "fit": fitted - imported,
        "predict": ended - fitted,
        "kernels": len(compiled),
        "names": compiled,
        "numba": "numba" in sys.modules,
    }


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file, whose modules are no part of any environment
    print(json.dumps(_child(sys.argv[1])))
