"""Model files that are damaged, or made up: a clear error, nothing run, nothing large allocated."""

import json
import os
import stat
import subprocess
import sys
import textwrap
import time
from typing import Any

import numpy as np
import pytest
from memory import peak_of
from model_files import rewrite
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from test_store import make_model

from bigcat import BayesianClassifier, LinearClassifier
from bigcat._io.atomic import replacing
from bigcat.bayes import Laplace
from bigcat.data.vectorizers import is_linear
from bigcat.files import ModelFileError, load_model, save_model
from bigcat.linear import LowRankWeights, PairedWeights

TEXTS = ["the cat sat", "a dog ran far", "the dog sat"]


@pytest.fixture
def path(tmp_path):
    return save_model(make_model(np.array(list("abcdef"))), tmp_path / "model.safetensors")


def flip(path, name, byte=0, bit=0):
    """Flip one bit of a tensor."""
    content = bytearray(path.read_bytes())
    head = 8 + int.from_bytes(content[:8], "little")
    place = head + json.loads(content[8:head])[name]["data_offsets"][0] + byte
    content[place] ^= 1 << bit
    path.write_bytes(content)


# --- digests ------------------------------------------------------------------------------------


def test_mapped_weights_are_held_to_their_digests_when_asked(path):
    expected = load_model(path, mmap=True, verify=True).coef_
    np.testing.assert_array_equal(load_model(path).coef_, expected)
    flip(path, "coef", byte=3, bit=6)
    assert load_model(path, mmap=True).coef_.shape == (6, 4)  # nobody has looked
    with pytest.raises(ModelFileError, match="the content of coef does not match its digest"):
        load_model(path, mmap=True, verify=True)
    flip(path, "classes.utf8")
    with pytest.raises(ModelFileError, match=r"the content of classes\.utf8 does not match"):
        load_model(path, mmap=True)


@pytest.mark.parametrize("estimator", [LinearClassifier(), BayesianClassifier(Laplace(n_draws=32))])
def test_the_same_fit_gives_the_same_bytes(tmp_path, estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (3.0 * X + rng.gumbel(size=(300, 4))).argmax(axis=1)
    found = []
    for name in ("first", "second"):
        model = clone(estimator).set_params(random_state=0, n_threads=1).fit(X, y)
        assert model.history_["seconds"][-1] > 0.0
        found.append(save_model(model, tmp_path / name).read_bytes())
    assert found[0] == found[1]
    assert save_model(load_model(tmp_path / "first"), tmp_path / "third").read_bytes() == found[0]


# --- made up ------------------------------------------------------------------------------------

FLOATS = np.ones((6, 4), np.float32)


def with_nan(shape=(6, 4)):
    array = np.ones(shape, np.float32)
    array.flat[0] = np.nan
    return array


SGD = {"part": "sgd", "options": {}}
#: Arrays that are replaced, values of the header by their place, and the error.
MADE_UP: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], str]] = {
    "float64 for float16": ({"coef": FLOATS}, {"linear.dtype": "float16"}, "among float16 weigh"),
    "NaN weights": ({"coef": with_nan()}, {}, "coef holds nan, which is not between"),
    "absurd intercept": (
        {"intercept": np.full(6, -3.4e38, np.float32)},
        {},
        r"intercept holds -3\.4e\+38, which is not between -1e\+18 and 1e\+18",
    ),
    "rank 0": (
        {},
        {"linear.rank": 0},
        "rank None, but the header is of 6 classes and 4 features and rank 0",
    ),
    "weights twice": (
        {},
        {"linear.arrays": {n: {"$array": "coef"} for n in ("coef", "intercept")}},
        "coef is not a tensor of the file or is used twice|shape",
    ),
    "labels out of order": (
        {"classes__utf8": np.frombuffer(b"abdcef", np.uint8)},
        {},
        "not in ascending order",
    ),
    "exact classes of another model": (
        {"exact": np.array([7])},
        {"fitted.exact_classes": {"$array": "exact"}},
        "exact_classes holds labels that are not among the classes",
    ),
    "a part that is none": ({}, {"parameters.solver": SGD | {"part": "os.system"}}, "os.system"),
}


def put(header, place, value):
    *owners, key = place.split(".")
    for owner in owners:
        header = header[owner]
    header[key] = value


