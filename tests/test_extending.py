"""Complete skeletons of `docs/skeletons` do what their pages say."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from forms import slow
from sklearn.datasets import load_digits

import bigcat
from bigcat import linear
from bigcat.cli import main
from bigcat.data import DataError, forms, read
from bigcat.samplers import Shared, Uniform
from bigcat.solvers import SGD, AdaGrad

SKELETONS = Path(__file__).resolve().parents[1] / "docs" / "skeletons"


def skeleton(name: str) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(SKELETONS / f"{name}.py")))


# A kind of weights


@pytest.fixture
def weights(monkeypatch):
    monkeypatch.setattr(linear, "KINDS_OF_WEIGHTS", linear.KINDS_OF_WEIGHTS)  # put back after
    module = skeleton("weights")
    module.register()
    return module


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


CASES: dict[str, dict[str, Any]] = {
    "L-BFGS": {"method": "exact", "l2": 1.0, "max_epochs": 500},
    # Rates are numbers: what fits the rows does not fit sums of their features.
    "rows": {
        "method": "augment-reduce",
        "solver": AdaGrad(0.1),
        "sampler": Uniform(4),
        "max_epochs": 20,
    },
    "all classes": {"method": "exact", "solver": SGD(0.5), "max_epochs": 20},
    "shared classes": {
        "method": "complementary",
        "solver": AdaGrad(0.1),
        "sampler": Shared(6),
    },
}


@pytest.mark.parametrize("case", [*list(CASES)[:-1], slow("shared classes")])
def test_grouped_weights_fit_as_full_rank_does_on_grouped_rows(case, weights, digits):
    X, y = digits
    train, test = slice(None, None, 2), slice(1, None, 2)
    options = CASES[case] | {"random_state": 0}
    model = weights.fit(X[train], y[train], weights.Grouped(16), **options)
    Z = X @ weights.groups_of(X.shape[1], 16)
    full = bigcat.LinearClassifier(rank=None, **options).fit(Z[train], y[train])
    found = model.log_proba_of(X[test], y[test]).mean()
    expected = full.log_proba_of(Z[test], y[test]).mean()
    assert found > -1.5
    assert found == pytest.approx(expected, abs=0.03)


def test_grouped_weights_of_sparse_rows_are_those_of_dense_ones(weights, digits):
    X, y = digits
    dense = weights.fit(X, y, weights.Grouped(16), **CASES["L-BFGS"])
    sparse = weights.fit(scipy.sparse.csr_matrix(X), y, weights.Grouped(16), **CASES["L-BFGS"])
    np.testing.assert_allclose(dense.predict_proba(X), sparse.predict_proba(X), atol=1e-3)


def test_grouped_weights_predict_and_are_stored(weights, digits, tmp_path):
    X, y = digits
    model = weights.fit(X[::2], y[::2], weights.Grouped(16), **CASES["L-BFGS"])
    assert isinstance(model.linear_model().weights, weights.GroupedWeights)
    assert model.score(X[1::2], y[1::2]) > 0.8
    classes, logs = model.predict_top_k(scipy.sparse.csr_matrix(X[:50]), k=3)
    assert (classes[:, 0] == model.predict(X[:50])).all()
    np.testing.assert_allclose(logs[:, 0], model.predict_log_proba(X[:50]).max(axis=1), rtol=1e-5)
    loaded = bigcat.load_model(bigcat.save_model(model, tmp_path / "grouped.safetensors"))
    np.testing.assert_array_equal(loaded.predict_proba(X[:50]), model.predict_proba(X[:50]))
    index = bigcat.TopKIndex(loaded)
    assert index.recall(X[:200], k=1)["recall"] > 0.9


def test_more_fits_keep_the_kind_of_the_weights(weights, digits):
    """Not only their rank, which two kinds may have in common."""
    X, y = digits
    options = CASES["rows"] | {"max_epochs": 2, "random_state": 0}
    model = weights.fit(X[::2], y[::2], weights.Grouped(16), **options)
    first = model.log_proba_of(X[1::2], y[1::2]).mean()
    model.n_iter_ = 2
    model.partial_fit(X[::2], y[::2])
    assert isinstance(model.linear_model().weights, weights.GroupedWeights)
    model.fit(X[::2], y[::2], warm_start=True)
    assert isinstance(model.linear_model().weights, weights.GroupedWeights)
    assert model.log_proba_of(X[1::2], y[1::2]).mean() > first


def test_grouped_weights_refuse_steps_that_need_the_rows_of_the_problem(weights, digits):
    with pytest.raises(ValueError, match=r"solver='implicit', whose steps need unscaled rows"):
        weights.fit(*digits, weights.Grouped(16), method="implicit")


# A data form


@pytest.fixture
def form(monkeypatch):
    module = skeleton("data_form")
    monkeypatch.setitem(forms.FORMS, module.NAME, module.form)
    module.register()
    return module


NAMES = ("cat", "dog", "cow")


def write_rows(path, n, seed, labels=True):
    rng = np.random.default_rng(seed)
    lines = []
    for k in rng.integers(0, 3, n):
        entry = {"x": (np.eye(3)[k] + 0.1 * rng.standard_normal(3)).round(4).tolist()}
        lines.append(json.dumps(entry | {"label": NAMES[k]} if labels else entry))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_form_is_read_by_name_and_by_first_line(form, tmp_path):
    for name in ("rows.jsonl", "rows.unknown"):
        found = read(write_rows(tmp_path / name, 30, 0))
        assert (found.report["form"], found.X.shape) == ("jsonl", (30, 3))
        assert set(found.y) == set(NAMES)
    with pytest.raises(ValueError, match="vectorizer= is an option of tsv"):
        read(tmp_path / "rows.jsonl", vectorizer="any")


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{"label": 1, "x": [1]}', "line 2: expected 2 numbers, found 1"),
        ('{"label": 1}', 'line 2: expected an object with numbers "x"'),
        ('{"label": 1, "x": [1, NaN]}', 'line 2: expected finite numbers in "x"'),
    ],
)
def test_form_says_what_is_wrong(form, tmp_path, second, message):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"label": 0, "x": [1, 2]}\n' + second + "\n")
    with pytest.raises(DataError, match=message.replace("[", r"\[")):
        read(path)


def test_command_line_learns_of_a_form(form, tmp_path, capsys):
    train = write_rows(tmp_path / "train.jsonl", 60, 1)
    bare = write_rows(tmp_path / "bare.jsonl", 60, 2, labels=False)
    model = str(tmp_path / "m.safetensors")
    assert main(["fit", train, "--form", "jsonl", "--model", model, "--test", train]) == 0
    assert main(["predict", model, bare, "--no-labels"]) == 0
    assert "cat" in capsys.readouterr().out
    assert main(["fit", "--help"]) == 0
    assert "jsonl" in capsys.readouterr().out


def test_data_page_lists_every_form():
    page = (SKELETONS.parent / "data.md").read_text()
    missing = [name for name in forms.FORMS if f"| `{name}` |" not in page]
    assert missing == []
