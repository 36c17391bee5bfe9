"""Number of negatives on classes with Zipf frequencies, the weakest case of uniform draws."""

import numpy as np
from scipy.sparse import csr_matrix

from bigcat import LinearClassifier, metrics
from bigcat.samplers import Uniform

# Rows of 20 features, half of them among the 20 that belong to the row's class.
n, n_classes, n_features, rng = 16_000, 1000, 2000, np.random.default_rng(0)
frequency = 1 / np.arange(1, n_classes + 1)
labels = rng.choice(n_classes, n, p=frequency / frequency.sum())
own = rng.integers(n_features, size=(n_classes, 20))
columns = np.hstack([own[labels, :10], rng.integers(n_features, size=(n, 10))])
places = (np.repeat(np.arange(n), 20), columns.ravel())
rows = csr_matrix((np.full(20 * n, 20**-0.5), places), (n, n_features))
y = labels[:12_000]
known = np.isin(labels[12_000:], y)
X, X_test, y_test = rows[:12_000], rows[12_000:][known], labels[12_000:][known]

runs = {
    "8 uniform negatives": {"method": "augment-reduce", "sampler": Uniform(8)},
    "64 uniform negatives": {"method": "augment-reduce", "sampler": Uniform(64)},
    "8, and the 50 most frequent": {
        "method": "augment-reduce",
        "sampler": Uniform(n_negatives=8, exact_classes=50),
    },
    "all classes": {"method": "exact", "solver": "adagrad"},
}
print("after 3 epochs                   test log-likelihood  seconds")
print(f"class frequencies            {metrics.class_frequency_baseline(y, y_test):23.3f}")
for name, parameters in runs.items():
    model = LinearClassifier(max_epochs=3, random_state=0, **parameters).fit(X, y)
    log_likelihood = metrics.log_likelihood(model, X_test, y_test)
    print(f"{name:27}  {log_likelihood:23.3f}  {model.history_[-1]['seconds']:7.1f}")
