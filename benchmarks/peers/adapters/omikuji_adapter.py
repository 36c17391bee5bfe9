"""omikuji: a forest of label trees (Parabel), logistic losses or hinges in the nodes."""

import tempfile
from pathlib import Path

import numpy as np
import omikuji
from scoring import Model, logarithm

BEAM = 10


def _entries(X):
    parts = np.split(X.indices, X.indptr[1:-1]), np.split(X.data, X.indptr[1:-1])
    for columns, values in zip(*parts):
        yield list(zip(columns.tolist(), values.tolist()))


def fit(rows, watch, c=1.0, n_trees=3, loss="log"):
    kept = np.flatnonzero(np.diff(rows.X.indptr) > 0)  # it refuses rows without features
    settings = omikuji.Model.default_hyper_param()
    settings.n_trees, settings.linear_c = n_trees, c
    settings.linear_loss_type = omikuji.LossType[loss.upper()].value  # a number, not the name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        with path.open("w") as file:
            file.write(f"{len(kept)} {rows.X.shape[1]} {rows.n_classes}\n")
            for label, entries in zip(rows.y[kept], _entries(rows.X[kept])):
                features = " ".join(f"{column}:{value:.6g}" for column, value in entries)
                file.write(f"{label} {features}\n")
        model = omikuji.Model.train_on_data(str(path), settings, n_threads=rows.threads)

    def log_proba(X):
        p = np.zeros((X.shape[0], rows.n_classes))
        for i, entries in enumerate(_entries(X)):
            for label, value in model.predict(
                entries, top_k=rows.n_classes, beam_size=rows.n_classes
            ):
                p[i, label] = value
        return logarithm(p)

    def top(X, k):
        best = np.full((X.shape[0], k), -1)
        for i, entries in enumerate(_entries(X)):
            found = model.predict(entries, top_k=k, beam_size=max(BEAM, k))
            best[i, : len(found)] = [label for label, _ in found[:k]]
        return best

    return Model(log_proba, top)