@pytest.mark.parametrize("name", MADE_UP)
def test_what_does_not_hold_together_is_refused(path, name):
    arrays, changes, message = MADE_UP[name]
    rewrite(path, lambda h: [put(h, place, value) for place, value in changes.items()], **arrays)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def paired(**changes):
    parts = {
        "offsets": np.array([0, 2, 2, 3]),
        "pair_classes": np.array([0, 1, 1], np.int32),
        "pair_weights": np.ones(3, np.float32),
    }
    low = LowRankWeights(np.ones((2, 1), np.float32), np.ones((3, 1), np.float32))
    return PairedWeights(low, **(parts | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": np.array([0, 2, 3])}, "does not rise from 0 to the number"),
        ({"offsets": np.array([0, 3, 2, 3])}, "does not rise from 0 to the number"),
        ({"offsets": np.array([1, 2, 2, 3])}, "does not rise from 0 to the number"),
        ({"offsets": np.array([0, 2, 2, 4])}, "does not rise from 0 to the number"),
        ({"offsets": np.array([0.0, 2, 2, 3])}, "are of float64, int32"),
        ({"pair_classes": np.array([0, 2, 1], np.int32)}, "outside of 2 classes"),
        ({"pair_classes": np.array([0, 1, -1], np.int32)}, "outside of 2 classes"),
        ({"pair_classes": np.array([1, 0, 1], np.int32)}, "does not ascend for each feature"),
        ({"pair_classes": np.array([0, 0, 1], np.int32)}, "does not ascend for each feature"),
        ({"pair_weights": np.ones(2, np.float32)}, "does not rise from 0 to the number"),
        ({"pair_weights": np.ones((3, 1), np.float32)}, "have more than one axis"),
    ],
)
def test_pairs_that_a_kernel_would_follow_anywhere_are_refused(changes, message):
    paired().check()
    with pytest.raises(ValueError, match=message):
        paired(**changes).check()


def test_a_tensor_that_is_used_twice_is_refused(path):
    """A short header could claim more memory than the file holds."""
    rewrite(path, lambda h: h["extra"].update(x=[{"$array": "coef"}] * 1000))
    with pytest.raises(ModelFileError, match="coef is not a tensor of the file or is used twice"):
        load_model(path, with_extra=True)


# --- memory -------------------------------------------------------------------------------------


def test_one_long_label_takes_little_memory(tmp_path):
    """As an array of fixed width these would be 16 GB."""
    n = 10_000
    labels = np.array([f"{i:05}" for i in range(n - 1)] + ["x" * 400_000], dtype=object)
    path = save_model(make_model(labels, K=n, D=1), tmp_path / "m")
    rewrite(path, lambda h: h["fitted"].update(classes={"$strings": "classes"}))
    size = path.stat().st_size
    found = []
    assert peak_of(lambda: found.append(load_model(path))) < 10 * size
    assert found[0].classes_.tolist() == labels.tolist()


def test_loading_takes_the_weights_once(tmp_path):
    path = save_model(make_model(K=1000, D=2000), tmp_path / "m")
    size = path.stat().st_size
    assert size < peak_of(lambda: load_model(path)) < 1.5 * size


# --- vectorisers --------------------------------------------------------------------------------


def with_vectorizer(tmp_path, **options):
    vectorizer = CountVectorizer(**options)
    vectorizer.vocabulary_ = {"cat": 0, "dog": 1}
    return save_model(make_model(), tmp_path / "m", extra={"vectorizer": vectorizer})


@pytest.mark.parametrize(
    "option",
    [
        {"input": "filename"},
        {"input": "file"},
        {"token_pattern": r"(?:a+)+$"},
        {"token_pattern": r"\w+x"},
        {"ngram_range": (1, 20_000)},
        {"ngram_range": (3, 2)},
        {"encoding": "idna"},
        {"decode_error": "own"},
        {"stop_words": [["a"]]},
        {"lowercase": 1},
        {"dtype": np.complex128},
    ],
    ids=str,
)
def test_options_that_could_do_harm_are_asked_about(tmp_path, option):
    path = with_vectorizer(tmp_path, **option)
    (name,) = option
    message = f"its vectoriser has the option {name}=.*load it in Python with trust_vectorizer=True"
    with pytest.raises(ModelFileError, match=message):
        load_model(path, with_extra=True)
    load_model(path)  # which does not need it
    vectorizer = load_model(path, with_extra=True, trust_vectorizer=True)[1]["vectorizer"]
    if name != "dtype":
        assert getattr(vectorizer, name) == option[name]


