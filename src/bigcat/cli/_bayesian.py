"""``--bayesian``: a posterior over the weights, on the command line."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bigcat.cli import _output

if TYPE_CHECKING:
    import numpy as np

    from bigcat.bayes import PosteriorMethod

# Options of the command line that are parameters of BayesianClassifier, and their names there.
PARAMETERS = {"prior": "prior", "seed": "random_state", "threads": "n_threads"}
# Those that are options of a method, if it has one of these names.
METHOD_OPTIONS = {
    "link": ("link",),
    "likelihood": ("likelihood",),
    "covariance": ("covariance",),
    "noise": ("noise",),
    "solver": ("solver",),
    "negatives": ("n_negatives",),
    "epochs": ("max_epochs", "max_iter"),
    "learning_rate": ("learning_rate",),
    "validation_fraction": ("validation_fraction",),
}
# Those that mean nothing without --bayesian.
OWN = ("link", "likelihood", "covariance", "prior", "prior_scale")
# Options of LinearClassifier alone, and what to do instead.
REFUSED = {
    "rank": "leave it out",
    "sampler": "leave it out",
    "expectation": "leave it out",
    "exact_classes": "leave it out",
    "batch_size": "leave it out",
    "l2": "give --prior-scale, which is 1 / sqrt(l2)",
    "early_stopping": "give --validation-fraction alone, with --method augment-reduce",
    "plot": "leave it out",
}


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "posterior over the weights (docs/bayesian.md)",
        "With --bayesian, --method is independent-binary (the default) or augment-reduce; --seed, "
        "--threads and --epochs (iterations of the former) hold for both, --solver, --link, "
        "--likelihood and --covariance for the former, --noise, --negatives, --learning-rate and "
        "--validation-fraction for the latter.",
    )
    group.add_argument("--bayesian", action="store_true", help="fit a BayesianClassifier")
    group.add_argument("--link", help="probit or logit")
    group.add_argument("--likelihood", help="average, conditioned or marginalised")
    group.add_argument("--covariance", help="full or diagonal")
    group.add_argument("--prior", help="gaussian, hierarchical or horseshoe")
    group.add_argument(
        "--prior-scale", type=float, metavar="X", help="standard deviation of the gaussian prior"
    )


def add_posterior_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--averaged",
        action="store_true",
        help="average over the posterior of a Bayesian model, not at its mean",
    )


def estimator(arguments: argparse.Namespace) -> Any:
    """The BayesianClassifier that the options describe."""
    from bigcat.bayes import GaussianPrior
    from bigcat.estimators import BayesianClassifier

    for option, instead in REFUSED.items():
        if getattr(arguments, option) is not None:
            raise ValueError(f"{_flag(option)} does not go with --bayesian; {instead}")
    parameters = {
        name: getattr(arguments, option)
        for option, name in PARAMETERS.items()
        if getattr(arguments, option) is not None
    }
    if arguments.prior_scale is not None:
        if parameters.get("prior", "gaussian") != "gaussian":
            raise ValueError(
                f"--prior-scale belongs to --prior gaussian, and --prior {arguments.prior} learns "
                "its scales; leave one of them out"
            )
        parameters["prior"] = GaussianPrior(scale=arguments.prior_scale)
    if arguments.json:
        parameters["progress"] = False
    return BayesianClassifier(_method(arguments), **parameters)


def _method(arguments: argparse.Namespace) -> PosteriorMethod:
    """The method with its options; ValueError for an option that only others have."""
    from bigcat.bayes import METHODS, resolve_method

    method = resolve_method(arguments.method or next(iter(METHODS)))
    given = {}
    for option, names in METHOD_OPTIONS.items():
        value = getattr(arguments, option)
        if value is None:
            continue
        own = [name for name in names if name in method.options()]
        if not own:
            others = [m for m, kind in METHODS.items() if set(names) & set(kind().options())]
            raise ValueError(
                f"{_flag(option)} belongs to --method {' or '.join(others)}; leave it out, or give "
                "that method"
            )
        given[own[0]] = value
    return replace(method, **given)


def refuse_options(arguments: argparse.Namespace) -> None:
    """Options of --bayesian without it."""
    for option in OWN:
        if getattr(arguments, option) is not None:
            raise ValueError(f"{_flag(option)} needs --bayesian; add it or leave this out")


def report(model: Any) -> dict[str, Any]:
    """What `fit` tells of a fitted model."""
    last = model.history_[-1]
    return {
        "iterations": model.n_iter_,
        "seconds": last["seconds"],
        "compile_seconds": last.get("compile_seconds", 0.0),
        "elbo": model.evidence_,
        "averaging_weight": getattr(model, "averaging_weight_", None),
        "validation_log_likelihood": last.get("validation_log_likelihood"),
    }


def fit_rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = [
        ("iterations", f"{report['iterations']:,}", ""),
        ("seconds", f"{report['seconds']:.2f}", ""),
        ("evidence", f"{report['elbo']:.2f}", "nats, all rows together"),
    ]
    weight, validation = report["averaging_weight"], report["validation_log_likelihood"]
    if weight is not None:
        rows.append(("weight", f"{weight:.4f}", "of the conditioned likelihood"))
    if validation is not None and validation == validation:
        rows.append(("validation", f"{validation:.4f}", "log-likelihood of held-back rows, nats"))
    rows.append(("model", _output.size(report["model_bytes"]), report["model"]))
    return rows


class Averaged:
    """A Bayesian model whose probabilities are averaged over its posterior."""

    def __init__(self, model: Any, name: str) -> None:
        from bigcat.estimators import BayesianClassifier

        if not isinstance(model, BayesianClassifier):
            raise ValueError(
                f"--averaged needs a posterior, and {name} holds a {type(model).__name__}; leave "
                "it out, or fit with --bayesian"
            )
        self.model = model
        self.classes_ = model.classes_
        self.n_features_in_ = model.n_features_in_

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        return self.model.predict_top_k(X, k, posterior="averaged")

    def log_proba_of(self, X: Any, y: Any) -> np.ndarray:
        return self.model.log_proba_of(X, y, posterior="averaged")


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
