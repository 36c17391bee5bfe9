"""Choice models beside independent likelihoods, on simulated choices."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone

import reference.noise
import reference.probabilities
from bigcat import ChoiceModel, choice, report
from bigcat.bayes import GaussianPrior
from bigcat.files import ModelFileError

LONG = {"choice": "chosen", "case": "trip", "alternative": "mode"}


def trips(n=400, modes=("air", "bus", "car", "rail"), seed=0, noise="gumbel"):
    """Return a long table as a dict; every fourth pair is not available."""
    rng = np.random.default_rng(seed)
    J = len(modes)
    cost, time = rng.uniform(1, 5, (n, J)), rng.uniform(0, 2, (n, J))
    income = rng.normal(size=n)
    there = rng.random((n, J)) < 0.75
    there[np.arange(n), rng.integers(0, J, n)] = True
    V = -0.6 * cost - 0.8 * time + 0.3 * income[:, None] * np.arange(J) + 0.2 * np.arange(J)
    draws = {"gumbel": rng.gumbel, "gaussian": rng.normal, "logistic": rng.logistic}[noise]
    best = np.where(there, V + draws(size=V.shape), -np.inf).argmax(axis=1)
    return {
        "trip": np.repeat(np.arange(n), J),
        "mode": np.tile(np.array(modes), n),
        "cost": cost.ravel(),
        "time": time.ravel(),
        "income": np.repeat(income, J),
        "there": there.ravel(),
        "chosen": (best[:, None] == np.arange(J)).ravel().astype(int),
        "weight": np.repeat(rng.integers(1, 4, n), J).astype(float),
        "person": np.repeat(np.arange(n) // 5, J),
    }


def plain_log_likelihoods(coef, X, shape, there, chosen):
    """Return the log-likelihood of each case, in plain NumPy."""
    V = np.where(there.reshape(shape), (X @ coef).reshape(shape), -np.inf)
    return (V - logsumexp(V, axis=1, keepdims=True))[chosen.reshape(shape) == 1]


def plain_design(data, reference=0):
    """Return cost, income and constants of all modes but the reference, as columns."""
    modes, code = np.unique(data["mode"], return_inverse=True)
    others = [k for k in range(len(modes)) if k != reference]
    marks = [(code == k).astype(float) for k in others]
    return np.column_stack([data["cost"], *(data["income"] * m for m in marks), *marks])


def plain_fit(data, X, weights):
    shape = len(np.unique(data["trip"])), len(np.unique(data["mode"]))

    def terms(coef):
        return plain_log_likelihoods(coef, X, shape, data["there"], data["chosen"])

    done = minimize(lambda b: -weights @ terms(b), np.zeros(X.shape[1]), method="BFGS", tol=1e-9)
    P, h = X.shape[1], 1e-4
    steps = np.eye(P) * h
    hessian = np.empty((P, P))
    for a, b in itertools.product(range(P), repeat=2):
        ends = [
            s * t * (weights @ terms(done.x + s * steps[a] + t * steps[b]))
            for s in (1, -1)
            for t in (1, -1)
        ]
        hessian[a, b] = sum(ends) / (4 * h * h)
    scores = np.stack([(terms(done.x + s) - terms(done.x - s)) / (2 * h) for s in steps], axis=1)
    return done.x, -done.fun, np.linalg.inv(-hessian), scores * weights[:, None]


def fitted(data=None, utility="cost | income", **options):
    data = trips() if data is None else data
    fit = {name: options.pop(name) for name in ("weights", "groups") if name in options}
    return ChoiceModel(utility, **options).fit(data, available="there", **LONG, **fit)


# Estimates


@pytest.mark.parametrize("weights", [None, "weight"])
def test_availability_weights_constants_and_clusters_agree_with_plain_numpy(weights):
    data = trips()
    w = data["weight"][::4] if weights else np.ones(400)
    coef, value, inverse, scores = plain_fit(data, plain_design(data), w)
    model = fitted(data, weights=weights, groups="person")
    assert model.coef_names_[:2] == ["cost", "income:bus"]
    np.testing.assert_allclose(model.coef_, coef, atol=1e-4)
    assert model.log_likelihood_ == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(model.std_errors_, np.sqrt(np.diag(inverse)), rtol=1e-3)
    sums = np.add.reduceat(scores, np.arange(0, 400, 5))
    clustered = inverse @ (sums.T @ sums) @ inverse * 80 / 79
    np.testing.assert_allclose(model.robust_std_errors_, np.sqrt(np.diag(clustered)), rtol=1e-3)
    single = fitted(data, weights=weights)
    robust = inverse @ (scores.T @ scores) @ inverse
    np.testing.assert_allclose(single.robust_std_errors_, np.sqrt(np.diag(robust)), rtol=1e-3)


def test_conditional_logit_of_statsmodels():
    sm = pytest.importorskip("statsmodels.discrete.conditional_models")
    data = trips(n=60)
    there = data["there"]
    X = np.column_stack([data["cost"], data["time"]])[there]
    theirs = sm.ConditionalLogit(data["chosen"][there], X, groups=data["trip"][there]).fit(disp=0)
    ours = fitted(data, ["cost", "time"])
    np.testing.assert_allclose(ours.coef_, theirs.params, atol=1e-4)
    np.testing.assert_allclose(ours.std_errors_, theirs.bse, rtol=1e-3)


def test_counts_are_choices_that_come_again():
    data = trips()
    data["n"] = data["chosen"] * data["weight"]
    counted = ChoiceModel("cost | income").fit(
        data, counts="n", case="trip", alternative="mode", available="there"
    )
    np.testing.assert_allclose(counted.coef_, fitted(data, weights="weight").coef_, atol=1e-8)


def test_fixed_coefficients_are_an_offset():
    data = trips()
    data["known"] = -0.5 * data["time"]
    fixed = fitted(data, "cost + time | income", fixed={"time": -0.5})
    offset = fitted(data, "cost | income", offset="known")
    kept = [k for k, name in enumerate(fixed.coef_names_) if name != "time"]
    np.testing.assert_allclose(fixed.coef_[kept], offset.coef_, atol=1e-8)
    np.testing.assert_allclose(fixed.std_errors_[kept], offset.std_errors_, rtol=1e-8)
    assert np.isnan(fixed.std_errors_[fixed.coef_names_.index("time")])
    assert fixed.log_likelihood_ == pytest.approx(offset.log_likelihood_)


def test_bounds_hold_and_their_coefficients_have_no_errors():
    free = fitted()
    model = fitted(bounds={"cost": (-0.1, None), "income:car": (None, 5.0)})
    assert free.coef_[0] < -0.1
    assert model.coef_[0] == -0.1
    assert np.isnan(model.std_errors_[0])
    assert np.isfinite(model.std_errors_[1:]).all()
    np.testing.assert_allclose(model.coef_[1:], fitted(fixed={"cost": -0.1}).coef_[1:], atol=1e-6)


def test_the_reference_has_no_constant_and_changes_no_probability():
    data = trips()
    bus = fitted(data, reference="bus")
    assert "constant:bus" not in bus.coef_names_
    np.testing.assert_allclose(bus.predict_proba(data), fitted(data).predict_proba(data), atol=1e-8)


def test_a_ridge_shrinks_constants_and_a_prior_all_coefficients():
    free, ridge = fitted(), fitted(constants_l2=1e6)
    constants = [k for k, name in enumerate(free.coef_names_) if name.startswith("constant")]
    assert np.abs(ridge.coef_[constants]).max() < 1e-3 < np.abs(free.coef_[constants]).max()
    assert ridge.coef_[0] < -0.3
    tight = fitted(prior=GaussianPrior(mean=1.0, scale=1e-4))
    np.testing.assert_allclose(tight.coef_, 1.0, atol=1e-2)


def test_draws_of_the_posterior_have_its_moments():
    model = fitted(posterior=True, random_state=0)
    assert model.draws_.shape == (1000, len(model.coef_))
    assert (np.abs(model.draws_.mean(axis=0) - model.coef_) < 0.2 * model.std_errors_).all()
    np.testing.assert_allclose(model.draws_.std(axis=0), model.std_errors_, rtol=0.12)


# Forms of data


def test_long_wide_and_choosers_beside_alternatives_are_one_model():
    data = trips()
    modes, n = np.unique(data["mode"]), 400
    costs, there = data["cost"].reshape(n, 4), data["there"].reshape(n, 4)
    label = modes[data["chosen"].reshape(n, 4).argmax(axis=1)]
    wide = {"mode": label, "income": data["income"][::4]}
    for k, mode in enumerate(modes):
        wide |= {f"cost_{mode}": costs[:, k], f"{mode}_there": there[:, k]}
    long = fitted(data)
    options: dict[str, Any] = {"alternatives": [*modes], "columns": "{variable}_{alternative}"}
    model = ChoiceModel("cost | income")
    model.fit(wide, choice="mode", available="{alternative}_there", **options)
    np.testing.assert_allclose(model.coef_, long.coef_, atol=1e-8)
    p = model.predict_proba(wide)
    np.testing.assert_allclose(p.ravel(), long.predict_proba(data), atol=1e-8)
    assert (p[~there] == 0.0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert model.score(wide) == pytest.approx(model.log_likelihood_ / n)


@pytest.mark.parametrize("module", ["pandas", "polars", "pyarrow"])
def test_tables_of_libraries(module):
    library = pytest.importorskip(module)
    data = trips(n=50)
    table = library.table(data) if module == "pyarrow" else library.DataFrame(data)
    np.testing.assert_array_equal(fitted(table).coef_, fitted(data).coef_)


def test_rows_of_a_case_need_not_lie_together():
    data = trips()
    order = np.random.default_rng(1).permutation(len(data["trip"]))
    mixed = {name: values[order] for name, values in data.items()}
    model, other = fitted(data), fitted(mixed)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-10)
    np.testing.assert_allclose(other.predict_proba(mixed), model.predict_proba(data)[order])


STORES: dict[str, Any] = {
    "price": "price",
    "size": "size",
    "income:price": "income:price",
    "distance": lambda data: np.abs(data["home"] - data["place"]),
    "near": lambda data: (np.abs(data["home"] - data["place"]) < 0.5) * 1.0,
}


def city(n=500, J=30, seed=0):
    """Return choosers with their choices, stores, availability and the true coefficients."""
    rng = np.random.default_rng(seed)
    people = {
        "home": rng.normal(size=n),
        "income": rng.gamma(2.0, size=n),
        "weight": rng.integers(1, 4, n).astype(float),
        "family": np.arange(n) // 4,
    }
    stores = {
        "store": np.array([f"store {k}" for k in range(J)]),
        "place": rng.normal(size=J),
        "price": rng.uniform(1, 3, J),
        "size": rng.uniform(size=J),
    }
    coef = np.array([-0.5, 1.0, 0.2, -0.8, 0.4])
    away = np.abs(people["home"][:, None] - stores["place"])
    V = (coef[0] + coef[2] * people["income"][:, None]) * stores["price"]
    V = V + coef[1] * stores["size"] + coef[3] * away + coef[4] * (away < 0.5)
    there = rng.random((n, J)) < 0.7
    best = np.where(there, V + rng.gumbel(size=V.shape), -np.inf).argmax(axis=1)
    return people | {"store": stores["store"][best]}, stores, there, coef


def as_long(people, stores, there):
    n, J = there.shape
    i, j = np.divmod(np.arange(n * J), J)
    table = {name: values[i] for name, values in people.items() if name != "store"}
    table |= {name: values[j] for name, values in stores.items()}
    table |= {"person": i, "there": there.ravel()}
    return table | {"chosen": people["store"][i] == stores["store"][j]}


@pytest.mark.parametrize("constants", [False, True])
def test_pairs_that_are_made_on_the_fly_are_rows(constants):
    people, stores, there, _ = city()
    own = {"price", "size"} if constants else set()
    utility = {name: source for name, source in STORES.items() if name not in own}
    options = {"weights": "weight", "groups": "family"}
    pairs = ChoiceModel(utility, constants=constants, reference="store 3")
    pairs.fit(people, alternatives=stores, choice="store", available=there, **options)
    table = as_long(people, stores, there)
    rows = ChoiceModel(utility, constants=constants, reference="store 3")
    rows.fit(
        table, choice="chosen", case="person", alternative="store", available="there", **options
    )
    by_name = dict(zip(rows.coef_names_, rows.coef_))
    np.testing.assert_allclose(pairs.coef_, [by_name[name] for name in pairs.coef_names_])
    for name in ("std_errors_", "robust_std_errors_"):
        by_name = dict(zip(rows.coef_names_, getattr(rows, name)))
        theirs = [by_name[name] for name in pairs.coef_names_]
        np.testing.assert_allclose(getattr(pairs, name), theirs, rtol=1e-6)
    for name in ("log_likelihood_", "null_log_likelihood_", "constants_log_likelihood_"):
        assert getattr(pairs, name) == pytest.approx(getattr(rows, name))
    p = pairs.predict_proba(people, alternatives=stores, available=there)
    np.testing.assert_allclose(p.ravel(), rows.predict_proba(table), atol=1e-9)


def test_availability_is_a_mask_a_column_or_a_function():
    people, stores, there, _ = city()
    keywords = {"alternatives": stores | {"open": there[0]}, "choice": "store"}
    chosen = [int(name.split()[1]) for name in people["store"]]
    kept = there[0][chosen]
    people = {name: values[kept] for name, values in people.items()}
    mask = np.tile(there[0], (int(kept.sum()), 1))
    found = [
        ChoiceModel(STORES).fit(people, available=available, **keywords).coef_
        for available in (mask, there[0], "open", lambda data: data["open"])
    ]
    for coef in found[1:]:
        np.testing.assert_allclose(coef, found[0], atol=1e-10)


def test_many_constants_by_lbfgs_are_those_of_newton(monkeypatch):
    people, stores, there, _ = city()
    utility = {"distance": STORES["distance"], "income:price": "income:price"}

    def fit():
        model = ChoiceModel(utility, constants=True)
        return model.fit(people, alternatives=stores, choice="store", available=there)

    newton = fit()
    monkeypatch.setattr("bigcat.choice.newton.MAX_DENSE", 10)
    lbfgs = fit()
    np.testing.assert_allclose(lbfgs.coef_, newton.coef_, atol=1e-4)
    np.testing.assert_allclose(lbfgs.std_errors_[:2], newton.std_errors_[:2], rtol=1e-5)
    assert np.isnan(lbfgs.std_errors_[2:]).all()


# Sampled alternatives


def test_sampled_estimates_end_within_a_tenth_of_a_standard_error():
    people, stores, there, _ = city(n=200, J=200)
    keywords = {"alternatives": stores, "choice": "store", "available": there}
    exact = ChoiceModel(STORES).fit(people, **keywords)
    model = ChoiceModel(STORES, estimation="sampled", n_sampled=20, random_state=0)
    model.fit(people, **keywords)
    assert (model.sampling_error_ < 0.08).all()
    assert (np.abs(model.coef_ - exact.coef_) < 0.2 * exact.std_errors_).all()
    gap = (model.coef_ - exact.coef_) / exact.std_errors_
    assert np.sqrt(np.mean(gap**2)) < 0.1
    np.testing.assert_allclose(model.std_errors_, exact.std_errors_, rtol=0.02)


def test_sampled_estimates_have_robust_errors_groups_and_priors():
    people, stores, there, _ = city(n=200, J=200)
    data: dict[str, Any] = {"alternatives": stores, "choice": "store", "available": there}
    data |= {"groups": "family", "weights": "weight"}
    prior = GaussianPrior(scale=0.2)
    exact = ChoiceModel(STORES, prior=prior).fit(people, **data)
    model = ChoiceModel(STORES, prior=prior, estimation="sampled", random_state=0)
    model.fit(people, **data)
    np.testing.assert_allclose(model.robust_std_errors_, exact.robust_std_errors_, rtol=0.05)
    assert (np.abs(model.coef_ - exact.coef_) < 0.1 * exact.std_errors_).all()
    assert model.log_likelihood_ == pytest.approx(exact.log_likelihood_, abs=0.5)


def covered(n_sets, sampling):
    """Return how often 90 % intervals of McFadden's estimator hold the true coefficients."""
    held = []
    for seed in range(n_sets):
        people, stores, _, coef = city(n=300, J=60, seed=seed)
        open_all = np.ones((300, 60), bool)
        rng = np.random.default_rng(1000 + seed)
        away = np.abs(people["home"][:, None] - stores["place"])
        V = (coef[0] + coef[2] * people["income"][:, None]) * stores["price"]
        V = V + coef[1] * stores["size"] + coef[3] * away + coef[4] * (away < 0.5)
        people["store"] = stores["store"][(V + rng.gumbel(size=V.shape)).argmax(axis=1)]
        model = ChoiceModel(
            STORES, estimation="mcfadden", n_sampled=8, sampling=sampling, random_state=seed
        )
        model.fit(people, alternatives=stores, choice="store", available=open_all)
        held.append(np.abs(model.coef_ - coef) < norm.ppf(0.95) * model.std_errors_)
    return float(np.mean(held))


