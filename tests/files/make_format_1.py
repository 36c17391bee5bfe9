"""Wrote the model files of format 1 beside it, with the last version that wrote that format.

    PYTHONPATH=CHECKOUT/src python tests/files/make_format_1.py tests/files/format-1

They are not made again: a new version of bigcat has to read them as they are, which
`tests/test_old_files.py` checks.  Options are spelled as that version took them.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

ANIMALS = np.array(["ant", "bee", "cat", "dog"])
FEW = {"max_epochs": 3, "tol": None, "random_state": 0, "n_threads": 1, "progress": False}
MATRIX = np.diag([1.0, 2.0, 3.0, 2.0, 1.0]) + 0.1


def rows() -> tuple[np.ndarray, np.ndarray]:
    """80 rows of five features and four classes."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((80, 5)), 3)
    X[np.abs(X) < 0.3] = 0.0
    scores = X @ rng.standard_normal((5, 4)) + rng.gumbel(size=(80, 4))
    return X, scores.argmax(axis=1)


def cauchy() -> Any:
    """A noise of one's own, whose functions a file does not hold."""
    from bigcat.noise import CustomNoise

    return CustomNoise(
        "cauchy",
        lambda t: math.log(math.atan2(1.0, -t) / math.pi),
        lambda t: 1.0 / ((1.0 + t * t) * math.atan2(1.0, -t)),
        lambda t: -math.log(math.pi * (1.0 + t * t)),
        lambda t: -2.0 * t / (1.0 + t * t),
    )


def linear() -> dict[str, dict[str, Any]]:
    """Options of each `LinearClassifier`; "data", "labels" and "dtype" say how it is used."""
    from bigcat import Method
    from bigcat.bounds import AugmentReduce
    from bigcat.samplers import Shared, Stratified
    from bigcat.solvers import AdaGrad, Damped

    sampled = {"method": "augment-reduce", "n_negatives": 2, **FEW}
    own = Method("near-eta", AugmentReduce(band=2.0), "frequency", "sgd")
    citation = "Titsias (2016), One-vs-Each Approximation to Softmax, NIPS"
    known = Method("one-vs-each", bound_of("one-vs-each"), "uniform", "adagrad", citation)
    return {
        "defaults": {"random_state": 0, "progress": False},
        "full-rank-dense": sampled,
        "full-rank-float32": sampled | {"data": "float32"},
        "full-rank-sparse": sampled | {"data": "sparse"},
        "low-rank": sampled | {"rank": 2, "data": "sparse"},
        "float16": sampled | {"dtype": "float16"},
        "int8": sampled | {"dtype": "int8", "data": "sparse"},
        "low-rank-int8": sampled | {"rank": 2, "dtype": "int8"},
        "exact-classes": sampled | {"method": "one-vs-each", "exact_classes": 2},
        "exact-classes-of-words": sampled
        | {"method": "one-vs-each", "exact_classes": ["bee", "dog"], "labels": "words"},
        "probit-sampled": sampled | {"noise": "gaussian", "expectation": "sample"},
        "logistic-nodes": sampled | {"noise": "logistic", "n_nodes": 5, "variational": "gumbel"},
        "probit-importance": sampled | {"noise": "gaussian", "probabilities": "importance"},
        "custom-noise": sampled | {"noise": cauchy()},
        "own-method": FEW | {"method": own},
        "known-method": FEW | {"method": known, "n_negatives": 2},
        "solver-object": sampled | {"solver": Damped(learning_rate=2.0, average=True)},
        "solver-and-sampler-objects": FEW
        | {
            "method": "complementary",
            "rank": 2,
            "solver": AdaGrad(schedule="linear", power=1.5, per="vector"),
            "sampler": Shared(n_negatives=3, n_first=2),
        },
        "sampler-object-and-exact-classes": FEW
        | {
            "method": "one-vs-each",
            "sampler": Stratified(n_head=1, n_negatives=2),
            "exact_classes": 1,
        },
        "ridge-path": {"l2": "path", "random_state": 0, "progress": False},
        "class-weights": sampled | {"class_weight": {0: 2.0, 3: 0.5}, "l2": 0.5},
        "early-stopping": sampled | {"early_stopping": True, "validation_fraction": 0.25},
    }


def bound_of(method: str) -> Any:
    from bigcat import bounds

    return bounds.REGISTRY[method]()


