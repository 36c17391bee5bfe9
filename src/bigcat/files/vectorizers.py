r"""Text vectorisers and columns of tables in a model file.

A vectoriser does what its options say: read files whose names are in the text
(``input="filename"``), match a regular expression for hours, or make millions of n-grams.  So
options from a file must be harmless, unless the caller trusts the file's author.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bigcat.data.tables import (
    CATEGORIES,
    NUMBERS,
    categories_of,
    column_transformer,
    require_pyarrow,
)
from bigcat.data.vectorizers import VECTORIZERS, n_features_of, with_words
from bigcat.files.schema import (
    MAX_WEIGHT,
    check,
    check_floats,
    is_names,
    is_number,
    is_whole,
    shown,
)

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


def describe_vectorizer(vectorizer: Any) -> dict[str, Any] | None:
    """Return kind, options and words of a fitted vectoriser, all of which a file can hold."""
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
    if kind != "HashingVectorizer":
        check_is_fitted(vectorizer, "vocabulary_")
        vocabulary = vectorizer.vocabulary_
        words = np.array(sorted(vocabulary, key=vocabulary.get), object)
    idf = vectorizer.idf_ if options.get("use_idf") else None
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
    if kind == "HashingVectorizer":
        return vectorizer
    idf = None
    if options.get("use_idf"):
        idf = stored["idf"]
        check_floats("vectorizer.idf", idf, (len(words),), least=0.0)
    vectorizer = with_words(vectorizer, words.tolist(), idf)
    if words.dtype != object or n_features_of(vectorizer) != len(words):
        raise ValueError("the words of the vectoriser are not different strings")
    return vectorizer


def describe_columns(columns: Any) -> dict[str, Any] | None:
    """Return names, values and scales of a ColumnTransformer of `bigcat.data.tables`."""
    if columns is None:
        return None
    of = {step: names for step, _, names in columns.transformers}
    numbers, categorical = of.get(NUMBERS, []), of.get(CATEGORIES, [])
    text = [names for names in of.values() if isinstance(names, str)]
    names = getattr(columns, "feature_names_in_", np.array([])).tolist()
    own = _settings(column_transformer(numbers, categorical, text))
    if {*names} != {*numbers, *categorical, *text} or _settings(columns) != own:
        raise TypeError(
            "a model file holds a ColumnTransformer of bigcat.data.read, and extra['columns'] is "
            "another one; save the model without it and keep it in a file of its own"
        )
    scaler = columns.named_transformers_[NUMBERS] if categorical or text else None
    return {
        "names": names,
        "numbers": numbers,
        "categorical": categorical,
        "text": text,
        "categories": [np.asarray(v, object) for v in categories_of(columns).values()],
        "vectorizers": [
            describe_vectorizer(part) for _, part, of in columns.transformers_ if of in text
        ],
        "means": scaler.mean_ if scaler and numbers else None,
        "scales": scaler.scale_ if scaler and numbers else None,
    }


def _settings(columns: Any) -> str:
    """Return all settings of a ColumnTransformer but those of its vectorisers, to compare them."""
    steps = [(step, isinstance(of, str) or part) for step, part, of in columns.transformers]
    return str(columns.get_params(deep=False) | {"transformers": steps})


def make_columns(stored: dict[str, Any], n_features: int, trusted: bool = False) -> Any:
    """Return the ColumnTransformer; ValueError if its parts do not fit together or to the model."""
    require_pyarrow()
    import pandas

    names, numbers, categorical, text = (
        stored[key] for key in ("names", "numbers", "categorical", "text")
    )
    categories, vectorizers = stored["categories"], stored["vectorizers"]
    kinds = [*numbers, *categorical, *text]
    if not (is_names(names) and is_names(kinds) and {*names} == {*kinds}):
        raise ValueError("the names of columns are not different strings, each of one kind")
    if (len(categories), len(vectorizers)) != (len(categorical), len(text)):
        raise ValueError("there are not values or a vectoriser for each column")
    for name, values in zip(categorical, categories):
        words = values.tolist()
        if values.dtype != object or not words or any(a >= b for a, b in pairwise(words)):
            raise ValueError(f"the categories of {name} are empty or not in order")
    made = [make_vectorizer(vectorizer, trusted) for vectorizer in vectorizers]
    total = len(numbers) + sum(map(len, categories)) + sum(map(n_features_of, made))
    if total != n_features:
        raise ValueError(f"the columns make {total} features, and the model has {n_features}")
    columns = column_transformer(numbers, categorical, text)
    steps = columns.transformers
    # Fitting to one row sets what scikit-learn keeps beside the parts, which are put in after it.
    columns.transformers = [
        (step, "drop" if isinstance(of, str) else part, of) for step, part, of in steps
    ]
    row = dict.fromkeys(names, 0.0) | {name: v[0] for name, v in zip(categorical, categories)}
    if categorical:
        columns.set_params(**{f"{CATEGORIES}__categories": categories})
    columns.fit(pandas.DataFrame([row]))
    fitted = columns.named_transformers_
    if categorical:
        columns.set_params(**{f"{CATEGORIES}__categories": "auto"})
        fitted[CATEGORIES].categories = "auto"
    if numbers and (categorical or text):
        for name, least in (("means", -MAX_WEIGHT), ("scales", 1e-300)):
            check_floats(f"columns.{name}", stored[name], (len(numbers),), least)
        scaler = fitted[NUMBERS]
        scaler.mean_, scaler.scale_ = stored["means"], stored["scales"]
        del scaler.var_, scaler.n_samples_seen_  # of the one row
    words = dict(zip(text, made))
    columns.transformers = [(s, clone(words[of]) if of in text else p, of) for s, p, of in steps]
    columns.transformers_ = [
        (step, words[of] if of in text else part, of) for step, part, of in columns.transformers_
    ]
    columns.sparse_output_ = bool(categorical or text)
    return columns
