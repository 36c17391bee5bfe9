"""larch's fit: rows of cases and alternatives (idca), compiled by numba."""

import sys

import larch as lx
import numpy as np
import pandas as pd
from adapter import Measured, pairs

folder = sys.argv[1]
with Measured(folder) as measured:
    X, choice, there = pairs(folder)
    n, J, P = X.shape
    names = [f"v{k}" for k in range(P)]
    frame = pd.DataFrame(X.reshape(-1, P), columns=names)
    frame["chosen"] = (choice[:, None] == np.arange(J)).ravel().astype(float)
    frame.index = pd.MultiIndex.from_product([np.arange(n), np.arange(1, J + 1)], names=["i", "j"])
    if not there.all():
        frame["there"] = there.ravel()
    model = lx.Model(lx.Dataset.construct.from_idca(frame))
    model.utility_ca = sum(lx.P(name) * lx.X(name) for name in names)
    model.choice_ca_var = "chosen"
    if not there.all():
        model.availability_ca_var = "there"
    result = model.maximize_loglike(quiet=True)
    model.calculate_parameter_covariance()
    errors = dict(zip(model.pnames, model.pstderr))
    coef = dict(zip(model.pnames, model.pvals))
    measured.found([coef[k] for k in names], [errors[k] for k in names], result.loglike)
