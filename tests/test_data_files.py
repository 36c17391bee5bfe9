"""Readers: what is written is read back, and every bad file gets its own message."""
# ruff: noqa: E501  (a bad file and its message stand on one line)

import gzip
import io
import re
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from memory import peak_of

from bigcat.data import DataError, convert, opening, read

# ---------------------------------------------------------------- round trips


def write(path, content):
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


XC = "4 5 3\n2,0 0:1 4:-2.5\n1 3:1e-3\n 2:7\n0\n"
SVMLIGHT = "# made by hand\n-1 1:0.5 3:2 # note: 9:9\n\n+1 qid:7 2:1.25\n"
TSV = "red\tone two\nblue\ttwo three\tfour\nred\ttwo one\n"
CSV = 'a,label,b\n1,cat,2.5\n-3e2,"dog, big",4\n'


@pytest.mark.parametrize("gz", ["", ".gz"])
class TestForms:
    def test_xc(self, tmp_path, gz):
        data = read(write(tmp_path / f"train.txt{gz}", XC))
        assert data.y.tolist() == [2, 1, 0]
        assert data.y.dtype == np.int64
        assert data.X.dtype == np.float32
        assert data.X.has_canonical_format
        np.testing.assert_array_equal(
            data.X.toarray(),
            np.array([[1, 0, 0, 0, -2.5], [0, 0, 0, 1e-3, 0], [0] * 5], np.float32),
        )
        assert data.report["form"] == "xc"
        assert data.report["multi_label_rows"] == 1
        assert data.report["rows_without_label"] == 1
        assert (data.report["rows"], data.report["features"], data.report["classes"]) == (3, 5, 3)

    def test_svmlight(self, tmp_path, gz):
        data = read(write(tmp_path / f"train.svm{gz}", SVMLIGHT))
        assert data.y.tolist() == [-1, 1]
        np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0, 2], [0, 1.25, 0]])
        assert data.report["zero_based"] is False

    def test_tsv(self, tmp_path, gz):
        data = read(write(tmp_path / f"train.tsv{gz}", TSV))
        assert data.y.tolist() == ["red", "blue", "red"]
        assert data.vectorizer.get_feature_names_out().tolist() == ["one", "two"]
        assert data.X.dtype == np.float32
        np.testing.assert_allclose(np.sqrt(data.X.multiply(data.X).sum(1)), 1, rtol=1e-6)
        test = read(
            write(tmp_path / f"test.tsv{gz}", "green\ttwo new\n"), vectorizer=data.vectorizer
        )
        np.testing.assert_array_equal(test.X.toarray(), [[0, 1]])
        assert test.vectorizer is data.vectorizer

    def test_npz_dense_images(self, tmp_path, gz):
        X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
        data = read(write(tmp_path / f"a.npz{gz}", npz(X=X, y=np.array(["u", "v"]))))
        assert data.X.dtype == np.float32
        assert data.X.flags.c_contiguous
        np.testing.assert_array_equal(data.X, X.reshape(2, 12))
        assert data.y.tolist() == ["u", "v"]

    def test_npz_csr(self, tmp_path, gz):
        X = sp.random(6, 9, 0.3, "csr", random_state=0)
        parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
        raw = npz(y=np.arange(6, dtype=np.uint8), format=b"csr", **parts)
        data = read(write(tmp_path / f"a.npz{gz}", raw))
        np.testing.assert_allclose(data.X.toarray(), X.toarray().astype(np.float32))
        assert data.y.dtype == np.int64

    def test_npz_csr_in_any_order_and_type(self, tmp_path, gz):
        for kind in ("<i4", "<i8", ">i4", "<u2"):
            parts = {"indices": [2, 0, 1], "indptr": [0, 2, 3], "shape": [2, 3]}
            typed = {name: np.array(values, kind) for name, values in parts.items()}
            raw = npz(data=np.array([1.0, 2, 3], ">f4"), y=np.arange(2), format=b"csr", **typed)
            data = read(write(tmp_path / f"a.npz{gz}", raw))
            assert data.X.has_canonical_format
            np.testing.assert_array_equal(data.X.toarray(), [[2, 0, 1], [0, 3, 0]])

    def test_csv(self, tmp_path, gz):
        data = read(write(tmp_path / f"a.csv{gz}", CSV))
        assert data.y.tolist() == ["cat", "dog, big"]
        assert data.X.dtype == np.float32
        np.testing.assert_array_equal(data.X, [[1, 2.5], [-300, 4]])


