"""Estimators by the options of ``bigcat fit``, and reports of what was fitted."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bigcat.cli import _options, _output

if TYPE_CHECKING:
    import numpy as np

#: Options that are parameters of `LinearClassifier`, under the same names.
LINEAR = (
    "noise", "method", "effort", "rank", "max_epochs", "l2", "early_stopping",
    "n_threads", "random_state", "checkpoint",
)  # fmt: skip
#: Options that are parameters of `BayesianClassifier`.
BAYESIAN = ("prior", "random_state", "n_threads", "checkpoint")
#: Options that mean nothing without --bayesian.
NEED_BAYESIAN = ("covariance", "n_draws", "prior", "prior_scale")
#: Options that mean nothing with it, and what to do instead.
NOT_BAYESIAN = {
    "l2": "give --prior-scale, which is 1 / sqrt(l2)",
    "early_stopping": "give --validation-fraction alone, with --method augment-reduce",
    "plot": "leave it out",
}


def check(arguments: argparse.Namespace) -> None:
    """Raise for options that do not go together; nothing slow is imported."""
    given = {name for name, value in vars(arguments).items() if value is not None}
    if arguments.resume and not arguments.checkpoint:
        raise ValueError("--resume needs --checkpoint DIR; add it")
    if arguments.bayesian:
        _check_bayesian(arguments, given)
        return
    for name in NEED_BAYESIAN:
        if name in given:
            raise ValueError(f"{_options.flag(name)} needs --bayesian; add it or leave this out")
    _check_choice(arguments, "method", ("auto", *_options.METHODS))


def _check_bayesian(arguments: argparse.Namespace, given: set[str]) -> None:
    for name, instead in NOT_BAYESIAN.items():
        if name in given:
            raise ValueError(f"--{name.replace('_', '-')} does not go with --bayesian; {instead}")
    _check_choice(arguments, "method", tuple(_options.POSTERIORS))
    method = arguments.method or next(iter(_options.POSTERIORS))
    for name in dict.fromkeys(name for names in _options.POSTERIORS.values() for name in names):
        if name in given and name not in _options.POSTERIORS[method]:
            others = [other for other, names in _options.POSTERIORS.items() if name in names]
            raise ValueError(
                f"{_options.flag(name)} belongs to --method {' or '.join(others)}; leave it out, "
                "or give that method"
            )
    if method == "independent-binary":
        _check_choice(arguments, "covariance", ("full", "diagonal"))
    if arguments.prior_scale is not None and arguments.prior not in (None, "gaussian"):
        raise ValueError(
            f"--prior-scale belongs to --prior gaussian, and --prior {arguments.prior} has "
            "scales of its own; leave one of them out"
        )


def _check_choice(arguments: argparse.Namespace, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(arguments, name)
    if value is not None and value not in choices:
        bayesian = "with" if arguments.bayesian else "without"
        raise ValueError(
            f"{_options.flag(name)} {value} is not known {bayesian} --bayesian; choose one of "
            f"{', '.join(choices)}"
        )


def estimator(arguments: argparse.Namespace) -> Any:
    """Return the estimator that the options describe."""
    from bigcat import estimators

    if arguments.bayesian:
        found: Any = estimators.BayesianClassifier(
            _posterior(arguments), **_given(arguments, BAYESIAN)
        )
        if arguments.prior_scale is not None:
            from bigcat.bayes import GaussianPrior

            found.prior = GaussianPrior(scale=arguments.prior_scale)
    else:
        found = estimators.LinearClassifier(**_given(arguments, LINEAR))
        if arguments.validation_fraction is not None:
            from bigcat import EarlyStopping

            found.early_stopping = EarlyStopping(arguments.validation_fraction)
    if arguments.checkpoint and arguments.checkpoint_every is not None:
        from bigcat import Checkpoint

        found.checkpoint = Checkpoint(arguments.checkpoint, arguments.checkpoint_every)
    found.progress = progress(arguments)
    return found


def _given(arguments: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    return given | ({"rank": None} if given.get("rank") == _options.FULL_RANK else {})


def progress(arguments: argparse.Namespace) -> bool | str:
    """Return a bar on a terminal, and elsewhere a line per epoch on stderr."""
    if not _output.log.isEnabledFor(20):  # INFO
        return False
    if arguments.json:
        return "json"
    return "auto" if sys.stderr.isatty() else "lines"


def _posterior(arguments: argparse.Namespace) -> Any:
    from bigcat.bayes import resolve_method

    name = arguments.method or next(iter(_options.POSTERIORS))
    given = _given(arguments, _options.POSTERIORS[name])
    if name == "independent-binary" and "max_epochs" in given:
        given["max_iter"] = given.pop("max_epochs")
    return replace(resolve_method(name), **given)


# Reports


def report(model: Any) -> dict[str, Any]:
    """Return the figures of a fitted model."""
    last = model.history_[-1]
    found = {"seconds": last["seconds"], "compile_seconds": last.get("compile_seconds", 0.0)}
    if hasattr(model, "posterior_"):
        evidence = model.fitted.evidence
        return found | {
            "iterations": model.n_iter_,
            "evidence": None if math.isnan(evidence) else evidence,
            "selection": model.history_.selection,
            "averaging_weight": getattr(model, "averaging_weight_", None),
            "validation_log_likelihood": last.get("validation_log_likelihood"),
        }
    names = ("objective", "bound", "log_likelihood", "validation_log_likelihood")
    return found | {
        "epochs": len(model.history_),
        **{name: last[name] for name in names},
        "selection": model.selection_.to_dict(),
    }


def rows_of(report: dict[str, Any]) -> _output.Facts:
    """Return the lines that `fit` shows of a fitted model."""
    compiled = report["compile_seconds"]
    seconds = (
        "seconds",
        f"{report['seconds']:.2f}",
        f"and {compiled:.1f} to compile" if compiled >= 0.05 else "",
    )
    rows = (
        _bayesian_rows(report, seconds) if "evidence" in report else _linear_rows(report, seconds)
    )
    validation = report["validation_log_likelihood"]
    if validation is not None and not math.isnan(validation):
        rows.append(("validation", f"{validation:.4f}", "log-likelihood of validation rows, nats"))
    return [*rows, ("model", _output.size(report["model_bytes"]), report["model"])]


def _bayesian_rows(report: dict[str, Any], seconds: tuple[str, str, str]) -> _output.Facts:
    rows = []
    if selection := report["selection"]:
        rows.append(("posterior", selection["covariance"], selection["reason"]))
    rows += [("iterations", f"{report['iterations']:,}", ""), seconds]
    if report["evidence"] is not None:
        rows.append(("evidence", f"{report['evidence']:.2f}", "log marginal likelihood, nats"))
    if report["averaging_weight"] is not None:
        weight = f"{report['averaging_weight']:.4f}"
        rows.append(("weight", weight, "of the conditioned likelihood"))
    return rows


def _linear_rows(report: dict[str, Any], seconds: tuple[str, str, str]) -> _output.Facts:
    rows: _output.Facts = []
    if selection := report["selection"]:
        n_validation = selection["n_validation_rows"]
        for candidate in selection["candidates"]:
            rows.append(("candidate", candidate["name"], _remark(candidate, n_validation)))
        if n_validation:
            stacked, of = f"{selection['log_likelihood']:.4f}", f"{n_validation:,} rows"
            rows.append(("validation", stacked, f"log-likelihood of the stacked model, {of}"))
    remark = "of all fits together" if len(report["selection"]["candidates"]) else ""
    rows += [("epochs", f"{report['epochs']:,}", remark), seconds]
    if not math.isnan(report["bound"]):
        rows.append(("bound", f"{report['bound']:.4f}", "nats per row, over the last epoch"))
    else:
        remark = "the method's own, over the last epoch; not a bound"
        rows.append(("objective", f"{report['objective']:.4f}", remark))
        remark = "true one of training rows, nats per row"
        rows.append(("log-likelihood", f"{report['log_likelihood']:.4f}", remark))
    return rows


def _remark(candidate: dict[str, Any], n_validation: int) -> str:
    """Return what a candidate is made of, and its figures on the validation rows."""
    settings, words = candidate["settings"], []
    if n_validation:
        words.append(f"log-likelihood {candidate['log_likelihood']:.4f}")
        words.append(f"weight {candidate['weight']:.2f}")
    words += [f"{name} {settings[name]}" for name in ("bound", "sampler", "solver")]
    words.append(f"l2 {settings['l2']:g}")
    if isinstance(settings.get("learning_rate"), float):
        words.append(f"learning rate {settings['learning_rate']:.3g}")
    return ", ".join(words)


class Predictor:
    """A Bayesian model whose probabilities are averaged over its posterior, or at its mean."""

    def __init__(self, model: Any, plug_in: bool = False) -> None:
        self.model, self.how = model, "plug-in" if plug_in else "averaged"
        self.classes_, self.n_features_in_ = model.classes_, model.n_features_in_

    def predict_top_k(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """Return the `k` most probable classes of each row and their log-probabilities."""
        found: tuple[np.ndarray, np.ndarray] = self.model.predict_top_k(X, k, posterior=self.how)
        return found

    def log_proba_of(self, X: Any, y: Any) -> np.ndarray:
        """Return the log-probability of one class per row."""
        found: np.ndarray = self.model.log_proba_of(X, y, posterior=self.how)
        return found

    def intervals_of(self, X: Any, classes: np.ndarray, level: float) -> np.ndarray:
        """Return the ends of the intervals of some classes of each row: (2, n, k)."""
        import numpy as np

        columns = np.searchsorted(self.classes_, classes)
        ends = self.model.posterior_.predict_interval(X, level)
        return np.stack([np.take_along_axis(end, columns, axis=1) for end in ends])


def predictor(model: Any, name: str, arguments: argparse.Namespace) -> Any:
    """Return the model as `predict` and `evaluate` use it."""
    if hasattr(model, "posterior_"):
        return Predictor(model, arguments.plug_in)
    for option in ("plug_in", "interval"):
        if getattr(arguments, option, None):
            raise ValueError(
                f"{_options.flag(option)} needs a posterior, and {name} holds a "
                f"{type(model).__name__}; leave it out, or fit with --bayesian"
            )
    return model
