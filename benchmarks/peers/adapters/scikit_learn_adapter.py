"""scikit-learn: the softmax by L-BFGS, and one-vs-rest by SGD, which it renormalises itself."""

import numpy as np
from scoring import Model
from sklearn.linear_model import LogisticRegression, SGDClassifier

DENSE = 0.05  # share of non-zeros above which dense arrays are faster


def _as_it_likes(X):
    if X.nnz > DENSE * X.shape[0] * X.shape[1]:
        return X.toarray().astype(np.float32)
    return X.astype(np.float64)


def fit(rows, watch, C=10.0, max_iter=100, tol=None):
    if rows.variant == "lbfgs":
        model = LogisticRegression(C=C, max_iter=max_iter, tol=1e-4 if tol is None else tol)
        model.fit(_as_it_likes(rows.X), rows.y)
        iterations = int(np.max(model.n_iter_))
        facts = {"iterations": iterations}
        return Model(lambda X: model.predict_log_proba(_as_it_likes(X)), facts=facts)
    model = SGDClassifier(
        loss="log_loss",
        alpha=1 / (C * len(rows.y)),
        max_iter=max_iter,
        tol=1e-3 if tol is None else tol,
        n_jobs=rows.threads,
        random_state=0,
    )
    model.fit(rows.X, rows.y)
    return Model(model.predict_log_proba, facts={"iterations": int(model.n_iter_)})
