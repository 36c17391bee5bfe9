"""The benchmarks measure what their names say: the models that they build, and their commands."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bigcat
from benchmarks import (
    all_classes,
    augment_reduce,
    categorical_from_binary,
    cost_against_classes,
    fasttext_speed,
    first_fit,
    intervals,
    million_classes,
    noises,
    one_vs_each,
    posteriors,
    roofline,
    serving,
    step_cost,
    streams,
    threads,
    unbiased_softmax,
)
from benchmarks.__main__ import make_parser
from benchmarks._models import linear
from benchmarks.field import grid as field_grid
from benchmarks.field import measure as field_measure
from benchmarks.peers import configuration
from bigcat import BayesianClassifier, CategoricalDistribution, LinearClassifier, bayes
from bigcat.bayes import LearnedScale, resolve_method
from bigcat.solvers import LBFGS, SGD, AdaGrad, Adaptive, Damped

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {method["name"]: method["bound"] for method in bigcat.methods()}


def name(part: Any) -> str:
    return part if isinstance(part, str) else part.name


def bound_of(method: Any) -> str:
    """The name of what a method maximises; "auto" has none."""
    return BOUNDS[method] if isinstance(method, str) else getattr(method, "bound", method).name


def parts(model: Any) -> tuple[str, str, str, str]:
    """Noise, bound, sampler and solver."""
    p = model.get_params()
    return name(p["noise"]), bound_of(p["method"]), name(p["sampler"]), name(p["solver"])


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def check_nothing_is_left_open(model: LinearClassifier) -> None:
    """No parameter is "auto" that the fit would read, and the parts go together."""
    p = model.get_params()
    unread = {"learning_rate"}  # the solver has it
    if name(p["sampler"]) == "everything" or not isinstance(p["sampler"], str):
        unread.add("n_negatives")
    if isinstance(p["solver"], LBFGS):
        unread.add("batch_size")
    assert {key for key, value in p.items() if is_auto(value)} <= unread
    assert not isinstance(p["solver"], str)
    assert p["n_threads"] is not None
    model.memory_forecast(1_000, 10, 20)  # raises for parts that do not


def changed(model: Any) -> dict[str, Any]:
    """Parameters that are not the defaults, but for the progress bar."""
    defaults = type(model)().get_params()
    mine = model.get_params()
    return {k: v for k, v in mine.items() if v != defaults[k] and k != "progress"}


# Models that name everything


def test_a_model_that_leaves_something_open_is_refused():
    whole: dict[str, Any] = {
        "method": "augment-reduce",
        "sampler": "uniform",
        "n_negatives": 5,
        "solver": SGD(0.1),
        "batch_size": 1,
        "init": "zero",
        "max_epochs": 3,
    }
    check_nothing_is_left_open(linear(**whole))
    for key in whole:
        with pytest.raises(TypeError, match=key):
            linear(**{k: v for k, v in whole.items() if k != key})
    for instead in ({"solver": "sgd"}, {"sampler": "everything"}, {"solver": LBFGS()}):
        with pytest.raises(TypeError):
            linear(**whole | instead)


AUGMENT_REDUCE: dict[str, tuple[Any, ...]] = {  # noise, bound, sampler; how expectations are taken
    "exact": ("gumbel", "exact", "everything", {}),
    "one-vs-each": ("gumbel", "one-vs-each", "uniform", {}),
    "softmax A&R": ("gumbel", "augment-reduce", "uniform", {}),
    "probit A&R": ("gaussian", "augment-reduce", "uniform", {"n_nodes": 3}),
    "logistic A&R": ("logistic", "augment-reduce", "uniform", {"n_nodes": 4}),
    "probit A&R, one sample": (
        *("gaussian", "augment-reduce", "uniform"),
        {"expectation": "sample"},
    ),
    "logistic A&R, one sample": (
        *("logistic", "augment-reduce", "uniform"),
        {"expectation": "sample"},
    ),
}


@pytest.mark.parametrize("data", augment_reduce.SETTINGS)
@pytest.mark.parametrize("method", augment_reduce.METHODS)
def test_tables_of_augment_and_reduce(data, method):
    model = augment_reduce.classifier(data, method, max_epochs=7, seed=3)
    *expected, expectations = AUGMENT_REDUCE[method]
    assert parts(model) == (*expected, "adaptive")
    check_nothing_is_left_open(model)
    p = model.get_params()
    batch, negatives, _ = augment_reduce.SETTINGS[data]
    assert p["n_negatives"] == ("auto" if method == "exact" else negatives)
    assert (p["batch_size"], p["max_epochs"], p["random_state"]) == (batch, 7, 3)
    assert (p["rank"], p["l2"], p["tol"], p["n_threads"]) == (None, 0.0, None, 1)
    assert p["init"] == "random"
    assert p["solver"] == Adaptive(learning_rate=0.02, decay=0.9, decay_every=2000)
    if parts(model)[1] == "augment-reduce":
        assert p["method"].local_decay == 0.9
    if (data, method) == ("omniglot", "probit A&R"):
        expectations = {"n_nodes": 4}
    if expectations:
        found = p["method"].options()
        as_expected = {"expectation": "quadrature", "variational": p["noise"]} | expectations
        assert {key: found[key] for key in as_expected} == as_expected


def test_iterations_are_those_of_augment_and_reduce():
    rows = {"mnist": 60_000, "bibtex": 4_880, "omniglot": 25_968}
    assert {d: augment_reduce.n_epochs(d, n) for d, n in rows.items()} == {
        "mnist": 292,
        "bibtex": 500,
        "omniglot": 938,
    }


@pytest.mark.parametrize("method", ["augment-reduce", "one-vs-each"])
def test_section41_of_augment_and_reduce(method):
    p = augment_reduce.distribution(method, iterations=100_000).get_params()
    assert bound_of(p["method"]) == method
    assert method == "one-vs-each" or p["method"].local_decay == 0.9
    assert p["solver"] == Adaptive(learning_rate=0.02, decay=0.9, decay_every=2000)
    assert (p["batch_size"], p["n_negatives"], p["max_epochs"]) == (500, 100, 167)
    assert (p["init"], p["tol"]) == ("random", None)


@pytest.mark.parametrize("data", one_vs_each.PUBLISHED)
def test_table_of_one_vs_each(data):
    models = one_vs_each.classifiers(data)
    assert list(models) == list(one_vs_each.PUBLISHED[data])
    for method, model in models.items():
        check_nothing_is_left_open(model)
        p = model.get_params()
        assert (p["l2"], p["rank"], p["init"]) == (1.0, None, "zero")
        bound, _, form = method.partition(", ")
        if form:
            assert parts(model) == ("gumbel", bound, "uniform", "sgd")
            assert (p["solver"], p["max_epochs"]) == one_vs_each.SGD_SOLVERS[data]
            assert (p["batch_size"], p["n_negatives"], p["tol"]) == (200, 1, None)
        else:
            assert parts(model) == ("gumbel", bound, "everything", "lbfgs")
            assert p["tol"] == (1e-5 / 75.0 if data == "20newsgroups" else 1e-5)


@pytest.mark.parametrize("method", ["exact", "one-vs-each", "bouchard"])
def test_figure_of_one_vs_each(method):
    p = one_vs_each.distribution(method).get_params()
    assert (bound_of(p["method"]), name(p["solver"])) == (method, "lbfgs")
    assert p["init"] == "zero"  # not from the frequencies, which are the answer


UNBIASED = {  # bound, solver, rows per step
    "vanilla": ("augment-reduce", "vanilla", 1),
    "umax": ("augment-reduce", "umax", 1),
    "implicit": ("augment-reduce", "implicit", 1),
    "umax, Raman's form": ("raman", "umax", 1),
    "one-vs-each": ("one-vs-each", "sgd", 100),
    "nce": ("nce", "sgd", 100),
    "importance": ("importance", "sgd", 100),
    "complementary": ("complementary", "sgd", 100),
}


@pytest.mark.parametrize("method", UNBIASED)
def test_methods_of_unbiased_softmax(method):
    model = unbiased_softmax.classifier(method, 0.3, n_negatives=5)
    bound, solver, batch_size = UNBIASED[method]
    assert parts(model) == ("gumbel", bound, "uniform", solver)
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert (p["batch_size"], p["n_negatives"], p["max_epochs"]) == (batch_size, 5, 50)
    assert (p["solver"].learning_rate, p["solver"].decay) == (0.3, 0.9)
    assert (p["rank"], p["l2"], p["tol"]) == (None, 0.0, None)
    assert (p["fit_intercept"], p["init"]) == (False, "zero")
    if batch_size == 1:
        assert getattr(p["method"], "bound", p["method"]).start == "zero"


def test_all_methods_of_unbiased_softmax_are_known_here():
    listed = {*unbiased_softmax.DOUBLE_SUM, unbiased_softmax.RAMAN, *unbiased_softmax.BIASED}
    assert listed == set(UNBIASED)
    for rates in unbiased_softmax.RATES.values():
        assert list(rates) == [*unbiased_softmax.DOUBLE_SUM, *unbiased_softmax.ESTIMATORS]


@pytest.mark.parametrize("method", step_cost.METHODS)
def test_the_cost_of_a_step_is_of_plain_steps(method):
    model = step_cost.classifier(method)
    assert parts(model) == ("gumbel", method, "uniform", "sgd")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert (p["n_negatives"], p["batch_size"], p["rank"], p["n_threads"]) == (20, 1, None, 1)


def test_the_cost_of_a_step_of_low_rank_is_with_shared_classes():
    model = million_classes.step_classifier(rank=8)
    assert parts(model) == ("gumbel", "complementary", "shared", "adagrad")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert (p["rank"], p["batch_size"], p["n_threads"]) == (8, 64, 2)
    assert (p["sampler"].n_negatives, p["solver"]) == (
        512,
        AdaGrad(0.1, schedule="constant"),
    )


def test_what_is_served_is_a_model_of_low_rank():
    model = serving.classifier(rank=8)
    assert parts(model) == ("gumbel", "complementary", "shared", "adagrad")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert (p["rank"], p["batch_size"], p["max_epochs"]) == (8, 128, 1)
    assert p["sampler"].n_negatives == 512


def test_all_classes_are_visited_beside_the_defaults():
    model = cost_against_classes.classifiers(1_000)["exact"]
    assert parts(model) == ("gumbel", "exact", "everything", "damped")
    check_nothing_is_left_open(model)
    p = model.get_params()
    assert (p["solver"], p["batch_size"], p["max_epochs"]) == (Damped(1.0), 1, 50)
    assert list(cost_against_classes.classifiers(10**5)) == ["defaults"]


FIELD = {  # bound, sampler, solver; what of dense rows is another one's
    "lbfgs": ("exact", "everything", "lbfgs"),
    "exact": ("exact", "everything", "damped"),
    "sampled": ("complementary", "co-occurrence", "damped"),
    "rank": ("complementary", "shared", "adagrad"),
}


@pytest.mark.parametrize("sparse", [False, True])
def test_recipes_of_the_field_are_what_they_are_called(sparse):
    found = set()
    shape = field_grid.Shape(5_000, 300, 3_000, 30.0, sparse)
    for recipe in field_grid.grid(shape):
        kind = recipe.name.replace("=", " ").split()[0]
        if kind in ("frequencies", "LogisticRegression"):
            continue
        model = recipe.make(1)
        check_nothing_is_left_open(model)
        bound, sampler, solver = FIELD[kind]
        if kind == "sampled" and not sparse:
            sampler = "stratified"
        assert parts(model) == ("gumbel", bound, sampler, solver)
        p = model.get_params()
        assert p["early_stopping"] is ("early stopping" in recipe.name)
        assert p["rank"] == (256 if kind == "rank" else None)
        if kind == "lbfgs":
            assert recipe.name.startswith(
                f"lbfgs l2={p['l2']:g}" if p["l2"] != "path" else "lbfgs l2=path"
            )
        else:
            assert f"rate={p['solver'].learning_rate:g}," in recipe.name
        if "passes" in recipe.name:
            assert f" {p['max_epochs']} passes" in recipe.name
        found.add(kind)
    assert found == set(FIELD)


def names_of(trained: Any) -> tuple[str, str, str, str]:
    return trained.noise.name, trained.bound.name, trained.sampler.name, trained.solver.name


def test_parts_on_threads():
    for case in threads.cases():
        what, _, noise = case.name.partition(", ")
        sampler = what.removesuffix(" sampler")
        if what == "exact":
            assert names_of(case.parts) == ("gumbel", "exact", "everything", "damped")
        else:
            bound = "augment-reduce" if noise == "probit" else "complementary"
            law = "gaussian" if noise == "probit" else "gumbel"
            assert names_of(case.parts) == (law, bound, sampler, "damped")
            assert case.parts.sampler.options()["n_negatives"] == threads.N_NEGATIVES


def test_parts_whose_bytes_are_counted():
    assert names_of(roofline.EXACT) == ("gumbel", "exact", "everything", "sgd")
    assert names_of(roofline.SAMPLED) == ("gumbel", "complementary", "uniform", "damped")
    assert roofline.SAMPLED.sampler.options()["n_negatives"] == 16
    assert all_classes.EXACT is roofline.EXACT


# Posteriors


def check_posterior(model: BayesianClassifier, **expected: Any) -> None:
    method = bayes.resolve_method(model.method)
    p = model.get_params(deep=False) | method.options() | {"method": method.name}
    assert {key: p[key] for key in expected} == expected
    assert p["random_state"] == 0
    if p["method"] == "augment-reduce":
        assert (p["n_negatives"], p["learning_rate"], p["tol"]) == (32, 0.3, 0)
    else:
        assert p["n_threads"] is not None


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("likelihood", categorical_from_binary.LIKELIHOODS.values())
def test_posteriors_of_categorical_from_binary(link, likelihood):
    common = {"method": "independent-binary", "covariance": "full", "prior": "gaussian"}
    common |= {"link": link, "likelihood": likelihood}
    converged = categorical_from_binary.classifier(link, likelihood)
    check_posterior(converged, **common, solver="newton", tol=1e-8)
    stopped = categorical_from_binary.classifier(link, likelihood, 4)
    check_posterior(stopped, **common, solver="cavi", tol=0, max_iter=4)
    newton = categorical_from_binary.classifier(link, likelihood, 4, "newton")
    check_posterior(newton, **common, solver="newton", tol=0, max_iter=4)


@pytest.mark.parametrize("what", posteriors.CONFIGURATIONS)
def test_posteriors_whose_cost_is_measured(what):
    model = posteriors.CONFIGURATIONS[what]()
    kind, *rest = what.split(", ")
    if kind == "augment-reduce":
        noise = rest[0].lower()
        check_posterior(model, method="augment-reduce", noise=noise, max_epochs=50)
        return
    check_posterior(
        model,
        method="independent-binary",
        link=kind,
        covariance=rest[0],
        likelihood="average" if "average" in rest else "conditioned",
        prior="hierarchical" if "hierarchical" in rest else "gaussian",
        solver="newton",
    )


def test_posteriors_whose_coverage_is_measured():
    few, many = posteriors.posteriors(200), posteriors.posteriors(2_000)
    check_posterior(few["augment-reduce"], method="augment-reduce", noise="gumbel", max_epochs=100)
    check_posterior(many["augment-reduce"], method="augment-reduce", noise="gumbel", max_epochs=50)
    for what in ("probit, average", "logit, conditioned"):
        link, likelihood = what.split(", ")
        check_posterior(
            few[what],
            **{"method": "independent-binary", "link": link, "likelihood": likelihood},
            **{"covariance": "full", "prior": "gaussian", "solver": "newton"},
        )
    mode = posteriors.at_the_mode()
    assert parts(mode) == ("gumbel", "exact", "everything", "lbfgs")
    assert mode.get_params()["l2"] == 1.0  # the prior N(0, 1)
    check_nothing_is_left_open(mode)


def test_the_default_posterior_is_what_it_is_called():
    """Coverage and quality measure the defaults, all of them named."""
    check_posterior(
        posteriors.contenders()["laplace"],
        **{"method": "laplace", "noise": "gumbel", "covariance": "auto", "prior": "learned"},
    )
    usual = resolve_method("laplace")
    assert intervals.laplace().method == usual
    assert isinstance(usual.usual_prior, LearnedScale)


def test_cases_of_coverage_are_data_of_their_shape():
    case = intervals.Case(5, 4, 3, rows="sparse")
    data = intervals.draw(case, seed=0)
    assert data.X.shape == (20, 3)
    assert data.truth.shape == (intervals.TEST_ROWS, 5)
    np.testing.assert_allclose(data.truth.sum(axis=1), 1.0)
    other = intervals.draw(case, seed=1)
    assert not np.array_equal(other.y, data.y)
    assert {c.n_classes for c in intervals.cases()} == {2, 5, 20, 200, 1_000}


def test_the_posterior_whose_memory_is_measured():
    check_posterior(
        posteriors.one_diagonal_iteration(),
        **{"method": "independent-binary", "link": "probit", "likelihood": "average"},
        **{"covariance": "diagonal", "solver": "newton", "max_iter": 1, "tol": 0},
    )


# The defaults, where they are what is measured


def test_defaults_are_the_defaults():
    assert changed(first_fit.classifier()) == {}
    assert changed(cost_against_classes.classifiers(10)["defaults"]) == {"n_threads": 2}
    assert changed(million_classes.classifier(64)) == {"rank": 64, "max_epochs": 1, "n_threads": 2}
    assert changed(noises.classifier("gumbel")) == {"n_threads": 2}
    on_one_thread = {"n_threads": 1, "random_state": 0}
    assert changed(streams.classifier("30 classes", "the defaults")) == on_one_thread
    assert changed(noises.classifier("logistic")) == {"noise": "logistic", "n_threads": 2}
    assert changed(noises.long_fit("gaussian", 0.2, 40)) == {
        **{"noise": "gaussian", "n_threads": 2},
        **{"learning_rate": 0.2, "max_epochs": 40, "early_stopping": True},
    }
    assert changed(field_measure.default(1)) == {"n_threads": 1, "random_state": 0}
    asked = fasttext_speed.contenders(configuration.read(), "beauty", 32, 2)
    (ours,) = [settings for contender, settings in asked if contender.name == fasttext_speed.OURS]
    assert ours == {"rank": 32, "n_threads": 2}


#: Where an estimator may be built: in one place for models that name everything, and where the
#: defaults are the subject.
BUILDERS = {
    "_models.py": {"linear", "independent_binary", "weight_posterior", "laplace"},
    "augment_reduce.py": {"distribution"},
    "one_vs_each.py": {"distribution"},
    "cost_against_classes.py": {"classifiers"},
    "million_classes.py": {"classifier"},
    "memory.py": {"_bayesian", "_linear"},  # whose memory is measured, as each line's name says
    "noises.py": {"classifier"},
    "members.py": {"compare"},
    "one_row.py": {"fitted"},  # its weights are given: nothing is fitted
    "against/child.py": {"first_fit"},
    "against/spell.py": {"categorical", "linear"},
    "first_fit.py": {"classifier"},
    "streams.py": {"classifier"},
    "weights_in_files.py": {"classifier"},
    "field/measure.py": {"default"},
    "intrusion_detection.py": {"fit"},  # one model per user
    "reproduce/one_vs_each.py": {"stochastic_distribution"},  # tests/test_reproduce.py
    "wide_posteriors.py": {"real_quality"},
    # Fits on a cluster beside those of one process, by the same settings.
    "distributed/combining.py": {"fit"},
    "distributed/demo.py": {"run"},
    "distributed/faults.py": {"run", "kill_workers", "kill_scheduler", "kill_one"},
    "distributed/larger_than_memory.py": {"run"},
    "distributed/parity.py": {"run"},
    "distributed/quality.py": {"run", "len_of_fit"},
    "distributed/simulation.py": {"measure"},
    "distributed/speed.py": {"run"},
    "peers/adapters/bigcat_adapter.py": {"_classifier"},
}
ESTIMATORS = {
    kind.__name__ for kind in (LinearClassifier, BayesianClassifier, CategoricalDistribution)
}


def builders(path: Path) -> set[str]:
    """Functions of a file, or "" for none, that make an estimator."""
    found = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef):
            function = function or node.name
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ESTIMATORS:
            found.add(function)
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(path.read_text()), "")
    return found


def test_estimators_are_built_where_these_tests_look():
    folder = ROOT / "benchmarks"
    files = [f for f in folder.rglob("*.py") if ".envs" not in f.parts]
    found = {str(file.relative_to(folder)): builders(file) for file in files}
    assert {file: functions for file, functions in found.items() if functions} == BUILDERS


# Our contenders among the peers

OURS = {  # noise, bound, sampler, solver
    "bigcat all classes": ("gumbel", "exact", "everything", "damped"),
    "bigcat augment-reduce": ("gumbel", "augment-reduce", "uniform", "adagrad"),
    "bigcat frequent exact": ("gumbel", "augment-reduce", "uniform", "sgd"),
    "bigcat one-vs-each": ("gumbel", "one-vs-each", "uniform", "adagrad"),
    "bigcat implicit": ("gumbel", "augment-reduce", "uniform", "implicit"),
    "bigcat exact sgd": ("gumbel", "exact", "everything", "sgd"),
    "bigcat exact lbfgs": ("gumbel", "exact", "everything", "lbfgs"),
}
LEFT_OPEN = {
    "bigcat defaults": [{"n_threads": 2}],
    "bigcat full rank": [{"n_threads": 2, "rank": 0}],
}
CONTENDERS = {k: c for k, c in configuration.read().contenders.items() if k.startswith("bigcat")}


@pytest.fixture
def adapter(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "peers" / "adapters"))
    return importlib.import_module("bigcat_adapter")


def test_contenders_are_known_here():
    assert set(CONTENDERS) == OURS.keys() | LEFT_OPEN.keys()
    for contender, settings in LEFT_OPEN.items():
        assert CONTENDERS[contender].settings == {"any": settings}


@pytest.mark.parametrize("contender", OURS)
def test_contenders_are_what_they_are_called(contender, adapter):
    for listed in CONTENDERS[contender].settings.values():
        for settings in listed:
            model = adapter._classifier(settings)
            assert parts(model) == OURS[contender]
            p = model.get_params()
            assert (p["rank"], p["tol"], p["random_state"]) == (None, None, 0)
            assert isinstance(p["max_epochs"], int)
            solver = p["solver"]
            if isinstance(solver, LBFGS):
                assert p["l2"] > 0.0
            else:
                named = settings["solver"] if not isinstance(solver, str) else settings
                assert named["learning_rate"] > 0.0
                assert isinstance(p["batch_size"], int)
                assert isinstance(p["n_threads"], int)
            if not isinstance(p["sampler"], str):
                assert p["sampler"].n_drawn > 0
            elif p["sampler"] != "everything":
                assert isinstance(p["n_negatives"], int)
            model.memory_forecast(1_000, 10, 20)


# Commands of the documentation


def commands() -> list[str]:
    """All that follows ``python -m benchmarks`` on the pages."""
    found: dict[str, None] = {}
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        for words in re.findall(r"python -m benchmarks ([^`\n]*)", page.read_text()):
            found[words.partition(">")[0].strip()] = None
    return [words for words in found if words not in ("...", "--help", "peers")]


@pytest.mark.parametrize("words", commands())
def test_commands_of_the_documentation_exist(words):
    found = make_parser().parse_args(shlex.split(words))  # ends the process for one that is not
    assert (found.command or "") == words.partition(" ")[0]
