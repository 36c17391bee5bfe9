"""What next? The item that somebody takes after those taken before, one class an item.

With the real data sets at hand (``BIGCAT_DATA``) beauty products and their reviewers, else made-up
sessions: each has a taste, and most of its items are of that kind.
"""

import os

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from bigcat import LinearClassifier, data, metrics

N_TEST = 5_000


def made_up_sessions(n_sessions=60_000, length=8, n_kinds=100, n_items_a_kind=50, seed=0):
    """Histories as rows of ones, and the item after each; items and kinds follow Zipf's law."""
    rng = np.random.default_rng(seed)

    def zipf(n, size):
        p = 1.0 / np.arange(1, n + 1)
        return rng.choice(n, size, p=p / p.sum())

    tastes = np.repeat(zipf(n_kinds, (n_sessions, 1)), length, axis=1)
    strays = rng.random(tastes.shape) < 0.3
    tastes[strays] = zipf(n_kinds, strays.sum())
    items = tastes + n_kinds * zipf(n_items_a_kind, tastes.shape)
    seen = items[:, :-1]
    ends = np.arange(0, seen.size + 1, length - 1)
    shape = (n_sessions, n_kinds * n_items_a_kind)
    X = scipy.sparse.csr_matrix((np.ones(seen.size, np.float32), seen.ravel(), ends), shape=shape)
    X.sum_duplicates()
    return X, items[:, -1]


if os.environ.get("BIGCAT_DATA"):
    beauty = data.load("beauty", n_test=N_TEST)
    X, y, X_test, y_test = beauty.train.X, beauty.train.y, beauty.test.X, beauty.test.y
else:
    X, y = made_up_sessions()
    X, y, X_test, y_test = X[N_TEST:], y[N_TEST:], X[:N_TEST], y[:N_TEST]
X, X_test = normalize(X), normalize(X_test)  # as much of a long history as of a short one

model = LinearClassifier(rank=64, random_state=0).fit(X, y)
print(model.history_.choice["reason"])
found = metrics.evaluate(model, X_test, y_test, k=10)
items, counts = np.unique(y, return_counts=True)
popular = items[np.argsort(-counts)[:10]]
print("\n            hit@10  log-likelihood")
print(f"popularity  {np.isin(y_test, popular).mean():6.3f}", end="")
print(f"  {metrics.class_frequency_baseline(y, y_test):14.3f}")
print(f"model       {found['hit_at_10']:6.3f}  {found['log_likelihood']:14.3f}")

best, log_p = model.predict_top_k(X_test[:1], k=5)
print(f"\nafter {X_test[0].indices.tolist()}, and then came {y_test[0]}:")
print("  ".join(f"{item}: {p:.4f}" for item, p in zip(best[0], np.exp(log_p[0]))))
