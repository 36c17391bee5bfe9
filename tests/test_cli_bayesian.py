"""``bigcat fit --bayesian`` and what its model files are good for."""

import argparse
import json
import re

import numpy as np
import pytest
from test_cli_commands import FORMS, K, contents, error_of, files, run_json  # noqa: F401

import bigcat
from bigcat.bayes import AugmentReducePosterior, GaussianPrior, IndependentBinary
from bigcat.cli import _bayesian, fit, main

LOGIT = ["--link", "logit", "--likelihood", "conditioned", "--covariance", "diagonal"]
AUGMENT_REDUCE = ["--method", "augment-reduce", "--epochs", "5"]


@pytest.mark.parametrize(
    ("which", "options"),
    [
        ("svmlight", []),
        ("text", LOGIT),
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
    assert report["elbo"] < 0.0
    assert ("augment-reduce" in options) == (report["averaging_weight"] is None)
    assert report["test"]["log_likelihood"] > report["test"]["class_frequency_baseline"]
    loaded = bigcat.load_model(model)
    assert type(loaded) is bigcat.BayesianClassifier
    assert report["iterations"] == loaded.n_iter_

    plug_in = run_json(capsys, ["evaluate", model, test])
    assert plug_in["log_likelihood"] == report["test"]["log_likelihood"]
    averaged = run_json(capsys, ["evaluate", model, test, "--averaged"])
    assert averaged["log_likelihood"] != plug_in["log_likelihood"]
    for more in ([], ["--averaged"]):
        assert main(["predict", model, test, "--json", "--top-k", str(K), *more]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(lines) == 40
        np.testing.assert_allclose([sum(line["probabilities"]) for line in lines], 1.0)


def test_options_reach_the_estimator(files, capsys):  # noqa: F811
    train, _, model = files("npz", "npz")
    words = ["fit", train, "--bayesian", "--model", model, "--seed", "3"]
    more = "--link logit --likelihood marginalised --covariance diagonal --solver cavi"
    run_json(capsys, [*words, *more.split(), "--prior-scale", "0.5", "--epochs", "7"])
    m = bigcat.load_model(model)
    assert m.method == IndependentBinary("logit", "marginalised", "diagonal", "cavi", max_iter=7)
    assert (m.prior, m.random_state) == (GaussianPrior(scale=0.5), 3)
    more = "--method augment-reduce --negatives 2 --learning-rate 0.2 --epochs 4"
    report = run_json(capsys, [*words, *more.split(), "--validation-fraction", "0.2"])
    m = bigcat.load_model(model)
    assert m.method == AugmentReducePosterior(
        n_negatives=2, learning_rate=0.2, max_epochs=4, validation_fraction=0.2
    )
    assert report["validation_log_likelihood"] < 0.0


def test_the_noise_reaches_the_method():
    parser = argparse.ArgumentParser()
    fit.add_to(parser.add_subparsers())
    words = "fit x --model m --bayesian --method augment-reduce --noise logistic --threads 2"
    m = _bayesian.estimator(parser.parse_args(words.split()))
    assert m.method == AugmentReducePosterior(noise="logistic")
    assert m.n_threads == 2


def test_what_a_person_sees(files, capsys):  # noqa: F811
    train, test, model = files()
    assert main(["fit", train, "--bayesian", "--model", model, "--test", test]) == 0
    out = capsys.readouterr().out
    for text in ("rows", "memory", "iterations", "ELBO", "of the conditioned likelihood", "hit@5"):
        assert text in out
    assert main(["evaluate", model, test, "--averaged"]) == 0
    assert "log-likelihood" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--bayesian", "--l2", "1"], "--l2 does not go with --bayesian; give --prior-scale"),
        (["--bayesian", "--early-stopping"], "give --validation-fraction alone"),
        (["--bayesian", "--plot", "c.png"], "--plot does not go with --bayesian"),
        (["--bayesian", "--negatives", "3"], "--negatives belongs to --method augment-reduce"),
        (
            ["--bayesian", "--method", "augment-reduce", "--link", "logit"],
            "--link belongs to --method independent-binary; leave it out",
        ),
        (["--bayesian", "--method", "nce"], "method='nce' is not known; choose one of"),
        (["--bayesian", "--link", "cauchit"], "link='cauchit' is not known"),
        (["--bayesian", "--prior-scale", "-1"], "scale=-1.0 of the prior must be"),
        (
            ["--bayesian", "--prior", "horseshoe", "--prior-scale", "1"],
            "--prior-scale belongs to --prior gaussian",
        ),
        (["--link", "probit"], "--link needs --bayesian; add it or leave this out"),
        (["--prior-scale", "1"], "--prior-scale needs --bayesian"),
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
    message = "--averaged needs a posterior, and .* holds a LinearClassifier; leave it out"
    for command in ("evaluate", "predict"):
        assert re.search(message, error_of(capsys, [command, model, test, "--averaged"]))
