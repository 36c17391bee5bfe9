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
    """Return a model of numbers alone, and rows to predict."""
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
    assert "expected one column 'kind' (label_column= names another)" in capsys.readouterr().err
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
    assert "the column that group_column= names, found no 'whom'" in capsys.readouterr().err
    arrays = tmp_path / "rows.npz"
    np.savez(arrays, X=np.eye(2), y=["cat", "dog"])
    assert main(["fit", str(arrays), "--model", model, "--group-column", "who"]) == 2
    assert "group_column= is an option of csv and parquet" in capsys.readouterr().err


def test_words_are_encoded_on_request(tmp_path, capsys):
    train = write(tmp_path / "train.csv", rows(), NAMES)
    model = str(tmp_path / "model.safetensors")
    fit = ["fit", train, "--model", model, "--label-column", "kind"]
    assert main(fit) == 2
    error = capsys.readouterr().err
    assert "line 2: expected a number in column 'call', found 'purr, softly" in error
    assert "categorical= or text_columns= encode 'call'" in error

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
    assert "height, call, city, weight; labels in kind" in capsys.readouterr().out

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


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_the_extra_that_tables_need(name, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_text("a,label\n1,x\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"csv and Parquet files need pyarrow, which is"):
        read(tmp_path / name)
    assert main(["fit", str(tmp_path / name), "--model", str(tmp_path / "m")]) == 2
    assert "bigcat[tables]" in capsys.readouterr().err


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


def test_columns_that_make_other_features_are_not_saved(tmp_path):
    train = read(
        write(tmp_path / "a.csv", rows(), NAMES),
        label_column="kind",
        text_columns="call",
        categorical="city",
    )
    model = bigcat.LinearClassifier(random_state=0, max_epochs=2).fit(train.X[:, :4], train.y)
    with pytest.raises(
        ValueError, match=r"extra\['columns'\] makes \d+ features, and the model has 4"
    ):
        bigcat.save_model(model, tmp_path / "model.safetensors", extra={"columns": train.columns})


@pytest.mark.parametrize(
    "options",
    [
        {},
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
