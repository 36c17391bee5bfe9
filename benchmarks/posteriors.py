"""Posteriors over the weights: coverage of intervals, cost, effect of the prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import softmax

from benchmarks._models import independent_binary, laplace, linear, weight_posterior
from benchmarks._report import clock, save, show
from benchmarks.categorical_from_binary import race
from bigcat import BayesianClassifier, LinearClassifier
from bigcat.bayes import AugmentReducePosterior, GaussianPrior, LearnedScale
from bigcat.solvers import LBFGS


def _softmax_data(rng, n_rows: int, n_features: int, n_classes: int, scale: float):
    """Rows, labels and true probabilities; weights and intercepts are N(0, scale^2)."""
    weights = scale * rng.standard_normal((n_features, n_classes))
    intercepts = scale * rng.standard_normal(n_classes)

    def draw(n):
        X = rng.standard_normal((n, n_features))
        scores = X @ weights + intercepts
        y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
        return X, y, softmax(scores, axis=1)

    return draw(n_rows), draw


def coverage(repetitions: int = 12, n_features: int = 4, n_classes: int = 5) -> None:
    """Share of true probabilities inside 90% intervals, and the intervals' width."""
    rows = []
    for n_rows in (200, 2_000):
        found: dict[str, list] = {}
        for seed in range(repetitions):
            rng = np.random.default_rng(seed)
            (X, y, _), draw = _softmax_data(rng, n_rows, n_features, n_classes, 1.0)
            X_test, _, truth = draw(200)
            for name, model in posteriors(n_rows).items():
                model.fit(X, y, classes=np.arange(n_classes))
                low, high = model.posterior_.predict_interval(X_test, 0.9)
                found.setdefault(name, []).append(_covered(low, high, truth))
            low, high = _laplace_interval(rng, X, y, X_test)
            found.setdefault("Laplace, full", []).append(_covered(low, high, truth))
        for name, values in found.items():
            covered, width = np.mean(values, axis=0)
            row = {"rows": n_rows, "posterior": name, "coverage": covered, "width": width}
            rows.append({k: float(v) if k in ("coverage", "width") else v for k, v in row.items()})
        show(rows[-len(found) :])
    save("posterior_coverage", rows)


def posteriors(n_rows: int) -> dict[str, BayesianClassifier]:
    """Return the posteriors whose coverage is measured."""
    return {
        "augment-reduce": weight_posterior("gumbel", max_epochs=100 if n_rows < 1_000 else 50),
        "probit, average": independent_binary("probit", "average"),
        "logit, conditioned": independent_binary("logit", "conditioned"),
    }


def _covered(low, high, truth) -> tuple[float, float]:
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean())


def at_the_mode() -> LinearClassifier:
    """The exact softmax with the ridge that is a N(0, 1) prior of the weights."""
    return linear(
        method="exact",
        sampler="everything",
        solver=LBFGS(tol=1e-4),
        l2=1.0,
        max_epochs=500,
    )


def _laplace_interval(rng, X, y, X_test, n_draws: int = 300):
    """The yardstick: the inverse Hessian at the mode, all weights together."""
    mode = at_the_mode().fit(X, y)
    weights = np.column_stack([mode.coef_, mode.intercept_])
    n_classes, width = weights.shape
    rows, p = np.column_stack([X, np.ones(len(X))]), mode.predict_proba(X)
    hessian = np.eye(weights.size).reshape(n_classes, width, n_classes, width)
    for k in range(n_classes):
        for j in range(n_classes):
            curvature = p[:, k] * ((k == j) - p[:, j])
            hessian[k, :, j] += rows.T @ (curvature[:, None] * rows)
    covariance = np.linalg.inv(hessian.reshape(weights.size, weights.size))
    noise = rng.standard_normal((n_draws, weights.size)) @ np.linalg.cholesky(covariance).T
    draws = (weights.ravel() + noise).reshape(n_draws, n_classes, width)
    test_rows = np.column_stack([X_test, np.ones(len(X_test))])
    drawn = softmax(np.einsum("nm,skm->snk", test_rows, draws), axis=2)
    return np.quantile(drawn, [0.05, 0.95], axis=0)


#: By name, functions that make them; `prior` and `n_draws` may be given.
CONFIGURATIONS: dict[str, Callable[..., BayesianClassifier]] = {
    "probit, full": partial(independent_binary, "probit", "conditioned"),
    "probit, diagonal": partial(independent_binary, "probit", "conditioned", covariance="diagonal"),
    "probit, full, learned scales": partial(
        independent_binary, "probit", "conditioned", prior=LearnedScale("feature")
    ),
    "logit, full": partial(independent_binary, "logit", "conditioned"),
    "logit, diagonal": partial(independent_binary, "logit", "conditioned", covariance="diagonal"),
    "probit, full, average": partial(independent_binary, "probit", "average"),
    "augment-reduce, Gumbel": partial(weight_posterior, "gumbel", max_epochs=50),
    "augment-reduce, Gaussian": partial(weight_posterior, "gaussian", max_epochs=50),
}


