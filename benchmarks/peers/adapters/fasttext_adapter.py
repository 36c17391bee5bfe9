"""fastText, a low-rank model: one token per non-zero feature, without its value.

It fills a tenth of its input matrix a thread and leaves the rest as the memory was, so that fewer
than eleven threads start from rubbish (its issue 1061): it gets twelve, whatever the machine has.
Probabilities are computed from its matrices, all classes at once, but for the hierarchical
softmax, whose tree only its own `predict` knows.
"""

import tempfile
import time
from pathlib import Path

import fasttext
import numpy as np
import scipy.sparse as sp
from scoring import SMALLEST, Model, logarithm

THREADS = 12
LABEL = "__label__"


def fit(rows, watch, lr=0.5, epoch=10, dim=100, neg=10, threshold=0.0):
    """`threshold`: values below this part of the largest one give no token."""
    least = threshold * float(rows.X.data.max())

    def tokens(X):
        X = sp.csr_matrix(X, dtype=np.float32, copy=True)
        X.data = (X.data > least).astype(np.float32)
        X.eliminate_zeros()
        return X

    def lines(X):
        for columns in np.split(X.indices, X.indptr[1:-1]):
            yield " ".join(f"f{column}" for column in columns)

    order = np.random.default_rng(0).permutation(len(rows.y))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        with path.open("w") as file:
            for label, line in zip(rows.y[order], lines(tokens(rows.X[order]))):
                file.write(f"{LABEL}{label} {line}\n")
        started = time.perf_counter()
        model = fasttext.train_supervised(
            str(path),
            loss=rows.variant,
            lr=lr,
            epoch=epoch,
            dim=dim,
            neg=neg,
            minCount=1,
            bucket=0,
            thread=THREADS,
            verbose=0,
        )
        facts = {"train_seconds": time.perf_counter() - started}  # without writing the file

    def first(X, k):
        best = np.full((X.shape[0], k), -1)
        p = np.zeros((X.shape[0], k))
        for i, line in enumerate(lines(tokens(X))):
            labels, values = model.predict(line, k=k)
            best[i, : len(labels)] = [int(label[len(LABEL) :]) for label in labels]
            p[i, : len(labels)] = values
        return best, p

    if rows.variant == "hs":

        def log_proba_by_tree(X):
            best, p = first(X, rows.n_classes)
            full = np.zeros((X.shape[0], rows.n_classes + 1))  # the last column takes the -1
            np.put_along_axis(full, best, p, axis=1)
            return logarithm(full[:, :-1])

        return Model(log_proba_by_tree, lambda X, k: first(X, k)[0], facts)
    scores = _scores(model, rows.X.shape[1])
    labels = np.array([int(label[len(LABEL) :]) for label in model.labels])

    def log_proba(X):
        s = scores(tokens(X))
        full = np.full((len(s), rows.n_classes), np.log(SMALLEST))
        if rows.variant == "softmax":
            s -= s.max(axis=1, keepdims=True)
            full[:, labels] = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
        else:
            full[:, labels] = -np.logaddexp(0, -s)
        return full

    return Model(log_proba, facts=facts)


def _scores(model, n_features):
    """Return scores: means of word vectors, including the line end, times outputs."""
    inputs, outputs = model.get_input_matrix(), model.get_output_matrix()
    vectors = np.zeros((n_features, inputs.shape[1]), np.float32)
    known = np.zeros(n_features, np.float32)
    line_end = np.zeros(inputs.shape[1], np.float32)
    n_line_ends = 0
    for word, vector in zip(model.words, inputs):
        if word == "</s>":
            line_end, n_line_ends = vector, 1
        else:
            vectors[int(word[1:])], known[int(word[1:])] = vector, 1

    def scores(X):
        count = np.maximum(X @ known + n_line_ends, 1)
        return (X @ vectors + line_end) / count[:, None] @ outputs.T

    return scores
