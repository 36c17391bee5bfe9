"""Vowpal Wabbit: one against all with logistic losses, renormalised by itself."""

import tempfile
from pathlib import Path

import numpy as np
import vowpalwabbit
from scoring import Model, logarithm


def _lines(X):
    parts = np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1])
    for columns, values in zip(*parts):
        yield "| " + " ".join(f"{column}:{value:.5g}" for column, value in zip(columns, values))


def fit(rows, watch, passes=3, lr=0.5, bits=22):
    folder = tempfile.TemporaryDirectory()
    data, saved = (Path(folder.name) / name for name in ("train.vw", "model.vw"))
    order = np.random.default_rng(0).permutation(len(rows.y))
    with data.open("w") as file:
        for label, line in zip(rows.y[order], _lines(rows.X[order])):
            file.write(f"{label + 1} {line}\n")
    vowpalwabbit.Workspace(  # makes all passes, and saves when it is finished
        f"--oaa {rows.n_classes} --loss_function logistic --probabilities -l {lr} -b {bits} "
        f"-d {data} --cache_file {data}.cache -k --passes {passes} --holdout_off -f {saved} --quiet"
    ).finish()
    model = vowpalwabbit.Workspace(f"-i {saved} -t --probabilities --quiet")

    def log_proba(X, keep=folder):
        return logarithm([model.predict(line) for line in _lines(X)])

    return Model(log_proba)
