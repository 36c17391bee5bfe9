"""``bigcat fit --bayesian`` and what its model files are good for."""

import argparse
import json
import re

import numpy as np
import pytest
from test_cli_commands import FORMS, K, contents, error_of, files, run_json  # noqa: F401

import bigcat
from bigcat.bayes import (
    AugmentReducePosterior,
    GaussianPrior,
    IndependentBinary,
)
from bigcat.cli import _estimators, fit, main, predict

BINARY = ["--method", "independent-binary"]
DIAGONAL = [*BINARY, "--covariance", "diagonal"]
LAPLACE = ["--draws", "40"]
AUGMENT_REDUCE = ["--method", "augment-reduce", "--epochs", "5"]


@pytest.mark.parametrize(
    ("which", "options"),
    [
        ("svmlight", LAPLACE),
        ("npz", [*LAPLACE, "--covariance", "full", "--prior-scale", "0.5"]),
        ("svmlight", BINARY),
        ("text", DIAGONAL),
        ("npz", AUGMENT_REDUCE),
        pytest.param("text", [*AUGMENT_REDUCE, "--noise", "gaussian"], marks=pytest.mark.slow),
    ],
)
def test_from_a_file_to_probabilities(files, capsys, which, options):  # noqa: F811
    form, suffix, names = FORMS[which]
    train, test, model = files(form, suffix, names)
    words = ["fit", train, "--bayesian", "--model", model, "--test", test, *options]
    report = run_json(capsys, words)
    assert report["memory_bytes"] > 0
    assert report["evidence"] < 0.0
    assert ("independent-binary" in options) == (report["averaging_weight"] is not None)
    assert ("--method" in options) == (report["selection"] is None)
    assert report["test"]["log_likelihood"] > report["test"]["class_frequency_baseline"]
    loaded = bigcat.load_model(model)
    assert type(loaded) is bigcat.BayesianClassifier
    assert report["iterations"] == loaded.n_iter_

    averaged = run_json(capsys, ["evaluate", model, test])
    assert averaged["log_likelihood"] == report["test"]["log_likelihood"]
    plug_in = run_json(capsys, ["evaluate", model, test, "--plug-in"])
    assert averaged["log_likelihood"] != plug_in["log_likelihood"]
    for more in ([], ["--plug-in"]):
        assert main(["predict", model, test, "--json", "--top-k", str(K), *more]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(lines) == 40
        np.testing.assert_allclose([sum(line["probabilities"]) for line in lines], 1.0)


@pytest.mark.parametrize("options", [[*LAPLACE, "--prior", "gaussian"], BINARY])
def test_intervals_of_probabilities(files, capsys, monkeypatch, options):  # noqa: F811
    train, test, model = files("npz", "npz")
    assert main(["fit", train, "--bayesian", "--model", model, *options]) == 0
    capsys.readouterr()
    words = ["predict", model, test, "--top-k", "2", "--interval"]
    assert main([*words, "0.8", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = np.array([[line["probabilities"], line["low"], line["high"]] for line in lines])
    assert found.shape == (40, 3, 2)
    assert ((found[:, 1] < found[:, 0]) & (found[:, 0] < found[:, 2])).mean() > 0.9

    loaded = bigcat.load_model(model)
    with np.load(test) as archive:
        X = archive["X"]
    low, high = loaded.posterior_.predict_interval(X, 0.8)
    own = [[loaded.classes_.tolist().index(c) for c in line["classes"]] for line in lines]
    np.testing.assert_allclose(np.take_along_axis(low, np.array(own), 1), found[:, 1])
    np.testing.assert_allclose(np.take_along_axis(high, np.array(own), 1), found[:, 2])

    assert main([*words, "0.5"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert {len(row) for row in rows} == {8}
    narrow = np.array([[row[2:4], row[6:8]] for row in rows], float)
    assert (narrow[..., 0] >= found[:, 1] * 0.9999).all()
    assert (narrow[..., 1] <= found[:, 2] * 1.0001).all()
    monkeypatch.setattr(predict, "MAX_PROBABILITIES", 7 * K)  # a few rows at a time
    assert main([*words, "0.5"]) == 0
    again = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in again] == [row[:2] for row in rows]
    ends = np.array([[row[2:4], row[6:8]] for row in again], float)
    np.testing.assert_allclose(ends, narrow, atol=0.1)


def estimator_of(words):
    parser = argparse.ArgumentParser()
    fit.add_to(parser)
    arguments = parser.parse_args(f"x --model m --bayesian {words}".split())
    return _estimators.estimator(arguments)


def test_options_reach_the_method():
    words = "--method independent-binary --epochs 7 --covariance diagonal"
    m = estimator_of(f"{words} --prior-scale 0.5 --seed 3")
    assert m.method == IndependentBinary(covariance="diagonal", max_iter=7)
    assert (m.prior, m.random_state) == (GaussianPrior(scale=0.5), 3)
    m = estimator_of("--method augment-reduce --validation-fraction 0.2 --epochs 4")
    assert m.method == AugmentReducePosterior(validation_fraction=0.2, max_epochs=4)
    m = estimator_of("--method augment-reduce --noise logistic --threads 2")
    assert m.method == AugmentReducePosterior(noise="logistic")
    assert m.n_threads == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bayesian", "--l2", "1"], "--l2 does not go with --bayesian; give --prior-scale"),
        (["--bayesian", "--epochs", "3"], "belongs to --method independent-binary or"),
        (["--bayesian", "--method", "nce"], "--method nce is not known with --bayesian"),
        (["--method", "laplace"], "--method laplace is not known without --bayesian"),
        (["--bayesian", *BINARY, "--noise", "gumbel"], "--noise belongs to --method laplace or"),
        (["--bayesian", *BINARY, "--rank", "3"], "--rank belongs to --method laplace; leave it"),
        (
            ["--bayesian", "--prior", "horseshoe", "--prior-scale", "1"],
            "--prior-scale belongs to --prior gaussian",
        ),
        (["--covariance", "full"], "--covariance needs --bayesian; add it or leave this out"),
    ],
)
def test_bad_options(files, capsys, tmp_path, options, message):  # noqa: F811
    train, _, model = files()
    before = contents(tmp_path)
    assert message in error_of(capsys, ["fit", train, "--model", model, *options])
    assert contents(tmp_path) == before


def test_a_linear_model_has_no_posterior(files, capsys):  # noqa: F811
    train, test, model = files()
    assert main(["fit", train, "--model", model, "--epochs", "1"]) == 0
    capsys.readouterr()
    message = "{} needs a posterior, and .* holds a LinearClassifier; leave it out"
    for command in ("evaluate", "predict"):
        found = error_of(capsys, [command, model, test, "--plug-in"])
        assert re.search(message.format("--plug-in"), found)
    found = error_of(capsys, ["predict", model, test, "--interval", "0.9"])
    assert re.search(message.format("--interval"), found)
