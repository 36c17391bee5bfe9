"""Softmax, probit and logistic models of the same data, which come from a probit model.

The test log-likelihood is best for Gaussian noise, but not by much: the three models differ in
their tails, where few rows are.
"""

import numpy as np

from bigcat import LinearClassifier

rng = np.random.default_rng(1)
X = rng.normal(size=(4000, 4))
utilities = X @ rng.normal(scale=0.5, size=(4, 5)) + rng.normal(size=(4000, 5))
y = utilities.argmax(axis=1)
train, test = slice(0, 1000), slice(1000, None)

print("noise      log-likelihood  worst row  accuracy  size of the weights")
for noise in ("gumbel", "gaussian", "logistic"):
    # The likelihood itself: the softmax in closed form, the others by quadrature.
    model = LinearClassifier(noise, method="exact", max_epochs=100).fit(X[train], y[train])
    log_p = model.log_proba_of(X[test], y[test])
    accuracy = model.score(X[test], y[test])
    size = abs(model.coef_ - model.coef_.mean(axis=0)).mean()  # noises differ in scale
    print(f"{noise:9}  {log_p.mean():14.4f}  {log_p.min():9.2f}  {accuracy:8.3f}  {size:19.3f}")