def bayesian() -> dict[str, dict[str, Any]]:
    """Options of each `BayesianClassifier`."""
    from bigcat.bayes import GaussianPrior, HierarchicalPrior, HorseshoePrior

    passes = {"method": "augment-reduce", "max_epochs": 3, "n_negatives": 2}
    vectors = GaussianPrior(mean=[0.1, 0.2, 0.3, 0.2, 0.1], precision=np.arange(1.0, 6.0))
    return {
        "probit": {},
        "probit-words": {"labels": "words", "likelihood": "conditioned", "fit_intercept": False},
        "probit-diagonal": {"covariance": "diagonal", "max_iter": 50},
        "logit": {"link": "logit", "likelihood": "marginalised", "data": "sparse"},
        "logit-diagonal": {"link": "logit", "covariance": "diagonal", "solver": "cavi"},
        "prior-matrix": {"prior": GaussianPrior(precision=MATRIX, intercept_scale=3.0)},
        "prior-vectors": {"prior": vectors, "tol": 1e-6},
        "prior-hierarchical": {"prior": "hierarchical"},
        "prior-scale-a-class": {"prior": HierarchicalPrior("class", shape=0.7)},
        "prior-horseshoe": {"prior": HorseshoePrior(global_scale=0.5), "link": "logit"},
        "batches": {"batches": True, "step_power": 0.8, "total_rows": 80},
        "augment-reduce": passes,
        "augment-reduce-probit": passes
        | {"noise": "gaussian", "validation_fraction": 0.25, "data": "sparse"},
        "augment-reduce-logistic": passes
        | {"noise": "logistic", "prior": GaussianPrior(scale=0.5), "n_draws": 7},
        "augment-reduce-custom": passes | {"noise": cauchy(), "learning_rate": 0.2},
    }


def fitted(kind: str, options: dict[str, Any]) -> tuple[Any, str]:
    """A model, and in which numbers its weights are to be stored."""
    import bigcat

    options = dict(options)
    data, labels = options.pop("data", "dense"), options.pop("labels", "numbers")
    dtype, batches = options.pop("dtype", "float32"), options.pop("batches", False)
    X, y = rows()
    if data == "sparse":
        X = scipy.sparse.csr_matrix(X.astype(np.float32))
    elif data == "float32":
        X = X.astype(np.float32)
    y = ANIMALS[y] if labels == "words" else y
    if kind == "BayesianClassifier":
        options |= {"random_state": 0, "n_threads": 1, "progress": False}
    model = getattr(bigcat, kind)(**options)
    if not batches:
        return model.fit(X, y), dtype
    for half in (slice(0, 40), slice(40, 80)):
        model.partial_fit(X[half], y[half], classes=np.unique(y))
    return model, dtype


def answers(model: Any) -> dict[str, Any]:
    """What the loaded model is to predict for the first rows."""
    X = rows()[0][:8]
    how = {"posterior": "plug-in"} if hasattr(model, "posterior_") else {}
    found = {
        "predict": model.predict(X, **how).tolist(),
        "predict_proba": model.predict_proba(X, **how).tolist(),
        "log_proba_of": model.log_proba_of(X, np.resize(model.classes_, 8), **how).tolist(),
    }
    if hasattr(model, "posterior_"):
        found["averaged"] = model.predict_proba(X, posterior="averaged").tolist()
        found["scale"] = model.posterior_.scale.tolist()
    elif hasattr(model, "lower_bound"):
        try:
            found["lower_bound"] = model.lower_bound(X, np.resize(model.classes_, 8)).tolist()
        except ValueError:  # an estimator, no bound
            found["lower_bound"] = None
    return found


def text_model(path: Path) -> dict[str, Any]:
    """A model of texts, with the vectoriser in its file."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from bigcat import LinearClassifier, load_model, save_model

    texts = ["meow purr", "bark growl", "moo low", "purr purr", "growl", "moo", "meow", "bark"] * 4
    names = np.array(["cat", "dog", "cow", "cat", "dog", "cow", "cat", "dog"] * 4)
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    model = LinearClassifier(random_state=0, progress=False).fit(
        vectorizer.fit_transform(texts), names
    )
    save_model(model, path, extra={"vectorizer": vectorizer, "note": ["a", 1]})
    loaded, extra = load_model(path, with_extra=True)
    asked = ["meow", "bark low", "moo moo purr"]
    X = extra["vectorizer"].transform(asked)
    return {
        "texts": asked,
        "note": extra["note"],
        "predict": loaded.predict(X).tolist(),
        "predict_proba": loaded.predict_proba(X).tolist(),
    }


def main(folder: Path) -> None:
    import warnings

    from bigcat import load_model, save_model

    warnings.simplefilter("ignore")
    folder.mkdir(exist_ok=True)
    models: dict[str, Any] = {}
    for kind, group in (("LinearClassifier", linear()), ("BayesianClassifier", bayesian())):
        for name, options in group.items():
            name = name if kind == "LinearClassifier" else f"bayesian-{name}"
            model, dtype = fitted(kind, options)
            path = save_model(model, folder / f"{name}.safetensors", dtype=dtype)
            noise = cauchy() if "custom" in name else None
            models[name] = answers(load_model(path, noise=noise))
    text = text_model(folder / "text.safetensors")
    X = rows()[0][:8].tolist()
    content = {"X": X, "models": models, "text": text}
    (folder / "expected.json").write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
