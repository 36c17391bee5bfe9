"""The plain twin of categorical from binary: against the authors' code, and against itself."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import reference.independent_binary as twin

CASES = ["glass", "detergent"]
ITERATIONS = {"probit": (1, 10, 100, 500), "logit": (1, 10, 50)}


def fixture_folder() -> Path:
    """Output of the authors' code, in the folder beside the one that BIGCAT_DATA names."""
    data = os.environ.get("BIGCAT_DATA")
    folder = Path(data).resolve().parent / "reference" / "categorical_from_binary" if data else None
    if folder is None or not folder.exists():
        pytest.skip(
            "needs ../reference/categorical_from_binary beside the folder that BIGCAT_DATA names"
        )
    return folder


@pytest.mark.data
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("link", ["probit", "logit"])
def test_twin_is_the_authors_code(case, link):
    folder = fixture_folder()
    data = np.load(folder / f"data_{case}.npz", allow_pickle=False)
    posterior = np.load(folder / f"post_{case}_{link}.npz")
    metrics = json.loads((folder / f"metrics_{case}_{link}.json").read_text())
    X, y, n_classes = data["X_train"], data["y_train"], int(data["K"])
    precision = np.eye(X.shape[1])
    cavi = twin.probit_cavi if link == "probit" else twin.logit_cavi
    for n in ITERATIONS[link]:
        q = cavi(X, y, n_classes, precision, n)
        np.testing.assert_allclose(q.mean.T, posterior[f"beta_mean_it{n}"], atol=1e-10)
    covariance = q.covariance if link == "probit" else q.covariance.transpose(1, 2, 0)
    np.testing.assert_allclose(covariance, posterior["beta_cov"], atol=1e-9)
    elbo = twin.probit_elbo if link == "probit" else twin.logit_elbo
    assert elbo(X, y, precision, q) == pytest.approx(metrics["elbo_code_at_final"], rel=1e-10)
    last = metrics["log"][-1]
    for name, likelihood in (("CBM", twin.log_marginalised), ("CBC", twin.log_conditioned)):
        for part in ("train", "test"):
            rows, labels = data[f"X_{part}"], data[f"y_{part}"]
            found = likelihood(link, rows @ q.mean.T)[np.arange(len(labels)), labels].mean()
            assert found == pytest.approx(last[f"{part}_{name}_ll"], abs=1e-9)


@pytest.fixture
def small():
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.standard_normal((40, 2)), np.ones(40)])
    labels = rng.integers(0, 3, 40)
    return X, labels, np.diag([0.5, 2.0, 0.1])


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_cavi_converges_to_a_stationary_point(small, link):
    X, labels, precision = small
    cavi, elbo = (
        (twin.probit_cavi, twin.probit_elbo)
        if link == "probit"
        else (twin.logit_cavi, twin.logit_elbo)
    )
    q = cavi(X, labels, 3, precision, 2000)

    def negative(mean):
        return -elbo(X, labels, precision, q._replace(mean=mean.reshape(q.mean.shape)))

    best = minimize(negative, q.mean.ravel(), method="BFGS", options={"gtol": 1e-8})
    assert -best.fun == pytest.approx(-negative(q.mean.ravel()), abs=1e-7)