def test_ends_of_lines_in_quotes_are_part_of_a_label(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'x,label\r\n1,"a\r\nb"\r\n2,"a\nb"\r\n')
    assert read(path).y.tolist() == ["a\r\nb", "a\nb"]


def test_blank_lines_at_the_end_of_xc_are_no_rows_but_inside_they_are(tmp_path):
    data = read(write(tmp_path / "a.txt", "3 2 2\n0 0:1\n\n1 1:1\n\n\n"))
    assert data.y.tolist() == [0, 1]
    assert data.report["rows_without_label"] == 1


@pytest.mark.parametrize(
    ("zero_based", "columns"), [("auto", [0, 1]), (False, [0, 1]), (True, [1, 2])]
)
def test_zero_based(tmp_path, zero_based, columns):
    data = read(write(tmp_path / "a.svm", "1 1:1\n0 2:1\n"), zero_based=zero_based, n_features=4)
    assert data.X.indices.tolist() == columns
    assert data.X.shape == (2, 4)


def test_label_column(tmp_path):
    path = write(tmp_path / "a.csv", "kind,a\n7,1\n8,2\n")
    for column in ("kind", 0, -2):
        data = read(path, label_column=column)
        assert data.y.tolist() == [7, 8]
        assert data.y.dtype == np.int64
        assert data.X.tolist() == [[1], [2]]