@pytest.mark.parametrize("sampling", [None, "price"])
def test_intervals_of_mcfaddens_estimator_hold_their_level(sampling):
    """In 100 data sets of 5 coefficients: 0.9, with a standard error of about 0.015."""
    assert 0.85 < covered(100, sampling) < 0.95


# Other noise


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
def test_probabilities_of_other_noise_agree_with_simulation(noise):
    data = trips(n=40, noise=noise)
    model = ChoiceModel(["cost", "time"], noise=noise).fit(data, available="there", **LONG)
    p = model.predict_proba(data).reshape(40, 4)
    rng = np.random.default_rng(0)
    draw = rng.normal if noise == "gaussian" else rng.logistic
    V = (np.column_stack([data["cost"], data["time"]]) @ model.coef_).reshape(40, 4)
    V = np.where(data["there"].reshape(40, 4), V, -np.inf)
    counts = np.zeros((40, 4))
    for _ in range(20):
        best = (V + draw(size=(1000, 40, 4))).argmax(axis=2)
        counts += (best[:, :, None] == np.arange(4)).sum(axis=0)
    error = np.sqrt(np.maximum(p * (1 - p), 1e-4) / 20_000)
    assert (np.abs(counts / 20_000 - p) < 4.5 * error).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-10)


@pytest.mark.parametrize("noise", ["gaussian", "logistic"])
def test_standard_errors_of_other_noise_are_curvature(noise):
    data = trips(n=60, noise=noise)
    model = ChoiceModel(["cost", "time"], noise=noise).fit(data, available="there", **LONG)

    def value(*step):
        other = clone(model).set_params(
            fixed=dict(zip(model.coef_names_, model.coef_ + np.array(step)))
        )
        return other.fit(data, available="there", **LONG).log_likelihood_

    h = 0.02
    curvature = (value(h, 0) - 2 * model.log_likelihood_ + value(-h, 0)) / h**2
    cross = (value(h, h) - value(h, -h) - value(-h, h) + value(-h, -h)) / (4 * h * h)
    information = np.linalg.inv(model.covariance_)
    assert information[0, 0] == pytest.approx(-curvature, rel=2e-3)
    assert information[0, 1] == pytest.approx(-cross, rel=1e-2)
    assert value(h, 0) < model.log_likelihood_ > value(0, h)


