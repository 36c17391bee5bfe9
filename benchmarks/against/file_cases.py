"""Model files: one version writes them, both read them and fit once more by what they read.

`save` is run by the version before, `load` by both: predictions, and the weights of a new fit with
the parameters that came out of the file, have to be the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.against import spell
from benchmarks.against.answers import N_ROWS_OF_MANY, bound_or_none, digest
from benchmarks.against.bayesian_cases import AUGMENT_REDUCE, MEANS
from benchmarks.against.cases import FEW_PASSES, SAMPLED, Answer, made, part
from benchmarks.against.linear_cases import own_method
from benchmarks.against.problems import custom_noise, problem

_OVE = {"method": "one-vs-each", "n_negatives": 6, **FEW_PASSES}

#: Problem, options, and of a linear model the numbers that it is stored in.
LINEAR: dict[str, tuple[str, dict[str, Any], str]] = {
    "full rank": ("few32", SAMPLED, "float32"),
    "full rank, csr": ("few", SAMPLED, "float32"),
    "full rank, float16": ("few", SAMPLED, "float16"),
    "full rank, int8": ("few64", SAMPLED, "int8"),
    "low rank": ("few", SAMPLED | {"rank": 5}, "float32"),
    "low rank, float16": ("few", SAMPLED | {"rank": 5}, "float16"),
    "low rank, int8": ("few32", SAMPLED | {"rank": 5}, "int8"),
    "auto": ("few32", {}, "float32"),
    "many classes": ("many", SAMPLED, "float32"),
    "probit, sampled": ("few", SAMPLED | {"noise": "gaussian", "expectation": "sample"}, "float32"),
    "logistic, nodes and q": (
        "few32",
        SAMPLED | {"noise": "logistic", "n_nodes": 5, "variational": "gumbel"},
        "float32",
    ),
    "custom noise": ("few", SAMPLED | {"noise": custom_noise}, "float32"),
    "exact classes": ("few", _OVE | {"exact_classes": 3}, "float32"),
    "exact classes, labels": ("few32", _OVE | {"exact_classes": [13, 22]}, "float32"),
    "method of one's own": ("few", FEW_PASSES | {"method": own_method(band=2.0)}, "float32"),
    "solver object": (
        "few",
        SAMPLED | {"solver": part("solvers", "AdaGrad", learning_rate=0.3, decay=0.9)},
        "float32",
    ),
    "solver and sampler objects": (
        "few",
        {
            "method": "complementary",
            "rank": 4,
            "solver": part("solvers", "AdaGrad", schedule="linear", per="vector"),
            "sampler": part("samplers", "Shared", n_negatives=12, n_first=4),
            **FEW_PASSES,
        },
        "float32",
    ),
    "sampler object and exact classes": (
        "few",
        _OVE
        | {
            "sampler": part("samplers", "Stratified", n_head=4, n_negatives=5),
            "exact_classes": 2,
        },
        "float32",
    ),
    "ridge along a path": ("few32", {"l2": "path"}, "float32"),
    "weights of classes": ("few", SAMPLED | {"class_weight": "balanced"}, "float32"),
}

_POSTERIORS: dict[str, tuple[str, dict[str, Any]]] = {
    "probit": ("few64", {}),
    "probit, diagonal": ("few", {"covariance": "diagonal"}),
    "logit": ("few64", {"link": "logit", "likelihood": "marginalised"}),
    "logit, diagonal": ("few", {"link": "logit", "covariance": "diagonal"}),
    "no intercept": ("few32", {"fit_intercept": False, "likelihood": "conditioned"}),
    "means": ("few64", {"prior": part("bayes", "GaussianPrior", mean=MEANS, scale=0.7)}),
    "learned": ("few64", {"prior": "learned", "tol": 1e-6}),
    "augment-reduce": ("few", AUGMENT_REDUCE),
    "augment-reduce, probit": (
        "few64",
        AUGMENT_REDUCE | {"noise": "gaussian", "n_draws": 9},
    ),
    "augment-reduce, logistic": (
        "few32",
        AUGMENT_REDUCE | {"noise": "logistic", "validation_fraction": 0.2, "learning_rate": 0.2},
    ),
    "augment-reduce, custom": ("few", AUGMENT_REDUCE | {"noise": custom_noise}),
}
BAYESIAN = {f"bayesian, {name}": entry for name, entry in _POSTERIORS.items()}

NAMES = (*LINEAR, *BAYESIAN)


def saving(folder: Path) -> dict[str, Callable[[], Answer]]:
    """Return for each model a function that fits and writes it."""
    return {f"file, {name}": partial(_save, folder, name) for name in NAMES}


def loading(folder: Path) -> dict[str, Callable[[], Answer]]:
    """Return for each file a function that loads it, predicts, and fits with its parameters."""
    return {f"file, {name}": partial(_load, folder, name) for name in NAMES}


def _save(folder: Path, name: str) -> Answer:
    from bigcat import save_model

    if name in LINEAR:
        data, options, dtype = LINEAR[name]
        model = spell.linear(**made(options))
    else:
        data, options = BAYESIAN[name]
        model, dtype = spell.bayesian(**made(options)), "float32"
    X, y = problem(data)
    save_model(model.fit(X, y), _path(folder, name), dtype=dtype)
    return {"digests": {}, "close": {}}


def _load(folder: Path, name: str) -> Answer:
    from sklearn.base import clone

    from bigcat import load_model

    X, y = problem((LINEAR | BAYESIAN)[name][0])
    model = load_model(_path(folder, name), noise=custom_noise() if "custom" in name else None)
    some = X[:N_ROWS_OF_MANY]
    how = {"posterior": "plug-in"} if name in BAYESIAN else {}
    found = {
        "predict_proba": model.predict_proba(some, **how),
        "classes_": model.classes_,
        "coef_ of another fit": _weights(clone(model).fit(X, y)),
    }
    if name in BAYESIAN:
        found["covariance"] = model.posterior_.covariance
        found["predict_proba, averaged"] = model.predict_proba(some, posterior="averaged")
    else:
        # Goes on by what the file remembers of the method, the solver and the sampler.
        found["lower_bound"] = bound_or_none(model, some, y[:N_ROWS_OF_MANY])
    return {"digests": {key: digest(value) for key, value in found.items()}, "close": {}}


def _weights(model: Any) -> Any:
    return model.coef_ if hasattr(model, "coef_") else model.class_embedding_


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_').replace(',', '')}.safetensors"
