"""Values, labels and text vectorisers in a model file: as JSON and plain arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Tensors = Callable[[str], np.ndarray]

VECTORIZERS = ("TfidfVectorizer", "CountVectorizer", "HashingVectorizer")
#: The names that the safetensors format gives to the types we write.
TYPE_NAMES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}


def to_json(value: Any) -> Any:
    """JSON of plain Python values, that :func:`from_json` turns back into the same ones."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return {"array": to_json(value.tolist())}
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, set | frozenset):
        return {"set": [to_json(item) for item in sorted(value)]}
    if isinstance(value, dict):
        return {"dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form")


def from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"float"}:
        return float(value["float"])
    if set(value) == {"array"}:
        return np.array(from_json(value["array"]))
    if set(value) == {"tuple"}:
        return tuple(from_json(item) for item in value["tuple"])
    if set(value) == {"set"}:
        return {from_json(item) for item in value["set"]}
    if set(value) == {"dict"}:
        return {from_json(key): from_json(item) for key, item in value["dict"]}
    return {key: from_json(item) for key, item in value.items()}


def pack_labels(tensors: dict[str, np.ndarray], name: str, labels: np.ndarray) -> str:
    """Put labels into tensors; strings become their UTF-8 bytes and where each one ends."""
    labels = np.asarray(labels)
    if labels.dtype.name in TYPE_NAMES:
        tensors[name] = labels
        return "numbers"
    values = labels.tolist()
    if not all(isinstance(value, str) for value in values):
        odd = next(value for value in values if not isinstance(value, str))
        raise TypeError(
            f"{name} holds {odd!r} of type {type(odd).__name__}; a model file holds numbers or "
            "strings: convert the labels before fitting"
        )
    encoded = [value.encode("utf-8", "surrogatepass") for value in values]
    ends = np.cumsum([len(word) for word in encoded], dtype=np.int64)
    tensors[f"{name}.utf8"] = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    tensors[f"{name}.ends"] = ends
    return "objects" if labels.dtype.kind == "O" else "strings"


def unpack_labels(read: Tensors, name: str, kind: str) -> np.ndarray:
    if kind == "numbers":
        return read(name)
    ends = read(f"{name}.ends").tolist()
    content = read(f"{name}.utf8").tobytes()
    words = [
        content[start:end].decode("utf-8", "surrogatepass") for start, end in zip([0, *ends], ends)
    ]
    return np.array(words, dtype=object if kind == "objects" else np.str_)


# --- text vectorisers ---------------------------------------------------------------------------


def pack_vectorizer(tensors: dict[str, np.ndarray], vectorizer: Any) -> dict[str, Any]:
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
            tensors, "vectorizer.words", np.array(sorted(vocabulary, key=vocabulary.get), object)
        )
    if parameters.get("use_idf"):
        tensors["vectorizer.idf"] = np.asarray(vectorizer.idf_)
    return {"kind": kind, "parameters": parameters}


def unpack_vectorizer(read: Tensors, description: dict[str, Any]) -> Any:
    from sklearn.feature_extraction import text

    kind = description["kind"]
    if kind not in VECTORIZERS:
        raise ValueError(f"unknown vectoriser {kind!r}")
    parameters = from_json(description["parameters"])
    parameters["dtype"] = np.dtype(parameters["dtype"]).type
    vectorizer = getattr(text, kind)(**parameters)
    if kind == "HashingVectorizer":
        return vectorizer
    words = unpack_labels(read, "vectorizer.words", "objects")
    vectorizer.vocabulary_ = {word: i for i, word in enumerate(words)}
    vectorizer.fixed_vocabulary_ = False
    if kind == "TfidfVectorizer":
        vectorizer._tfidf = text.TfidfTransformer(
            **{name: parameters[name] for name in ("norm", "use_idf", "smooth_idf", "sublinear_tf")}
        )
        vectorizer._tfidf.n_features_in_ = len(words)
        if parameters["use_idf"]:
            vectorizer._tfidf.idf_ = read("vectorizer.idf")
    return vectorizer
