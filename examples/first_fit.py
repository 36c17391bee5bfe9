"""A first fit: handwritten digits, calibrated probabilities, and the bound that was maximised."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from bigcat import LinearClassifier, metrics
from bigcat.samplers import Uniform

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, random_state=0)

# Each step visits four of the nine other classes. With so few classes this is only a demonstration.
model = LinearClassifier(method="augment-reduce", max_epochs=30, random_state=0, sampler=Uniform(4))
model.fit(X_train, y_train, X_val=X_test, y_val=y_test)

print("epoch  bound of the epoch  test log-likelihood")
for row in model.history_[::5]:
    print(f"{row['epoch']:5d}  {row['bound']:18.4f}  {row['validation_log_likelihood']:19.4f}")

classes, log_probabilities = model.predict_top_k(X_test[:3], k=3)
print("\ntruth  the three most probable digits")
for truth, digits, logs in zip(y_test, classes, log_probabilities):
    guesses = "  ".join(f"{d}: {p:.3f}" for d, p in zip(digits, np.exp(logs)))
    print(f"{truth:5d}  {guesses}")

bound, exact = model.lower_bound(X_test, y_test), model.log_proba_of(X_test, y_test)
print(f"\ntest log-likelihood        {exact.mean():.4f}")
print(f"bound, below it in each row {bound.mean():.4f}")
print(f"class frequencies alone    {metrics.class_frequency_baseline(y_train, y_test):.4f}")

# The default fits small problems exactly, with a ridge selected on validation rows.
best = LinearClassifier().fit(X_train, y_train)
print(f"\nby default                 {best.log_proba_of(X_test, y_test).mean():.4f}")
print(best.selection_)
