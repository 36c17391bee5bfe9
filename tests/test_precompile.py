"""Precompilation, and messages about compilations that users wait for."""

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from rich.progress import Progress

from bigcat import LinearClassifier, precompile
from bigcat.compile import clock, kernels_left, notices, watching
from bigcat.compile.cache import cache_folder
from bigcat.training import progress

SOURCES = str(Path(precompile.__file__).parents[1])


def event_of(module, name):
    function = SimpleNamespace(__module__=module, __name__=name)
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=function)})


def compiles(*calls):
    """Record the messages to a listener: compilations that begin (a pair) and end (None)."""
    listener = notices.Compilations()
    seen: list[str | None] = []
    with watching(seen.append):
        for call in calls:
            if call is None:
                listener.on_end(event_of("", ""))
            else:
                listener.on_start(event_of(*call))
    return seen


def test_watchers_are_told_of_our_kernels(caplog):
    ours, inner, other = ("bigcat.kernels", "train"), ("bigcat.rows", "dot"), ("theirs", "f")
    with caplog.at_level(logging.INFO, "bigcat"):
        assert compiles(ours, inner, None, None) == ["train", None]
    first = "compiling kernel 1 of this process, train, 0 more expected: first run only"
    assert caplog.messages[0] == first
    assert caplog.messages[1].startswith("compiled train in ")
    assert compiles(other, None, ours, None) == ["train", None]
    assert compiles(other, ours, None, None) == []


def test_the_bar_says_that_it_compiles(monkeypatch):
    seen = []
    update = Progress.update

    def updated(self, task, **fields):
        seen.append(fields.get("description"))
        update(self, task, **fields)

    monkeypatch.setattr(Progress, "update", updated)
    monkeypatch.setattr(notices._compilations, "n_left", 2)
    with progress.reporter(True, 3, "softmax"):
        for told in list(notices._watchers):
            told("train")
            told(None)
    assert notices._watchers == []
    assert seen == ["softmax: compiling, first run only (train, 2 more expected)", "softmax"]


def test_a_fit_says_how_many_kernels_it_may_still_need():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((3_000, 60), density=0.1, format="csr", rng=rng)
    y = np.arange(3_000) % 300
    left = []
    LinearClassifier(max_epochs=1, progress=lambda info: left.append(kernels_left())).fit(X, y)
    assert left[0] >= left[-1] == 0


def test_the_clock_stands_still_while_a_kernel_compiles():
    before, started = clock(), time.perf_counter()
    notices._compilations.on_start(event_of("bigcat.kernels", "train"))
    time.sleep(0.2)
    notices._compilations.on_end(event_of("", ""))
    assert time.perf_counter() - started >= 0.2
    assert clock() - before < 0.1


def python(code, folder, **more):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": SOURCES, **more}
    done = subprocess.run(
        [sys.executable, *code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_the_folder_of_the_cache(tmp_path, monkeypatch):
    code = ["-c", "from bigcat.compile.cache import cache_folder; print(cache_folder())"]
    assert python(code, tmp_path)[0].strip() == str(tmp_path)
    assert os.path.isdir(cache_folder() or "")


@pytest.mark.slow  # it compiles everything
def test_after_precompiling_nothing_is_compiled(tmp_path):
    lines = [f"{i % 40}\tword{i % 40} word{i % 7}" for i in range(4_000)]
    (tmp_path / "train.tsv").write_text("\n".join(lines))
    table = [f"{i % 3},{i % 7},{'xyz'[i % 3]}" for i in range(300)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,label", *table]))
    report, _ = python(["-m", "bigcat", "precompile", "--json"], tmp_path / "cache")
    assert json.loads(report)["compiled"] > 3
    again, _ = python(["-m", "bigcat", "precompile", "--json"], tmp_path / "cache")
    assert json.loads(again)["compiled"] == 0
    for name in ("train.tsv", "train.csv"):
        data, model = str(tmp_path / name), str(tmp_path / "model")
        for words in (["fit", data, "--model", model], ["predict", model, data]):
            _, said = python(["-m", "bigcat", *words], tmp_path / "cache")
            assert "first run only" not in said