def test_csv_quotes_blanks_and_lines(tmp_path):
    text = '\ufeff"a",label,"b"\r\n 1 , plain ,"2"\r\n\r\n3,"two\nlines, ""x""",4'
    data = read(write(tmp_path / "a.csv", text))
    assert data.y.tolist() == [" plain ", 'two\nlines, "x"']  # exactly as in the file
    np.testing.assert_array_equal(data.X, [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="line 6: expected a number in column 'b', found 'z'"):
        read(write(tmp_path / "b.csv", text + "\n5,c,z\n"))


def test_rows_without_label_are_dropped_in_tsv_and_csv(tmp_path):
    data = read(write(tmp_path / "a.tsv", "a\tx y\n\ty\nb\tx y\n"))
    assert data.y.tolist() == ["a", "b"]
    assert data.X.shape == (2, 2)
    assert data.report["rows_without_label"] == 1
    data = read(write(tmp_path / "a.csv", "a,label\n1,\n2,x\n"))
    assert data.X.tolist() == [[2]]
    assert data.report["rows_without_label"] == 1


def test_default_words(tmp_path):
    """One letter is a word, case does not count, and a word of one row alone is left out."""
    data = read(write(tmp_path / "a.tsv", "1\tA Élan once\n2\ta élan\n"))
    assert data.vectorizer.get_feature_names_out().tolist() == ["a", "élan"]


# ---------------------------------------------------------------- guessing the form


@pytest.mark.parametrize(
    ("content", "form"),
    [(XC, "xc"), ("1 2:3\n", "svmlight"), ("3,1 2:3\n", "svmlight"), (TSV, "tsv"), (CSV, "csv")],
)
def test_form_from_first_line(tmp_path, content, form):
    assert read(write(tmp_path / "rows.txt.gz", content)).report["form"] == form
    assert read(write(tmp_path / "no_suffix", content)).report["form"] == form


@pytest.mark.parametrize(
    ("content", "fits"),
    [("1\t2:3\n", "svmlight or tsv"), ("hello world\n", "no known form")],
)
def test_unclear_form(tmp_path, content, fits):
    path = write(tmp_path / "rows.txt", content)
    with pytest.raises(
        DataError, match=rf"rows.txt: cannot tell its form.*fits {fits}; pass form="
    ):
        read(path)


def test_option_of_another_form(tmp_path):
    path = write(tmp_path / "a.txt", XC)
    with pytest.raises(
        ValueError, match=r"label_column= is an option of csv and parquet, and .* read as xc"
    ):
        read(path, label_column="kind")
    with pytest.raises(ValueError, match="zero_based must be True, False or 'auto', got 'yes'"):
        read(write(tmp_path / "a.svm", SVMLIGHT), zero_based="yes")  # type: ignore[arg-type]


# ---------------------------------------------------------------- bad files

ERRORS = [
    ("a.txt", "", "a.txt: the file is empty"),
    ("a.csv", "\n\n", "a.csv: the file is empty"),
    ("a.xc", "4 5\n", "a.xc, line 1: expected the header 'N D K' (rows, features, labels), found '4 5'"),
    ("a.xc", "2 5 3\n1 0:1\n", "a.xc: the header (line 1) announces 2 rows, found 1; is the file cut off"),
    ("a.xc", "1 5 3\n1 0:1\n2 0:1\n", "announces 1 rows, found 2"),
    ("a.xc", "1 5 3\n1 0:1 5:1\n", "a.xc, line 2: expected index:value with rising indices below 5 and float32 values, found '0:1 5:1' (5 is not below 5)"),
    ("a.xc", "2 5 3\n1 0:1\n1 -1:1\n", "line 3: expected index:value with rising indices below 5 and float32 values, found '-1:1' (Invalid index -1"),
    ("a.xc", "1 5 3\n3 0:1\n", "line 2: expected a label below 3, found '3'"),
    ("a.xc", "1 5 3\ncat 0:1\n", "line 2: expected integer labels, separated by commas, found 'cat'"),
    ("a.xc", "1 5 3\n0 0:nan\n", "line 2: expected index:value with rising indices below 5 and float32 values, found '0:nan'"),
    ("a.xc", "1 5 3\n0 0:1_0\n", "float32 values, found '0:1_0' (unexpected '_')"),
    ("a.xc", "1 5 3\n0 0:1e39\n", "float32 values, found '0:1e39' (a value is beyond float32)"),
    ("a.xc", "1 5 3\n0 0:1 # no\n", "line 2: expected index:value with rising indices below 5 and float32 values, found '0:1 # no' (unexpected '#no')"),
    ("a.xc", "2 5 3\n0 0:1\n0 1:1 3:2 3:4\n", "line 3: expected index:value with rising indices below 5 and float32 values, found '1:1 3:2 3:4' (Feature indices"),
    ("a.xc", b"1 5 3\n0 \xff:1\n", r"line 2: expected index:value with rising indices below 5 and float32 values, found '\\xff:1'"),
    ("a.svm", "# c\n\n1 2:1 2:1\n", "a.svm, line 3: expected index:value with rising indices below 2147483647"),
    ("a.svm", "1 5:5 1:1\n", "a.svm, line 1: expected index:value with rising indices below 2147483647"),
    ("a.svm", "one 1:1\n", "a.svm, line 1: expected integer labels, separated by commas, found 'one'"),
    ("a.svm", f"{10**19} 1:1\n", "a.svm, line 1: expected labels that fit int64, found 10000000000000000000"),
    ("a.svm", b"1 qid:3\xa01:0.5 2:1\n", r"a.svm, line 1: expected qid:number, found 'qid:3\\xa01:0.5'"),
    ("a.tsv", "a\tb\nno tab here\n", "a.tsv, line 2: expected label<TAB>text, found no tab in 'no tab here'"),
    ("a.tsv", b"a\tb\nc\t\xe9t\xe9\n", "a.tsv, line 2: expected UTF-8 text, found byte 0xe9"),
    ("a.tsv", "a\tonce\nb\ttwice\n", "a.tsv: the vectoriser found nothing to work with in 2 rows"),
    ("a.csv", "x,label\n1,a\n1,2,a\n", "a.csv, line 3: Expected 2 columns, got 3"),
    ("a.csv", "x,y,label\n1,2,a\n1,two,b\n", "a.csv, line 3: expected a number in column 'y', found 'two'"),
    ("a.csv", "x,label\n,a\n", "a.csv, line 2: expected a number in column 'x', found ''"),
    ("a.csv", "x,label\n1,a\n\nnan,b\n", "a.csv, line 4: expected a finite number that fits a float32 in column 'x', found nan"),
    ("a.csv", "x,y\n1,2\n", "a.csv, line 1: expected one column 'label' (label_column= names another), found the header 'x', 'y'"),
    ("a.csv", "label,label\n1,2\n", "a.csv: expected each name of a column once, found 'label' more than once"),
    ("a.csv", "label\na\n", "a.csv: expected columns beside the labels, found none"),
    ("a.csv", 'x,label\n1,"a\n', "a.csv, line 2: expected quotes in pairs from here on, found an odd number of them"),
    ("a.csv", "x,label\n", "a.csv: expected labelled rows, found none"),
    ("a.npz", npz(y=np.arange(2)), "a.npz: expected arrays X and y, or those of scipy.sparse.save_npz and y, found y"),
    ("a.npz", npz(data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 1], y=[1]), "a.npz: expected format beside indptr, as save_npz writes it, found none"),
    ("a.npz", npz(X=np.eye(2), y=np.arange(3)), "a.npz: expected a label for each of 2 rows, found 3"),
    ("a.npz", npz(X=np.array([[1.0], [np.nan]]), y=np.arange(2)), "NaN, infinity or a value beyond float32 in row 1"),
    ("a.npz", npz(X=np.eye(2), y=np.array([{}, {}])), "a.npz: expected a .npz archive of plain arrays"),
    ("a.npz", npz(X=np.eye(90), y=np.arange(90))[:-900], "a.npz: expected a .npz archive of plain arrays"),
    ("a.npz", npz(format=b"csr", data=[1.0], indices=[4], indptr=[0, 1], shape=[1, 3], y=[1]), "expected a CSR matrix"),
    ("a.npz", npz(X=np.ones((1, 1)), y=np.array([0x110000], np.uint32).view("U1")), "a.npz: expected y of Unicode strings, found character 0x110000"),
    ("a.npz", npz(format=b"csr", data=[1.0], indices=[1], indptr=[0, 1, 0], shape=[2, 3], y=[1, 2]), "a.npz: expected a CSR matrix: indptr falls"),
    ("a.npz", npz(format=b"csr", data=[1.0, 2], indices=[1, 1], indptr=[0, 2], shape=[1, 3], y=[1]), "expected each feature at most once per row, found 1 twice"),
    ("a.npz", npz(data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 1], y=[1], format=b"csc"), "expected a CSR matrix: it is in the format 'csc'"),
    ("a.npz", npz(X=np.eye(2), y=np.array([1, 2**63], np.uint64)), "a.npz: expected labels of uint64 below 9223372036854775808 in size, found 9223372036854775808; store them as int64 or as strings"),
    ("a.npz", npz(X=np.eye(2), y=np.array([b"\xff", b"a"])), "a.npz: expected y of strings in UTF-8, found b'\\xff'"),
    ("a.npz", npz(X=np.eye(2) * 1j, y=np.arange(2)), "expected X of numbers with a row for each example, found shape (2, 2) of complex128"),
    ("a.npz", npz(format=b"csr", data=[1.0], indices=[0], indptr=np.array([0, 2**63], np.uint64), shape=[1, 1], y=[1]), "expected indptr with one axis of integers, found shape (2,) of uint64"),
    ("a.tsv", "a\0\tone\na\ttwo\n", "a.tsv: expected labels without NUL characters, found 'a\\x00'"),
    ("a.csv", "x,label\n1,a\n2,a\0\n", "a.csv: expected labels without NUL characters, found 'a\\x00'"),
    ("a.csv", "label,x\ncat,1\n\rdog,2\n", "a.csv, line 3: expected lines that end in a newline, alone or after a carriage return, found a carriage return alone"),
    ("a.csv", "x,label,z\n1,a,\n", "a.csv, line 2: expected a number in column 'z', found ''"),
    ("a.xc", f"1 {2**63} 3\n0 0:1\n", "a.xc, line 1: expected at most 2147483647 features, found 9223372036854775808"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), ERRORS)
