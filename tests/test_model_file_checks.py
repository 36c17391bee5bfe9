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
from model_files import as_format_3, rewrite, write_header
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from test_store import make_model

from bigcat.atomic import replacing
from bigcat.files import ModelFileError, check_model_file, load_model, read_header, save_model
from bigcat.files.tensors import open_tensors
from bigcat.files.vectorizers import is_linear
from bigcat.linear import LowRankWeights, PairedWeights

TEXTS = ["the cat sat", "a dog ran far", "the dog sat"]


@pytest.fixture
def path(tmp_path):
    return save_model(make_model(np.array(list("abcdef"))), tmp_path / "model.safetensors")


def flip(path, name, byte=0, bit=0):
    """Flip one bit of a tensor."""
    with open_tensors(path) as file:
        place = file.places[name].start + byte
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(content)


# --- digests ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["coef", "intercept", "classes.utf8", "classes.ends"])
def test_a_flipped_bit_is_noticed(path, name):
    assert check_model_file(path)
    flip(path, name, byte=1)
    message = rf"model\.safetensors: it is damaged \(the content of {name} is not what was written"
    for read in (load_model, check_model_file):
        with pytest.raises(ModelFileError, match=message):
            read(path)


def test_an_altered_header_is_noticed(path):
    content = path.read_bytes()
    assert content.count(b'\\"n_iter\\": 2') == 1
    path.write_bytes(content.replace(b'\\"n_iter\\": 2', b'\\"n_iter\\": 3'))
    for read in (load_model, read_header):
        with pytest.raises(ModelFileError, match="its header is not what was written"):
            read(path)


def test_a_tensor_under_the_name_of_another_is_noticed(tmp_path):
    model = make_model(K=6, D=6)
    path = save_model(model, tmp_path / "m")
    content = path.read_bytes()
    head = int.from_bytes(content[:8], "little")
    index = json.loads(content[8 : 8 + head])
    index["intercept"], index["coef"] = index["coef"], index["intercept"]
    text = json.dumps(index).encode().ljust(head)
    path.write_bytes(content[:8] + text + content[8 + head :])
    with pytest.raises(ModelFileError, match=r"tensor coef has shape \[6\], the header says"):
        load_model(path)


def test_mapped_weights_are_held_to_their_digests_when_asked(path):
    expected = load_model(path, mmap=True, verify=True).coef_
    np.testing.assert_array_equal(load_model(path).coef_, expected)
    flip(path, "coef", byte=3, bit=6)
    assert load_model(path, mmap=True).coef_.shape == (6, 4)  # nobody has looked
    with pytest.raises(ModelFileError, match="the content of coef is not what was written"):
        load_model(path, mmap=True, verify=True)
    flip(path, "classes.utf8")
    with pytest.raises(ModelFileError, match=r"the content of classes\.utf8 is not"):
        load_model(path, mmap=True)


def test_files_of_format_3_load_without_digests(path):
    rewrite(path, as_format_3)
    assert not check_model_file(path)
    assert load_model(path).coef_.shape == (6, 4)
    rewrite(path, as_format_3, coef=np.full((6, 4), np.nan, np.float32))
    with pytest.raises(ModelFileError, match="the weights hold NaN or infinity"):
        load_model(path)


# --- made up ------------------------------------------------------------------------------------

FLOATS = np.ones((6, 4), np.float32)


def with_nan(shape=(6, 4)):
    array = np.ones(shape, np.float32)
    array.flat[0] = np.nan
    return array


