"""What is damaged: valid files of every form, and how to tell that a damaged one was read rightly.

Model files, gzip streams and archives have check sums: a damaged one is an error, or gives the same
as before.  Plain text has none; so what a reader makes of it has to be what `readings` make of it.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import HashingVectorizer

from bigcat.data import DataError, convert, open_shards, read
from bigcat.data.manifest import MANIFEST, Manifest, digest_of
from bigcat.files import ModelFileError, load_model
from bigcat.tensor_file import KEY, seal, unseal
from tests.torture import readings
from tests.torture.damage import Rng, damaged
from tests.torture.models import save_models

WORDS = HashingVectorizer(n_features=64, token_pattern=r"\w+", dtype=np.float32)


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


# --- data ---------------------------------------------------------------------------------------


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=1e-37)


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)


def _data_verdict(
    form: str,
    options: dict[str, Any],
    reading: Callable[[bytes], readings.Reading] | None,
    expected: tuple[np.ndarray, list[str]],
    path: Path,
    raw: bytes,
) -> str:
    try:
        data = read(path, form, **options)
    except DataError as error:
        return _clear(error, path)
    if math.prod(data.X.shape) > 10_000_000:  # a header of xc may claim as many columns
        return "as it says"
    found = _dense(data.X), [str(label) for label in data.y]
    if found[1] == expected[1] and _close(found[0], expected[0]):
        return "same"
    if reading is None:
        raise WrongError("other data were read")
    try:
        rows, labels = reading(raw)
    except ValueError as error:
        raise WrongError(f"it is not valid: {error}") from error
    if labels != found[1] or not _close(rows.reshape(len(labels), -1), found[0]):
        raise WrongError(f"read as {found}, and plainly as {(rows, labels)}")
    return "as it says"


def texts(n: int = 40) -> dict[str, str]:
    """The same `n` rows in every form of text."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(n, 6)).round(4)
    labels = rng.integers(0, 9, n)
    words = ["ant", "bee", "cat", "dög", "elk", "fox", "gnu", "hen", "ibis"]
    sparse = [" ".join(f"{j + 1}:{v}" for j, v in enumerate(row) if abs(v) > 0.5) for row in values]
    table = [f'{row[0]},"{words[k]}, big",{row[1]}' for k, row in zip(labels, values)]
    return {
        "xc": f"{n} 8 9\n" + "".join(f"{k},{(k + 1) % 9} {s}\n" for k, s in zip(labels, sparse)),
        "svmlight": "# rows\n" + "".join(f"{k} qid:1 {s} # c\n" for k, s in zip(labels, sparse)),
        "tsv": "".join(f"{words[k]}\tone {words[k - 1]} two {k}\n" for k in labels),
        "csv": "a,label,b\n" + "".join(f"{line}\n" for line in table),
    }


def encoded_table(n: int = 40) -> str:
    """A table with a column of categories and one of text beside its numbers."""
    rng = np.random.default_rng(3)
    homes, words = ["sea", "tree", "hill"], ["ant", "bee", "cat"]
    lines = [
        f'{rng.normal():.4f},"{homes[j]}",{words[k]},one {words[k - 1]} two {j},{j}'
        for j, k in rng.integers(0, 3, (n, 2))
    ]
    return "a,home,label,note,b\n" + "".join(f"{line}\n" for line in lines)


def _archives() -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    X = sp.random(30, 7, 0.4, "csr", random_state=0, dtype=np.float32)
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    y, words = rng.integers(0, 5, 30), np.array(["ant", "bee", "cat", "dog", "elk"])
    found = {}
    for name, arrays in (
        ("npz", {"X": X.toarray(), "y": words[y]}),
        ("npz of CSR", {**parts, "y": y}),
    ):
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **arrays)
        found[name] = buffer.getvalue()
    return found


def members(archive: bytes) -> dict[str, bytes]:
    """What is in an archive, by name."""
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