def test_error(tmp_path, name, content, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read(write(tmp_path / name, content))


@pytest.mark.parametrize("name", ["a.txt.gz", "a.tsv.gz", "a.npz.gz", "renamed.txt"])
@pytest.mark.parametrize("cut", [5, 40, -1])
def test_truncated_gzip(tmp_path, name, cut):
    path = tmp_path / name
    path.write_bytes(gzip.compress(XC.encode() * 50)[:cut])
    with pytest.raises(DataError, match=f"{name}: the gzip stream is cut off before its end"):
        read(path)


def lying_array():
    """A header that claims 16 GB, and 8 bytes."""
    buffer = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (2, 10**9)}
    np.lib.format.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + b"\0" * 8


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def test_an_array_that_lies_about_its_size(tmp_path):
    path = write(tmp_path / "a.npz", archive(X=lying_array()))
    with pytest.raises(
        DataError, match=r"of plain arrays \(X.npy is not as long as its header says"
    ):
        read(path)


def test_what_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    """A limit with a way to raise it; 2 MB of gzip can be 2 GB."""
    monkeypatch.setattr(opening, "MIN_LIMIT_BYTES", 100_000)
    text = "a\tone two\n" * 30_000
    path = write(tmp_path / "a.tsv.gz", text)
    assert path.stat().st_size < 3000
    message = "a.tsv.gz: unpacks to more than [0-9,]* bytes; raise the limit with"
    with pytest.raises(DataError, match=message):
        read(path)
    assert len(read(path, max_bytes=len(text))) == 30_000
    with pytest.raises(DataError, match=f"unpacks to more than {len(text) - 1:,} bytes"):
        read(path, max_bytes=len(text) - 1)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=np.zeros((1000, 100)), y=np.zeros(1000, np.int64))
    path = write(tmp_path / "a.npz", buffer.getvalue())
    with pytest.raises(DataError, match=r"a\.npz: unpacks to more than"):
        read(path)
    assert len(read(path, max_bytes=1_000_000)) == 1000


