"""Saves that are killed: what was there before, or the new file, and never anything between."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bigcat import LinearClassifier
from bigcat.estimators import History
from bigcat.files import check_model_file, load_model, save_model
from bigcat.linear import FullRankWeights


class Kills(NamedTuple):
    """Findings after all kills."""

    kills: int
    in_the_middle: int  # of a file, which was left under another name
    left_behind: int  # after the save that followed


def model_of(number: int, size: int = 1000) -> LinearClassifier:
    """One whose weights say which it is: as many classes and features as `size`, 4 MB for 1,000."""
    weights = FullRankWeights(np.full((size, size), number, np.float32))
    model = LinearClassifier(max_epochs=number)
    model.restore(weights, np.zeros(size, np.float32), np.arange(size), History([]))
    model.n_features_in_, model.class_count_ = size, np.ones(size, int)
    return model


def _number(path: Path) -> int:
    """Return the model that a file holds; AssertionError for a mixture of two."""
    check_model_file(path)
    model = load_model(path)
    number = int(model.max_epochs)
    assert (model.coef_ == number).all(), "the weights are of another model than the parameters"
    return number


def kill_saves(n: int, folder: Path, seed: int = 0) -> Kills:
    """Kill `n` processes that save one model after the other, each at a random moment."""
    rng = np.random.default_rng(seed)
    path = folder / "model.safetensors"
    first, second = model_of(1), model_of(2)
    save_model(first, path)
    in_the_middle, seen = 0, {path.name}
    for _ in range(n):
        before = _number(path)
        child = os.fork()
        if child == 0:  # of the parent it shares all but time
            while True:
                save_model(second if before == 1 else first, path)
                save_model(first if before == 1 else second, path)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert _number(path) in (1, 2)
        now = set(os.listdir(folder))
        in_the_middle += len(now - seen)
        seen = now
        if rng.random() < 0.1:
            save_model(first, path)
            assert os.listdir(folder) == [path.name]
    save_model(first, path)
    return Kills(n, in_the_middle, len(os.listdir(folder)) - 1)