def test_probit_is_that_of_the_reference_twin():
    data = trips(n=30, noise="gaussian")
    model = ChoiceModel(["cost", "time"], noise="gaussian").fit(data, **LONG)
    X, labels = np.column_stack([data["cost"], data["time"]]), data["chosen"].reshape(30, 4)

    def value(coef):
        scores = (X @ coef).reshape(30, 4)
        found = [
            reference.probabilities.class_log_probabilities(reference.noise.GAUSSIAN, row)[y]
            for row, y in zip(scores, labels.argmax(axis=1))
        ]
        return -sum(found)

    done = minimize(value, np.zeros(2), method="BFGS", tol=1e-7)
    np.testing.assert_allclose(model.coef_, done.x, atol=1e-4)
    assert model.log_likelihood_ == pytest.approx(-done.fun, abs=1e-7)


def test_probit_with_fifty_alternatives_recovers_known_coefficients():
    rng = np.random.default_rng(3)
    n, J, coef = 600, 50, np.array([0.6, -0.4, 0.3])
    X = rng.normal(size=(n, J, 3))
    best = (X @ coef + rng.normal(size=(n, J))).argmax(axis=1)
    table = {name: X[:, :, k].ravel() for k, name in enumerate("abc")}
    table |= {"trip": np.repeat(np.arange(n), J), "mode": np.tile(np.arange(J), n)}
    table["chosen"] = (best[:, None] == np.arange(J)).ravel()
    model = ChoiceModel(["a", "b", "c"], noise="gaussian").fit(table, **LONG)
    assert (np.abs(model.coef_ - coef) < 2 * model.std_errors_).all()
    assert (model.std_errors_ < 0.05).all()


