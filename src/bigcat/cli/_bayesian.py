"""``--bayesian``: a posterior over the weights, on the command line."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bigcat.cli import _output

if TYPE_CHECKING:
    import numpy as np

    from bigcat.bayes import PosteriorMethod

# Options of the command line that are parameters of BayesianClassifier, and their names there.
PARAMETERS = {
    "prior": "prior",
    "seed": "random_state",
    "threads": "n_threads",
    "checkpoint": "checkpoint",
}
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
    "draws": ("n_draws",),
    "rank": ("rank",),
}
#: The text for weights of full rank: None would be an option that is not given.
FULL_RANK = "none"
# Those that mean nothing without --bayesian.
OWN = ("link", "likelihood", "covariance", "draws", "prior", "prior_scale")
# Options of LinearClassifier alone, and what to do instead.
REFUSED = {
    "sampler": "leave it out",
    "expectation": "leave it out",
    "exact_classes": "leave it out",
    "batch_size": "leave it out",
    "l2": "give --prior-scale, which is 1 / sqrt(l2)",
    "early_stopping": "give --validation-fraction alone, with --method augment-reduce",
    "plot": "leave it out",
    "weights_folder": "leave it out",
}


def add_fit_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "posterior over the weights (docs/bayesian.md)",
        "With --bayesian, --method is laplace (the default), independent-binary or augment-reduce. "
        "--prior, --draws, --seed and --threads are for all of them; --noise for laplace and "
        "augment-reduce; --covariance for laplace and independent-binary; --link, --likelihood and "
        "--solver for independent-binary; --rank for laplace; --negatives, --learning-rate and "
        "--validation-fraction for augment-reduce; --epochs for both (iterations of "
        "independent-binary).",
    )
    group.add_argument("--bayesian", action="store_true", help="fit a BayesianClassifier")
    group.add_argument(
        "--covariance",
        help="what is kept of the posterior; laplace: auto (default), draws, full, class, "
        "low-rank or diagonal; independent-binary: full (default) or diagonal",
    )
    group.add_argument(
        "--draws", type=int, metavar="N", help="draws that are kept, or made for averages"
    )
    group.add_argument("--link", help="independent-binary: probit (default) or logit")
    group.add_argument(
        "--likelihood", help="independent-binary: average (default), conditioned or marginalised"
    )
    group.add_argument(
        "--prior",
        help="learned (default of laplace), gaussian (of the others), hierarchical or horseshoe",
    )
    group.add_argument(
        "--prior-scale",
        type=float,
        metavar="X",
        help="a gaussian prior with this standard deviation of the weights",
    )


def add_posterior_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plug-in",
        action="store_true",
        help="probabilities of a Bayesian model at its posterior mean; without it they are "
        "averaged over the posterior",
    )


def add_interval_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=_level,
        metavar="LEVEL",
        help="of a Bayesian model: also print where each probability lies with this probability, "
        "such as 0.9: class<TAB>probability<TAB>low<TAB>high",
    )


def estimator(arguments: argparse.Namespace) -> Any:
    """The BayesianClassifier that the options describe."""
    from bigcat.bayes import GaussianPrior
    from bigcat.estimators import BayesianClassifier
    from bigcat.training.checkpoint import Checkpoint

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
                f"--prior-scale belongs to --prior gaussian, and --prior {arguments.prior} has "
                "scales of its own; leave one of them out"
            )
        parameters["prior"] = GaussianPrior(scale=arguments.prior_scale)
    if arguments.checkpoint and arguments.checkpoint_every is not None:
        parameters["checkpoint"] = Checkpoint(arguments.checkpoint, arguments.checkpoint_every)
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
        given[own[0]] = None if (option, value) == ("rank", FULL_RANK) else value
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
        "evidence": None if math.isnan(model.fitted.evidence) else model.evidence_,
        "choice": model.history_.choice,
        "averaging_weight": getattr(model, "averaging_weight_", None),
        "validation_log_likelihood": last.get("validation_log_likelihood"),
    }


def fit_rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    choice = report["choice"]
    if choice:
        rows.append(("posterior", choice["covariance"], choice["reason"]))
    rows += [
        ("iterations", f"{report['iterations']:,}", ""),
        ("seconds", f"{report['seconds']:.2f}", ""),
    ]
    if report["evidence"] is not None:
        evidence = f"{report['evidence']:.2f}"
        rows.append(("evidence", evidence, "its logarithm, nats, all rows together"))
    weight, validation = report["averaging_weight"], report["validation_log_likelihood"]
    if weight is not None:
        rows.append(("weight", f"{weight:.4f}", "of the conditioned likelihood"))
    if validation is not None and validation == validation:
        rows.append(("validation", f"{validation:.4f}", "log-likelihood of held-back rows, nats"))
    rows.append(("model", _output.size(report["model_bytes"]), report["model"]))
    return rows


class Predictor:
    """A Bayesian model whose probabilities are averaged over its posterior, or at its mean."""

    #: Probabilities of all classes that exist at a time, for intervals.
    MOST = 1 << 22

    def __init__(self, model: Any, plug_in: bool = False) -> None:
        self.model = model
        self.classes_ = model.classes_
        self.n_features_in_ = model.n_features_in_
        self.how = "plug-in" if plug_in else "averaged"

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        found: tuple[np.ndarray, np.ndarray] = self.model.predict_top_k(X, k, posterior=self.how)
        return found

    def log_proba_of(self, X: Any, y: Any) -> np.ndarray:
        found: np.ndarray = self.model.log_proba_of(X, y, posterior=self.how)
        return found

    def intervals_of(self, X: Any, classes: np.ndarray, level: float) -> np.ndarray:
        """Ends of the intervals of some classes of each row, given as labels: (2, n, k)."""
        import numpy as np

        columns = np.searchsorted(self.classes_, classes)
        ends = np.empty((2, *classes.shape))
        step = max(1, self.MOST // len(self.classes_))
        for start in range(0, len(classes), step):
            rows = slice(start, start + step)
            found = self.model.posterior_.predict_interval(X[rows], level)
            for end, all_classes in zip(ends, found):
                end[rows] = np.take_along_axis(all_classes, columns[rows], axis=1)
        return ends


def predictor(model: Any, name: str, arguments: argparse.Namespace) -> Any:
    """The model as `predict` and `evaluate` ask it; ValueError for options that it has not."""
    from bigcat.estimators import BayesianClassifier

    if isinstance(model, BayesianClassifier):
        return Predictor(model, arguments.plug_in)
    for option in ("plug_in", "interval"):
        if getattr(arguments, option, None):
            raise ValueError(
                f"{_flag(option)} needs a posterior, and {name} holds a {type(model).__name__}; "
                "leave it out, or fit with --bayesian"
            )
    return model


def _level(text: str) -> float:
    try:
        level = float(text)
    except ValueError:
        level = -1.0
    if not 0.0 < level < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1, such as 0.9")
    return level


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")
