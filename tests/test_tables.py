"""Tables by the names of their columns, from the file to the model file and back."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

import bigcat
from bigcat.cli import main
from bigcat.data import DataError, convert, read
from bigcat.files import ModelFileError
from bigcat.files.vectorizers import make_columns

KINDS = ["cat", "dog", "emu"]
CALLS = ["purr, softly", 'bark "loud"', "run\nfar"]
CITIES = ["rome", "oslo", "bonn"]
NAMES = ["height", "call", "city", "weight", "kind"]


def rows(n=90, seed=0):
    rng = np.random.default_rng(seed)
    k = np.arange(n) % 3
    return {
        "height": [f"{v:.4f}" for v in rng.normal(k, 0.7)],
        "weight": [f"{v:.4f}" for v in rng.normal(500 - 200 * k, 150)],
        "call": [f"{CALLS[i]} {rng.choice(['here', 'there'])}" for i in k],
        "city": [CITIES[(i + (rng.random() < 0.3)) % 3] for i in k],
        "kind": [KINDS[i] for i in k],
    }


def write(path, columns, names):
    quoted = [['"' + word.replace('"', '""') + '"' for word in columns[name]] for name in names]
    path.write_text("\n".join([",".join(names), *map(",".join, zip(*quoted))]) + "\n")
    return str(path)


def plain(path, columns, names):
    lines = [",".join(names), *map(",".join, zip(*(columns[name] for name in names)))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def fitted(tmp_path, capsys):
    """A model of numbers alone, and the rows that it is asked about."""
    train = plain(tmp_path / "train.csv", rows(), ["height", "weight", "kind"])
    model = str(tmp_path / "model.safetensors")
    assert main(["fit", train, "--model", model, "--label-column", "kind"]) == 0
    capsys.readouterr()
    return model


def predictions(capsys, *words):
    assert main(["predict", *words, "--top-k", "3"]) == 0
    return capsys.readouterr()


def test_the_order_of_columns_does_not_matter(fitted, tmp_path, capsys):
    new = rows(30, 1)
    same = plain(tmp_path / "same.csv", new, ["height", "weight", "kind"])
    other = plain(tmp_path / "other.csv", new, ["kind", "weight", "height"])
    bare = plain(tmp_path / "bare.csv", new, ["weight", "height"])
    predictions(capsys, fitted, same)  # may say that it compiles
    expected = predictions(capsys, fitted, same)
    assert predictions(capsys, fitted, other) == expected
    assert predictions(capsys, fitted, bare) == expected
    assert predictions(capsys, fitted, bare, "--no-labels") == expected
    assert predictions(capsys, fitted, other, "--no-labels") == expected
    found = []
    for path in (same, other):
        assert main(["evaluate", fitted, path, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["accuracy"] == found[1]["accuracy"] > 0.6
    assert found[0]["log_likelihood"] == found[1]["log_likelihood"]
    for path in (same, other):
        assert main(["explain", fitted, path, "--row", "3"]) == 0
        found.append(capsys.readouterr().out)
    assert found[2] == found[3]
    assert "weight" in found[2]


def test_missing_and_other_columns(fitted, tmp_path, capsys):
    new = rows(30, 1)
    expected = predictions(capsys, fitted, plain(tmp_path / "a.csv", new, ["weight", "height"]))
    more = predictions(capsys, fitted, write(tmp_path / "b.csv", new, NAMES))
    assert more.out == expected.out
    assert "b.csv has columns that the model does not use: call, city" in more.err

    assert main(["evaluate", fitted, plain(tmp_path / "c.csv", new, ["height", "kind"])]) == 2
    error = capsys.readouterr().err
    assert "expected the columns of the training data, found no 'weight' in the header" in error
    assert "add what is missing, or fit a model without" in error
    assert main(["evaluate", fitted, plain(tmp_path / "d.csv", new, ["height", "weight"])]) == 2
    assert "expected one column 'kind' (--label-column names another)" in capsys.readouterr().err
    twice = tmp_path / "twice.csv"
    twice.write_text("a,a,label\n1,2,x\n")
    (tmp_path / "nul.csv").write_text("a\0,label\n1,x\n")
    with pytest.raises(DataError, match="columns without NUL characters, found"):
        read(tmp_path / "nul.csv")
    with pytest.raises(DataError, match="each name of a column once, found 'a' more than once"):
        read(twice)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_column_of_groups(form, tmp_path, capsys, monkeypatch):
    """It reaches `fit`, is no feature, and need not be there when the model is used."""
    table: dict[str, Any] = rows(60)
    table["who"] = [f"person {i // 4}" for i in range(60)]
    names = ["height", "who", "weight", "kind"]
    path = tmp_path / f"train.{form}"
    if form == "csv":
        plain(path, table, names)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        numbers = {name: np.array(table[name], float) for name in ("height", "weight")}
        columns = {name: numbers.get(name, table[name]) for name in names}
        parquet.write_table(pytest.importorskip("pyarrow").table(columns), path)
    found: Any = read(path, label_column="kind", group_column="who")
    assert [*found.columns.feature_names_in_] == ["height", "weight"]
    assert found.groups.tolist() == table["who"]

    given = []
    usual = bigcat.LinearClassifier.fit

    def fit(self, X, y, **more):
        given.append(more["groups"])
        return usual(self, X, y, **more)

    monkeypatch.setattr(bigcat.LinearClassifier, "fit", fit)
    model = str(tmp_path / "model.safetensors")
    words = ["fit", str(path), "--model", model, "--label-column", "kind", "--group-column"]
    assert main([*words, "who"]) == 0
    assert given[0].tolist() == table["who"]
    capsys.readouterr()
    bare = plain(tmp_path / "bare.csv", table, ["weight", "height"])
    same = plain(tmp_path / "same.csv", table, ["who", "weight", "height"])
    assert predictions(capsys, model, bare).out == predictions(capsys, model, same).out

    assert main([*words, "whom"]) == 2
    assert "the column that --group-column names, found no 'whom'" in capsys.readouterr().err
    arrays = tmp_path / "rows.npz"
    np.savez(arrays, X=np.eye(2), y=["cat", "dog"])
    assert main(["fit", str(arrays), "--model", model, "--group-column", "who"]) == 2
    assert "--group-column is an option of csv and parquet" in capsys.readouterr().err


def test_words_are_encoded_on_request(tmp_path, capsys):
    train = write(tmp_path / "train.csv", rows(), NAMES)
    model = str(tmp_path / "model.safetensors")
    fit = ["fit", train, "--model", model, "--label-column", "kind"]
    assert main(fit) == 2
    error = capsys.readouterr().err
    assert "line 2: expected a number in column 'call', found 'purr, softly" in error
    assert "--categorical or --text-column encode 'call'" in error

    assert main([*fit, "--categorical", "city", "--text-column", "call"]) == 0
    capsys.readouterr()
    new = rows(30, 1)
    new["city"][7] = "riga"
    expected = predictions(capsys, model, write(tmp_path / "a.csv", new, NAMES))
    assert "a.csv has in 1 rows a city that no training row had" in expected.err
    other = write(tmp_path / "b.csv", new, ["call", "weight", "kind", "height", "city"])
    assert predictions(capsys, model, other).out == expected.out
    right = [line.split("\t")[0] for line in expected.out.splitlines()]
    assert np.mean(np.array(right) == new["kind"]) > 0.9

    names = bigcat.load_model(model, with_extra=True)[1]["columns"].get_feature_names_out()
    assert [*names[:3]] == ["numbers__height", "numbers__weight", "categories__city_bonn"]
    assert "text call__softly" in names
    assert main(["info", model]) == 0
    assert "height, weight, city, call; labels in kind" in capsys.readouterr().out

    arrays = tmp_path / "a.npz"
    np.savez(arrays, X=np.zeros((2, len(names))), y=["cat", "dog"])
    assert main(["evaluate", model, str(arrays)]) == 2
    error = capsys.readouterr().err
    assert "the model encodes columns of words (city, call), but" in error
    assert "is npz; give a table with these columns" in error


def test_numbers_beside_words_are_scaled_by_the_training_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("size,home,label\n1,tree,cat\n3,tree,cat\n2,sea,cod\n9,sea,\n")
    with pytest.raises(DataError, match="line 3: expected a number in column 'size'"):
        read(
            write(
                tmp_path / "b.csv",
                {"size": ["1", "1_0"], "home": "ab", "label": "xy"},
                ["size", "home", "label"],
            ),
            categorical="home",
        )
    train = read(path, categorical="home")
    assert train.report["rows_without_label"] == 1
    assert train.X.toarray()[:, 0] == pytest.approx([-1.2247449, 1.2247449, 0])
    path.write_text("home,size\nsea,5\n")
    test = read(path, columns=train.columns, labelled=False)
    assert test.X.toarray()[0] == pytest.approx([3 / np.sqrt(2 / 3), 1, 0])
    assert test.y.tolist() == [0]
    with pytest.raises(ValueError, match="categorical= and text_columns= both name 'home'"):
        read(path, categorical=["home"], text_columns=["home"])
    with pytest.raises(DataError, match="found no 'house' in the header 'home', 'size'"):
        read(path, categorical=["house"], labelled=False)
    with pytest.raises(ValueError, match="text_columns= names no column of the table"):
        read(path, vectorizer=object())


def test_fields_are_taken_exactly_as_they_are(tmp_path):
    """Blanks and quotes that do not begin a field are part of it."""
    path = tmp_path / "rows.csv"
    path.write_text('a,label,b\n1, x ,2\n3, "x",4\n')
    for encoded in ([], ["b"]):
        assert read(path, categorical=encoded).y.tolist() == [" x ", ' "x"']


@pytest.mark.parametrize("blank", ["\x1c", "\u2003", "\xa0"])
def test_around_numbers_there_may_be_spaces_and_tabs_alone(tmp_path, blank):
    """Python's `strip` and `float` take these as well, NumPy and the scanner do not."""
    path = tmp_path / "rows.csv"
    path.write_text(f"a,label,b\n1,x,2\n{blank}1,x,4\n")
    for encoded in ([], ["b"]):
        with pytest.raises(DataError, match="line 3: expected a number in column 'a', found"):
            read(path, categorical=encoded)
    path.write_text("a,label,b\n 1\t,x,2\n")
    for encoded in ([], ["b"]):
        assert read(path, categorical=encoded).y.tolist() == ["x"]


