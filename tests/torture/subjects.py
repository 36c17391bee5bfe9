"""Model files and folders of rows that are damaged, and how to tell that they were read rightly.

They have check sums: a damaged one is an error, or gives the same as before.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data import DataError, convert, open_shards
from bigcat.data.shards import INDEX, Index, digest_of
from bigcat.files import ModelFileError, load_model
from bigcat.tensor_file import KEY, seal, unseal
from tests.data_files import texts
from tests.torture.damage import Rng, damaged
from tests.torture.models import save_models


class WrongError(AssertionError):
    """Damage that nobody noticed."""


@dataclass(frozen=True)
class Subject:
    """A valid file, and what is done to it.

    `verdict` reads a damaged file and gives "error" (a clear one), "same" or "as it says" (other
    text, read rightly); WrongError for anything else.  `read` only reads it.
    """

    name: str
    suffix: str
    content: bytes
    damage: Callable[[bytes, Rng], bytes]
    verdict: Callable[[Path, bytes], str]
    read: Callable[[Path], object]


def _clear(error: Exception, path: Path) -> str:
    """The verdict "error", for one that names the file."""
    if str(path) not in str(error):
        raise WrongError(f"the error does not name the file: {error}")
    return "error"


# --- models -------------------------------------------------------------------------------------


def _arrays(model: Any, extra: dict[str, Any]) -> dict[str, Any]:
    """All that predictions depend on."""
    if hasattr(model, "posterior_"):
        found = {"mean": model.posterior_.mean, **vars(model.posterior_.covariance_form)}
    else:
        found = {**model.linear_model().weights.arrays(), "intercept": model.intercept_}
    found |= {"classes": model.classes_, "noise": str(model.get_params().get("noise"))}
    vectorizer = extra.get("vectorizer")
    if vectorizer is not None:
        found |= {"words": sorted(vectorizer.vocabulary_.items()), "idf": vectorizer.idf_}
        found["options"] = str(vectorizer.get_params())
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return bool(a == b)


def _model_verdict(expected: dict[str, Any], path: Path, _raw: bytes) -> str:
    try:
        model, extra = load_model(path, with_extra=True)
    except ModelFileError as error:
        return _clear(error, path)
    found = _arrays(model, extra)
    if found.keys() != expected.keys() or not all(_same(found[k], expected[k]) for k in found):
        raise WrongError("another model was loaded")
    return "same"


def change_a_value(content: dict[str, Any], rng: Rng) -> None:
    """Put another value in the place of one, at some depth, or take it away."""
    owner, key = content, None
    while True:
        keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(owner[key], dict | list) or not owner[key] or rng.random() < 0.3:
            break
        owner = owner[key]
    junk: list[Any] = [None, True, -1, 0, 1, 2**40, 1e300, "", "x", [], [[]], {}, {"$items": [[1]]}]
    junk += [{"$set": [[]]}, {"$float": "x"}, {"$tuple": 3}, {"$array": "x"}, [1, 2], "filename"]
    if rng.random() < 0.2:
        del owner[key]
    else:
        owner[key] = junk[int(rng.integers(len(junk)))]


def header_of(content: bytes) -> bytes:
    """The header of a model file."""
    size = int.from_bytes(content[:8], "little")
    return str(json.loads(content[8 : 8 + size])["__metadata__"][KEY]).encode()


def with_header(content: bytes, text: bytes) -> bytes:
    """A model file with another header, whose digest is right where the text is a JSON object."""
    size = int.from_bytes(content[:8], "little")
    index, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    header = text.decode(errors="replace")
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        found = json.loads(header)
        found.pop("sha256", None)
        header = seal(found)
    index["__metadata__"] = {KEY: header}
    head = json.dumps(index).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def _header_damage(content: bytes, rng: Rng) -> bytes:
    """A header in which a value is another one, with a digest that is right."""
    header = unseal(header_of(content).decode())
    change_a_value(header, rng)
    return with_header(content, json.dumps(header).encode())


def _made_up_verdict(path: Path, _raw: bytes) -> str:
    """A header with a right digest may say anything that holds together, and predicts."""
    try:
        model, extra = load_model(path, with_extra=True)
    except ModelFileError as error:
        return _clear(error, path)
    if "vectorizer" in extra and hasattr(extra["vectorizer"], "transform"):
        extra["vectorizer"].transform(["an ant says moo"])
    rows = np.linspace(-1.0, 1.0, 3 * model.n_features_in_).reshape(3, -1)
    if not np.isfinite(model.predict_proba(rows)).all():
        raise WrongError("probabilities are not finite")
    return "as it says"


# --- folders of rows ----------------------------------------------------------------------------


def with_right_digest(raw: bytes) -> bytes:
    """A index as its author would have written it; other text as it is."""
    try:
        content = json.loads(raw)
        content.pop("sha256", None)
        version = content.pop("format_version")
        text = json.dumps({"format_version": version, "sha256": digest_of(content), **content})
    except (ValueError, RecursionError, AttributeError, KeyError):
        return raw
    return text.encode()


def _index_damage(content: bytes, rng: Rng) -> bytes:
    found = json.loads(content)
    change_a_value(found, rng)
    return with_right_digest(json.dumps(found).encode())


def _index_verdict(folder: Path, expected: Index, path: Path, raw: bytes) -> str:
    """The rows of a folder, with another index."""
    (folder / INDEX).write_bytes(raw)
    try:
        rows = open_shards(folder)
        X, y = rows.X, rows.y
        vectorizer = rows.vectorizer
        if vectorizer is not None and vectorizer.transform(["one ant two"]).shape[0] != 1:
            raise WrongError("the vectoriser does not work")
    except DataError as error:
        return _clear(error, folder)
    if rows.index == expected:
        return "same"
    if X.shape[0] != len(y) or not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise WrongError("rows that do not hold together")
    return "as it says"


def _open_with_index(folder: Path, path: Path) -> object:
    (folder / INDEX).write_bytes(path.read_bytes())
    rows = open_shards(folder)
    return rows.X, rows.y, rows.vectorizer


def _folders(folder: Path) -> list[Subject]:
    found = []
    found_texts = texts()
    for form in ("csv", "tsv"):
        source, rows = folder / f"source.{form}", folder / f"rows-of-{form}"
        source.write_text(found_texts[form], encoding="utf-8")
        index = convert(source, rows, n_jobs=1).index
        verdict = partial(_index_verdict, rows, index)
        content = (rows / INDEX).read_bytes()
        opens = partial(_open_with_index, rows)
        for name, damage in (("index", damaged), ("made-up index", _index_damage)):
            found.append(Subject(f"{name}, {form}", ".json", content, damage, verdict, opens))
    return found


def subjects(folder: Path) -> list[Subject]:
    """All of them; `folder` is for files on the way."""
    found = []
    for name, path in save_models(folder).items():
        content, expected = path.read_bytes(), _arrays(*load_model(path, with_extra=True))
        verdict = partial(_model_verdict, expected)
        loads = partial(load_model, with_extra=True)
        found.append(Subject(f"model {name}", ".safetensors", content, damaged, verdict, loads))
        found.append(
            Subject(f"header {name}", ".made", content, _header_damage, _made_up_verdict, loads)
        )

    return found + _folders(folder)
