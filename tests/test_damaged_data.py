"""Damaged data files: a `DataError` that names the file, or what a plain reading gives."""

import csv
import gzip
import io
import os
import re
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from bigcat.data import DataError, convert, read
from tests.data_files import archives, parquet_table, texts

#: Examples of each test; `make torture` tries a thousand.
TRIES = int(os.environ.get("BIGCAT_TRIES", "100"))
tries = settings(
    max_examples=TRIES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
WORDS = HashingVectorizer(n_features=64, token_pattern=r"\w+", dtype=np.float32)
LIES = [b"0", b"-1", b"9223372036854775808", b"1" + b"0" * 40, b"0.5", b"1e999", b"nan", b"1_0"]
MARKS = [bytes([mark]) for mark in b'\n\r\t ,:"{}[]#\0\xff']

edits = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 40) | st.just(1),
        st.sampled_from([b"", *LIES, *MARKS]) | st.binary(max_size=8),
    ),
    min_size=1,
    max_size=2,
)


def damaged(content, edits):
    for place, length, inserted in edits:
        at = int(place * len(content))
        content = content[:at] + inserted + content[at + length :]
    return content


# Plain readings: strict and slow, and independent of the readers


def number(text):
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text.strip(" \t"), re.ASCII):
        raise ValueError(text)
    return float(text)


def sparse(raw, first, comments):
    rows, labels = [], []
    for line in raw.replace(b"\r\n", b"\n").split(b"\n"):
        words = (line.partition(b"#")[0] if comments else line).decode("latin-1").split()
        if not words or line[:1].isspace():
            continue
        labels.append(str(int(words[0].split(",")[0])))
        pairs = (word.split(":") for word in words[1:] if not word.startswith("qid:"))
        rows.append({int(index) - first: number(value) for index, value in pairs})
    return rows, labels


def xc(raw):
    return sparse(raw.partition(b"\n")[2], 0, False)


def svmlight(raw):
    rows, labels = sparse(raw, 0, True)
    first = 0 if any(0 in row for row in rows) else 1
    return [{j - first: value for j, value in row.items()} for row in rows], labels


def tsv(raw):
    lines = raw.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    pairs = [line.split("\t", 1) for line in lines if line.partition("\t")[0]]
    X = WORDS.transform([text for _, text in pairs])
    return [dict(zip(row.indices, row.data)) for row in X], [label for label, _ in pairs]


def table(raw):
    text = raw.decode("utf-8-sig")
    header, *rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    at = header.index("label")
    rows = [row for row in rows if row[at]]
    numbers = [[number(word) for j, word in enumerate(row) if j != at] for row in rows]
    return [dict(enumerate(row)) for row in numbers], [row[at] for row in rows]


READINGS = {"xc": xc, "svmlight": svmlight, "tsv": tsv, "csv": table}
PACKED = {
    **archives(),
    "parquet": parquet_table(),
    **{f"{form}.gz": gzip.compress(text.encode(), mtime=0) for form, text in texts().items()},
}


def as_dicts(X):
    rows = X if sp.issparse(X) else sp.csr_matrix(X)
    return [dict(zip(row.indices.tolist(), row.data.tolist())) for row in rows]


def same_numbers(ours, theirs):
    return len(ours) == len(theirs) and all(
        abs(a.get(j, 0.0) - b.get(j, 0.0)) <= 1e-37 + 1e-6 * abs(b.get(j, 0.0))
        for a, b in zip(ours, theirs)
        for j in {*a, *b}
    )


def looked_at(path, form, content):
    """The data, or None for an error, which has to name the file."""
    path.write_bytes(content)
    try:
        return read(path, form, **({"vectorizer": WORDS} if form == "tsv" else {}))
    except DataError as error:
        assert str(path) in str(error)  # noqa: PT017
        return None


def look_at_text(path, form, edits):
    content = damaged(texts()[form].encode(), edits)
    data = looked_at(path, form, content)
    if data is not None:
        rows, labels = READINGS[form](content)
        assert labels == [str(label) for label in data.y]
        assert same_numbers(as_dicts(data.X), rows)


def look_at_packed(path, name, edits):
    whole = looked_at(path, name.split()[0].removesuffix(".gz"), PACKED[name])
    data = looked_at(path, name.split()[0].removesuffix(".gz"), damaged(PACKED[name], edits))
    if data is not None:
        assert data.y.tolist() == whole.y.tolist()
        assert same_numbers(as_dicts(data.X), as_dicts(whole.X))


@pytest.mark.parametrize("form", READINGS)
@tries
@given(edits=edits)
def test_damaged_text(tmp_path, form, edits):
    look_at_text(tmp_path / "damaged", form, edits)


@pytest.mark.parametrize("name", PACKED)
@tries
@given(edits=edits)
def test_damaged_files_with_check_sums(tmp_path, name, edits):
    look_at_packed(tmp_path / f"damaged{'.gz' * name.endswith('.gz')}", name, edits)


@pytest.mark.parametrize("name", ["npz", "npz of CSR"])
@tries
@given(edits=edits, which=st.integers(0, 9))
def test_damaged_arrays_whose_check_sums_are_right(tmp_path, name, edits, which):
    """They may say anything that holds together."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(PACKED[name])) as found, zipfile.ZipFile(buffer, "w") as made:
        names = found.namelist()
        for member in names:
            content = found.read(member)
            hit = member == names[which % len(names)]
            made.writestr(member, damaged(content, edits) if hit else content)
    data = looked_at(tmp_path / "damaged.npz", "npz", buffer.getvalue())
    if data is not None:
        assert data.X.shape[0] == len(data.y)
        if sp.issparse(data.X):
            data.X.check_format()
        assert np.isfinite(data.X.data if sp.issparse(data.X) else data.X).all()


@pytest.mark.parametrize("form", READINGS)
@settings(tries, max_examples=20)
@given(edits=edits)
def test_conversions_of_damaged_text_agree_with_the_reader(tmp_path, form, edits):
    content = damaged(texts()[form].encode(), edits)
    path, folder = tmp_path / "damaged", tmp_path / "rows"
    data = looked_at(path, form, content)
    options = {"vectorizer": WORDS} if form == "tsv" else {}
    if data is None:
        with pytest.raises(DataError):
            convert(path, folder, form, **options)
    else:
        rows = convert(path, folder, form, **options)
        assert sorted(map(str, rows.y)) == sorted(map(str, data.y))
        assert rows.shape == data.X.shape
