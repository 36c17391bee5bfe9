"""Softmax, probit and logistic models of the same data: which noise has the utilities?

The data are drawn from a probit model, so the Gaussian noise should win on held-out rows.
"""

from bigcat import LinearClassifier
from bigcat.data import synthetic

drawn = synthetic.linear_utilities(4000, 4, 5, noise="gaussian", seed=1)
X, y = drawn.X, drawn.y
train, test = slice(0, 1000), slice(1000, None)

print("noise      log-likelihood  bound     accuracy  rows of probabilities add up to")
for noise in ("gumbel", "gaussian", "logistic"):
    model = LinearClassifier(noise, method="exact", max_epochs=100)
    model.fit(X[train], y[train])
    log_likelihood = model.log_proba_of(X[test], y[test]).mean()
    # The augmented bound at the same weights: nothing is fitted again.
    bound = model.set_params(method="augment-reduce").lower_bound(X[test], y[test]).mean()
    accuracy = model.score(X[test], y[test])
    total = model.predict_proba(X[test][:5]).sum(axis=1).mean()
    print(f"{noise:9}  {log_likelihood:14.4f}  {bound:8.4f}  {accuracy:8.3f}  {total:.12f}")
