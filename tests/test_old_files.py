"""Model files of every format are read for good: all that `tests/files/make_format_*.py` wrote."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from forms import forms
from scipy.special import softmax
from sklearn.base import clone

from bigcat import BayesianClassifier, load_model
from bigcat.files import formats
from bigcat.noise import CustomNoise

FILES = Path(__file__).parent / "files"
FORMATS = range(1, formats.FORMAT_VERSION + 1)
EXPECTED = {v: json.loads((FILES / f"format-{v}" / "expected.json").read_text()) for v in FORMATS}
#: What each file is to answer, by its format and name.
MODELS = {f"{v}/{name}": e for v in FORMATS for name, e in EXPECTED[v]["models"].items()}
X = np.array(EXPECTED[1]["X"])
CAUCHY = CustomNoise(
    "cauchy",
    lambda t: math.log(math.atan2(1.0, -t) / math.pi),
    lambda t: 1.0 / ((1.0 + t * t) * math.atan2(1.0, -t)),
    lambda t: -math.log(math.pi * (1.0 + t * t)),
    lambda t: -2.0 * t / (1.0 + t * t),
)


def loaded(name, **options):
    noise = CAUCHY if "custom" in name else None
    return load_model(FILES / f"format-{name}.safetensors", noise=noise, **options)


def at_the_mean(model):
    """Options of predictions: what was the default of old versions."""
    return {"posterior": "plug-in"} if isinstance(model, BayesianClassifier) else {}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_an_old_file_predicts_as_it_did(name):
    model, expected = loaded(name), MODELS[name]
    labels, how = np.resize(model.classes_, len(X)), at_the_mean(model)
    assert model.predict(X, **how).tolist() == expected["predict"]
    probabilities = np.array(expected["predict_proba"])
    probabilities /= probabilities.sum(axis=1, keepdims=True)  # of importance sampling they did not
    close(model.predict_proba(X, **how), probabilities)
    close(model.log_proba_of(X, labels, **how), expected["log_proba_of"])
    classes, log_probabilities = model.predict_top_k(X, k=2, **how)
    assert classes[:, 0].tolist() == expected["predict"]
    close(log_probabilities[:, 0], np.log(probabilities).max(axis=1))


#: Averages that were means of draws when the files were written.  Now a class's own score is
#: integrated, which is nearer to the mean of very many draws.
INTEGRATED = ("augment-reduce", "laplace-class", "laplace-diagonal")


@pytest.mark.parametrize("name", [n for n, e in MODELS.items() if "averaged" in e])
def test_an_old_posterior_is_as_wide_as_it_was(name):
    model, expected = loaded(name), MODELS[name]
    averaged = model.predict_proba(X, posterior="averaged")
    if name.endswith(INTEGRATED):
        draws = model.posterior_.sample(20_000, np.random.RandomState(0))
        rows = np.column_stack([X, np.ones(len(X))])[:, : draws.shape[2]]
        truth = softmax(np.einsum("skm,nm->snk", draws, rows), axis=2).mean(axis=0)
        now, then = (np.abs(found - truth).max() for found in (averaged, expected["averaged"]))
        assert now < then
    else:
        close(averaged, expected["averaged"])
    close(model.posterior_.scale, expected["scale"])
    assert model.evidence_ < 0.0
    if name.startswith(("1/", "2/")):
        assert model.elbo_ == model.evidence_


@pytest.mark.parametrize("name", [n for n, e in MODELS.items() if "lower_bound" in e])
def test_an_old_file_knows_its_bound(name):
    model, expected = loaded(name), MODELS[name]["lower_bound"]
    labels = np.resize(model.classes_, len(X))
    if expected is None:
        with pytest.raises(ValueError, match="not a bound"):
            model.lower_bound(X, labels)
    else:
        close(model.lower_bound(X, labels), expected)


#: Their fits need kernels that no other test does.
FIT_SLOWLY = (
    *("exact-classes", "low-rank", "custom", "pairs", "solver", "sampler", "probit-sampled"),
    *("logistic-nodes", "augment-reduce-logistic"),
)


@pytest.mark.parametrize(
    "name", forms(MODELS, lambda name: not any(part in name for part in FIT_SLOWLY))
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_parameters_of_an_old_file_fit_again(name):
    model = clone(loaded(name))
    labels = np.resize(["ant", "bee", "cat", "dog"] if "words" in name else [0, 1, 2, 3], 40)
    rng = np.random.default_rng(0)
    again = model.fit(rng.standard_normal((40, X.shape[1])), labels)
    assert again.predict_proba(X).shape == (len(X), 4)


TEXTS = {f"{v}/text": EXPECTED[v]["text"] for v in FORMATS if "text" in EXPECTED[v]}


@pytest.mark.parametrize("name", TEXTS)
def test_an_old_file_holds_its_vectoriser(name):
    expected = TEXTS[name]
    model, extra = loaded(name, with_extra=True)
    rows = extra["vectorizer"].transform(expected["texts"])
    assert extra["note"] == expected["note"]
    assert model.predict(rows).tolist() == expected["predict"]
    close(model.predict_proba(rows), expected["predict_proba"])


def test_every_old_file_is_read():
    found = {f"{v}/{p.stem}" for v in FORMATS for p in FILES.glob(f"format-{v}/*.safetensors")}
    assert found == {*MODELS, *TEXTS}


@pytest.mark.parametrize(
    ("name", "method", "prior"),
    [
        ("1/bayesian-probit", "IndependentBinary()", "gaussian"),
        ("2/bayesian-defaults", "independent-binary", "gaussian"),
        ("2/bayesian-own-method-and-prior", "independent-binary", "gaussian"),
    ],
)
def test_defaults_are_those_of_the_version_that_wrote_it(name, method, prior):
    model = loaded(name)
    assert (str(model.method), model.prior) == (method, prior)
