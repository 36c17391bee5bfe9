"""Wrote the model files of format 2 beside it, with the last version that wrote that format.

    PYTHONPATH=CHECKOUT/src python tests/files/make_format_2.py tests/files/format-2

They are not made again: a new version of bigcat has to read them as they are, which
`tests/test_old_files.py` checks.  What changed with format 3 is the posterior, so of linear models
there are only a few.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

from make_format_1 import FEW, answers, fitted, rows


def linear() -> dict[str, dict[str, Any]]:
    sampled = {"method": "augment-reduce", "n_negatives": 2, **FEW}
    return {
        "defaults": {"random_state": 0, "progress": False},
        "low-rank-int8": sampled | {"rank": 2, "dtype": "int8"},
    }


def bayesian() -> dict[str, dict[str, Any]]:
    from bigcat.bayes import AugmentReducePosterior, GaussianPrior, IndependentBinary

    class OwnPrior(GaussianPrior):
        pass

    class OwnMethod(IndependentBinary):
        pass

    passes = AugmentReducePosterior(max_epochs=3, n_negatives=2, n_draws=7)
    return {
        "defaults": {},
        "words": {"labels": "words", "prior": "hierarchical", "fit_intercept": False},
        "logit": {"method": IndependentBinary("logit", "marginalised", "diagonal")},
        "own-method-and-prior": {"method": OwnMethod(), "prior": OwnPrior(scale=0.5)},
        "augment-reduce": {"method": passes, "data": "sparse"},
    }


def main(folder: Path) -> None:
    from bigcat import load_model, save_model

    warnings.simplefilter("ignore")
    folder.mkdir(exist_ok=True)
    models: dict[str, Any] = {}
    for kind, group in (("LinearClassifier", linear()), ("BayesianClassifier", bayesian())):
        for name, options in group.items():
            name = name if kind == "LinearClassifier" else f"bayesian-{name}"
            model, dtype = fitted(kind, options)
            path = save_model(model, folder / f"{name}.safetensors", dtype=dtype)
            models[name] = answers(load_model(path))
    content = {"X": rows()[0][:8].tolist(), "models": models}
    (folder / "expected.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
