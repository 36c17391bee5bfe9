"""The command line from a file to probabilities, for every form of file, and its errors."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bigcat
from bigcat.cli import main
from tests.some_models import save_models

K, D = 4, 6
WORDS = ["ant", "bee", "cow", "dog", "elk", "fox"]


def make_rows(n, seed) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of six features; the first four determine the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % K
    X = rng.poisson(0.7, size=(n, D)).astype(np.float32)
    X[np.arange(n), y] += 3
    X[:, 4] += 1  # no row is empty
    return X, y


def sparse_lines(X, y, start=0):
    for row, label in zip(X, y):
        pairs = (f"{i + start}:{row[i]:g}" for i in np.flatnonzero(row))
        yield f"{label} {' '.join(pairs)}"


def write(path, form, X, y, names=None):
    """A data file of that form; text rows name each feature as often as it counts."""
    labels = y if names is None else np.array(names)[y]
    if form == "npz":
        np.savez(path, X=X, y=labels)
        return str(path)
    if form == "xc":
        lines = [f"{len(y)} {D} {K}", *sparse_lines(X, labels)]
    elif form == "svmlight":
        lines = list(sparse_lines(X, labels, start=1))
    elif form == "csv":
        lines = [",".join([*WORDS, "label"])]
        lines += [",".join([*(f"{v:g}" for v in row), str(label)]) for row, label in zip(X, labels)]
    else:
        texts = (" ".join(np.repeat(WORDS, row.astype(int))) for row in X)
        lines = [f"{label}\t{text}" for label, text in zip(labels, texts)]
    content = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content.encode()))
    else:
        path.write_text(content)
    return str(path)


FORMS = {
    "xc": ("xc", "txt", None),
    "xc zipped": ("xc", "txt.gz", None),
    "svmlight": ("svmlight", "svm", None),
    "text": ("tsv", "tsv", ["north", "east", "south", "west"]),
    "text zipped": ("tsv", "tsv.gz", ["north", "east", "south", "west"]),
    "npz": ("npz", "npz", None),
    "csv": ("csv", "csv", ["q w", "e r", "t z", "u i"]),
}


@pytest.fixture
def files(tmp_path):
    def make(form="xc", suffix="txt", names=None):
        train = write(tmp_path / f"train.{suffix}", form, *make_rows(160, 0), names)
        test = write(tmp_path / f"test.{suffix}", form, *make_rows(40, 1), names)
        return train, test, str(tmp_path / "model.safetensors")

    return make


FIT = ["--epochs", "4", "--seed", "1"]


def run_json(capsys, words):
    assert main([*words, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out)


@pytest.mark.parametrize("which", FORMS)
def test_from_a_file_to_probabilities(files, capsys, tmp_path, which):
    form, suffix, names = FORMS[which]
    train, test, model = files(form, suffix, names)

    fitted = run_json(capsys, ["fit", train, "--model", model, "--test", test, *FIT])
    assert fitted["data"]["form"] == form
    assert (fitted["data"]["rows"], fitted["data"]["classes"]) == (160, K)
    assert fitted["memory_bytes"] > 0
    assert fitted["epochs"] == 4
    assert fitted["model_bytes"] == os.path.getsize(model)
    assert fitted["test"]["log_likelihood"] > fitted["test"]["class_frequency_baseline"]

    found = run_json(capsys, ["evaluate", model, test])
    assert set(found) == {
        "log_likelihood",
        "accuracy",
        "hit_at_5",
        "rows",
        "rows_dropped_unseen",
        "seconds",
    }
    assert found["rows"] == 40
    for name in ("log_likelihood", "accuracy", "hit_at_5"):
        assert found[name] == pytest.approx(fitted["test"][name], rel=1e-6)

    assert main(["predict", model, test, "--top-k", "9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    y = make_rows(40, 1)[1]
    labels = y if names is None else np.array(names)[y]
    assert len(lines) == 40
    right = 0
    for line, label in zip(lines, labels):
        fields = line.split("\t")
        assert sorted(fields[::2]) == sorted(map(str, np.unique(labels)))
        probabilities = [float(field) for field in fields[1::2]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1, abs=1e-4)
        right += fields[0] == str(label)
    assert right / 40 == pytest.approx(found["accuracy"])

    out = tmp_path / "predictions.jsonl"
    assert main(["predict", model, test, "--top-k", "2", "--json", "--output", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 40
    assert [str(rows[0]["classes"][0]), len(rows[0]["probabilities"])] == [
        lines[0].split("\t")[0],
        2,
    ]


def unlabelled(form, path, X):
    if form == "npz":
        np.savez(path, X=X)
    elif form == "tsv":
        path.write_text("".join(" ".join(np.repeat(WORDS, r.astype(int))) + "\n" for r in X))
    elif form == "csv":
        path.write_text(
            ",".join(WORDS) + "\n" + "".join(",".join(map(str, r)) + "\n" for r in X.tolist())
        )
    else:
        start = int(form == "svmlight")
        lines = (line.split(" ", 1)[1] for line in sparse_lines(X, [0] * len(X), start))
        head = [f"{len(X)} {D} {K}"] if form == "xc" else []
        path.write_text("\n".join([*head, *lines]) + "\n")
    return str(path)


@pytest.mark.parametrize(
    ("form", "suffix"),
    [("xc", "txt"), ("svmlight", "svm"), ("tsv", "txt"), ("npz", "npz"), ("csv", "csv")],
)
def test_data_without_labels(files, capsys, tmp_path, form, suffix):
    train, test, model = files(form, suffix)
    assert main(["fit", train, "--model", model, *FIT]) == 0
    assert main(["predict", model, test]) == 0
    expected = capsys.readouterr().out.splitlines()[-40:]
    bare = unlabelled(form, tmp_path / f"bare.{suffix}", make_rows(40, 1)[0])
    assert main(["predict", model, bare, "--no-labels"]) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_rows_without_label_are_predicted_or_refused(files, capsys, tmp_path):
    train, _test, model = files()
    assert main(["fit", train, "--model", model, *FIT]) == 0
    mixed = tmp_path / "mixed.txt"
    mixed.write_text("3 6 4\n1 1:3\n 2:3\n3 3:3\n")
    capsys.readouterr()
    assert main(["predict", model, str(mixed)]) == 2
    assert "1 rows have no label and would be missing" in capsys.readouterr().err
    assert main(["predict", model, str(mixed), "--no-labels"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_what_a_person_sees(files, capsys, tmp_path):
    train, test, model = files()
    curve = tmp_path / "curve.png"
    words = ["fit", train, "--model", model, "--test", test, "--plot", str(curve), *FIT]
    assert main(words) == 0
    out = capsys.readouterr().out
    for text in ("rows", "160", "features", "classes", "memory", "epochs", "bound", "hit@5"):
        assert text in out
    assert curve.read_bytes().startswith(b"\x89PNG")
    assert main(["evaluate", model, test]) == 0
    assert "log-likelihood" in capsys.readouterr().out


def test_svmlight_counting_is_remembered(files, capsys, tmp_path):
    """A training file with an index 0 and a test file without one count alike."""
    X, y = make_rows(160, 0)
    train = tmp_path / "train.svm"
    train.write_text("\n".join(sparse_lines(X, y, start=0)))
    X, y = make_rows(40, 1)
    X[:, 0] = 0
    X[:, 5] = 0
    test = tmp_path / "test.svm"
    test.write_text("\n".join(sparse_lines(X, y, start=0)))
    same = write(tmp_path / "same.npz", "npz", X, y)
    model = str(tmp_path / "m")
    fitted = run_json(capsys, ["fit", str(train), "--model", model, "--test", str(test), *FIT])
    for path in (str(test), same):
        found = run_json(capsys, ["evaluate", model, path])
        assert found["log_likelihood"] == pytest.approx(fitted["test"]["log_likelihood"], rel=1e-6)


@pytest.mark.parametrize("names", [["1", "2", "3", "x"], ["1", "2", "3", "4"]])
def test_labels_that_look_like_numbers_in_one_file_only(files, capsys, tmp_path, names):
    train, _test, model = files("tsv", "tsv", names)
    assert main(["fit", train, "--model", model, *FIT]) == 0
    X, y = make_rows(40, 1)
    numbers = write(tmp_path / "numbers.tsv", "tsv", X[y < 3], y[y < 3], names)
    words = write(tmp_path / "words.tsv", "tsv", X, y, [*names[:3], "y"])
    capsys.readouterr()
    found = run_json(capsys, ["evaluate", model, numbers])
    assert (found["rows"], found["rows_dropped_unseen"]) == (30, 0)
    mixed = run_json(capsys, ["evaluate", model, words])
    assert (mixed["rows"], mixed["rows_dropped_unseen"]) == (30, 10)
    assert mixed["log_likelihood"] == pytest.approx(found["log_likelihood"])


def test_an_estimator_reports_its_objective_and_the_log_likelihood(files, capsys, tmp_path):
    train, _test, model = files("npz", "npz")
    plot = tmp_path / "curve.png"
    words = ["fit", train, "--model", model, "--method", "nce", "--plot", str(plot), *FIT]
    report = run_json(capsys, words)
    assert report["bound"] is None  # there is none
    assert report["objective"] < report["log_likelihood"] < 0.0
    found = run_json(capsys, ["evaluate", model, train])
    assert found["log_likelihood"] == pytest.approx(report["log_likelihood"], rel=1e-5)
    assert plot.stat().st_size > 0
    assert main(words) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert "bound" not in lines
    assert lines["objective"].split()[1] == f"{report['objective']:.4f}"
    assert "not a bound" in lines["objective"]
    assert lines["log-likelihood"].split()[1] == f"{report['log_likelihood']:.4f}"


# --- what is in a file ---------------------------------------------------------------------------


def test_info(fitted, capsys, tmp_path):
    model, _test = fitted
    report = run_json(capsys, ["info", model])
    assert (report["estimator"], report["classes"], report["features"]) == (
        "LinearClassifier",
        K,
        D,
    )
    assert report["verified"] is True
    assert report["bytes"] == Path(model).stat().st_size
    assert report["header"]["version"] == 1
    assert "form" in report["extra"]
    assert main(["info", model]) == 0
    out = capsys.readouterr().out
    assert "every byte is as it was written" in out
    assert "LinearClassifier" in out
    assert run_json(capsys, ["info", model, "--quick"])["verified"] is False
    damaged = tmp_path / "damaged"
    content = bytearray(Path(model).read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    assert "does not match its digest); take another copy" in error_of(
        capsys, ["info", str(damaged)]
    )
    assert main(["info", str(damaged), "--quick"]) == 0
    assert "not checked" in capsys.readouterr().out


def test_info_names_the_kind_of_model(tmp_path, capsys):
    paths = save_models(tmp_path)
    for name, expected in {
        "words": ("full rank", "labels are strings"),
        "pairs": ("rank 2, 4 of single pairs of class and feature", "labels are numbers"),
        "bayesian-laplace": ("covariance: draws", "BayesianClassifier"),
        "text": ("TfidfVectorizer", "note"),
    }.items():
        assert main(["info", str(paths[name])]) == 0
        out = capsys.readouterr().out
        assert all(words in out for words in expected), out


# --- errors -------------------------------------------------------------------------------------


def error_of(capsys, words):
    """The one line of an error."""
    capsys.readouterr()
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "error" in line] == lines[-1:]
    assert lines[-1].startswith("bigcat: error: ")
    return lines[-1].removeprefix("bigcat: error: ")


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


BAD_TRAIN = {
    "missing": ("no.txt", lambda p: None, "no.txt: there is no such file; check the name"),
    "folder": (
        "d.txt",
        lambda p: p.mkdir(),
        "is a folder without converted rows; give a file",
    ),
    "one class": ("o.txt", lambda p: p.write_text("2 6 4\n1 1:1\n1 2:1\n"), "class"),
    "nan": ("n.npz", lambda p: np.savez(p, X=np.full((3, 2), np.nan), y=[0, 1, 2]), "NaN"),
}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--noise", "gaussian", "--method", "implicit"],
            "solver='implicit' supports noise='gumbel'",
        ),
        (["--l2", "much"], "'much' is not a number of at least 0, nor auto"),
        (["--ngrams", "0-2"], "'0-2' is not a rising range within 1 to 20"),
        (["--form", "xml"], "invalid choice: 'xml'"),
        (["--label-column", "kind"], "is an option of csv"),
        (["--plot", "nowhere/curve.png"], "does not exist; create it first"),
    ],
)
def test_bad_options(files, capsys, tmp_path, options, message):
    train, _test, model = files()
    before = contents(tmp_path)
    assert message in error_of(capsys, ["fit", train, "--model", model, *options])
    assert contents(tmp_path) == before


@pytest.mark.parametrize("case", BAD_TRAIN)
def test_bad_training_files(capsys, tmp_path, case):
    name, make, message = BAD_TRAIN[case]
    make(tmp_path / name)
    before = os.listdir(tmp_path)
    words = ["fit", str(tmp_path / name), "--model", str(tmp_path / "m")]
    assert message in error_of(capsys, words)
    assert os.listdir(tmp_path) == before


@pytest.fixture
def fitted(files, capsys):
    train, test, model = files()
    assert main(["fit", train, "--model", model, *FIT]) == 0
    capsys.readouterr()
    return model, test


def test_bad_model_files(fitted, capsys, tmp_path):
    model, test = fitted
    for command in ("evaluate", "predict"):
        assert "there is no such model file" in error_of(capsys, [command, "nowhere", test])
        assert "not a model file" in error_of(capsys, [command, test, test])
    content = Path(model).read_bytes()
    Path(model).write_bytes(content[: len(content) // 2])
    message = error_of(capsys, ["evaluate", model, test])
    assert model in message
    assert "cut off, damaged" in message
    assert "fit the model again" in message


def test_data_that_do_not_fit_the_model(fitted, capsys, tmp_path):
    model, _test = fitted
    X, y = make_rows(8, 3)
    dense = write(tmp_path / "d.npz", "npz", X[:, :5], y)
    assert "has 5 features, the model was fitted on 6" in error_of(
        capsys, ["evaluate", model, dense]
    )
    wide = tmp_path / "w.txt"
    wide.write_text("2 9 4\n1 1:3\n2 2:3 8:1\n")
    message = error_of(capsys, ["evaluate", model, str(wide)])
    assert "has feature 8 in row 1 (both counted from 0), but the model was fitted on 6" in message
    text = write(tmp_path / "t.tsv", "tsv", X, y)
    assert "holds text, but the model was fitted on numbers" in error_of(
        capsys, ["predict", model, text]
    )
    other = write(tmp_path / "o.tsv", "npz", X, np.array(["a", "b", "c", "d"] * 2))
    os.rename(other + ".npz", tmp_path / "o.npz")
    message = error_of(capsys, ["evaluate", model, str(tmp_path / "o.npz")])
    assert "none of the 8 rows has a class of the training data" in message


def test_a_model_saved_from_python_is_as_good(fitted, capsys, tmp_path):
    model, test = fitted
    bare = str(tmp_path / "bare")
    bigcat.save_model(bigcat.load_model(model), bare)
    reports = [run_json(capsys, ["evaluate", path, test]) for path in (model, bare)]
    assert reports[0]["log_likelihood"] == reports[1]["log_likelihood"]
    text = write(tmp_path / "t.tsv", "tsv", *make_rows(8, 3))
    for more in ([], ["--no-labels", "--form", "tsv"]):
        words = ["predict", bare, text, *more]
        assert "the model was fitted on numbers and has no vectoriser" in error_of(capsys, words)
    assert main(["predict", bare, test, "--no-labels"]) == 0  # the first line tells the form
    capsys.readouterr()
    words = tmp_path / "words"
    words.write_text("no form has such lines\n")
    error = error_of(capsys, ["predict", bare, str(words), "--no-labels"])
    assert "cannot tell its form" in error
    damaged = tmp_path / "d.npz"
    damaged.write_bytes(b"PK\x03\x04 and no more")
    words = ["predict", bare, str(damaged), "--no-labels", "--form", "npz"]
    assert "expected a .npz archive" in error_of(capsys, words)


def test_interruption_and_defects_have_their_own_exit_codes(files, capsys, monkeypatch, tmp_path):
    train, _test, model = files()
    before = contents(tmp_path)
    for error, code, text in (
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("oops"), 1, "unexpected ZeroDivisionError: oops (--debug shows where)"),
    ):

        def fail(*args, error=error, **kwargs):
            raise error

        monkeypatch.setattr(bigcat.LinearClassifier, "fit", fail)
        capsys.readouterr()
        assert main(["fit", train, "--model", model]) == code
        assert text in capsys.readouterr().err
        assert contents(tmp_path) == before


def test_a_closed_pipe_is_no_error(fitted, tmp_path):
    model, test = fitted
    many = tmp_path / "many.txt"
    rows = Path(test).read_text().splitlines()[1:]
    many.write_text("\n".join([f"{500 * len(rows)} {D} {K}", *(rows * 500)]))
    with subprocess.Popen(
        [sys.executable, "-m", "bigcat", "predict", model, str(many)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