def test_options_of_nobody_are_refused(tmp_path):
    path = with_vectorizer(tmp_path)
    rewrite(path, lambda h: h["vectorizer"]["options"].update(hook="os.system"))
    with pytest.raises(ModelFileError, match=r"has the option hook='os\.system'"):
        load_model(path, with_extra=True)
    rewrite(path, lambda h: h["vectorizer"].update(kind="Pipeline"))
    with pytest.raises(ModelFileError, match="kind is 'Pipeline'"):
        load_model(path, with_extra=True)


def test_words_and_weights_of_a_vectoriser_fit_together(tmp_path):
    vectorizer = TfidfVectorizer().fit(TEXTS)
    path = save_model(make_model(), tmp_path / "m", extra={"vectorizer": vectorizer})
    for change, message in (
        ({"vectorizer__idf": np.ones(2)}, r"vectorizer.idf has shape \(2,\)"),
        ({"vectorizer__idf": np.full(6, np.nan)}, "vectorizer.idf holds nan"),
        ({"vectorizer__idf": np.full(6, -1.0)}, "vectorizer.idf holds -1,"),
        ({"vectorizer__words__utf8": np.full(18, 97, np.uint8)}, "are not different strings"),
    ):
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        rewrite(other, **change)
        with pytest.raises(ModelFileError, match=message):
            load_model(other, with_extra=True)


def test_a_vectoriser_without_a_pattern_is_refused(tmp_path):
    """It would raise TypeError with the first text."""
    path = with_vectorizer(tmp_path)
    rewrite(path, lambda h: h["vectorizer"]["options"].update(token_pattern=None))
    with pytest.raises(ModelFileError, match="token_pattern=None, which finds no words"):
        load_model(path, with_extra=True, trust_vectorizer=True)
    path = with_vectorizer(tmp_path, analyzer="char", token_pattern=None)
    load_model(path, with_extra=True)


LINEAR = [
    r"(?u)\b\w\w+\b", r"\w+", r"(?u)\b\w+\b", r"\S+", r"[^\s]+", r"[a-z'-]+",
    r"(?u)\b\w[\w'-]+\b", r"(?u)\b[a-zA-Z]{3,}\b", r"\b\S+\b", r"\d\d\d\d",
]  # fmt: skip
NOT_LINEAR = [
    r"(?:a+)+$", r"\w+\b", r"\w+\w+", r"a+b", r"(a|b)*c", r"(\w+)\1", r"(?=a+)b", r".*", r"\w+$",
    r"\b\w+\W+\b", r"[a-z", r"", "a" * 30,
]  # fmt: skip


def test_patterns_that_are_linear():
    assert [p for p in LINEAR if not is_linear(p)] == []
    assert [p for p in NOT_LINEAR if is_linear(p)] == []


@pytest.mark.parametrize("pattern", LINEAR)
def test_linear_patterns_are_quick_on_any_text(pattern):
    """A quadratic one takes minutes for these."""
    import re

    start = time.process_time()
    for text in ("a", "a!", "a1", "1", "!", " ", "a b", "a!!!!!!!!", "ab1 ", "aB"):
        re.findall(pattern, (text * 100_000)[:200_000])
    assert time.process_time() - start < 5.0


# --- saving -------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
def test_a_private_file_stays_private(path):
    usual = stat.S_IMODE(path.stat().st_mode)
    for mode in (0o600, 0o640):
        os.chmod(path, mode)
        save_model(make_model(), path)
        assert stat.S_IMODE(path.stat().st_mode) == mode
    new = save_model(make_model(), path.with_name("new"))
    assert stat.S_IMODE(new.stat().st_mode) == usual


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of this kind")
def test_what_a_killed_save_leaves_is_removed_by_the_next(path):
    script = """
        import os, signal, sys
        from pathlib import Path
        from bigcat._io.atomic import replacing
        with replacing(Path(sys.argv[1])) as file:
            file.write(b"half of it")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    """
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(path)])
    assert done.returncode == -9
    assert len(os.listdir(path.parent)) == 2
    assert path.read_bytes() == before
    save_model(make_model(), path)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of this kind")
def test_a_save_that_goes_on_is_left_alone(path):
    with replacing(path) as file:
        file.write(b"the last one wins")
        save_model(make_model(), path)
        assert load_model(path).coef_.shape == (6, 4)
        assert len(os.listdir(path.parent)) == 2
    assert path.read_bytes() == b"the last one wins"
    assert os.listdir(path.parent) == [path.name]
