r"""Text vectorisers in a model file: their options, their words, and which options are harmless.

A vectoriser does what its options say: read files whose names are in the text
(``input="filename"``), match a regular expression that never ends, or make millions of n-grams.
So options from a file are held to what cannot do harm, unless the caller trusts the file's author.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from bigcat.files.checks import check_floats, is_number, is_object, is_whole, shown
from bigcat.files.tensors import Tensors
from bigcat.files.values import from_json, pack_labels, to_json, unpack_labels

VECTORIZERS = ("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
#: The longest n-gram of a vectoriser from a file.
LONGEST_NGRAM = 20

_ENCODINGS = ("utf-8", "utf8", "utf-8-sig", "ascii", "latin-1", "iso-8859-1", "cp1252", "utf-16")
_TYPES = ("float64", "float32", "int64", "int32")
#: Single characters, then at most one run of a kind of them: whatever the text, the engine gives up
#: on a place after a few steps or takes the run as a whole, so that the time is linear.  An edge of
#: a word after the run may make it go back over the run; that is linear, too, where a match begins
#: at an edge, of which a run without a fitting end has one.
_CHARACTER = r"(?:\\[wWdDsS]|\[\^?(?:\\[\\wdsWDS\].'-]|[^\\\[\]])+\]|[A-Za-z0-9_@#'-])"
_RUN = rf"{_CHARACTER}(?:[+*]|\{{\d,\d?\}})?"
_LINEAR_PATTERN = re.compile(
    rf"(?:\(\?u\))?(?:\\b{_CHARACTER}{{0,8}}{_RUN}\\b|(?:\\b)?{_CHARACTER}{{0,8}}{_RUN})"
)


def is_linear(pattern: str) -> bool:
    r"""Does a search for all matches of a regular expression take time linear in the text?

    Examples
    --------
    >>> from bigcat.files.vectorizers import is_linear
    >>> [is_linear(p) for p in (r"(?u)\b\w\w+\b", r"\w+", r"[a-z'-]+", r"(?:a+)+$", r"\w+\b")]
    [True, True, True, False, False]
    """
    return _LINEAR_PATTERN.fullmatch(pattern) is not None


def _one_of(*values: object) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(known) and value == known for known in values)


def _is_stop_words(value: Any) -> bool:
    words = isinstance(value, list | set | tuple) and all(isinstance(word, str) for word in value)
    return value is None or value == "english" or words


def _is_ngram_range(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(is_whole(n, 1) for n in value)
    return pair and value[0] <= value[1] <= LONGEST_NGRAM


_yes_or_no = _one_of(True, False)
_nothing = _one_of(None)
#: Options of the three, and which of their values are harmless.
_HARMLESS: dict[str, Callable[[Any], bool]] = {
    "input": _one_of("content"),
    "encoding": _one_of(*_ENCODINGS),
    "decode_error": _one_of("strict", "ignore", "replace"),
    "strip_accents": _one_of(None, "ascii", "unicode"),
    "lowercase": _yes_or_no,
    "preprocessor": _nothing,
    "tokenizer": _nothing,
    "analyzer": _one_of("word", "char", "char_wb"),
    "stop_words": _is_stop_words,
    "token_pattern": lambda value: value is None or (isinstance(value, str) and is_linear(value)),
    "ngram_range": _is_ngram_range,
    "max_df": is_number,
    "min_df": is_number,
    "max_features": lambda value: value is None or is_whole(value, 1),
    "vocabulary": _nothing,
    "binary": _yes_or_no,
    "dtype": _one_of(*_TYPES),
    "norm": _one_of(None, "l1", "l2"),
    "use_idf": _yes_or_no,
    "smooth_idf": _yes_or_no,
    "sublinear_tf": _yes_or_no,
    "n_features": lambda value: is_whole(value, 1) and value < 2**31,
    "alternate_sign": _yes_or_no,
}


class UntrustedError(ValueError):
    """An option of a vectoriser that could do harm."""


def pack_vectorizer(
    tensors: dict[str, np.ndarray], vectorizer: Any, place: str = "vectorizer"
) -> dict[str, Any]:
    """Its kind and options; its words go to tensors whose names begin with `place`."""
    kind = type(vectorizer).__name__
    if kind not in VECTORIZERS:
        raise TypeError(
            f"a model file holds {', '.join(VECTORIZERS)}, got {kind}; "
            "save the model without it and keep the vectoriser yourself"
        )
    parameters = {}
    for name, value in vectorizer.get_params(deep=False).items():
        if name == "vocabulary":  # what it became is stored below
            continue
        try:
            parameters[name] = np.dtype(value).name if name == "dtype" else to_json(value)
        except TypeError:
            raise TypeError(
                f"the vectoriser's {name} is {value!r}, and a model file holds no functions; "
                "save the model without the vectoriser and keep it yourself"
            ) from None
    if kind != "HashingVectorizer":
        vocabulary = vectorizer.vocabulary_
        pack_labels(
            tensors, f"{place}.words", np.array(sorted(vocabulary, key=vocabulary.get), object)
        )
    if parameters.get("use_idf"):
        tensors[f"{place}.idf"] = np.asarray(vectorizer.idf_)
    return {"kind": kind, "parameters": parameters}


def unpack_vectorizer(
    read: Tensors, description: dict[str, Any], trusted: bool = False, place: str = "vectorizer"
) -> Any:
    """The vectoriser; UntrustedError for options that could do harm, unless they are trusted."""
    from sklearn.feature_extraction import text

    kind = description["kind"]
    if kind not in VECTORIZERS:
        raise ValueError(f"unknown vectoriser {kind!r}")
    parameters = from_json(description["parameters"])
    if not is_object(parameters):
        raise ValueError("the parameters of the vectoriser are no dict")
    if not trusted:
        for name, value in parameters.items():
            if name not in _HARMLESS or not _HARMLESS[name](value):
                raise UntrustedError(f"{name}={shown(value)}")
    parameters["dtype"] = np.dtype(parameters["dtype"]).type
    vectorizer = getattr(text, kind)(**parameters)
    if kind == "HashingVectorizer":
        return vectorizer
    words = unpack_labels(read, f"{place}.words", "objects")
    vectorizer.vocabulary_ = {word: i for i, word in enumerate(words)}
    if len(vectorizer.vocabulary_) != len(words):
        raise ValueError("a word of the vectoriser comes twice")
    vectorizer.fixed_vocabulary_ = False
    if kind == "TfidfVectorizer":
        vectorizer._tfidf = text.TfidfTransformer(
            **{name: parameters[name] for name in ("norm", "use_idf", "smooth_idf", "sublinear_tf")}
        )
        vectorizer._tfidf.n_features_in_ = len(words)
        if parameters["use_idf"]:
            idf = read(f"{place}.idf")
            check_floats(f"{place}.idf", idf)
            if idf.shape != (len(words),):
                raise ValueError(f"{place}.idf has shape {idf.shape}, not {(len(words),)}")
            vectorizer._tfidf.idf_ = idf
    return vectorizer
