"""Wrote the model files of format 3 beside it, with the last version that wrote that format.

    PYTHONPATH=CHECKOUT/src python tests/files/make_format_3.py tests/files/format-3

They are not made again: a new version of bigcat has to read them as they are, which
`tests/test_old_files.py` checks.  New in format 3 were the posteriors of the Laplace method.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from make_format_1 import FEW, answers, fitted, rows, text_model


def linear() -> dict[str, dict[str, Any]]:
    sampled = {"method": "augment-reduce", "n_negatives": 2, **FEW}
    return {
        "defaults": {"random_state": 0, "progress": False},
        "words": {"random_state": 0, "progress": False, "labels": "words"},
        "low-rank-float16": sampled | {"rank": 2, "dtype": "float16"},
    }


def bayesian() -> dict[str, dict[str, Any]]:
    from bigcat.bayes import Laplace

    return {
        "laplace": {"method": Laplace(n_draws=20)},
        "laplace-full": {"method": Laplace(covariance="full"), "prior": "gaussian"},
        "laplace-class": {"method": Laplace(covariance="class"), "labels": "words"},
        "laplace-diagonal": {"method": Laplace(covariance="diagonal"), "fit_intercept": False},
        "binary": {"method": "independent-binary"},
    }


def paired() -> Any:
    """A model with weights of single pairs beside low rank, which only larger data ask for."""
    from bigcat import LinearClassifier
    from bigcat.estimators import History
    from bigcat.linear import LowRankWeights, PairedWeights

    X, y = rows()
    rng = np.random.default_rng(3)
    classes = np.unique(y)
    n_classes, n_features = len(classes), X.shape[1]
    sizes = (n_classes, n_features)
    low = LowRankWeights(*(rng.normal(size=(n, 2)).astype(np.float32) for n in sizes))
    offsets = np.minimum(np.arange(n_features + 1), n_classes).astype(np.int64)
    pairs = np.arange(offsets[-1], dtype=np.int32)
    weights = PairedWeights(low, offsets, pairs, rng.normal(size=len(pairs)).astype(np.float32))
    model = LinearClassifier(rank=2)
    model.restore(weights, rng.normal(size=n_classes).astype(np.float32), classes, History([]))
    model.n_features_in_, model.exact_classes_ = n_features, classes[:0]
    return model


def main(folder: Path) -> None:
    from bigcat import load_model, save_model

    warnings.simplefilter("ignore")
    folder.mkdir(exist_ok=True)
    made = {name: fitted("LinearClassifier", options) for name, options in linear().items()}
    made["pairs"] = paired(), "float32"
    for name, options in bayesian().items():
        made[f"bayesian-{name}"] = fitted("BayesianClassifier", options)
    models = {}
    for name, (model, dtype) in made.items():
        path = save_model(model, folder / f"{name}.safetensors", dtype=dtype)
        models[name] = answers(load_model(path))
    text = text_model(folder / "text.safetensors")
    content = {"X": rows()[0][:8].tolist(), "models": models, "text": text}
    (folder / "expected.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