def _many_classes():
    """Return data with 10 rows per class, where the prior matters."""
    (X, y, _), draw = _softmax_data(np.random.default_rng(0), 5_000, 50, 500, 0.3)
    X_test, y_test, _ = draw(1_000)
    return X, y, X_test, y_test


def cost() -> None:
    """CPU seconds of a fit, n = 5,000, D = 50, K = 500, one core, nothing left to compile."""
    X, y, X_test, y_test = _many_classes()
    rows = []
    for name, make in CONFIGURATIONS.items():
        model = make()
        model.fit(X[:200], y[:200] % 5)  # compiles
        with clock() as times:
            model.fit(X, y, classes=np.arange(500))
        held_out = float(model.log_proba_of(X_test, y_test, posterior="plug-in").mean())
        rows.append({"posterior": name, "CPU seconds": times["cpu"], "log-likelihood": held_out})
        show(rows[-1:])
    show(rows)
    save("posterior_cost", rows)


def priors() -> None:
    """Held-out log-likelihood against the scale of the prior; the weights' own is 0.3."""
    X, y, X_test, y_test = _many_classes()
    rows = []
    for name in ("probit, full", "logit, full", "augment-reduce, Gumbel"):
        for scale in (1.0, 0.3, 0.1):
            model = CONFIGURATIONS[name](n_draws=30, prior=GaussianPrior(scale=scale))
            model.fit(X, y, classes=np.arange(500))
            row: dict = {"posterior": name, "prior scale": scale}
            for how in ("plug-in", "averaged"):
                row[how] = float(model.log_proba_of(X_test, y_test, how).mean())
            rows.append(row)
            show(rows[-1:])
    show(rows)
    save("posterior_priors", rows)


def stopping(max_epochs: int = 150) -> None:
    """Measure when augment-reduce stops, and the gain of further epochs."""
    from sklearn.datasets import load_digits, load_iris

    from bigcat.training.stopping import EarlyStopping

    iris, digits = load_iris(return_X_y=True), load_digits(return_X_y=True)
    problems = {
        "iris, 3 classes": iris,
        "digits, 10 classes": (digits[0] / 16.0, digits[1]),
        "softmax, 10 classes, 20,000 rows": _softmax_data(
            np.random.default_rng(0), 20_000, 10, 10, 1.0
        )[0][:2],
        "softmax, 100 classes, 2,000 rows": _softmax_data(
            np.random.default_rng(0), 2_000, 20, 100, 0.5
        )[0][:2],
    }
    rows = []
    for name, (X, y) in problems.items():
        model = weight_posterior("gumbel", max_epochs=max_epochs)
        elbo = model.fit(X, y).history_["elbo"]
        rule = EarlyStopping(None, AugmentReducePosterior().n_iter_no_change)
        ends = (i for i in range(1, len(elbo) + 1) if rule.is_over(elbo[:i].tolist()))
        stop = next(ends, max_epochs)
        smooth = {n: float(elbo[n - 10 : n].mean()) for n in (50, stop, max_epochs)}
        row = {"data": name, "stops after": stop, "noise of the ELBO": float(elbo[-20:].std())}
        row |= {f"ELBO a row, {n} epochs": smooth[n] for n in (50, max_epochs)}
        rows.append(row | {"at the stop": smooth[stop]})
        show(rows[-1:])
    show(rows)
    save("posterior_stop", rows)


def binary_speed(cavi_iterations: int = 600) -> None:
    """Newton against coordinate ascent, and a thousand classes; CPU seconds of one core."""
    rng = np.random.default_rng(0)
    (X, y, _), _ = _softmax_data(rng, 20_000, 200, 100, 0.2)
    probit = partial(independent_binary, "probit", "conditioned")
    probit().fit(X[:500], y[:500])  # compiles
    rows = []
    with clock() as times:
        newton = probit(solver="newton", tol=1e-9).fit(X, y)
    rows.append(_speed_row("K = 100, probit, newton", newton, times, newton.elbo_))
    show(rows)
    with clock() as times:
        cavi = probit(solver="cavi", tol=0, max_iter=cavi_iterations).fit(X, y)
    rows.append(_speed_row("K = 100, probit, cavi", cavi, times, newton.elbo_))
    show(rows[-1:])
    (X, y, _), _ = _softmax_data(rng, 10_000, 100, 1_000, 0.3)
    logit = partial(independent_binary, "logit", "conditioned")
    logit().fit(X[:500], y[:500])
    for name, model in {
        "K = 1,000, probit, newton": probit(solver="newton", tol=1e-8),
        "K = 1,000, logit, cavi, one pass": logit(solver="cavi", tol=0, max_iter=1),
    }.items():
        with clock() as times:
            model.fit(X, y, classes=np.arange(1_000))
        rows.append(_speed_row(name, model, times, model.elbo_))
        show(rows[-1:])
    show(rows)
    save("binary_speed", rows)