def test_one_long_label_does_not_widen_all_others(tmp_path):
    """As an array of fixed width these are 32 GB."""
    lines = [f"{i % 9}x\tone" for i in range(20_000)]
    path = write(tmp_path / "a.tsv", "\n".join([*lines, "y" * 400_000 + "\tone"]))
    found = []
    assert peak_of(lambda: found.append(read(path))) < 30e6
    (data,) = found
    assert data.y.dtype == object
    assert data.y[0] == "0x"
    assert len(data.y[-1]) == 400_000
    assert data.report["classes"] == 10
    assert data.y[:-1].tolist() == [line.partition("\t")[0] for line in lines]


def test_a_wide_table_of_blank_lines_takes_little_memory(tmp_path):
    """Rows times columns would be 40 GB."""
    names = ",".join(f"c{i}" for i in range(100_000))
    path = write(tmp_path / "a.csv", f"{names},label\n" + "\n" * 100_000)

    def load():
        with pytest.raises(DataError, match="expected labelled rows, found none"):
            read(path)

    assert peak_of(load) < 60e6


def test_number_of_columns(tmp_path):
    path = write(tmp_path / "a.svm", "1 1:1\n0 2:1 7:1\n")
    with pytest.raises(
        DataError,
        match="expected indices for n_features=6 columns, counted from 1, found 7",
    ):
        read(path, n_features=6)
    with pytest.raises(
        DataError, match=r"b.svm: expected indices from 1 \(zero_based=False\), found 0"
    ):
        read(write(tmp_path / "b.svm", "1 0:1\n"), zero_based=False)
    for name, content in (("a.txt", XC), ("a.csv", CSV), ("a.tsv", TSV)):
        with pytest.raises(DataError, match=f"{name}: expected n_features=9 columns, found"):
            read(write(tmp_path / name, content), n_features=9)


# ---------------------------------------------------------------- the rest


LABELS = [" a", "a", "a ", "\u2028", " "]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "quoted.csv", "a.parquet"])
@pytest.mark.parametrize("reading", [read, lambda path: convert(path, path.with_suffix(""))])
def test_labels_keep_blanks_and_separators_of_lines(tmp_path, name, reading):
    path = tmp_path / name
    if name == "a.parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        table = {"label": LABELS, "x": np.arange(5.0)}
        parquet.write_table(pytest.importorskip("pyarrow").table(table), path)
    elif name == "a.tsv":
        write(path, "".join(f"{label}\tone two\n" for label in LABELS))
    else:
        quote = '"' * name.startswith("quoted")
        write(path, "label,x\n" + "".join(f"{quote}{label}{quote},1\n" for label in LABELS))
    assert sorted(reading(path).y) == sorted(LABELS)