MADE_UP: dict[str, tuple[dict[str, np.ndarray], dict[str, Any], str]] = {
    "float64 for float16": ({"coef": FLOATS}, {"weights_dtype": "float16"}, "among weights of fl"),
    "int8 for float32": ({"coef": FLOATS.astype(np.int8)}, {}, "of int8 among weights of float32"),
    "a type that is none": ({}, {"weights_dtype": "float31"}, "weights_dtype is 'float31'"),
    "a type that is a list": ({}, {"weights_dtype": ["float32"]}, "weights_dtype is"),
    "NaN weights": ({"coef": with_nan()}, {}, "the weights hold NaN or infinity"),
    "infinite weights": ({"coef": FLOATS * np.inf}, {}, "the weights hold NaN or infinity"),
    "NaN intercept": ({"intercept": with_nan(6)}, {}, "intercept holds NaN or infinity"),
    "integer intercept": ({"intercept": np.arange(6)}, {}, "intercept is of int64, not of fl"),
    "three axes": ({"coef": np.ones((6, 4, 1), np.float32)}, {}, r"shape \(6, 4, 1\)"),
    "version true": ({}, {"format_version": True}, "its format is version True"),
    "version 4.0": ({}, {"format_version": 4.0}, r"its format is version 4\.0"),
    "version of text": ({}, {"format_version": "4"}, "its format is version '4'"),
    "history of numbers": ({}, {"history": [1, 2]}, r"history is \[1, 2\]"),
    "parameters in a list": ({}, {"parameters": []}, r"parameters is \[\]"),
    "no noise": ({}, {"noise": {"name": "gumbel"}}, "noise is"),
    "noise that is unknown": (
        {},
        {"noise": {"name": "x", "custom": False, "probabilities": "quadrature"}},
        "noise='x' is not known",
    ),
    "rank 0": (
        {},
        {"rank": 0},
        "rank None, but the header is of 6 classes and 4 features and rank 0",
    ),
    "rank true": ({}, {"rank": True}, "rank is True"),
    "features below 0": ({}, {"n_features_in": -4}, "n_features_in is -4"),
    "features 4.0": ({}, {"n_features_in": 4.0}, r"n_features_in is 4\.0"),
    "weights of no kind": ({}, {"weights": ["intercept"]}, "there are no weights"),
    "weights twice": ({}, {"weights": ["coef", "coef"]}, "weights is"),
    "labels of no kind": ({}, {"classes": "pickles"}, "classes is 'pickles'"),
    "one class": (
        {"classes__utf8": np.array([97], np.uint8), "classes__ends": np.array([1])},
        {},
        "classes have shape",
    ),
    "ends that go back": ({"classes__ends": np.array([6, 0, 6, 0, 6, 6])}, {}, "do not cut the 6"),
    "ends below 0": ({"classes__ends": np.array([-1, 2, 3, 4, 5, 6])}, {}, "do not cut the 6 byt"),
    "ends too far": ({"classes__ends": np.array([1, 2, 3, 4, 5, 7])}, {}, "do not cut the 6 byte"),
    "ends of floats": ({"classes__ends": np.arange(1.0, 7.0)}, {}, "do not cut the 6 bytes of cl"),
    "labels out of order": (
        {"classes__utf8": np.frombuffer(b"abdcef", np.uint8)},
        {},
        "not in ascending order",
    ),
    "labels twice": (
        {"classes__utf8": np.frombuffer(b"abccef", np.uint8)},
        {},
        "not in ascending order, each of them once",
    ),
    "labels that are no text": (
        {"classes__utf8": np.frombuffer(b"abcd\xff\xff", np.uint8)},
        {},
        "codec can't decode byte 0xff",
    ),
    "a part that is none": (
        {},
        {"parameters": {"solver": {"part": "os.system", "options": {"dict": []}}}},
        "os.system",
    ),
    "an option of nobody": (
        {},
        {"parameters": {"solver": {"part": "sgd", "options": {"dict": [["x", 1]]}}}},
        "unexpected keyword argument 'x'",
    ),
    "options without a form": (
        {},
        {"parameters": {"solver": {"part": "sgd", "options": 7}}},
        "do not fit together",
    ),
    "a set of lists": ({}, {"parameters": {"l2": {"set": [[1]]}}}, "unhashable"),
    "an estimator of later": ({}, {"estimator": "Oracle"}, "which has no Oracle"),
    "an estimator in a list": ({}, {"estimator": ["Oracle"]}, r"estimator is \['Oracle'\]"),
    "too few names": ({}, {"feature_names": "strings"}, "feature_names"),
}


@pytest.mark.parametrize("name", MADE_UP)
def test_what_does_not_hold_together_is_refused(path, name):
    arrays, changes, message = MADE_UP[name]
    rewrite(path, lambda header: header.update(changes), **arrays)
    with pytest.raises(ModelFileError, match=message) as caught:
        load_model(path)
    assert str(path) in str(caught.value)


def test_labels_that_are_numbers_are_in_order_too(tmp_path):
    path = save_model(make_model(), tmp_path / "m")
    for classes in (np.arange(6)[::-1], np.array([0, 1, 1, 2, 3, 4]), np.full(6, np.nan)):
        rewrite(path, classes=np.ascontiguousarray(classes))
        with pytest.raises(ModelFileError, match="classes are not in ascending order"):
            load_model(path)
    with pytest.raises(ValueError, match="classes are not in ascending order"):
        save_model(make_model(np.array(list("fedcba"))), tmp_path / "m")


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    model = make_model()
    model.coef_[2, 2] = np.inf
    with pytest.raises(ValueError, match="weights of the model hold NaN or infinity"):
        save_model(model, tmp_path / "m")
    assert os.listdir(tmp_path) == []


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
        ({"offsets": np.array([0, 2, 3])}, "does not cut the pairs"),
        ({"offsets": np.array([0, 3, 2, 3])}, "does not cut the pairs"),
        ({"offsets": np.array([1, 2, 2, 3])}, "does not cut the pairs"),
        ({"offsets": np.array([0, 2, 2, 4])}, "does not cut the pairs"),
        ({"offsets": np.array([0.0, 2, 2, 3])}, "are of float64, int32"),
        ({"pair_classes": np.array([0, 2, 1], np.int32)}, "outside of 2 classes"),
        ({"pair_classes": np.array([0, 1, -1], np.int32)}, "outside of 2 classes"),
        ({"pair_classes": np.array([1, 0, 1], np.int32)}, "does not ascend for each feature"),
        ({"pair_classes": np.array([0, 0, 1], np.int32)}, "does not ascend for each feature"),
        ({"pair_weights": np.ones(2, np.float32)}, "does not cut the pairs"),
        ({"pair_weights": np.ones((3, 1), np.float32)}, "have more than one axis"),
    ],
)
def test_pairs_that_a_kernel_would_follow_anywhere_are_refused(changes, message):
    paired().check()
    with pytest.raises(ValueError, match=message):
        paired(**changes).check()


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"format": "bigcat-model", "x": ' + "[" * 100_000, "7", "[]", "{}", "", "\0"],
    ids=["brackets", "brackets inside", "number", "list", "empty", "nothing", "NUL"],
)
def test_a_header_that_is_none(path, text):
    write_header(path, text, {})
    with pytest.raises(ModelFileError, match=r"not one of bigcat|do not fit|damaged"):
        load_model(path)