def _speed_row(name: str, model, times, best: float) -> dict:
    return {
        "fit": name,
        "iterations": model.n_iter_,
        "CPU seconds": times["cpu"],
        "relative gap of the ELBO": float(1.0 - best / model.elbo_),
    }


def one_diagonal_iteration() -> BayesianClassifier:
    """The model whose memory is measured."""
    return independent_binary(
        "probit", "average", covariance="diagonal", tol=0, max_iter=1, n_threads=2
    )


def binary_memory(n_rows: int = 100_000, n_features: int = 5_000, n_classes: int = 10_000) -> None:
    """Peak memory of a sparse fit with diagonal covariances, 50 non-zeros a row, one iteration."""
    import resource

    import scipy.sparse

    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, n_features, (n_rows, 50)), axis=1).ravel().astype(np.int32)
    values = rng.random(n_rows * 50, dtype=np.float32)
    X = scipy.sparse.csr_array((values, indices, np.arange(n_rows + 1, dtype=np.int32) * 50))
    X.resize((n_rows, n_features))
    X.sum_duplicates()
    y = rng.integers(0, n_classes, n_rows)
    y[:n_classes] = np.arange(n_classes)
    model = one_diagonal_iteration()
    forecast = model.memory_forecast(n_rows, n_features, n_classes, row_nonzeros=50)
    with clock() as times:
        model.fit(X, y)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    row = {"forecast, GiB": forecast / 2**30, "peak of the process, GiB": peak / 2**30}
    show([{**row, "CPU seconds": times["cpu"], "seconds": times["wall"]}])


#: Ridges of the mode; the best is selected on the test rows, which favours the mode.
RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0)


def quality(names: list[str] | None = None) -> None:
    """Held-out log-likelihood of the default posterior beside other methods, priors and ridges.

    Calibration errors of averaged probabilities stand beside those of plug-in ones.
    """
    rows = []
    for name in names or ("glass", "detergent", "frogs", "K = 100", "K = 1,000"):
        X, y, X_test, y_test = _quality_data(name)
        classes = np.unique(np.concatenate([y, y_test]))
        for method, model in contenders().items():
            with clock() as times:
                model.fit(X, y, classes=classes)
            row: dict = {"data": name, "method": method, "CPU seconds": times["cpu"]}
            for how in ("averaged", "plug-in"):
                row[how] = float(model.log_proba_of(X_test, y_test, how).mean())
            check = model.check_calibration(X_test, y_test)
            row["calibration error, averaged"] = float(check.averaged["ece"])
            row["calibration error, plug-in"] = float(check.plug_in["ece"])
            rows.append(row)
            show(rows[-1:])
        found = {l2: _at_ridge(l2, X, y, X_test, y_test) for l2 in RIDGES}
        best = max(found, key=lambda l2: found[l2])
        rows.append({"data": name, "method": f"mode, ridge {best:g}", "plug-in": found[best]})
        show(rows[-1:])
        save("posterior_quality", rows)


def contenders() -> dict[str, BayesianClassifier]:
    """Return the methods whose quality is measured."""
    return {
        "laplace": laplace(),
        "independent-binary, gaussian": independent_binary("logit", "conditioned"),
        "independent-binary, hierarchical": independent_binary(
            "logit", "conditioned", prior="hierarchical"
        ),
        "augment-reduce, gaussian": weight_posterior("gumbel", max_epochs=100, n_draws=50),
    }


def _quality_data(name: str):
    if name.startswith("K = "):
        n_classes = int(name[4:].replace(",", ""))
        rng = np.random.default_rng(1)
        (X, y, _), draw = _softmax_data(rng, 8 * n_classes, 100, n_classes, 0.2)
        return X, y, *draw(2_000)[:2]
    return race(name, 1.0).split


def _at_ridge(l2: float, X, y, X_test, y_test) -> float:
    model = linear(
        method="exact",
        sampler="everything",
        solver=LBFGS(tol=1e-4),
        l2=l2,
        max_epochs=500,
    )
    seen = np.isin(y_test, np.unique(y))
    return float(model.fit(X, y).log_proba_of(X_test[seen], y_test[seen]).mean())