# Results


def test_summary_has_what_economists_expect():
    model = fitted(weights="weight")
    table = model.summary(level=0.9)
    final, null, k = model.log_likelihood_, model.null_log_likelihood_, len(model.coef_)
    there = trips()["there"].reshape(400, 4).sum(axis=1)
    assert null == pytest.approx(-(trips()["weight"][::4] @ np.log(there)))
    assert table.figures["rho-squared"] == pytest.approx(1 - final / null)
    assert table.figures["adjusted rho-squared"] == pytest.approx(1 - (final - k) / null)
    assert table.figures["AIC"] == pytest.approx(2 * k - 2 * final)
    assert table.figures["BIC"] == pytest.approx(k * np.log(400) - 2 * final)
    assert null < model.constants_log_likelihood_ < final
    np.testing.assert_allclose(table["z"], table["estimate"] / table["robust_std_error"])
    classical = model.summary(robust=False)
    np.testing.assert_allclose(classical["z"], model.coef_ / model.std_errors_)
    assert "constant:car" in repr(table)
    assert "<table" in table.to_html()
    assert r"\toprule" in table.to_latex()


def test_shares_fit_choices_where_there_are_constants():
    data = trips()
    data["there"][:] = True
    model = fitted(data)
    shares = model.shares(data, n_draws=400)
    chosen = data["chosen"].reshape(400, 4).mean(axis=0)
    np.testing.assert_allclose(shares["share"], chosen, atol=1e-8)
    assert (shares["2.5%"] < chosen).all()
    assert (chosen < shares["97.5%"]).all()


