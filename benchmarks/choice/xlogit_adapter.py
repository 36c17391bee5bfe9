"""xlogit's fit: a long table, NumPy; standard errors from the Hessian."""

import sys

import numpy as np
from adapter import Measured, pairs
from xlogit import MultinomialLogit

folder = sys.argv[1]
with Measured(folder) as measured:
    X, choice, there = pairs(folder)
    n, J, P = X.shape
    model = MultinomialLogit()
    model.fit(
        X=X.reshape(-1, P),
        y=(choice[:, None] == np.arange(J)).ravel(),
        varnames=[f"v{k}" for k in range(P)],
        ids=np.repeat(np.arange(n), J),
        alts=np.tile(np.arange(J), n),
        avail=None if there.all() else there.ravel(),
        verbose=0,
    )
    measured.found(model.coeff_, model.stderr, model.loglikelihood)
