"""Habits of command-line users: pipes, tabs, progress bars, messages in words of the command."""

import argparse
import io
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bigcat import Checkpoint, EarlyStopping, cli
from bigcat.cli import _estimators, _options, main

TEXTS = {"cat": "soft purr", "dog": "loud bark", "emu": "fast run"}


def lines(labels=True, n=30):
    kinds = [*TEXTS]
    rows = [(kinds[i % 3], f"{TEXTS[kinds[i % 3]]} {('here', 'there')[i % 2]}") for i in range(n)]
    return "".join(f"{label}\t{text}\n" if labels else f"{text}\n" for label, text in rows)


@pytest.fixture
def model(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text(lines())
    path = str(tmp_path / "model.safetensors")
    assert main(["fit", str(tmp_path / "train.tsv"), "--model", path, "--method", "exact"]) == 0
    capsys.readouterr()
    return path


def piped(text):
    return io.TextIOWrapper(io.BytesIO(text.encode()))


def test_standard_input(model, tmp_path, capsys, monkeypatch):
    assert main(["predict", model, str(tmp_path / "train.tsv"), "--top-k", "1"]) == 0
    expected = capsys.readouterr().out
    for text, options in ((lines(), []), (lines(labels=False), ["--no-labels"])):
        monkeypatch.setattr(sys, "stdin", piped(text))
        assert main(["predict", model, "-", "--top-k", "1", *options]) == 0
        assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", piped(lines()))
    again = str(tmp_path / "again.safetensors")
    assert main(["fit", "-", "--form", "tsv", "--model", again, "--method", "exact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["file"] == "standard input"
    monkeypatch.setattr(sys, "stdin", piped(""))
    assert main(["evaluate", model, "-"]) == 2
    assert "standard input: expected labelled rows, found none" in capsys.readouterr().err


def test_texts_without_labels_may_have_tabs(model, tmp_path, capsys):
    tabbed = tmp_path / "tabbed.txt"
    tabbed.write_text("soft\tpurr\nloud\tbark\n")
    assert main(["predict", model, str(tabbed), "--no-labels", "--top-k", "1"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in found] == ["cat", "dog"]


def test_auto_is_listed(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    assert "auto " in out
    assert "the default" in out
    assert main(["methods", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["auto", *_options.METHODS]
    assert all(row["name"] in out for row in rows)


def test_names_of_parts_are_those_of_the_library():
    """Which are slow to import, so that the command line has them as words."""
    from bigcat import bayes, combinations, noise
    from bigcat.bayes.priors import NAMED

    assert set(_options.NOISES) == set(noise.REGISTRY)
    assert set(_options.METHODS) == {row["name"] for row in combinations.methods()}
    assert {"auto", *NAMED} == set(_options.OPTIONS["prior"][1]["choices"])
    assert set(_options.POSTERIORS) == set(bayes.METHODS)
    for name, options in _options.POSTERIORS.items():
        known = set(bayes.METHODS[name]().options())
        assert set(options) - {"max_epochs"} <= known
        assert ("max_epochs" in options) == bool({"max_epochs", "max_iter"} & known)


LIGHT = """
import contextlib, io, json, sys, time
started = time.process_time()
from bigcat.cli import main
with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.redirect_stdout(io.StringIO()):
    code = main(sys.argv[1:])
seconds = time.process_time() - started
print(json.dumps([code, seconds, err.getvalue(), sorted(sys.modules)]))
"""
FIT = ["fit", "train.tsv", "--model", "m"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--help"], ""),
        (["fit", "no.tsv", "--model", "m"], "no.tsv: there is no such file"),
        ([*FIT, "--test", "no.tsv"], "no.tsv: there is no such file"),
        (["fit", "train.tsv", "--model", "no/m"], "create it first"),
        ([*FIT, "--method", "magic"], "invalid choice: 'magic'"),
        ([*FIT, "--epochs", "0"], "--epochs: '0' is not a whole number of at least 1"),
        ([*FIT, "--bayesian", "--epochs", "3"], "belongs to --method independent-binary"),
        ([*FIT, "--resume"], "--resume needs --checkpoint"),
        (["predict", "no.model", "train.tsv"], "there is no such model file"),
        (["convert", "no.tsv", "--out", "rows"], "there is no such file"),
        (["predict", "m", "train.tsv", "--top-k", "0"], "--top-k: '0' is not a whole number"),
        (
            ["predict", "m", "train.tsv", "--interval", "90"],
            "'90' is not a number above 0",
        ),
        (["precompile", "--noise", "pink"], "invalid choice: 'pink'"),
    ],
)
def test_mistakes_are_reported_before_anything_slow_is_imported(tmp_path, words, message):
    (tmp_path / "train.tsv").write_text(lines())
    command = [sys.executable, "-c", LIGHT, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    code, seconds, errors, modules = json.loads(done.stdout)
    assert code == (2 if message else 0)
    assert message in errors
    assert seconds < 0.5
    assert not {"numpy", "numba", "scipy", "sklearn", "rich"} & set(modules)


def test_a_fit_off_a_terminal_writes_a_line_per_epoch(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text(lines())
    words = ["fit", str(tmp_path / "train.tsv"), "--model", str(tmp_path / "m"), "--rank", "2"]
    words += ["--epochs", "2"]
    assert main(words) == 0
    found = [line for line in capsys.readouterr().err.splitlines() if "epoch" in line]
    assert [line.split(",")[0].split(": ")[1] for line in found[-2:]] == [
        "epoch 1 of 2",
        "epoch 2 of 2",
    ]
    assert found[-1].endswith("at most 0.0 s left")
    assert main([*words, "--json"]) == 0
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.err.splitlines() if line.startswith("{")]
    assert json.loads(captured.out)["epochs"] == len(found)
    assert found[-1]["epoch"] == found[-1]["of"] == 2
    assert found[0]["seconds_left"] >= found[-1]["seconds_left"] == 0.0
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_ascii_locales_do_not_matter(tmp_path):
    """Neither to labels nor to the folder in which bigcat is installed."""
    package = tmp_path / "Bücherei"
    shutil.copytree(
        Path(cli.__file__).parents[1], package / "bigcat", ignore=shutil.ignore_patterns("*.pyc")
    )
    (package / "train.tsv").write_text(lines().replace("emu", "émeu"), encoding="utf-8")
    names = ("LANG", "LC_ALL", "PYTHONUTF8", "PYTHONCOERCECLOCALE", "PYTHONIOENCODING")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment |= {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(package / "kernels")}

    def run(*words):
        command = [sys.executable, "-m", "bigcat", *words]
        done = subprocess.run(command, capture_output=True, cwd=package, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    run("fit", "train.tsv", "--model", str(package / "m"), "--method", "exact", "--quiet")
    assert "émeu" in run("predict", "m", "train.tsv")
    assert "Bücherei" in run("info", str(package / "m"))


def test_options_reach_the_estimator():
    words = "--method augment-reduce --l2 0.25 --epochs 4"
    words += " --validation-fraction 0.2 --checkpoint c --checkpoint-every 9"
    arguments = cli.parser().parse_args(["fit", "x", "--model", "m", *words.split()])
    model = _estimators.estimator(arguments)
    assert (model.method, model.l2) == ("augment-reduce", 0.25)
    assert (model.max_epochs, model.random_state) == (4, 0)
    assert model.early_stopping == EarlyStopping(0.2)
    assert model.checkpoint == Checkpoint("c", 9.0)


def test_evaluate_and_predict_show_how_far_they_are(model, tmp_path, capsys, monkeypatch):
    data = str(tmp_path / "train.tsv")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["evaluate", model, data]) == 0
    assert "evaluating" in capsys.readouterr().err
    assert main(["predict", model, data, "--output", str(tmp_path / "out.txt")]) == 0
    assert "predicting" in capsys.readouterr().err
    assert main(["evaluate", model, data, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_the_first_compilation_is_told_once(capsys):
    logger = logging.getLogger("bigcat")
    for command, times in (("fit", 1), ("precompile", 0)):
        arguments = argparse.Namespace(run=cli.COMMANDS[command].run, log_level="info")
        with cli._messages(arguments):
            logger.info("compiling %s: first run only", "a")
            logger.info("compiling %s: first run only", "b")
        assert capsys.readouterr().err.count("compiling a: first run only (`bigcat") == times
    assert logger.level == logging.NOTSET
    logger.info("compiling %s: first run only", "c")
    assert capsys.readouterr().err == ""