def test_removed_and_added_alternatives():
    data = trips()
    data["there"][:] = True
    model = fitted(data, "cost | income")
    rest = model.shares(data, without=["car"], n_draws=0)
    before = model.shares(data, n_draws=0)
    by_name = dict(zip(rest["alternative"], rest["share"]))
    assert by_name["car"] == 0.0
    assert (np.delete(rest["share"] - before["share"], 2) > 0).all()
    extra = {name: values[data["mode"] == "rail"] for name, values in data.items()}
    extra["mode"] = np.full(400, "tram")
    more = {name: np.concatenate([data[name], extra[name]]) for name in data}
    with pytest.raises(ValueError, match="'tram' is unknown; the alternatives are air, bus"):
        model.predict_proba(more)
    shares = model.shares(more, like={"tram": "rail"}, n_draws=0)
    by_name = dict(zip(shares["alternative"], shares["share"]))
    assert by_name["tram"] == pytest.approx(by_name["rail"])


def test_elasticities_of_the_logit_have_closed_forms():
    data = trips(n=50)
    data["there"][:] = True
    model = fitted(data, ["cost", "time"])
    p, cost = model.predict_proba(data).reshape(50, 4), data["cost"].reshape(50, 4)
    table = model.elasticities(data, "cost")
    for k, name in enumerate(table["alternative"]):
        slope = model.coef_[0] * cost[:, [k]] * ((np.arange(4) == k) - p[:, [k]])
        expected = (p * slope).sum(axis=0) / p.sum(axis=0)
        np.testing.assert_allclose(table[name], expected, rtol=1e-6)
        effects = model.coef_[0] * (p * ((np.arange(4) == k) - p[:, [k]])).mean(axis=0)
        np.testing.assert_allclose(model.marginal_effects(data, "cost")[name], effects, rtol=1e-6)
    by_income = fitted(data).marginal_effects(data, "income")
    assert list(by_income.columns) == ["alternative", "all"]
    assert abs(by_income["all"].sum()) < 1e-8