def test_numbers_that_json_does_not_have(path):
    for number in ("NaN", "Infinity", "1e999"):
        with open_tensors(path) as file:
            text = file.texts["bigcat"]
            tensors = {name: file.read(name) for name in file.places}
        other = path.with_name("other")
        write_header(other, text.replace('"n_iter": 2', f'"n_iter": {number}'), tensors)
        with pytest.raises(ModelFileError):
            load_model(other)


HEADS = {
    "a list": b"[]",
    "a key twice": b'{"a": 1, "a": 2}',
    "brackets": b"[" * 100_000,
    "a tensor of nothing": b'{"a": 7}',
    "shape below 0": b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
    "shape of floats": b'{"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}',
    "shape too large": b'{"a": {"dtype": "F32", "shape": [99], "data_offsets": [0, 4]}}',
    "no bytes for it": b'{"a": {"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}}',
    "an unknown type": b'{"a": {"dtype": "O8", "shape": [1], "data_offsets": [0, 4]}}',
    "a gap": b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}',
    "texts of numbers": b'{"__metadata__": {"bigcat": 7}}',
    "not UTF-8": b'{"\xff": 7}',
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_lies(tmp_path, name):
    path = tmp_path / "m"
    head = HEADS[name]
    path.write_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 4)
    with pytest.raises(ModelFileError, match="cut off, damaged or no safetensors file"):
        load_model(path)
    path.write_bytes((1 << 62).to_bytes(8, "little") + head)
    with pytest.raises(ModelFileError, match="its head would end at byte 46116860184273"):
        load_model(path)


# --- memory -------------------------------------------------------------------------------------


def test_one_long_label_takes_little_memory(tmp_path):
    """As an array of fixed width these would be 16 GB."""
    n = 10_000
    labels = np.array([f"{i:05}" for i in range(n - 1)] + ["x" * 400_000], dtype=object)
    path = save_model(make_model(labels, K=n, D=1), tmp_path / "m")
    rewrite(path, lambda header: header.update(classes="strings"))
    size = path.stat().st_size
    found = []
    assert peak_of(lambda: found.append(load_model(path))) < 10 * size
    assert found[0].classes_.tolist() == labels.tolist()


def test_ends_that_overlap_take_no_memory(tmp_path):
    """Each pair of them would have been a string as long as all."""
    n = 20_000
    path = save_model(make_model(np.arange(n), K=n, D=1), tmp_path / "m")
    text, ends = np.full(100_000, 97, np.uint8), np.tile([100_000, 0], n // 2)
    change = {"classes": "strings", "n_iter": 1}
    rewrite(path, lambda h: h.update(change), classes__utf8=text, classes__ends=ends)

    def load():
        with pytest.raises(ModelFileError, match="do not cut the 100000 bytes"):
            load_model(path)

    assert peak_of(load) < 4 * path.stat().st_size


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
    rewrite(path, lambda h: h["vectorizer"]["parameters"].update(hook="os.system"))
    with pytest.raises(ModelFileError, match=r"has the option hook='os\.system'"):
        load_model(path, with_extra=True)
    rewrite(path, lambda h: h["vectorizer"].update(kind="Pipeline"))
    with pytest.raises(ModelFileError, match="unknown vectoriser 'Pipeline'"):
        load_model(path, with_extra=True)


def test_words_and_weights_of_a_vectoriser_fit_together(tmp_path):
    vectorizer = TfidfVectorizer().fit(TEXTS)
    path = save_model(make_model(), tmp_path / "m", extra={"vectorizer": vectorizer})
    for change, message in (
        ({"vectorizer__idf": np.ones(2)}, r"vectorizer.idf has shape \(2,\)"),
        ({"vectorizer__idf": np.full(6, np.nan)}, "vectorizer.idf holds NaN or infinity"),
        ({"vectorizer__words__utf8": np.full(18, 97, np.uint8)}, "a word of the vectoriser comes"),
    ):
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        rewrite(other, **change)
        with pytest.raises(ModelFileError, match=message):
            load_model(other, with_extra=True)


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
        from bigcat.atomic import replacing
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


def test_names_with_brackets_are_no_patterns(tmp_path):
    for name in ("a[1].st", "a*.st"):
        path = save_model(make_model(), tmp_path / name)
        other = tmp_path / ".a1.st.00000000.tmp"
        other.write_bytes(b"of somebody else")
        save_model(make_model(), path)
        assert other.exists()
        other.unlink()
