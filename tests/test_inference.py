"""Standard errors, marginal effects, tables and formulas: statsmodels is the reference."""

import pickle
import sys
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score

import bigcat
from bigcat import BayesianClassifier, FormulaClassifier, LinearClassifier
from bigcat.inference import ResultsTable, wald_columns

pandas = pytest.importorskip("pandas")
statsmodels = pytest.importorskip("statsmodels.api")


def sample(n=500, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    scores = X @ rng.standard_normal((3, 3)) + [0.0, 0.5, -0.5]
    classes = np.array(["ant", "bee", "cat"])
    return X, classes[(scores + rng.gumbel(size=(n, 3))).argmax(axis=1)]


def reference(X, y, base="ant", **options):
    """The fit of statsmodels, with the constant last, and the order of its classes."""
    order = [base, *(label for label in np.unique(y) if label != base)]
    codes = np.array([order.index(label) for label in y])
    design = np.column_stack([X, np.ones(len(X))])
    return statsmodels.MNLogit(codes, design).fit(disp=0, tol=1e-12, maxiter=200, **options)


def maximum_likelihood(X, y, **options) -> Any:
    return LinearClassifier(l2=0, progress=False, **options).fit(X, y)


# Classical tables


@pytest.mark.parametrize("base", ["ant", "cat"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_classical_table_is_that_of_statsmodels(base, sparse):
    X, y = sample()
    expected, robust = reference(X, y, base), reference(X, y, base, cov_type="HC0")
    rows = scipy.sparse.csr_array(X) if sparse else X
    model = maximum_likelihood(rows, y)
    table = model.summary(rows, y, base=base, level=0.9)
    assert (
        table["class"].tolist()
        == np.repeat([k for k in ["ant", "bee", "cat"] if k != base], 4).tolist()
    )
    assert table["feature"].tolist() == ["x0", "x1", "x2", "intercept"] * 2
    low, high = expected.conf_int(0.1).reshape(8, 2).T
    for name, values in {
        "estimate": expected.params.T.ravel(),
        "std_error": expected.bse.T.ravel(),
        "z": expected.tvalues.T.ravel(),
        "p_value": expected.pvalues.T.ravel(),
        "5%": low,
        "95%": high,
        "odds_ratio": np.exp(expected.params.T.ravel()),
    }.items():
        np.testing.assert_allclose(table[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
    errors = model.summary(rows, y, base=base, robust=True)["robust_std_error"]
    np.testing.assert_allclose(errors, robust.bse.T.ravel(), rtol=1e-4)
    figures = table.figures
    assert (figures["base"], figures["rows"], figures["parameters"]) == (base, 500, 8)
    assert figures["log-likelihood"] == pytest.approx(expected.llf, rel=1e-8)
    assert figures["AIC"] == pytest.approx(expected.aic, rel=1e-8)
    assert figures["BIC"] == pytest.approx(expected.bic, rel=1e-8)
    assert figures["log-likelihood of constants"] == pytest.approx(expected.llnull, rel=1e-6)
    assert figures["LR statistic"] == pytest.approx(expected.llr, rel=1e-6)
    assert figures["LR degrees of freedom"] == 6
    assert figures["LR p-value"] == pytest.approx(expected.llr_pvalue, rel=1e-4)
    assert figures["McFadden R2"] == pytest.approx(expected.prsquared, rel=1e-6)


def test_units_and_offsets_do_not_cost_digits():
    X, y = sample()
    sizes, offsets = np.array([1e-6, 1.0, 1e5]), np.array([0.0, 1e6, 1e9])
    table = maximum_likelihood(X, y).summary(X, y)
    moved = X * sizes + offsets
    other = maximum_likelihood(moved, y).summary(moved, y)
    weights = table["feature"] != "intercept"
    for name in ("estimate", "std_error"):
        found = other[name][weights] * np.tile(sizes, 2)
        np.testing.assert_allclose(found, table[name][weights], rtol=1e-5)
    assert other.figures == pytest.approx(table.figures)


def test_weights_of_rows_are_counts_and_an_intercept_is_optional():
    X, y = sample(200)
    counts = np.random.default_rng(1).integers(0, 3, 200)
    model = LinearClassifier(l2=0).fit(X, y, sample_weight=counts)
    weighted = model.summary(X, y, sample_weight=counts)
    repeated = model.summary(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_allclose(weighted["std_error"], repeated["std_error"], rtol=1e-8)
    assert weighted.figures == pytest.approx(repeated.figures)
    bare = maximum_likelihood(X, y, fit_intercept=False).summary(X, y)
    assert bare["feature"].tolist() == ["x0", "x1", "x2"] * 2
    assert "LR statistic" not in bare.figures


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l2": "auto"}, "l2='auto': classical standard errors are for fits without a penalty"),
        ({"l2": 1.0}, "l2=1.0: .*fit LinearClassifier\\(l2=0\\)"),
        ({"noise": "gaussian"}, "noise='gaussian': .*softmax"),
        ({"rank": 1}, "low rank.*rank=None"),
    ],
)
def test_models_without_classical_errors_say_so(options, message):
    X, y = sample(100)
    model = LinearClassifier(**{"l2": 0, "max_epochs": 3, **options}).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.summary(X, y)


def test_rows_without_a_maximum_are_errors():
    X, y = sample(100)
    model = maximum_likelihood(X, y)
    with pytest.raises(ValueError, match="1 of 3 classes have no row in y"):
        model.summary(X[y != "bee"], y[y != "bee"])
    twice = np.column_stack([X, X[:, 0] + X[:, 1]])
    with pytest.raises(ValueError, match="columns of X are linear functions of others: x"):
        maximum_likelihood(twice, y).summary(twice, y)
    many = np.random.default_rng(0).standard_normal((100, 2_000))
    with pytest.warns(ConvergenceWarning, match="perfectly"):
        model = maximum_likelihood(many, y)
    with pytest.raises(ValueError, match=r"4,002 rows and columns, and 4,000 is the most"):
        model.summary(many, y)


def test_other_rows_than_those_of_the_fit_warn():
    X, y = sample()
    with pytest.warns(ConvergenceWarning, match="nats below its maximum.*pass the rows of the fit"):
        maximum_likelihood(X, y).summary(X[:60], y[:60])


# Separation


def test_perfect_separation_warns_without_a_penalty_alone(recwarn):
    X, _ = sample(60)
    y = np.where(X[:, 0] > 0.0, "yes", "no")
    LinearClassifier(l2=1e-3).fit(X, y)
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]
    with pytest.warns(ConvergenceWarning, match="separate the classes perfectly.*set l2 to a posi"):
        model = maximum_likelihood(X, y)
    with pytest.raises(ValueError, match="separate the classes perfectly"):
        model.summary(X, y)


def test_a_class_that_is_separated_from_the_others_warns_in_the_table():
    X, y = sample()
    y = np.where(X[:, 2] > 1.5, "dog", y)
    with pytest.warns(ConvergenceWarning, match="separate some of the classes"):
        maximum_likelihood(X, y).summary(X, y)


# Marginal effects


@pytest.mark.parametrize("robust", [False, True])
def test_marginal_effects_are_those_of_statsmodels(robust):
    X, y = sample()
    expected = reference(X, y, cov_type="HC0" if robust else "nonrobust").get_margeff()
    found = maximum_likelihood(X, y).marginal_effects(X, y, robust=robust)
    assert found["class"].tolist() == np.repeat(["ant", "bee", "cat"], 3).tolist()
    np.testing.assert_allclose(found["estimate"], expected.margeff.T.ravel(), rtol=1e-4)
    np.testing.assert_allclose(found["std_error"], expected.margeff_se.T.ravel(), rtol=1e-4)


def test_the_posterior_of_marginal_effects_is_near_the_classical_one():
    X, y = sample()
    classical = maximum_likelihood(X, y).marginal_effects(X, y)
    found = BayesianClassifier(random_state=0, progress=False).fit(X, y).marginal_effects(X)
    assert found["feature"].tolist() == classical["feature"].tolist()
    distance = np.abs(found["mean"] - classical["estimate"]) / classical["std_error"]
    assert distance.max() < 0.6
    np.testing.assert_allclose(found["sd"], classical["std_error"], rtol=0.3)
    assert (found["5%"] < found["95%"]).all()
    np.testing.assert_allclose(found["mean"].reshape(3, 3).sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(
    "method", ["independent-binary", bigcat.bayes.Laplace(noise="gaussian", n_draws=64)]
)
def test_marginal_effects_are_derivatives_for_every_model(method):
    X, y = sample(150)
    model = BayesianClassifier(method, random_state=0, progress=False).fit(X, y)
    found = model.marginal_effects(X, n_draws=40)
    up, down = (
        np.mean([np.exp(logs).mean(axis=0) for logs in plug_in(model, X + step * np.eye(3)[1])], 0)
        for step in (1e-4, -1e-4)
    )
    of_one = found["mean"][found["feature"] == "x1"]
    np.testing.assert_allclose(of_one, (up - down) / 2e-4, atol=1e-6)


def plug_in(model, X):
    """Log-probabilities of all rows by each of 40 draws."""
    q = model.posterior_
    for weights in q.sample(min(40, q.covariance_form.n_kept or 40), random_state=0):
        yield q.log_probabilities(np.ascontiguousarray(X @ weights[:, :3].T + weights[:, 3]))


# Draws for ArviZ


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # ArviZ
def test_arviz_has_each_kept_draw_once_in_its_chain():
    arviz = pytest.importorskip("arviz")
    X, y = sample(150)
    model = BayesianClassifier(random_state=0, progress=False).fit(X, y)
    selection: Any = model.history_.selection
    data = model.to_arviz(X, y)
    weights = data.posterior["weights"]
    kept = model.posterior_.covariance_form.n_kept
    assert kept is not None
    assert weights.shape == (selection["chains"], kept // selection["chains"], 3, 4)
    assert len(np.unique(weights.values.reshape(kept, -1), axis=0)) == kept
    assert weights.coords["class"].values.tolist() == ["ant", "bee", "cat"]
    assert weights.coords["feature"].values.tolist() == ["x0", "x1", "x2", "intercept"]
    assert float(data.sample_stats["acceptance_rate"]) == selection["acceptance"]
    assert data.observed_data["y"].values.tolist() == y.tolist()
    one = weights.isel(chain=1, draw=2).values
    logs = model.posterior_.log_probabilities(X @ one[:, :3].T + one[:, 3])
    own = logs[np.arange(150), np.searchsorted(model.classes_, y)]
    found = data.log_likelihood["y"].isel(chain=1, draw=2).values
    np.testing.assert_allclose(found, own, atol=1e-5)
    table = model.summary()
    ours = table["r_hat"].reshape(3, 4), table["ess_bulk"].reshape(3, 4)
    np.testing.assert_allclose(arviz.rhat(data)["weights"], ours[0], rtol=1e-2)
    np.testing.assert_allclose(arviz.ess(data)["weights"], ours[1], rtol=0.05)
    constants = BayesianClassifier(random_state=0, progress=False).fit(X * 0.0, y)
    pair = {"features": data, "constants": constants.to_arviz(X * 0.0, y)}
    assert arviz.compare(pair).index[0] == "features"


def test_arviz_without_rows_has_no_likelihood():
    pytest.importorskip("arviz")
    X, y = sample(60)
    model = BayesianClassifier("independent-binary", random_state=0, progress=False).fit(X, y)
    data = model.to_arviz(n_draws=30)
    assert data.groups() == ["posterior"]
    assert data.posterior["weights"].shape == (1, 30, 3, 4)
    with pytest.raises(ValueError, match="X and y go together"):
        model.to_arviz(X)


# Tables


def test_a_table_is_text_html_latex_and_a_frame():
    columns = {"feature": ["a_b", "c"], **wald_columns([1.0, -2e-9], [0.5, 0.0], level=0.9)}
    table = ResultsTable(columns, title="Votes & more", figures={"rows": 1234}, notes=["A note."])
    lines = repr(table).splitlines()
    assert lines[0] == "Votes & more"
    assert lines[2].split() == ["rows", "1,234"]
    assert lines[4].split() == ["feature", "estimate", "std_error", "z", "p_value", "5%", "95%"]
    assert lines[5].split() == ["a_b", "1.0000", "0.5000", "2.0000", "0.0455", "0.1776", "1.8224"]
    assert lines[-1] == "A note."
    assert r"a\_b & 1.0000 & 0.5000" in table.to_latex()
    assert r"rows & 1,234 \\" in table.to_latex()
    assert "<td>a_b</td>" in table.to_html()
    assert "Votes &amp; more" in table._repr_html_()
    frame = table.to_frame()
    assert frame["estimate"].tolist() == [1.0, -2e-9]
    assert frame.attrs == {"rows": 1234}
    assert table.shape == (2, 7)
    with pytest.raises(ValueError, match="level=95 must lie between 0 and 1"):
        wald_columns([1.0], [1.0], level=95)


def test_a_long_table_is_printed_in_part_and_exported_whole():
    table = ResultsTable({"value": np.arange(100.0)})
    assert repr(table).endswith("... and 40 more rows")
    assert "... and 40 more rows" in table._repr_html_()
    assert table.to_html().count("<tr>") == 101
    assert repr(ResultsTable({})) == "an empty table"


# Formulas


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    data = pandas.DataFrame(
        {"age": rng.uniform(20, 80, n), "region": rng.choice(["east", "north", "south"], n)}
    )
    scores = np.column_stack([np.zeros(n), data["age"] / 30 - 2, data["region"] == "north"])
    data["party"] = np.array(["blue", "green", "red"])[(scores + rng.gumbel(size=(n, 3))).argmax(1)]
    return data


def test_a_formula_gives_the_table_of_statsmodels():
    pytest.importorskip("formulaic")
    data = frame()
    model = bigcat.from_formula("party ~ age + C(region)", data)
    table = model.summary(data)
    design = pandas.get_dummies(data["region"], drop_first=True).astype(float)
    expected = reference(np.column_stack([data["age"], design]), data["party"].to_numpy(), "blue")
    assert table.title == "party ~ age + C(region)"
    features = ["age", "C(region)[T.north]", "C(region)[T.south]", "intercept"]
    assert table["feature"].tolist() == features * 2
    np.testing.assert_allclose(table["estimate"], expected.params.T.ravel(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(table["std_error"], expected.bse.T.ravel(), rtol=1e-4)
    effects = model.marginal_effects(data)
    margins = expected.get_margeff()
    np.testing.assert_allclose(effects["std_error"], margins.margeff_se.T.ravel(), rtol=1e-4)


def test_a_formula_predicts_from_frames():
    pytest.importorskip("formulaic")
    data = frame()
    model = bigcat.from_formula("party ~ age + region", data)
    new = data[["region", "age"]][:5]
    assert model.predict_proba(new).shape == (5, 3)
    top = model.estimator_.predict_top_k(model.model_matrix(new), 1)[0]
    assert (top[:, 0] == model.predict(new)).all()
    assert model.score(data) == (model.predict(data) == data["party"]).mean()
    assert (pickle.loads(pickle.dumps(model)).predict(new) == model.predict(new)).all()
    scores = cross_val_score(FormulaClassifier("party ~ age + region"), data, data["party"], cv=3)
    assert scores.mean() > 0.35
    with pytest.raises(ValueError, match="levels that the rows of the fit have not: 'west'"):
        model.predict(new.assign(region="west"))


def test_formulas_choose_the_intercept_the_reference_level_and_the_estimator():
    pytest.importorskip("formulaic")
    data = frame()
    bare = bigcat.from_formula("party ~ 0 + age", data)
    assert set(bare.summary(data)["feature"]) == {"age"}
    posterior = BayesianClassifier(random_state=0, progress=False)
    formula = "party ~ C(region, contr.treatment('south'))"
    model = bigcat.from_formula(formula, data, posterior)
    names = model.summary(base="blue")["feature"].tolist()
    assert names[0].endswith("[T.east]")
    assert names[1].endswith("[T.north]")
    assert model.marginal_effects(data[:50]).shape == (6, 7)
    assert not hasattr(posterior, "classes_")


def test_missing_values_raise_or_are_dropped():
    pytest.importorskip("formulaic")
    data = frame()
    data.loc[3, "age"] = np.nan
    data.loc[[4, 5], "party"] = None
    with pytest.raises(ValueError, match=r"missing values in age \(1\), party \(2\); impute them"):
        bigcat.from_formula("party ~ age", data)
    model = bigcat.from_formula("party ~ age", data, missing="drop")
    assert model.summary(data).figures["rows"] == 397
    with pytest.raises(ValueError, match=r"missing values in age \(1\)"):
        model.predict(data)
    with pytest.raises(ValueError, match="missing='skip'"):
        bigcat.from_formula("party ~ age", data, missing="skip")


def test_formulas_that_cannot_be_fitted_say_why(monkeypatch):
    pytest.importorskip("formulaic")
    data = frame(50)
    with pytest.raises(ValueError, match="no column 'vote', the labels of"):
        bigcat.from_formula("vote ~ age", data)
    for formula in ("age", "np.log(age) ~ region", "party + age ~ region"):
        with pytest.raises(ValueError, match=r"left side of .* must be the name of one column"):
            bigcat.from_formula(formula, data)
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install 'bigcat\[formula\]'"):
        bigcat.from_formula("party ~ age", data)
