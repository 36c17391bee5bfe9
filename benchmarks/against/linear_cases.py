"""Fits of `LinearClassifier` with one call, whose answers are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.against import spell
from benchmarks.against.answers import of_linear
from benchmarks.against.cases import FEW_PASSES, SAMPLED, WHOLE, Answer, case, part, plain
from benchmarks.against.problems import custom_noise, problem

METHODS = (
    *("augment-reduce", "one-vs-each", "implicit", "umax", "vanilla", "raman", "nce"),
    *("importance", "complementary", "bouchard", "exact"),
)


def own_method(**fields: Any) -> Callable[[], Any]:
    return lambda: spell.method_of(part("bounds", "AugmentReduce", **fields)())


# Methods

for _method in METHODS:
    _epochs = 12 if _method in ("bouchard", "exact") else 3
    plain(f"method {_method}", "few", method=_method, max_epochs=_epochs, tol=None)
plain("method one-vs-each, dense32", "few32", method="one-vs-each", n_negatives=4, **FEW_PASSES)
plain("method implicit, dense64", "few64", method="implicit", n_negatives=4, **FEW_PASSES)
plain("method raman, csr64", "few csr64", method="raman", **FEW_PASSES)
plain("method nce, dense32", "few32", method="nce", n_negatives=4, **FEW_PASSES)
plain("method of one's own", "few", method=own_method(band=2.0), **FEW_PASSES)

# The method is chosen: few rows, more rows, low rank, many classes

plain("auto, few rows", "few32", method="auto")
plain("auto, few rows, csr64", "few csr64", method="auto")
plain("auto, two classes", "two", method="auto")
plain("auto, rate searched and refitted", "rows32", method="auto")
plain("auto, rate searched and refitted, csr", "rows", method="auto")
plain("auto, rate given", "rows", method="auto", learning_rate=2.0, early_stopping=False)
plain("auto, low rank", "wide", method="auto")
plain("auto, low rank stopped early", "wide", rank=12, early_stopping=True, max_epochs=6)
plain("auto, low rank of many classes", "many", method="auto", max_epochs=3)
plain("auto, co-occurrence", "most", method="auto", rank=None, max_epochs=2)
plain("auto, stratified", "most32", method="auto", rank=None, max_epochs=2)
plain("auto, probit", "rows32", method="auto", noise="gaussian", max_epochs=4)
plain("auto, probit of few rows", "few64", method="auto", noise="gaussian")
plain("auto, logistic of low rank", "wide", noise="logistic", rank=12, max_epochs=2)
plain("auto, probit of many classes", "many", noise="gaussian", rank=12, max_epochs=1)
plain("auto, custom noise", "few32", noise=custom_noise, max_epochs=20)
plain("auto, solver given", "rows32", solver="adagrad", max_epochs=3, tol=None)
plain("auto, sampler given", "rows", sampler="frequency", max_epochs=3)

# Solvers

for _solver in ("adaptive", "adagrad", "sgd", "damped"):
    plain(f"solver {_solver}", "few32", solver=_solver, **SAMPLED)
plain("solver lbfgs", "few32", method="augment-reduce", solver="lbfgs", max_epochs=12, tol=None)
plain("solver adaptive, csr", "few", solver="adaptive", **SAMPLED)
plain("solver damped, csr", "few", solver="damped", **SAMPLED)
plain("solver damped, dense64", "few64", solver="damped", method="exact", **FEW_PASSES)
plain("solver damped, averaged", "few", solver=part("solvers", "Damped", average=True), **SAMPLED)
plain("solver sgd, one row a step", "few", solver="sgd", batch_size=1, **SAMPLED)
plain(
    "solver umax, bounded weights",
    "few",
    method="umax",
    solver=part("solvers", "UMax", learning_rate=0.3, weight_bound=2.0, local_bound=5.0),
    **FEW_PASSES,
)
plain("solver implicit, batches", "few", method="implicit", batch_size=8, **FEW_PASSES)
plain("solver implicit, batches, dense", "few64", method="implicit", batch_size=8, **FEW_PASSES)
plain("solver vanilla, dense32", "few32", method="vanilla", learning_rate=0.02, **FEW_PASSES)
plain("exact by adagrad, csr", "few", solver="adagrad", method="exact", **FEW_PASSES)
plain("exact by adagrad, dense32", "few32", solver="adagrad", method="exact", **FEW_PASSES)
plain("bouchard by adagrad", "few32", solver="adagrad", method="bouchard", **FEW_PASSES)

# Samplers

for _sampler in ("frequency", "co-occurrence", "shared", "everything"):
    plain(f"sampler {_sampler}", "few", sampler=_sampler, **SAMPLED)
_stratified = part("samplers", "Stratified", n_head=5, n_negatives=4, power=0.5, uniform=0.3)
plain("sampler stratified", "few", method="complementary", sampler=_stratified, **FEW_PASSES)
plain("sampler shared, dense32", "few32", sampler="shared", **SAMPLED)
plain("sampler shared, dense64", "few64", sampler="shared", method="nce", **FEW_PASSES)
plain("many classes, uniform", "many", **SAMPLED)
plain("many classes, co-occurrence", "many", sampler="co-occurrence", **SAMPLED)
plain(
    *("many classes, stratified, dense", "many32"),
    **{"sampler": _stratified, "method": "augment-reduce", **FEW_PASSES},
)
plain("many classes, shared, dense", "many32", sampler="shared", **SAMPLED)
plain("many classes, damped", "many", solver="damped", **SAMPLED)

# Noises

for _noise in ("gaussian", "logistic", custom_noise):
    _name = _noise if isinstance(_noise, str) else "custom"
    plain(f"noise {_name}", "few", noise=_noise, **SAMPLED)
    plain(
        f"noise {_name}, dense64, sampled", "few64", noise=_noise, expectation="sample", **SAMPLED
    )
plain("noise gaussian, exact", "few64", noise="gaussian", **WHOLE)
plain("noise logistic, exact, csr", "few", noise="logistic", **WHOLE)
plain("noise custom, exact", "few32", noise=custom_noise, **WHOLE)
plain(
    "noise gaussian, complementary", "few", noise="gaussian", method="complementary", **FEW_PASSES
)
plain("noise gaussian, 5 nodes", "few32", noise="gaussian", n_nodes=5, **SAMPLED)
plain("noise gaussian, sampled", "few", noise="gaussian", expectation="sample", **SAMPLED)
plain("noise logistic, gumbel q", "few", noise="logistic", variational="gumbel", **SAMPLED)
plain("noise custom, logistic q", "few32", noise=custom_noise, variational="logistic", **SAMPLED)

# Ranks

plain("rank 5", "few", rank=5, **SAMPLED)
plain("rank 5, dense64", "few64", rank=5, **SAMPLED)
plain("rank 5, one-vs-each", "few", rank=5, method="one-vs-each", **FEW_PASSES)
plain("rank 5, sgd", "few", rank=5, solver="sgd", **SAMPLED)
plain("rank 5, exact", "few", rank=5, solver="adagrad", method="exact", **FEW_PASSES)
plain("rank 5, exact by lbfgs", "few32", rank=5, **WHOLE)
plain("rank 5, probit", "few", rank=5, noise="gaussian", **SAMPLED)
plain("rank 5, shared, dense32", "few32", rank=5, sampler="shared", **SAMPLED)
plain("rank 5, ridge", "few", rank=5, l2=2.0, **SAMPLED)
plain("rank 5, no intercept", "few", rank=5, fit_intercept=False, **SAMPLED)
plain("rank 5, co-occurrence", "few", rank=5, sampler="co-occurrence", **SAMPLED)
_vectors = part("solvers", "AdaGrad", learning_rate=0.1, per="vector", schedule="linear", power=1.2)
plain(
    "rank 8, steps a vector, fewer draws first",
    "many",
    rank=8,
    method="complementary",
    solver=_vectors,
    sampler=part("samplers", "Shared", n_negatives=64, n_first=16),
    **FEW_PASSES,
)
plain("rank 8, uniform, many classes", "many32", rank=8, solver=_vectors, **SAMPLED)
plain("rank auto of a method", "few", rank="auto", **SAMPLED)

# Classes that are always in

_OVE = {"method": "one-vs-each", "n_negatives": 6, **FEW_PASSES}
plain("exact classes", "few", exact_classes=3, **_OVE)
plain("exact classes, labels", "few", exact_classes=[13, 40, 22], **_OVE)
plain("exact classes, many", "many", exact_classes=5, **_OVE)
plain("exact classes, shared", "few32", exact_classes=3, sampler="shared", rank=4, **SAMPLED)
plain("exact classes, stratified", "few", exact_classes=4, sampler=_stratified, **FEW_PASSES | _OVE)
plain("exact classes, co-occurrence", "few", exact_classes=4, sampler="co-occurrence", **_OVE)
plain(
    "exact classes of all",
    "few32",
    method="one-vs-each",
    solver="lbfgs",
    exact_classes=3,
    max_epochs=12,
    tol=None,
)


@case("exact classes, words")
def _() -> Answer:
    rows = problem("few32").words()
    model = spell.linear(exact_classes=["class 13", "class 22"], **_OVE)
    return of_linear(model.fit(rows.X, rows.y), rows.X, rows.y)


# Ridges, intercepts, starts, orders, weights of classes

plain("ridge", "few64", l2=0.5, **WHOLE)
plain("ridge along a path", "few32", l2="path")
plain("ridge in sweeps", "few", l2=3.0, **SAMPLED)
plain("ridge in sweeps, dense64", "few64", l2=3.0, **SAMPLED)
plain("ridge with sgd", "few", l2=3.0, solver="sgd", **SAMPLED)
plain("ridge with damped steps", "few32", l2=3.0, solver="damped", **SAMPLED)
plain("ridge with implicit steps", "few", l2=3.0, method="implicit", **FEW_PASSES)
plain("no intercept", "few", fit_intercept=False, **SAMPLED)
plain("no intercept, whole", "few64", fit_intercept=False, **WHOLE)
plain("random start", "few", init="random", **SAMPLED)
plain("start at zero", "few32", init="zero", **SAMPLED)
plain("balanced classes", "few", class_weight="balanced", **SAMPLED)
plain("classes with weights", "few32", class_weight={10: 2.0, 13: 0.5}, **SAMPLED)
plain("batches of 16", "few", batch_size=16, **SAMPLED)
plain("stops by its bound", "few", method="augment-reduce", max_epochs=30, tol=0.02)
plain(
    "stops early",
    "few",
    method="augment-reduce",
    early_stopping=True,
    validation_fraction=0.2,
    n_iter_no_change=2,
    max_epochs=15,
)
