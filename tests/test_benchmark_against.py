"""The comparison with another checkout: what it runs, what it reports."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import bigcat
from benchmarks import against
from benchmarks.against import cases, compare, file_cases, linear_cases, problems, spell
from benchmarks.against.answers import digest
from benchmarks.against.checkouts import ROOT, Checkout, ChildError, opened
from benchmarks.against.speed_cases import CASES as TIMED
from bigcat import LinearClassifier, samplers, solvers

ANSWER: dict[str, Any] = {
    "name": "a fit",
    "digests": {"coef_": "01", "predict_proba": "02"},
    "close": {"bound": [-1.0, None]},
    "seconds": 0.1,
}


def different(head, base=ANSWER):
    (row,) = compare.differences([base], [head])
    return row["different"]


@pytest.mark.slow
def test_the_same_checkout_gives_the_same_digests():
    here = Checkout(ROOT)
    (row,) = against.compare_answers(here, here, ["categorical exact"])
    assert row["case"] == "categorical exact"
    assert row["digests"] == 5
    assert row["different"] == ""


def test_a_changed_digest_is_reported():
    assert different(ANSWER) == ""
    head = copy.deepcopy(ANSWER)
    head["digests"]["predict_proba"] = "03"
    assert different(head) == "predict_proba"
    del head["digests"]["coef_"]
    assert different(head) == "coef_; predict_proba"


def test_sums_may_differ_in_their_last_bits_only():
    head = copy.deepcopy(ANSWER)
    head["close"]["bound"] = [-1.0 - 1e-12, None]
    assert different(head) == ""
    for column in ([-1.0 - 1e-7, None], [-1.0], [-1.0, -2.0]):
        head["close"]["bound"] = column
        assert different(head) == "history bound"


def test_a_case_that_fails_on_both_sides_is_no_agreement():
    failed = {"name": "a fit", "error": "ValueError: no\n", "seconds": 0.1}
    assert different(failed, failed) == "base failed: ValueError: no"
    assert different(failed) == "head failed: ValueError: no"
    (row,) = compare.differences([ANSWER], [])
    assert row["different"] == "head did not get there"


def test_digests_tell_types_shapes_and_bits():
    import numpy as np

    a = np.arange(6.0)
    others = [a.astype(np.float32), a.reshape(2, 3), np.nextafter(a, 9.0), a.astype(str)]
    assert len({digest(x) for x in [a, *others]}) == 5
    assert digest(a[::2]) == digest(np.array([0.0, 2.0, 4.0]))


def test_ratios_have_a_spread():
    def run(*wall):
        return {"seconds": {"fit": {"wall": list(wall), "cpu": list(wall)}}}

    (row,) = compare.ratios("case", [run(1.0, 2.0), run(1.2, 3.0)], [run(2.0), run(1.5)])
    assert row["case"] == "case: fit"
    assert row["ratio"] == row["cpu ratio"] == 1.5
    assert (row["low"], row["high"]) == (1.25, 2.0)
    assert (row["base median"], row["head median"]) == (1.6, 1.75)


# What is covered


def test_every_part_has_a_case():
    names = list(cases.all_cases())
    assert set(linear_cases.METHODS) == {m["name"] for m in bigcat.methods()}
    for kind in (*samplers.REGISTRY, *solvers.REGISTRY, *bigcat.noise.REGISTRY, "custom"):
        assert any(kind in name for name in names), kind
    assert len(names) > 100
    assert len(file_cases.NAMES) > 30
    assert len(TIMED) > 8


def test_problems_have_every_class():
    for name, (form, n, n_features, n_classes) in problems.SIZES.items():
        X, y = problems.problem(name)
        assert X.shape == (n, n_features)
        assert str(X.dtype).endswith(form[-2:])
        assert len(set(y.tolist())) == n_classes


# The two spellings


def test_cases_are_spelled_for_this_version():
    model = spell.linear(
        noise="gaussian", method="augment-reduce", expectation="sample", exact_classes=2
    )
    assert isinstance(model, LinearClassifier)
    assert model.random_state == 0
    assert model.memory_forecast(100, 5, 12) > 0  # checks all parameters and the parts
    for options in ({"link": "logit"}, {"method": "augment-reduce", "noise": "logistic"}):
        assert spell.bayesian(**options).memory_forecast(100, 5, 12) > 0


def test_options_without_a_place_are_refused():
    with pytest.raises((TypeError, ValueError), match="n_leaves"):
        spell.linear(method="exact", n_leaves=3)


# Checkouts


def test_a_base_is_a_folder_or_a_revision(tmp_path):
    with pytest.raises(SystemExit, match="holds no src/bigcat"), opened(str(tmp_path)):
        pass
    with pytest.raises(SystemExit, match="neither a folder nor a revision"), opened("no-such"):
        pass


def test_a_child_has_to_import_the_version_that_was_meant(tmp_path):
    package = tmp_path / "src" / "bigcat"
    package.mkdir(parents=True)
    elsewhere = "__file__ = '/elsewhere/bigcat/__init__.py'\nLinearClassifier = None\n"
    (package / "__init__.py").write_text(elsewhere)
    with pytest.raises(ChildError, match="was imported"):
        Checkout(tmp_path).run("import")
