"""biogeme's fit: a wide table and a utility for each alternative."""

import os
import sys
import tempfile

import biogeme.biogeme as bio
import biogeme.database as db
import numpy as np
import pandas as pd
from adapter import Measured, pairs
from biogeme import models
from biogeme.expressions import Beta, Variable
from biogeme.results_processing import EstimateVarianceCovariance

folder = sys.argv[1]
with Measured(folder) as measured:
    X, choice, there = pairs(folder)
    n, J, P = X.shape
    names = [f"v{k}_{j}" for j in range(J) for k in range(P)]
    frame = pd.DataFrame(X.reshape(n, -1), columns=names)
    frame["CHOICE"] = choice.astype(float)
    available = None
    if not there.all():
        frame = frame.assign(**{f"there_{j}": there[:, j].astype(float) for j in range(J)})
        available = {j: Variable(f"there_{j}") for j in range(J)}
    os.chdir(tempfile.mkdtemp())
    betas = [Beta(f"b{k}", 0, None, None, 0) for k in range(P)]
    V = {j: sum(betas[k] * Variable(f"v{k}_{j}") for k in range(P)) for j in range(J)}
    model = bio.BIOGEME(
        db.Database("pairs", frame), models.loglogit(V, available, Variable("CHOICE")),
        generate_html=False, generate_yaml=False, save_iterations=False,
    )  # fmt: skip
    model.model_name = "choice"
    result = model.estimate()
    table = result.get_beta_values()
    coef = np.array([table[f"b{k}"] for k in range(P)])
    classical = EstimateVarianceCovariance.RAO_CRAMER
    errors = [result.get_parameter_std_err(f"b{k}", classical) for k in range(P)]
    measured.found(coef, errors, result.final_log_likelihood)
