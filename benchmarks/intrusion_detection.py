"""Intrusion detection: one model per user predicts the next process from the last five.

A made-up log in which the second user works from the first one's account for a while. Each start
is scored by the account holder's model minus the mean of the other users' models, both in log
probability: ``python -m benchmarks.intrusion_detection``. `events.read_process_starts` reads other
logs, in the form of Los Alamos' process events.
"""

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.datasets import events
from bigcat import BayesianClassifier
from bigcat.bayes import IndependentBinary

RUN = 20  # starts in a row that are scored together


def fit(where):
    """The model of one user's starts; processes that only others have started are classes too."""
    model = BayesianClassifier(IndependentBinary(link="probit", likelihood="conditioned"))
    return model.fit(rows.X[where], rows.y[where], classes=np.arange(rows.X.shape[1]))


def log_likelihood(model, where):
    return model.log_proba_of(rows.X[where], rows.y[where])


log = events.planted_intruder(n_users=6, n_processes=40, n_starts=2000, seed=1)
rows = events.windows(log.starts, n_previous=5, seconds=60)
users = log.starts.users
places = [np.flatnonzero(rows.user == u) for u in range(len(users))]
train = [place[: int(0.8 * len(place))] for place in places]
test = [place[int(0.8 * len(place)) :] for place in places]
models = [fit(where) for where in train]

print("mean log-likelihood of an account's last fifth (row) under a user's model (column)")
print(" " * 9 + " ".join(f"{user:>9}" for user in users))
for user, where in zip(users, test):
    clean = where[~log.intruder[where]]
    print(user, *(f"{log_likelihood(model, clean).mean():8.2f}" for model in models), sep="  ")

victim = list(users).index(log.victim)
intruder = log.intruder[test[victim]]
scores = np.array([log_likelihood(model, test[victim]) for model in models])
score = scores[victim] - np.delete(scores, victim, axis=0).mean(axis=0)
smooth = np.convolve(score, np.ones(RUN) / RUN, mode="same")
best = users[scores[:, intruder].sum(axis=1).argmax()]
print(f"\n{log.impostor} made {intruder.sum()} of {log.victim}'s last {len(score)} starts")
print(f"mean score: owner {score[~intruder].mean():.2f}, intruder {score[intruder].mean():.2f}")
print(f"AUC of one start:      {roc_auc_score(intruder, -score):.3f}")
print(f"AUC of {RUN} in a row:   {roc_auc_score(intruder, -smooth):.3f}")
print(f"the model that explains the intruder's starts best: {best}'s")