@pytest.mark.parametrize("ending", ["", "\n", "\n1,,cat\n"])
def test_a_table_without_rows(tmp_path, ending):
    path = tmp_path / "rows.csv"
    path.write_text("a,label,note" + ending)
    for vectorizer in (None, HashingVectorizer(n_features=16)):
        with pytest.raises(DataError, match="expected labelled rows, found none"):
            read(path, text_columns=["note"], vectorizer=vectorizer)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_the_extra_that_tables_need(name, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_text("a,label\n1,x\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow and pandas; install bigcat\[tables\]"):
        read(tmp_path / name)
    assert main(["fit", str(tmp_path / name), "--model", str(tmp_path / "m")]) == 2
    assert "install bigcat[tables]" in capsys.readouterr().err


def test_a_converted_column_of_text(tmp_path):
    path, columns = tmp_path / "a.csv", rows()
    write(path, columns, ["call", "kind"])
    given: dict[str, Any] = {"label_column": "kind", "text_columns": ["call"]}
    folder = convert(path, tmp_path / "rows", **given)
    assert "softly" in folder.vectorizer.vocabulary_
    assert sorted(folder.y) == sorted(columns["kind"])
    write(path, columns, NAMES)
    with pytest.raises(DataError, match="only `read` encodes words among numbers"):
        convert(path, tmp_path / "rows", **given)


def test_parquet_and_csv_give_the_same(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    columns = rows()
    numbers = {name: np.array(columns[name], float) for name in ("height", "weight")}
    pyarrow.parquet.write_table(pa.table(columns | numbers), tmp_path / "a.parquet")
    options: dict[str, Any] = {
        "label_column": "kind",
        "categorical": ["city"],
        "text_columns": ["call"],
    }
    from_csv = read(write(tmp_path / "a.csv", columns, [*columns]), **options)
    found = read(tmp_path / "a.parquet", **options)
    assert abs(found.X - from_csv.X).max() < 1e-6
    assert found.y.tolist() == from_csv.y.tolist()
    again = read(tmp_path / "a.parquet", columns=from_csv.columns, labelled=False)
    assert abs(again.X - found.X).max() < 1e-6


def test_folders_of_tables_know_their_columns(tmp_path, capsys):
    train = plain(tmp_path / "train.csv", rows(), ["height", "weight", "kind"])
    other = plain(tmp_path / "other.csv", rows(30, 1), ["kind", "weight", "height"])
    folder = convert(train, tmp_path / "train", label_column="kind", n_jobs=1)
    assert [*folder.columns.feature_names_in_] == ["height", "weight"]
    with pytest.raises(DataError, match="expected the columns height, weight of the other rows"):
        convert(other, tmp_path / "other", like=folder, n_jobs=1)
    model = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "train"), "--model", model]) == 0
    assert main(["evaluate", model, other, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out[captured.out.index("{") :])["accuracy"] > 0.6


def test_columns_of_a_file_are_held_together(tmp_path):
    train = read(
        write(tmp_path / "a.csv", rows(), NAMES),
        label_column="kind",
        categorical="city",
        text_columns="call",
    )
    model = bigcat.LinearClassifier(random_state=0).fit(train.X, train.y)
    path = tmp_path / "model.safetensors"
    bigcat.save_model(model, path, extra={"columns": train.columns, "note": 1})
    loaded, extra = bigcat.load_model(path, with_extra=True)
    again = read(tmp_path / "a.csv", columns=extra["columns"], label_column="kind")
    np.testing.assert_array_equal(loaded.predict_proba(again.X), model.predict_proba(train.X))
    assert extra["note"] == 1

    bigcat.save_model(
        model,
        path,
        extra={
            "columns": read(
                tmp_path / "a.csv", label_column="kind", categorical=["city", "call"]
            ).columns
        },
    )
    with pytest.raises(ModelFileError, match=r"the columns make .* features, and the model has"):
        bigcat.load_model(path, with_extra=True)
    changed = extra["columns"].set_params(numbers__with_mean=False)
    with pytest.raises(TypeError, match=r"holds a ColumnTransformer of bigcat.data.read, and"):
        bigcat.save_model(model, path, extra={"columns": changed})
    stored: dict[str, Any] = {
        "names": ["b", "a"], "numbers": ["a"], "categorical": ["b"], "text": [],
        "categories": [np.array(["u", "v"], object)], "vectorizers": [],
        "means": np.zeros(1), "scales": np.ones(1),
    }  # fmt: skip
    assert make_columns(stored, 3).feature_names_in_.tolist() == ["b", "a"]
    for change, message in (
        ({"names": ["a"]}, "the names of columns are not different strings, each of one kind"),
        ({"numbers": [1]}, "the names of columns are not different strings, each of one kind"),
        ({"text": ["a"], "numbers": []}, "not values or a vectoriser for each column"),
        ({"scales": np.zeros(1)}, "columns.scales holds 0"),
        ({"scales": np.ones(2)}, "columns.scales has shape"),
        ({"categories": [np.array(["v", "u"], object)]}, "the categories of b are empty or not in"),
        ({"categories": [np.array(["u"], object)]}, "the columns make 2 features"),
    ):
        with pytest.raises(ValueError, match=message):
            make_columns(stored | change, 3)
    words = {"kind": "HashingVectorizer", "options": {"n_features": 2**31 - 1, "dtype": "float32"}}
    text = {
        "categorical": [], "categories": [], "text": ["b"],
        "vectorizers": [words | {"words": None, "idf": None}],
    }  # fmt: skip
    with pytest.raises(ValueError, match="the columns make 2147483648 features"):
        make_columns(stored | text, 3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"categorical": ["city"]},
        {"categorical": ["city", "call"]},
        {"text_columns": ["call", "city"], "vectorizer": CountVectorizer(ngram_range=(1, 2))},
        {"text_columns": ["call"], "vectorizer": HashingVectorizer(n_features=16)},
        {"text_columns": ["call"], "categorical": ["city"]},
    ],
)
def test_columns_come_back_from_a_file(tmp_path, options):
    names = [name for name in NAMES if name not in ("call", "city") or name in str(options)]
    if options == {"categorical": ["city", "call"]}:  # no numbers
        names = ["city", "call", "kind"]
    path = write(tmp_path / "a.csv", rows(), names)
    train = read(path, label_column="kind", **options)
    model = bigcat.LinearClassifier(random_state=0).fit(train.X, train.y)
    file = tmp_path / "model.safetensors"
    bigcat.save_model(model, file, extra={"columns": train.columns})
    found = bigcat.load_model(file, with_extra=True)[1]["columns"]
    assert str(found.get_params()) == str(train.columns.get_params())
    assert str(found.transformers_) == str(train.columns.transformers_)
    assert [*found.feature_names_in_] == [*train.columns.feature_names_in_]
    if not isinstance(options.get("vectorizer"), HashingVectorizer):
        assert [*found.get_feature_names_out()] == [*train.columns.get_feature_names_out()]
    again = read(path, label_column="kind", columns=found)
    assert type(again.X) is type(train.X)
    assert abs(again.X - train.X).max() == 0.0
    content = file.read_bytes()
    bigcat.save_model(model, file, extra={"columns": found})
    assert file.read_bytes() == content


def test_a_model_without_names_says_so(tmp_path, capsys):
    X = np.array([rows()[name] for name in ("height", "weight")], np.float32).T
    model = bigcat.LinearClassifier(random_state=0).fit(X, rows()["kind"])
    path = tmp_path / "model.safetensors"
    bigcat.save_model(model, path, extra={"form": "csv"})
    data = plain(tmp_path / "a.csv", rows(), ["height", "weight", "kind"])
    assert main(["evaluate", str(path), data, "--label-column", "kind"]) == 0
    assert "columns count by their order" in capsys.readouterr().err
