"""How many negatives? Classes with Zipf frequencies, where uniform draws are at their weakest."""

import numpy as np

from bigcat import LinearClassifier, metrics
from bigcat.data import synthetic
from bigcat.samplers import Uniform

drawn = synthetic.zipf_classes(16_000, n_classes=1000, n_features=2000, seed=0)
train = slice(0, 12_000)
X, y = drawn.X[train], drawn.y[train]
known = np.isin(drawn.y[12_000:], y)
X_test, y_test = drawn.X[12_000:][known], drawn.y[12_000:][known]

runs = {
    "8 uniform negatives": {"method": "augment-reduce", "n_negatives": 8},
    "64 uniform negatives": {"method": "augment-reduce", "n_negatives": 64},
    "8, and the 50 most frequent": {
        "method": "augment-reduce",
        "sampler": Uniform(n_negatives=8, exact_classes=50),
    },
    "all classes": {"method": "exact", "solver": "adagrad"},
}
print("after 3 epochs               held-out log-likelihood  seconds")
print(f"class frequencies            {metrics.class_frequency_baseline(y, y_test):23.3f}")
for name, parameters in runs.items():
    model = LinearClassifier(max_epochs=3, random_state=0, **parameters).fit(X, y)
    log_likelihood = metrics.log_likelihood(model, X_test, y_test)
    print(f"{name:27}  {log_likelihood:23.3f}  {model.history_[-1]['seconds']:7.1f}")