def test_elasticities_of_tables_of_alternatives_are_those_of_rows():
    people, stores, there, _ = city(n=60)
    model = ChoiceModel(STORES).fit(people, alternatives=stores, choice="store", available=there)
    options: dict[str, Any] = {"alternatives": stores, "available": there}
    table = as_long(people, stores, there)
    rows = ChoiceModel(list(STORES)[:2], fixed=dict(zip(STORES, model.coef_[:2])))
    pairs = ChoiceModel(list(STORES)[:2], fixed=dict(zip(STORES, model.coef_[:2])))
    rows.fit(table, choice="chosen", case="person", alternative="store", available="there")
    pairs.fit(people, choice="store", **options)
    labels = ["store 3", "store 17"]
    few = pairs.elasticities(people, "price", of=labels, **options)
    every = rows.elasticities(table, "price")
    by_name = dict(zip(every["alternative"], every["store 3"]))
    assert list(few.columns) == ["alternative", *labels]
    expected = [by_name[name] for name in few["alternative"]]
    np.testing.assert_allclose(few["store 3"], expected, atol=1e-8)
    assert list(model.marginal_effects(people, "home", **options).columns)[1:] == ["all"]
    many = {name: np.repeat(values, 5) for name, values in stores.items()}
    many["store"] = np.arange(150)
    with pytest.raises(ValueError, match="between 150 alternatives; name at most 100"):
        model.elasticities(people, "price", alternatives=many)


def test_a_report_has_estimates_and_shares(tmp_path):
    people, stores, there, _ = city(n=60)
    model = ChoiceModel(STORES)
    model.fit(people, alternatives=stores, choice="store", available=there)
    options: dict[str, Any] = {"alternatives": stores, "available": there}
    page = report(model, people, path=tmp_path / "stores.html", title="Stores", **options)
    text = page.read_text(encoding="utf-8")
    for words in ("<h1>Stores</h1>", "income:price", "rho-squared", "store 17", "Estimates"):
        assert words in text
    tables = model.report_tables(people, **options)
    assert tables["Shares"]["observed"].sum() == pytest.approx(1.0)


def test_willingness_to_pay_by_the_delta_method():
    model = fitted(trips(), ["cost", "time"])
    table = model.willingness_to_pay("cost")
    gradient = np.array([-model.coef_[1] / model.coef_[0] ** 2, 1 / model.coef_[0]])
    expected = np.sqrt(gradient @ model.covariance_ @ gradient)
    assert table["std_error"][0] == pytest.approx(expected)
    assert table["estimate"][0] == pytest.approx(model.coef_[1] / model.coef_[0])


