"""The command line as people use it: pipes, tabs, bars, and messages in its own words."""

import argparse
import io
import json
import logging
import shutil
import subprocess
import sys

import pytest

from bigcat import cli
from bigcat.cli import _output, main
from bigcat.cli._words import in_own_words

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


def test_no_labels_knows_labels_when_it_sees_them(model, tmp_path, capsys):
    bare, labelled = tmp_path / "bare.txt", tmp_path / "labelled.tsv"
    bare.write_text(lines(labels=False))
    labelled.write_text("\tloud bark\n" + lines() + "cow\tloud moo\n")  # none, and an unknown one
    assert main(["predict", model, str(bare), "--no-labels", "--top-k", "1"]) == 0
    expected = capsys.readouterr()
    assert "has labels" not in expected.err
    assert main(["predict", model, str(labelled), "--no-labels", "--top-k", "1"]) == 0
    found = capsys.readouterr()
    assert "labelled.tsv has labels, which --no-labels leaves out" in found.err
    rows = found.out.splitlines()
    assert rows[1:-1] == expected.out.splitlines()
    assert [row.split("\t")[0] for row in (rows[0], rows[-1])] == ["dog", "dog"]
    tabbed = tmp_path / "tabbed.txt"  # tabs that are not behind labels
    tabbed.write_text("soft\tpurr\nloud\tbark\n")
    assert main(["predict", model, str(tabbed), "--no-labels", "--top-k", "1"]) == 0
    found = capsys.readouterr()
    assert "has labels" not in found.err
    assert [line.split("\t")[0] for line in found.out.splitlines()] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("pass form= (one of xc, tsv)", "pass --form (one of xc, tsv)"),
        ("raise the limit with max_bytes=", "raise the limit with --max-bytes"),
        ("max_epochs=200 ended; raise max_epochs", "--epochs 200 ended; raise --epochs"),
        ("take solver='lbfgs', or rank=None", "take --solver lbfgs, or --rank none"),
        ("n_negatives=-1 is below 1", "--negatives -1 is below 1"),
        ("set tol=None; my_form=3", "set tol=None; my_form=3"),
    ],
)  # fmt: skip
def test_messages_are_in_the_words_of_the_command(said, expected):
    options = dict.fromkeys(("form", "max_bytes", "epochs", "solver", "rank", "negatives"))
    assert in_own_words(said, argparse.Namespace(**options)) == expected
    assert in_own_words(said, argparse.Namespace()) == said


def test_auto_is_listed(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    assert "auto " in out
    assert "the default" in out
    assert main(["methods", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "auto"


def completed(script, *words):
    given = " ".join(f"'{word}'" for word in words)
    code = f"{script}\nCOMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _bigcat"
    shell = ["bash", "-c", code + '; echo "${COMPREPLY[@]}"']
    return subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_the_tab_key(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert completed(script, "bigcat", "ex") == ["explain", "export"]
    assert completed(script, "bigcat", "predict", "--no") == ["--no-labels"]
    assert "augment-reduce" in completed(script, "bigcat", "fit", "--method", "au")
    assert completed(script, "bigcat", "fit", "--form", "sv") == ["svmlight"]
    assert completed(script, "bigcat", "fit", "tra") == []  # files are left to the shell
    assert main(["completion", "fish"]) == 0
    fish = capsys.readouterr().out.splitlines()
    assert "complete -c bigcat -n '__fish_seen_subcommand_from predict' -l no-labels" in fish


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_a_plain_zsh_takes_its_script(capsys):
    """One that has no completion of its own loaded yet."""
    assert main(["completion", "zsh"]) == 0
    code = capsys.readouterr().out + "echo $_comps[bigcat]"
    done = subprocess.run(["zsh", "-f", "-i", "-c", code], capture_output=True, text=True)
    assert "_bigcat" in done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_completes_by_its_script(capsys):
    assert main(["completion", "fish"]) == 0
    asked = 'complete -C "bigcat fit --method one"'
    code = capsys.readouterr().out + asked
    done = subprocess.run(["fish", "--no-config", "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["one-vs-each"], done.stderr


def test_evaluate_and_predict_show_how_far_they_are(model, tmp_path, capsys, monkeypatch):
    data = str(tmp_path / "train.tsv")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert main(["evaluate", model, data]) == 0
    assert "evaluating" in capsys.readouterr().err
    assert main(["predict", model, data, "--output", str(tmp_path / "out.txt")]) == 0
    assert "predicting" in capsys.readouterr().err
    assert main(["evaluate", model, data, "--json"]) == 0
    assert capsys.readouterr().err == ""


def test_the_bar_is_for_terminals(capsys):
    with _output.rows_bar("counting") as on_rows:
        on_rows(1, 2)
    assert capsys.readouterr().err == ""


def test_fits_that_begin_at_their_end(tmp_path, capsys):
    path = tmp_path / "same.csv"
    path.write_text("a,label\n" + "0,x\n0,y\n" * 4)
    model = str(tmp_path / "model.safetensors")
    assert main(["fit", str(path), "--model", model, "--method", "exact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log_likelihood"] is None
    words = ["fit", str(path), "--model", model, "--epochs", "0"]
    assert main(words) == 2
    assert "--epochs 0 must be a whole number of at least 1" in capsys.readouterr().err
    assert main([*words, "--bayesian", "--method", "independent-binary"]) == 2
    assert "--epochs" in capsys.readouterr().err


def test_the_first_compilation_is_told_once(capsys):
    logger = logging.getLogger("bigcat")
    for expected, times in ((False, 1), (True, 0)):
        with cli._told_of_compilations(cli._FirstCompilation(expected)):
            logger.info("compiling %s, first run only", "a")
            logger.info("compiling %s, first run only", "b")
        assert capsys.readouterr().err.count("compiling, first run only") == times
    assert logger.level == logging.NOTSET
    logger.info("compiling %s, first run only", "c")
    assert capsys.readouterr().err == ""
