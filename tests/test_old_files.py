"""Model files of format 1 are read for good: `tests/files/make_format_1.py` wrote them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from forms import forms
from sklearn.base import clone

from bigcat import load_model
from bigcat.noise import CustomNoise

FOLDER = Path(__file__).parent / "files" / "format-1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
X = np.array(EXPECTED["X"])
CAUCHY = CustomNoise(
    "cauchy",
    lambda t: math.log(math.atan2(1.0, -t) / math.pi),
    lambda t: 1.0 / ((1.0 + t * t) * math.atan2(1.0, -t)),
    lambda t: -math.log(math.pi * (1.0 + t * t)),
    lambda t: -2.0 * t / (1.0 + t * t),
)


def loaded(name, **options):
    noise = CAUCHY if "custom" in name else None
    return load_model(FOLDER / f"{name}.safetensors", noise=noise, **options)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_an_old_file_predicts_as_it_did(name):
    model, expected = loaded(name), EXPECTED["models"][name]
    labels = np.resize(model.classes_, len(X))
    assert model.predict(X).tolist() == expected["predict"]
    probabilities = np.array(expected["predict_proba"])
    probabilities /= probabilities.sum(axis=1, keepdims=True)  # of importance sampling they did not
    close(model.predict_proba(X), probabilities)
    close(model.log_proba_of(X, labels), expected["log_proba_of"])
    classes, log_probabilities = model.predict_top_k(X, k=2)
    assert classes[:, 0].tolist() == expected["predict"]
    close(log_probabilities[:, 0], np.log(probabilities).max(axis=1))


@pytest.mark.parametrize("name", [n for n, e in EXPECTED["models"].items() if "averaged" in e])
def test_an_old_posterior_is_as_wide_as_it_was(name):
    model, expected = loaded(name), EXPECTED["models"][name]
    close(model.predict_proba(X, posterior="averaged"), expected["averaged"])
    close(model.posterior_.scale, expected["scale"])


@pytest.mark.parametrize("name", [n for n, e in EXPECTED["models"].items() if "lower_bound" in e])
def test_an_old_file_knows_its_bound(name):
    model, expected = loaded(name), EXPECTED["models"][name]["lower_bound"]
    labels = np.resize(model.classes_, len(X))
    if expected is None:
        with pytest.raises(ValueError, match="not a bound"):
            model.lower_bound(X, labels)
    else:
        close(model.lower_bound(X, labels), expected)


#: Their fits need kernels that no other test does.
FIT_SLOWLY = (
    "sampler-object-and-exact-classes",
    "bayesian-augment-reduce-logistic",
    "bayesian-augment-reduce-custom",
    "custom-noise",
    "low-rank",
    "low-rank-int8",
    "solver-object",
    "solver-and-sampler-objects",
    "logistic-nodes",
    "probit-sampled",
)


@pytest.mark.parametrize("name", forms(EXPECTED["models"], lambda n: n not in FIT_SLOWLY))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_of_an_old_file_fit_again(name):
    model = clone(loaded(name))
    labels = np.resize(["ant", "bee", "cat", "dog"] if "words" in name else [0, 1, 2, 3], 40)
    rng = np.random.default_rng(0)
    again = model.fit(rng.standard_normal((40, X.shape[1])), labels)
    assert again.predict_proba(X).shape == (len(X), 4)


def test_an_old_file_holds_its_vectoriser():
    expected = EXPECTED["text"]
    model, extra = loaded("text", with_extra=True)
    rows = extra["vectorizer"].transform(expected["texts"])
    assert extra["note"] == expected["note"]
    assert model.predict(rows).tolist() == expected["predict"]
    close(model.predict_proba(rows), expected["predict_proba"])


def test_every_old_file_is_read():
    files = {path.stem for path in FOLDER.glob("*.safetensors")}
    assert files == {*EXPECTED["models"], "text"}
