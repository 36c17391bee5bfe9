"""Timed cases: each makes data and models and returns functions to time.

A case runs in a process of its own; each function is called once to load its kernels and then some
times with the clock on.  One thread but for predictions, which take all cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.against import spell
from benchmarks.against.cases import made, part
from benchmarks.against.problems import Problem, made_up

Timed = dict[str, Callable[[], Any]]
PASSES: dict[str, Any] = {"max_epochs": 2, "tol": None}


class Speed(NamedTuple):
    make: Callable[[], Timed]
    repeats: int


CASES: dict[str, Speed] = {}


def timed(name: str, repeats: int = 3) -> Callable:
    """Register a function that gives functions to be timed."""

    def register(make: Callable[[], Timed]) -> Callable:
        CASES[name] = Speed(make, repeats)
        return make

    return register


Sizes = tuple[str, int, int, int]  # form, rows, features, classes


def fits(name: str, repeats: int, models: dict[str, tuple[Sizes, dict[str, Any]]]) -> None:
    """Time fits of a `LinearClassifier`: the sizes of the data and the options of each."""

    @timed(name, repeats)
    def make() -> Timed:
        return {
            label: _fit(made_up(*sizes), made(options))
            for label, (sizes, options) in models.items()
        }


def _fit(rows: Problem, options: dict[str, Any]) -> Callable[[], Any]:
    return lambda: spell.linear(**options).fit(rows.X, rows.y)


SPARSE = ("csr32", 30_000, 2_000, 3_000)
DENSE = ("dense32", 15_000, 50, 1_000)
SAMPLED = {"method": "augment-reduce", **PASSES}
EXACT = {"method": "exact", "solver": "adagrad", **PASSES}

fits(
    "rows",
    4,
    {
        "sparse, co-occurrence": (
            SPARSE,
            {
                "method": "complementary",
                "solver": "damped",
                "sampler": "co-occurrence",
                "n_negatives": 24,
                **PASSES,
            },
        ),
        "sparse, uniform": (SPARSE, SAMPLED),
        "dense, uniform": (DENSE, SAMPLED),
        "dense, probit": (("dense32", 4_000, 30, 500), SAMPLED | {"noise": "gaussian"}),
    },
)
fits(
    "batches",
    4,
    {
        "low rank, shared": (
            SPARSE,
            {
                "method": "complementary",
                "rank": 64,
                "sampler": part("samplers", "Shared", n_negatives=256, n_first=64),
                **PASSES,
            },
        ),
    },
)
fits(
    "exact",
    8,
    {
        "sparse": (("csr32", 6_000, 1_000, 800), EXACT),
        "sparse, damped": (("csr32", 6_000, 1_000, 800), EXACT | {"solver": "damped"}),
        "dense": (("dense32", 10_000, 50, 300), EXACT),
        "probit, few nodes": (
            ("dense32", 2_500, 20, 60),
            {
                "noise": "gaussian",
                "method": "auto",
                "learning_rate": 1.0,
                "early_stopping": False,
                "max_epochs": 2,
            },
        ),
        "L-BFGS": (
            ("dense64", 1_500, 20, 40),
            {"method": "exact", "max_epochs": 60, "tol": None},
        ),
    },
)


def _predicts(name: str, form: tuple[str, int, int, int], **options: Any) -> None:
    @timed(f"prediction, {name}", repeats=12)
    def make() -> Timed:
        X, y = made_up(*form)
        model = spell.linear(method="augment-reduce", n_negatives=4, max_epochs=1, **options)
        model.fit(X, y)
        return {
            "predict_proba": lambda: model.predict_proba(X),
            "predict_top_k": lambda: model.predict_top_k(X, k=10),
            "log_proba_of": lambda: model.log_proba_of(X, y),
            "one row": lambda: [model.predict_top_k(X[i : i + 1]) for i in range(50)],
        }


_predicts("dense", ("dense32", 4_000, 60, 2_000))
_predicts("sparse", ("csr32", 4_000, 1_000, 2_000))
_predicts("low rank", ("csr32", 4_000, 1_000, 2_000), rank=64)
_predicts("probit", ("dense32", 600, 20, 200), noise="gaussian")


@timed("posterior")
def _() -> Timed:
    sparse = made_up("csr32", 6_000, 300, 300)
    dense = made_up("dense64", 2_000, 40, 80)
    epochs = spell.bayesian(method="augment-reduce", max_epochs=3, tol=0.0)
    probit = spell.bayesian(n_draws=10)
    logit = spell.bayesian(link="logit", covariance="diagonal", n_draws=10)
    return {
        "augment-reduce": lambda: epochs.fit(*sparse),
        "probit, full": lambda: probit.fit(*dense),
        "logit, diagonal": lambda: logit.fit(*dense),
    }


def _tiny() -> Problem:
    return made_up("dense64", 150, 4, 3)


@timed("tiny fit and prediction", repeats=40)
def _() -> Timed:
    X, y = _tiny()
    return {
        "auto": lambda: spell.linear().fit(X, y).predict(X),
        "augment-reduce": lambda: (
            spell.linear(method="augment-reduce", max_epochs=5, tol=None).fit(X, y).predict(X)
        ),
        "bayesian": lambda: spell.bayesian().fit(X, y).predict(X),
        "one batch": lambda: spell.linear(method="augment-reduce").partial_fit(X, y, classes=y),
    }