def test_log_sums_are_expected_highest_utilities():
    data = trips(n=30)
    model = fitted(data, ["cost", "time"])
    V = (np.column_stack([data["cost"], data["time"]]) @ model.coef_).reshape(30, 4)
    V = np.where(data["there"].reshape(30, 4), V, -np.inf)
    np.testing.assert_allclose(model.log_sums(data), logsumexp(V, axis=1))


def test_likelihood_ratio_and_wald_tests():
    data = trips()
    small, large = fitted(data, ["cost"]), fitted(data, ["cost", "time"])
    ratio = large.likelihood_ratio_test(small)
    assert ratio.df == 1
    assert ratio.statistic == pytest.approx(2 * (large.log_likelihood_ - small.log_likelihood_))
    wald = large.wald_test({"time": 0.0}, robust=False)
    assert wald.statistic == pytest.approx((large.coef_[1] / large.std_errors_[1]) ** 2)
    assert wald.p_value == pytest.approx(2 * norm.sf(np.sqrt(wald.statistic)))
    with pytest.raises(ValueError, match="needs fewer coefficients"):
        small.likelihood_ratio_test(large)


# Formulas, files, conventions


def test_formulas_beyond_names_go_through_formulaic():
    pytest.importorskip("formulaic")
    data = trips() | {"band": np.where(trips()["cost"] > 3, "dear", "cheap")}
    data["dear"] = (data["band"] == "dear").astype(float)
    data["log"] = np.log(data["time"] + 1)
    plain = fitted(data, "log + dear:cost + cost | income")
    model = fitted(data, "np.log(time + 1) + C(band):cost | income")
    np.testing.assert_allclose(model.predict_proba(data), plain.predict_proba(data), atol=1e-7)
    assert model.coef_names_[0] == "np.log(time + 1)"


def test_formulas_and_lists_say_the_same():
    formula = fitted(utility="chosen ~ cost | income | time")
    lists = fitted(utility=["cost"], by_alternative=["income", "time"], constants=True)
    assert formula.coef_names_ == lists.coef_names_
    np.testing.assert_array_equal(formula.coef_, lists.coef_)
    assert "time:air" in formula.coef_names_
    assert "income:air" not in formula.coef_names_
    assert fitted(utility="cost | 0").coef_names_ == ["cost"]


def test_a_model_file_gives_the_same_model(tmp_path):
    data = trips()
    model = fitted(data, posterior=True, random_state=0)
    path = model.save(tmp_path / "model.safetensors")
    loaded = ChoiceModel.load(path)
    np.testing.assert_array_equal(loaded.predict_proba(data), model.predict_proba(data))
    np.testing.assert_array_equal(loaded.draws_, model.draws_)
    assert (
        loaded.summary().to_latex().split("seconds")[0]
        == (model.summary().to_latex().split("seconds")[0])
    )
    assert loaded.get_params() == model.get_params()
    (tmp_path / "other").write_bytes(b"no model")
    with pytest.raises(ModelFileError, match="not a file of a ChoiceModel"):
        ChoiceModel.load(tmp_path / "other")


def test_a_model_file_holds_no_functions(tmp_path):
    people, stores, there, _ = city()
    keywords = {"alternatives": stores, "available": there}
    model = ChoiceModel(STORES, prior=GaussianPrior(scale=2.0))
    path = model.fit(people, choice="store", **keywords).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"functions=\{'distance'"):
        ChoiceModel.load(path)
    functions = {name: source for name, source in STORES.items() if callable(source)}
    loaded = ChoiceModel.load(path, functions=functions)
    expected = model.predict_proba(people, **keywords)
    np.testing.assert_array_equal(loaded.predict_proba(people, **keywords), expected)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    model, data = fitted(posterior=True, random_state=0), trips()
    coef = model.coef_
    with pytest.raises(ValueError, match="no column 'fare'"):
        model.set_params(utility="fare").fit(data, **LONG)
    np.testing.assert_array_equal(model.coef_, coef)
    model.set_params(utility="cost", posterior=False).fit(data, **LONG)
    assert not hasattr(model, "draws_")


def test_it_is_cloned_like_other_estimators():
    model = ChoiceModel("cost", noise="gaussian", max_iter=7)
    assert clone(model).get_params() == model.get_params()
    assert choice.ChoiceModel is ChoiceModel


# Bad input


