"""A noise of your own from plain Python functions: the Cauchy distribution."""

import math

import numpy as np
from sklearn.datasets import load_iris

from bigcat import LinearClassifier
from bigcat.noise import CustomNoise


def log_cdf(t):
    return math.log(math.atan2(1.0, -t) / math.pi)  # good in the lower tail: no 1/2 + ...


def log_cdf_grad(t):
    return 1.0 / ((1.0 + t * t) * math.atan2(1.0, -t))


def log_pdf(t):
    return -math.log(math.pi * (1.0 + t * t))


def log_pdf_grad(t):
    return -2.0 * t / (1.0 + t * t)


cauchy = CustomNoise("cauchy", log_cdf, log_cdf_grad, log_pdf, log_pdf_grad)
X, y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
X[0] = X[-1]  # one gross error: a setosa with the measures of a virginica

print("noise     log-likelihood  of the wrong row  of the others")
for noise in ("gumbel", cauchy):
    model = LinearClassifier(noise, method="exact", l2=0.1, max_epochs=300).fit(X, y)
    log_p = model.log_proba_of(X, y)
    name = noise if isinstance(noise, str) else noise.name
    print(f"{name:8}  {log_p.mean():14.3f}  {log_p[0]:16.3f}  {log_p[1:].mean():13.3f}")

# A wrong derivative is found before any work.
try:
    LinearClassifier(CustomNoise("wrong", log_cdf, log_pdf, log_pdf, log_pdf_grad)).fit(X, y)
except ValueError as error:
    print(f"\n{error}")
assert np.isclose(np.exp(log_p).min(), np.exp(log_p[0]))
