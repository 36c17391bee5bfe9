"""napkinXC: one-vs-rest, hierarchical softmax, probabilistic label tree; LIBLINEAR in the nodes."""

import tempfile

import numpy as np
from napkinxc import models
from scoring import Model, logarithm


def fit(rows, watch, C=10.0):
    folder = tempfile.TemporaryDirectory()
    kind = {"ovr": models.OVR, "hsm": models.HSM, "plt": models.PLT}[rows.variant]
    model = kind(
        folder.name,
        seed=1,  # by default the time of day
        optimizer="liblinear",
        liblinear_c=float(C),
        threads=rows.threads,
        verbose=False,
    )
    model.fit(rows.X.astype(np.float32), [[int(label)] for label in rows.y])

    def log_proba(X, keep=folder):  # the folder lives as long as the model
        p = np.zeros((X.shape[0], rows.n_classes))
        for i, pairs in enumerate(model.predict_proba(X, top_k=rows.n_classes)):
            for label, value in pairs:
                p[i, label] = value
        return logarithm(p)

    def top(X, k):
        best = np.full((X.shape[0], k), -1)
        for i, pairs in enumerate(model.predict_proba(X, top_k=k)):
            best[i, : len(pairs)] = [label for label, _ in pairs[:k]]
        return best

    return Model(log_proba, top)