def changed(**columns):
    data = trips(n=30)
    for name, change in columns.items():
        data[name] = change(data)
    return data


def none_chosen(data):
    return np.where(data["trip"] == 7, 0, data["chosen"])


def two_chosen(data):
    return np.where((data["trip"] == 7) & data["there"], 1, data["chosen"])


@pytest.mark.parametrize(
    ("data", "utility", "message"),
    [
        (changed(chosen=none_chosen), ["cost"], "case 7 has no chosen alternative"),
        (changed(chosen=two_chosen), ["cost"], "case 7 has [234] chosen alternatives"),
        (changed(there=lambda d: d["chosen"] == 0), ["cost"], "case 0 chose '.*not available"),
        (changed(two=lambda d: 2 * d["cost"]), ["cost", "two"], "cost, two are collinear"),
        (changed(), ["cost", "income"], "income is the same for all alternatives"),
        (changed(cost=lambda d: np.where(d["trip"] == 9, np.nan, 1)), ["cost"], "nan in case 9"),
        (changed(), ["mode"], "mode holds .* and not numbers"),
        (changed(), ["fare"], "no column 'fare'; the columns are trip, mode"),
        (changed(mode=lambda d: np.full(120, "bus")), ["cost"], "case 0 has 'bus' twice"),
        (changed(chosen=lambda d: np.where(d["trip"] == 7, np.nan, 0)), ["cost"], "nan .* case 7"),
        (changed(trip=lambda d: np.where(d["trip"] == 7, np.nan, 0)), ["cost"], "trip .* row 28"),
        (
            changed(mode=lambda d: np.where(d["trip"] == 7, np.array(None), "x")),
            ["cost"],
            "mode .* row 28",
        ),
        (changed(there=lambda d: np.where(d["trip"] == 7, np.nan, 1)), ["cost"], "nan in row 28"),
    ],
)
def test_bad_input_is_named(data, utility, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fitted(data, utility)


def test_weights_and_groups_belong_to_cases():
    for name, column in {"weights": "weight", "groups": "person"}.items():
        data = changed(**{column: lambda data: np.arange(120.0)})
        with pytest.raises(ValueError, match=f"{column} differs between the rows of case 0"):
            fitted(data, **{name: column})
    negative = changed(weight=lambda data: np.where(data["trip"] == 7, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"weight is -1.0 in case 7; give weights of zero or more"):
        fitted(negative, weights="weight")


def test_options_that_do_not_fit_the_data_are_named():
    people, stores, _, _ = city(n=50)
    with pytest.raises(ValueError, match="estimation='sampled' is for choosers"):
        fitted(estimation="sampled")
    model = ChoiceModel(STORES, estimation="mcfadden", n_sampled=0)
    with pytest.raises(ValueError, match="n_sampled=0 must be at least 1"):
        model.fit(people, alternatives=stores, choice="store")
    with pytest.raises(ValueError, match=r"bounds of cost are 1.0 and 0.0; give \(low, high\)"):
        fitted(bounds={"cost": (1, 0)})
    missing = people["store"].astype(object)
    missing[3] = None
    with pytest.raises(ValueError, match="store=None of case 3: no alternative is chosen"):
        ChoiceModel(STORES).fit(people | {"store": missing}, alternatives=stores, choice="store")


def test_alternatives_that_are_never_chosen_have_no_constant():
    data = trips()
    data["chosen"] = np.where(data["mode"] == "bus", 0, data["chosen"])
    data = {n: v[np.isin(data["trip"], data["trip"][data["chosen"] == 1])] for n, v in data.items()}
    with pytest.raises(ValueError, match="1 alternatives are never chosen, such as 'bus'"):
        fitted(data)
    assert fitted(data, constants_l2=1.0).coef_[0] < 0.0


def test_separable_choices_warn_and_name_the_variable():
    data = trips(n=60)
    data["sign"] = data["chosen"] * 1.0
    with pytest.warns(UserWarning, match="separable by sign"):
        fitted(data, ["cost", "sign"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(data, ["cost", "time"])


def test_choosers_of_unknown_or_closed_stores_are_named():
    people, stores, there, _ = city(n=50)
    odd = people["store"].astype(object)
    odd[3] = "no store"
    with pytest.raises(ValueError, match="'no store' of case 3 is unknown"):
        ChoiceModel(STORES).fit(people | {"store": odd}, alternatives=stores, choice="store")
    k = list(stores["store"]).index(people["store"][5])
    there[5, k] = False
    with pytest.raises(ValueError, match="case 5 chose 'store"):
        ChoiceModel(STORES).fit(people, alternatives=stores, choice="store", available=there)
