r"""Text vectorisers in a model file.

A vectoriser does what its options say: read files whose names are in the text
(``input="filename"``), match a regular expression for hours, or make millions of n-grams.  So
options from a file must be harmless, unless the caller trusts the file's author.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bigcat.data.vectorizers import VECTORIZERS, n_features_of, with_words
from bigcat.files.schema import check, check_floats, is_number, is_whole, shown

#: Longest n-gram of a vectoriser from a file.
LONGEST_NGRAM = 20

#: Single characters, then at most one run of one kind: at each place of the text, the engine gives
#: up after a few steps or takes the whole run.  A word boundary after the run can make it go back
#: over the run; that is linear, too, where a match begins at a boundary.
_CHARACTER = r"(?:\\[wWdDsS]|\[\^?(?:\\[\\wdsWDS\].'-]|[^\\\[\]])+\]|[A-Za-z0-9_@#'-])"
_RUN = rf"{_CHARACTER}(?:[+*]|\{{\d,\d?\}})?"
_LINEAR_PATTERN = re.compile(
    rf"(?:\(\?u\))?(?:\\b{_CHARACTER}{{0,8}}{_RUN}\\b|(?:\\b)?{_CHARACTER}{{0,8}}{_RUN})"
)


def is_linear(pattern: str) -> bool:
    r"""Return True if finding all matches of a regular expression takes time linear in the text.

    Examples
    --------
    >>> from bigcat.files.vectorizers import is_linear
    >>> [is_linear(p) for p in (r"(?u)\b\w\w+\b", r"\w+", r"[a-z'-]+", r"(?:a+)+$", r"\w+\b")]
    [True, True, True, False, False]
    """
    return _LINEAR_PATTERN.fullmatch(pattern) is not None


def _is_stop_words(value: Any) -> bool:
    words = isinstance(value, list | set | tuple) and all(isinstance(word, str) for word in value)
    return value is None or value == "english" or words


def _is_ngram_range(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2 and all(is_whole(n, 1) for n in value)
    return pair and value[0] <= value[1] <= LONGEST_NGRAM


_ENCODINGS = {"utf-8", "utf8", "utf-8-sig", "ascii", "latin-1", "iso-8859-1", "cp1252", "utf-16"}
#: Harmless values of the options of the three.
_HARMLESS: dict[str, Any] = {
    "input": {"content"},
    "encoding": _ENCODINGS,
    "decode_error": {"strict", "ignore", "replace"},
    "strip_accents": {None, "ascii", "unicode"},
    "lowercase": bool,
    "preprocessor": {None},
    "tokenizer": {None},
    "analyzer": {"word", "char", "char_wb"},
    "stop_words": _is_stop_words,
    "token_pattern": lambda value: value is None or (isinstance(value, str) and is_linear(value)),
    "ngram_range": _is_ngram_range,
    "max_df": is_number,
    "min_df": is_number,
    "max_features": lambda value: value is None or is_whole(value, 1),
    "binary": bool,
    "dtype": {"float64", "float32", "int64", "int32"},
    "norm": {None, "l1", "l2"},
    "use_idf": bool,
    "smooth_idf": bool,
    "sublinear_tf": bool,
    "n_features": lambda value: is_whole(value, 1, 2**31 - 1),
    "alternate_sign": bool,
}


class UntrustedError(ValueError):
    """An option of a vectoriser that could do harm."""


def describe_vectorizer(vectorizer: Any, fitted: bool = True) -> dict[str, Any] | None:
    """Return kind, options and words of a vectoriser, all of which a file can hold."""
    if vectorizer is None:
        return None
    kind = type(vectorizer).__name__
    if kind not in VECTORIZERS:
        raise TypeError(
            f"a model file holds {', '.join(VECTORIZERS)}, got {kind}; save the model without it "
            "and keep the vectoriser in a file of its own, such as one of skops"
        )
    options = vectorizer.get_params(deep=False)
    options["dtype"] = np.dtype(options["dtype"]).name
    options.pop("vocabulary", None)  # its words are stored below
    for name, value in options.items():
        if callable(value):
            raise TypeError(
                f"the vectoriser's {name} is {value!r}, and a model file holds no functions; "
                "save the model without the vectoriser and keep it yourself"
            )
    words = None
    if kind != "HashingVectorizer" and (fitted or hasattr(vectorizer, "vocabulary_")):
        check_is_fitted(vectorizer, "vocabulary_")
        vocabulary = vectorizer.vocabulary_
        words = np.array(sorted(vocabulary, key=vocabulary.get), object)
    idf = vectorizer.idf_ if options.get("use_idf") and words is not None else None
    return {"kind": kind, "options": options, "words": words, "idf": idf}


def make_vectorizer(stored: dict[str, Any], trusted: bool = False) -> Any:
    """Return the vectoriser; UntrustedError for options that could do harm, unless trusted."""
    from sklearn.feature_extraction import text

    check("vectorizer.kind", stored["kind"], {*VECTORIZERS})
    kind, options, words = stored["kind"], dict(stored["options"]), stored["words"]
    for name, value in () if trusted else options.items():
        try:
            check(name, value, _HARMLESS[name])
        except (KeyError, ValueError):
            raise UntrustedError(f"{name}={shown(value)}") from None
    if options.get("token_pattern", "") is None and options["analyzer"] == "word":
        raise ValueError("the vectoriser has token_pattern=None, which finds no words")
    vectorizer = getattr(text, kind)(**options | {"dtype": np.dtype(options["dtype"]).type})
    if kind == "HashingVectorizer" or words is None:
        return vectorizer
    idf = None
    if options.get("use_idf"):
        idf = stored["idf"]
        check_floats("vectorizer.idf", idf, (len(words),), least=0.0)
    vectorizer = with_words(vectorizer, words.tolist(), idf)
    if words.dtype != object or n_features_of(vectorizer) != len(words):
        raise ValueError("the words of the vectoriser are not different strings")
    return vectorizer