def with_member(archive: bytes, name: str, content: bytes) -> bytes:
    """An archive with other content under a name, and with check sums that are right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for other, kept in members(archive).items():
            file.writestr(other, content if other == name else kept)
    return buffer.getvalue()


def _archive_damage(archive: bytes, rng: Rng) -> bytes:
    """Damage to one array of an archive."""
    found = members(archive)
    name = sorted(found)[int(rng.integers(len(found)))]
    return with_member(archive, name, damaged(found[name], rng))


def parquet_table(n: int = 40, checked: bool = True) -> bytes:
    """A table, with check sums of its pages or without."""
    import pyarrow
    import pyarrow.parquet

    rng = np.random.default_rng(2)
    words = np.array(["ant", "bee", "cat"])[rng.integers(0, 3, n)]
    columns = {"a": rng.normal(size=n), "label": words, "b": rng.integers(0, 9, n)}
    buffer = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(
        table, buffer, row_group_size=16, compression="none", write_page_checksum=checked
    )
    return buffer.getvalue()


# --- folders of rows ----------------------------------------------------------------------------


def with_right_digest(raw: bytes) -> bytes:
    """A manifest as its author would have written it; other text as it is."""
    try:
        content = json.loads(raw)
        content.pop("sha256", None)
        version = content.pop("format_version")
        text = json.dumps({"format_version": version, "sha256": digest_of(content), **content})
    except (ValueError, RecursionError, AttributeError, KeyError):
        return raw
    return text.encode()


def _manifest_damage(content: bytes, rng: Rng) -> bytes:
    found = json.loads(content)
    change_a_value(found, rng)
    return with_right_digest(json.dumps(found).encode())


def _manifest_verdict(folder: Path, expected: Manifest, path: Path, raw: bytes) -> str:
    """The rows of a folder, with another manifest."""
    (folder / MANIFEST).write_bytes(raw)
    try:
        rows = open_shards(folder)
        X, y = rows.X, rows.y
        vectorizer = rows.vectorizer
        if vectorizer is not None and vectorizer.transform(["one ant two"]).shape[0] != 1:
            raise WrongError("the vectoriser does not work")
    except DataError as error:
        return _clear(error, folder)
    if rows.manifest == expected:
        return "same"
    if X.shape[0] != len(y) or not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise WrongError("rows that do not hold together")
    return "as it says"


def _open_with_manifest(folder: Path, path: Path) -> object:
    (folder / MANIFEST).write_bytes(path.read_bytes())
    rows = open_shards(folder)
    return rows.X, rows.y, rows.vectorizer


def _folders(folder: Path) -> list[Subject]:
    found = []
    found_texts = texts()
    for form in ("csv", "tsv"):
        source, rows = folder / f"source.{form}", folder / f"rows-of-{form}"
        source.write_text(found_texts[form], encoding="utf-8")
        manifest = convert(source, rows, n_jobs=1).manifest
        verdict = partial(_manifest_verdict, rows, manifest)
        content = (rows / MANIFEST).read_bytes()
        opens = partial(_open_with_manifest, rows)
        for name, damage in (("manifest", damaged), ("made-up manifest", _manifest_damage)):
            found.append(Subject(f"{name}, {form}", ".json", content, damage, verdict, opens))
    return found


READINGS: dict[str, Callable[[bytes], readings.Reading]] = {
    "xc": readings.xc,
    "svmlight": readings.svmlight,
    "tsv": partial(readings.tsv, vectorizer=WORDS),
    "csv": readings.table,
    "parquet": readings.parquet,
    "made-up npz": readings.npz,
}


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

    def data(
        name: str, form: str, content: bytes, zipped: bool = False, made_up: bool = False
    ) -> Subject:
        suffix = f".{form}.gz" if zipped else f".{form}"
        path = folder / f"valid{suffix}"
        path.write_bytes(content)
        options: dict[str, Any] = {"vectorizer": WORDS} if form == "tsv" else {}
        valid = read(path, form, **options)
        expected = _dense(valid.X), [str(label) for label in valid.y]
        reading = None if zipped else READINGS.get(f"made-up {form}" if made_up else form)
        verdict = partial(_data_verdict, form, options, reading, expected)
        damage = _archive_damage if made_up else damaged
        return Subject(name, suffix, content, damage, verdict, partial(read, form=form, **options))

    for form, text in texts().items():
        found.append(data(form, form, text.encode()))
        found.append(
            data(f"{form}, gzipped", form, gzip.compress(text.encode(), mtime=0), zipped=True)
        )
    for name, content in _archives().items():
        found.append(data(name, "npz", content))
        found.append(data(f"made-up {name}", "npz", content, made_up=True))
    found.append(data("parquet", "parquet", parquet_table()))
    found.append(data("parquet without check sums", "parquet", parquet_table(checked=False)))
    return found + _folders(folder)


def encoded(folder: Path) -> Subject:
    """A table with columns that are encoded, for the fuzzer."""
    content, path = encoded_table().encode(), folder / "encoded.csv"
    path.write_bytes(content)
    options: dict[str, Any] = {"categorical": ["home"], "text_columns": ["note"]}
    options["vectorizer"] = WORDS
    reads: Callable[[Path], Any] = partial(read, form="csv", **options)
    valid = reads(path)
    expected = _dense(valid.X), [str(label) for label in valid.y]
    reading = partial(readings.encoded, category="home", text="note", vectorizer=WORDS)
    verdict = partial(_data_verdict, "csv", options, reading, expected)
    return Subject("csv, encoded", ".csv", content, damaged, verdict, reads)
