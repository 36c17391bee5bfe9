"""PECOS XR-Linear: a hierarchical tree of labels, logistic losses, sigmoids multiplied."""

import numpy as np
import scipy.sparse as sp
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel
from scoring import Model, logarithm

BEAM = 10


def _matrix(X):
    X = sp.csr_matrix(X, dtype=np.float32)
    X.sort_indices()
    return X


def fit(rows, watch, Cp=10.0, nr_splits=16, max_leaf_size=100):
    X, n = _matrix(rows.X), len(rows.y)
    ones = np.ones(n, np.float32)
    Y = sp.csr_matrix((ones, (np.arange(n), rows.y)), shape=(n, rows.n_classes))
    tree = Indexer.gen(
        LabelEmbeddingFactory.create(Y, X, method="pifa"),
        indexer_type="hierarchicalkmeans",
        nr_splits=nr_splits,
        max_leaf_size=max_leaf_size,
        threads=rows.threads,
    )
    model = XLinearModel.train(
        X, Y, C=tree, solver_type="L2R_LR_DUAL", Cp=Cp, Cn=Cp, threads=rows.threads
    )

    def predict(X, k, beam):
        return model.predict(
            _matrix(X),
            only_topk=k,
            beam_size=beam,
            post_processor="sigmoid",
            threads=rows.threads,
        )

    def log_proba(X):
        return logarithm(predict(X, rows.n_classes, rows.n_classes).toarray())

    def top(X, k):
        best = np.full((X.shape[0], k), -1)
        found = predict(X, k, max(BEAM, k))
        for i in range(X.shape[0]):
            entries = slice(found.indptr[i], found.indptr[i + 1])
            order = np.argsort(-found.data[entries])[:k]
            best[i, : len(order)] = found.indices[entries][order]
        return best

    return Model(log_proba, top)
