"""Small model files of every kind."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from bigcat import BayesianClassifier, LinearClassifier, save_model
from bigcat.bayes import Laplace
from bigcat.estimators import History
from bigcat.linear import LowRankWeights, PairedWeights

MODELS = ("words", "low-rank-float16", "pairs", "bayesian-laplace", "bayesian-binary", "text")


def save_models(folder: Path) -> dict[str, Path]:
    """Fit and save a model of each name in `MODELS`."""
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((80, 5)), 3)
    y = (X @ rng.standard_normal((5, 4)) + rng.gumbel(size=(80, 4))).argmax(axis=1)
    animals = np.array(["ant", "bee", "cat", "dog"])[y]
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    texts = vectorizer.fit_transform([f"{word} {word[0]} says moo" for word in animals])
    few: dict[str, Any] = {"method": "exact", "solver": "adagrad", "max_epochs": 3}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = {
            "words": LinearClassifier(random_state=0).fit(X, animals),
            "low-rank-float16": LinearClassifier(rank=2, random_state=0, **few).fit(X, y),
            "pairs": _paired(rng),
            "bayesian-laplace": BayesianClassifier(Laplace(n_draws=20), random_state=0).fit(X, y),
            "bayesian-binary": BayesianClassifier("independent-binary", random_state=0).fit(X, y),
            "text": LinearClassifier(random_state=0).fit(texts, animals),
        }
    assert tuple(made) == MODELS
    return {
        name: save_model(
            model,
            folder / f"{name}.safetensors",
            extra={"vectorizer": vectorizer, "note": ["a", 1]} if name == "text" else None,
            dtype="float16" if name.endswith("float16") else "float32",
        )
        for name, model in made.items()
    }


def _paired(rng: np.random.Generator) -> LinearClassifier:
    """A model with weights of single pairs beside low rank, which a fit finds in larger data."""
    low = LowRankWeights(*(rng.normal(size=(n, 2)).astype(np.float32) for n in (4, 5)))
    offsets = np.array([0, 1, 2, 3, 4, 4])
    pairs = np.arange(4, dtype=np.int32)
    weights = PairedWeights(low, offsets, pairs, rng.normal(size=4).astype(np.float32))
    model = LinearClassifier(rank=2)
    model.restore(weights, rng.normal(size=4).astype(np.float32), np.arange(4), History([]))
    model.n_features_in_, model.class_count_ = 5, np.full(4, 3)
    model.exact_classes_ = np.arange(0)
    return model
