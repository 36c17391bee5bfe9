"""bigcat among scikit-learn's pipelines, searches, callbacks and notebooks."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bigcat
from bigcat import BayesianClassifier, ChoiceModel, LinearClassifier, TopKIndex, metrics
from bigcat.estimators import History

EXACT: dict[str, Any] = {"method": "exact", "l2": 1.0}


def problem(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], np.array(["ant", "bee", "cow"])[y]


# Pipelines and scorers


def test_pipelines_and_searches_are_measured_like_their_classifier():
    X, y = problem()
    scaler = StandardScaler().fit(X)
    alone = LinearClassifier(**EXACT).fit(scaler.transform(X), y)
    expected = metrics.evaluate(alone, scaler.transform(X), y, k=2)
    pipe = make_pipeline(StandardScaler(), LinearClassifier(**EXACT)).fit(X, y)
    search = GridSearchCV(pipe, {"linearclassifier__l2": [1.0]}, cv=2).fit(X, y)
    for model in (pipe, search):
        found = metrics.evaluate(model, X, y, k=2)
        assert found["accuracy"] == expected["accuracy"]
        assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"], abs=1e-6)
        assert metrics.log_likelihood(model, X, y) == pytest.approx(expected["log_likelihood"])
        assert metrics.hit_at_k(model, X, y, k=2) == expected["hit_at_2"]
        classes, log_proba = bigcat.predict_top_k(model, X, k=2)
        again = alone.predict_top_k(scaler.transform(X), k=2)
        assert (classes == again[0]).all()
        np.testing.assert_allclose(log_proba, again[1], atol=1e-5)
    with pytest.raises(TypeError, match="a StandardScaler has no predict_top_k; give a fitted"):
        bigcat.predict_top_k(scaler, X)
    with pytest.raises(ValueError, match="the LinearClassifier is not fitted; call fit first"):
        bigcat.predict_top_k(make_pipeline(StandardScaler(), LinearClassifier()), X)


def test_texts_and_tables_go_through_pipelines():
    texts, labels = ["soft purr", "loud bark", "fast run"] * 20, ["cat", "dog", "emu"] * 20
    model = make_pipeline(CountVectorizer(), LinearClassifier(**EXACT)).fit(texts, labels)
    found = metrics.evaluate(model, [*texts, "moo"], [*labels, "cow"])
    assert (found["accuracy"], found["rows_dropped_unseen"]) == (1.0, 1)
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    plain = LinearClassifier(**EXACT).fit(table, y)
    assert metrics.evaluate(plain, table, y)["accuracy"] > 0.8
    turned = metrics.measure(plain, table[::-1], y[::-1])
    assert turned.position.tolist() == metrics.measure(plain, table, y).position.tolist()[::-1]


def test_scorers_take_folds_without_some_classes():
    X, y = problem()
    y = y.copy()
    y[0] = "rare"
    folds = [(np.arange(40, 120), np.arange(40)), (np.arange(80), np.arange(80, 120))]
    model = make_pipeline(StandardScaler(), LinearClassifier(**EXACT))
    for scorer in (metrics.log_likelihood, partial(metrics.hit_at_k, k=2)):
        assert np.isfinite(cross_val_score(model, X, y, cv=folds, scoring=scorer)).all()
    fitted = model.fit(X[folds[0][0]], y[folds[0][0]])
    test = folds[0][1][1:]  # without the rare one
    expected = fitted.predict_log_proba(X[test])[
        np.arange(39), np.searchsorted(["ant", "bee", "cow"], y[test])
    ]
    found = metrics.log_likelihood(fitted, X[folds[0][1]], y[folds[0][1]])
    assert found == pytest.approx(expected.mean())


# Callbacks


@pytest.mark.parametrize("sparse", [False, slow(True)])
def test_a_callback_gets_a_model_that_predicts(sparse):
    X, y = problem()
    X = X * [1, 100, 1, 1] + 5  # columns that the fit scales
    rows = scipy.sparse.csr_matrix(X) if sparse else X
    seen = []

    def look(info):
        now = info["model"]
        proba = now.predict_proba(rows)
        assert now.classes_.tolist() == ["ant", "bee", "cow"]
        assert (now.classes_[proba.argmax(axis=1)] == now.predict(rows)).all()
        own = now.log_proba_of(rows, y)
        np.testing.assert_allclose(
            np.exp(own), proba[np.arange(len(y)), np.searchsorted(now.classes_, y)], rtol=1e-4
        )
        assert info["log_likelihood_of"](rows, y) == pytest.approx(own.mean(), abs=1e-4)
        seen.append((metrics.evaluate(now, rows, y), proba))

    model = LinearClassifier(rank=None, progress=[look], **EXACT).fit(rows, y)
    assert len(seen) == model.n_iter_
    assert seen[-1][0]["accuracy"] == model.score(rows, y)
    np.testing.assert_allclose(seen[-1][1], model.predict_proba(rows), atol=1e-3)


# Printed output


def test_coef_of_low_rank_says_where_the_weights_are():
    model = LinearClassifier()
    assert not hasattr(model, "coef_")
    with pytest.raises(
        AttributeError, match=r"^'LinearClassifier' object has no attribute 'coef_'"
    ):
        model.coef_
    model.embedding_, model.class_embedding_ = np.ones((7, 2)), np.ones((3, 2))
    np.testing.assert_array_equal(model.coef_, np.full((3, 7), 2.0))
    model.embedding_ = np.zeros((2_000_000, 2))
    assert not hasattr(model, "coef_")
    with pytest.raises(AttributeError, match=r"of rank 2.*3 x 2,000,000 weights.*embedding_ @ cl"):
        model.coef_
    with pytest.raises(
        AttributeError, match=r"^'LinearClassifier' object has no attribute 'coeff'"
    ):
        model.coeff


def test_a_history_prints_as_a_table():
    rows = [{"epoch": i + 1, "bound": -1.0 / (i + 1), "nothing": float("nan")} for i in range(30)]
    history = History(rows, {"reason": "few <rows>"})
    text = repr(history)
    assert text.splitlines()[0] == "30 epochs; selected: few <rows>"
    assert text.splitlines()[1].split() == ["epoch", "bound"]
    assert len(text.splitlines()) == 2 + 3 + 1 + 9
    assert text.splitlines()[-1].split() == ["30", "-0.03333"]
    page = history._repr_html_()
    assert "few &lt;rows&gt;" in page
    assert page.count("<tr>") == 14
    assert repr(History()) == "0 epochs"
    assert list(history) == rows
    pandas = pytest.importorskip("pandas")
    pandas.testing.assert_frame_equal(history.to_frame(), pandas.DataFrame(rows))
    assert repr(pickle.loads(pickle.dumps(history))) == text


# Posteriors


def test_names_of_features_reach_arviz():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("arviz")
    X, y = problem()
    table = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = BayesianClassifier("independent-binary", random_state=0).fit(table, y)
    found = model.to_arviz(n_draws=5)
    assert found.posterior["feature"].values.tolist() == ["a", "b", "c", "d", "intercept"]
    assert "3 classes" in model.posterior_._repr_html_()
    model.fit(X, y)
    found = model.to_arviz(n_draws=5)
    assert found.posterior["feature"].values.tolist() == ["x0", "x1", "x2", "x3", "intercept"]


def test_monte_carlo_errors_are_arvizs():
    arviz = pytest.importorskip("arviz")
    X, y = problem(60)
    model = BayesianClassifier(random_state=0).fit(X, y)
    assert model.history_.selection is not None
    chains = model.history_.selection["chains"]
    draws = model.posterior_.covariance_form.deviations  # type: ignore[attr-defined]
    by_chain = draws.reshape(-1, chains, *draws.shape[1:]).swapaxes(0, 1)
    data = arviz.from_dict({"w": by_chain.astype(float)})
    expected = arviz.mcse(data, method="mean")["w"].values
    table = model.summary()
    names = ["x0", "x1", "x2", "x3", "intercept"]
    places = [
        (list(model.classes_).index(k), names.index(f))
        for k, f in zip(table["class"], table["feature"])
    ]
    np.testing.assert_allclose(table["mcse"], [expected[place] for place in places], rtol=0.05)
    assert "mcse" in model.summary(base="ant", top=1).columns
    assert "mcse" not in BayesianClassifier("independent-binary").fit(X, y).summary().columns


# The index


def indexed(n_classes=400):
    rng = np.random.default_rng(3)
    model = LinearClassifier(noise="gumbel")
    model.classes_ = np.arange(n_classes)
    model.embedding_ = rng.normal(size=(6, 4)).astype(np.float32)
    model.class_embedding_ = rng.normal(size=(n_classes, 4)).astype(np.float32)
    model.intercept_ = rng.normal(size=n_classes).astype(np.float32)
    model.n_features_in_ = 6
    return model, rng.normal(size=(50, 6)).astype(np.float32)


def test_an_index_is_pickled():
    pytest.importorskip("usearch")
    model, X = indexed()
    index = TopKIndex(model, n_threads=1)
    index.expansion = 37
    other = pickle.loads(pickle.dumps(index))
    assert other.expansion == 37
    for found, expected in zip(other.top_k(X, 3), index.top_k(X, 3)):
        np.testing.assert_array_equal(found, expected)


def test_an_index_for_a_recall(monkeypatch):
    pytest.importorskip("usearch")
    model, X = indexed()
    recalls: list[tuple[int, float]] = []
    true_recall = TopKIndex.recall
    seconds = {"seconds": 1.0, "exact_seconds": 2.0}

    def timed(self, X, k=5):
        found = true_recall(self, X, k) | seconds
        recalls.append((self.expansion, found["recall"]))
        return found

    monkeypatch.setattr(TopKIndex, "recall", timed)
    index = TopKIndex.for_recall(model, X, recall=0.97, k=3, n_threads=1)
    assert true_recall(index, X, 3)["recall"] >= 0.97
    below = [recall for expansion, recall in recalls if expansion < index.expansion]
    assert all(recall < 0.97 for recall in below)
    seconds["seconds"] = 3.0
    with pytest.raises(ValueError, match="a scan of all classes 2 s; use predict_top_k"):
        TopKIndex.for_recall(model, X, recall=0.5, k=3, n_threads=1)
    with pytest.raises(ValueError, match=r"recall=1\.5 must be above 0 and at most 1"):
        TopKIndex.for_recall(model, X, recall=1.5)
    monkeypatch.setattr(
        TopKIndex, "recall", lambda self, X, k: {"recall": 0.1, "rows": 1, **seconds}
    )
    with pytest.raises(
        ValueError, match=r"with all 400 candidates the search finds 10\.0% of the 5"
    ):
        TopKIndex.for_recall(model, X)


@pytest.mark.parametrize("X", [[[1, "2"], [3, "dole"]], np.array([["1", "2"], ["3", "dole"]])])
def test_words_in_arrays_are_named_by_row_and_column(X):
    rows: Any = [*X, *X]
    rows = np.array(rows) if isinstance(X, np.ndarray) else rows
    with pytest.raises(ValueError, match=r"'dole' in row 1, column 1, and.*OneHotEncoder"):
        LinearClassifier().fit(rows, ["a", "b", "a", "b"])


@pytest.mark.parametrize(
    ("model", "name", "advice"),
    [
        (LinearClassifier, "C", "l2, which is 1/C"),
        (LinearClassifier, "max_iter", "set max_epochs"),
        (BayesianClassifier, "C", r"set prior=GaussianPrior\(scale=sqrt\(C\)\)"),
        (BayesianClassifier, "max_iter", r"set it in the method: method=IndependentBinary"),
        (BayesianClassifier, "n_jobs", "set n_threads"),
        (BayesianClassifier, "verbose", "set progress"),
        (ChoiceModel, "C", r"set prior=GaussianPrior\(scale=sqrt\(C\)\)"),
        (ChoiceModel, "l2", r"set prior=GaussianPrior\(scale=1 / sqrt\(l2\)\)"),
        (ChoiceModel, "max_epochs", "set max_iter"),
    ],
)
def test_names_of_scikit_learn_lead_to_ours(model, name, advice):
    with pytest.raises(TypeError, match=f"has no parameter '{name}'.*{advice}"):
        model(**{name: 1})
    if model is not ChoiceModel:
        with pytest.raises(TypeError, match=advice):
            model().set_params(**{name: 1})
