"""xlogit's fit: a long table, NumPy; standard errors from the Hessian."""

import sys

import numpy as np
from adapter import NAMES, Measured, pairs
from xlogit import MultinomialLogit

folder = sys.argv[1]
with Measured(folder) as measured:
    X, choice = pairs(folder)
    n, J, P = X.shape
    model = MultinomialLogit()
    model.fit(
        X=X.reshape(-1, P),
        y=(choice[:, None] == np.arange(J)).ravel(),
        varnames=NAMES,
        ids=np.repeat(np.arange(n), J),
        alts=np.tile(np.arange(J), n),
        verbose=0,
    )
    measured.found(model.coeff_, model.stderr, model.loglikelihood)
