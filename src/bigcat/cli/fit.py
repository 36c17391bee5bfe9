"""``bigcat fit``: from a file to a model file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from bigcat.cli import _bayesian, _cluster, _inputs, _output

if TYPE_CHECKING:
    from bigcat.data import Dataset, Shards

# Options of the command line that are parameters of the estimator, and their names there.
# Those that are not given are left to the estimator's own defaults.
PARAMETERS = {
    "noise": "noise",
    "method": "method",
    "effort": "effort",
    "rank": "rank",
    "solver": "solver",
    "sampler": "sampler",
    "epochs": "max_epochs",
    "l2": "l2",
    "early_stopping": "early_stopping",
    "threads": "n_threads",
    "seed": "random_state",
    "checkpoint": "checkpoint",
    "weights_folder": "weights_folder",
}
# Those that are options of a part, and their names there.
OF_PARTS = {
    "negatives": "n_negatives",
    "batch_size": "batch_size",
    "learning_rate": "learning_rate",
    "exact_classes": "exact_classes",
    "validation_fraction": "validation_fraction",
    "checkpoint_every": "every_seconds",
}

FULL_RANK = _bayesian.FULL_RANK


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "fit",
        help="fit a model to a data file",
        description="Fit a model to a data file and save it.",
        epilog="TRAIN and TEST are files (xc, svmlight, label<TAB>text, npz, csv or parquet; "
        "gzipped or not), or folders of `bigcat convert`.",
    )
    parser.add_argument("train", metavar="TRAIN", help="the training data")
    parser.add_argument("--model", metavar="FILE", required=True, help="the model file to write")
    parser.add_argument("--test", metavar="TEST", help="evaluate the model on these data")
    _inputs.add_form_options(parser)
    _inputs.add_features_option(parser)
    _inputs.add_text_options(parser)
    _inputs.add_table_options(parser)

    model = parser.add_argument_group("model (`bigcat methods` lists what fits together)")
    model.add_argument("--noise", help="gumbel (softmax), gaussian (probit) or logistic")
    model.add_argument(
        "--method",
        help="auto (default), or such as exact, augment-reduce; with --bayesian see below",
    )
    model.add_argument(
        "--rank",
        type=_rank,
        metavar="N",
        help="length of the vectors of classes and features; none for full rank, or auto (default)",
    )
    model.add_argument("--solver", help="how the weights move")
    model.add_argument("--sampler", help="how other classes are drawn")
    model.add_argument("--expectation", help="quadrature or sample")
    model.add_argument("--negatives", type=int, metavar="N", help="classes drawn a row")
    model.add_argument(
        "--exact-classes", type=int, metavar="N", help="frequent classes that are always in"
    )
    model.add_argument(
        "--effort",
        choices=("quick", "balanced", "best"),
        help="how many models are fitted and stacked, and how long (default balanced)",
    )
    model.add_argument("--l2", type=_ridge, metavar="X", help="ridge: a number, auto or path")

    _bayesian.add_fit_options(parser)

    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, metavar="N", help="passes over the data, at most")
    training.add_argument("--batch-size", type=int, metavar="N", help="rows per step")
    training.add_argument("--learning-rate", type=_rate, metavar="X", help="a number, or auto")
    training.add_argument(
        "--early-stopping",
        action="store_true",
        default=None,
        help="stop when the log-likelihood of held-back rows no longer rises",
    )
    training.add_argument(
        "--validation-fraction", type=float, metavar="X", help="share of rows to hold back"
    )
    training.add_argument(
        "--threads", type=int, metavar="N", help="default 1; several give other bits each time"
    )
    training.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")

    training.add_argument(
        "--window-bytes",
        type=int,
        metavar="N",
        help="of a folder of converted rows: bytes that are visited in random order at a time, at "
        "most as many as there is memory for (default 256 MiB)",
    )
    training.add_argument(
        "--weights-folder",
        metavar="DIR",
        help="keep weights that exceed the memory in files of this folder, which are gone after "
        "the fit",
    )
    training.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="write the fit down as it goes; the folder is deleted when the model is saved",
    )
    training.add_argument(
        "--checkpoint-every", type=float, metavar="S", help="seconds between two (default 60)"
    )
    training.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint; begin where there is none yet",
    )

    _cluster.add_option(training)

    parser.add_argument("--plot", metavar="PNG", help="draw the learning curve")
    parser.add_argument("--json", action="store_true", help="print a JSON report instead")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat import files, metrics
    from bigcat.estimators import LinearClassifier
    from bigcat.training import checkpoint

    # Whatever can fail for a reason that is known by now fails before the long work.
    files.check_destination(arguments.model)
    _cluster.check(arguments)
    if arguments.plot:
        from bigcat import plots

        plots.require_matplotlib()
        files.check_destination(arguments.plot)
    given = {name: getattr(arguments, option) for option, name in PARAMETERS.items()}
    parameters = {name: value for name, value in given.items() if value is not None}
    if parameters.get("rank") == FULL_RANK:
        parameters["rank"] = None
    if arguments.json:
        parameters["progress"] = False
    if arguments.bayesian:
        estimator: Any = _bayesian.estimator(arguments)
    else:
        _bayesian.refuse_options(arguments)
        estimator = LinearClassifier(**parameters)
        _set_options(estimator, arguments)
    grouped = arguments.group_column is not None
    train = _inputs.read(
        arguments.train,
        arguments,
        vectorizer=_inputs.vectorizer(arguments),
        n_features=arguments.features,
        window_bytes=arguments.window_bytes,
    )
    groups = getattr(train, "groups", None)
    if grouped and groups is None:
        raise _no_groups(arguments.train)
    extra = _description(arguments.train, train)
    test = None
    if arguments.test:
        test = _read_test(arguments, train, extra)

    n_classes = train.report["classes"]
    memory = _output.forecast(estimator, train, n_classes)
    console = _output.console()
    if not arguments.json:
        console.print(_output.facts(_data_rows(train, memory)))
    if arguments.dask:
        estimator = _cluster.fit(arguments.dask, estimator, train, arguments.resume)
    else:
        estimator.fit(*_inputs.rows_and_labels(train), groups=groups, resume=arguments.resume)
    path = files.save_model(estimator, arguments.model, extra=extra)
    if arguments.checkpoint:
        checkpoint.remove(arguments.checkpoint)

    report: dict[str, Any] = {
        "data": train.report,
        "memory_bytes": memory,
        **(_bayesian.report if arguments.bayesian else _report)(estimator),
        "model": str(path),
        "model_bytes": path.stat().st_size,
    }
    if not arguments.json:
        rows = (_bayesian.fit_rows if arguments.bayesian else _fit_rows)(report)
        console.print(_output.facts(rows), soft_wrap=True)
    baseline = None
    if test is not None:
        judged = _bayesian.Predictor(estimator) if arguments.bayesian else estimator
        report["test"] = metrics.evaluate(judged, *_inputs.rows_and_labels(test))
        baseline = metrics.class_frequency_baseline(train.y, test.y)
        report["test"]["class_frequency_baseline"] = baseline
        if not arguments.json:
            console.print(f"\n[bold]{arguments.test}[/bold]")
            console.print(_output.facts(_output.evaluation_rows(report["test"])))
            console.print(f"Class frequencies alone: {baseline:.4f} nats per row.", style="dim")
    if arguments.plot:
        plots.save(plots.history(estimator, baseline=baseline), arguments.plot)
        report["plot"] = arguments.plot
    if arguments.json:
        _output.print_json(report)
    return 0


def _set_options(estimator: Any, arguments: argparse.Namespace) -> None:
    """Options of parts, where a part is named that has them."""
    from bigcat.combinations import resolve_method
    from bigcat.training.checkpoint import Checkpoint
    from bigcat.training.stopping import EarlyStopping

    if arguments.expectation is not None:
        if estimator.method == "auto":
            raise ValueError("--expectation belongs to --method augment-reduce; give that too")
        estimator.set_params(method__expectation=arguments.expectation)
    for parameter, options in (
        ("solver", ("learning_rate", "batch_size")),
        ("sampler", ("negatives", "exact_classes")),
    ):
        given = {OF_PARTS[o]: getattr(arguments, o) for o in options}
        given = {name: value for name, value in given.items() if value not in (None, "auto")}
        if given and getattr(estimator, parameter) == "auto":
            named = estimator.method != "auto"
            usual = {"solver": "adagrad", "sampler": "shared"}[parameter]
            usual = getattr(resolve_method(estimator.method), parameter) if named else usual
            setattr(estimator, parameter, usual)
        estimator.set_params(**{f"{parameter}__{name}": v for name, v in given.items()})
    if arguments.validation_fraction is not None:
        estimator.early_stopping = EarlyStopping(arguments.validation_fraction)
    if arguments.checkpoint_every is not None and arguments.checkpoint is not None:
        estimator.checkpoint = Checkpoint(arguments.checkpoint, arguments.checkpoint_every)


def _report(estimator: Any) -> dict[str, Any]:
    """What is told of a fitted LinearClassifier."""
    last, selection = estimator.history_[-1], estimator.selection_
    return {
        "epochs": len(estimator.history_),
        "seconds": last["seconds"],
        "compile_seconds": last["compile_seconds"],
        "objective": last["objective"],
        "bound": last["bound"],
        "log_likelihood": last["log_likelihood"],
        "validation_log_likelihood": last["validation_log_likelihood"],
        "selection": selection.to_dict(),
    }


def _read_test(
    arguments: argparse.Namespace, train: Dataset | Shards, extra: dict[str, Any]
) -> Dataset | Shards:
    test = _inputs.read(arguments.test, arguments, like=extra)
    return _inputs.as_model_has_it(arguments.test, test, train.X.shape[1], train.y)


def _no_groups(name: str) -> ValueError:
    return ValueError(
        f"--group-column is for tables that are read into memory, and {name} is none; leave it "
        "out, or give a csv or parquet file"
    )


def _description(name: str, train: Dataset | Shards) -> dict[str, Any]:
    """What the model file has to know to read more data of this kind."""
    extra = {"trained_on": name, "form": train.report["form"], "rows": len(train)}
    extra |= {
        key: train.report[key] for key in ("zero_based", "label_column") if key in train.report
    }
    for made_by in ("vectorizer", "columns"):
        if getattr(train, made_by) is not None:
            extra[made_by] = getattr(train, made_by)
    return extra


def _data_rows(train: Dataset | Shards, memory: int) -> list[tuple[str, str, str]]:
    report = train.report
    remarks = []
    if report["multi_label_rows"]:
        remarks.append(f"{report['multi_label_rows']:,} with several labels: the first is used")
    if report["rows_without_label"]:
        remarks.append(f"{report['rows_without_label']:,} more dropped: they have no label")
    return [
        ("rows", f"{len(train):,}", "; ".join(remarks)),
        ("features", f"{train.X.shape[1]:,}", ""),
        ("classes", f"{report['classes']:,}", ""),
        ("memory", _output.size(memory), "the fit needs about that much besides the data"),
    ]


def _fit_rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    compiled = report["compile_seconds"]
    remark = f"and {compiled:.1f} to compile" if compiled >= 0.05 else ""
    rows: list[tuple[str, str, str]] = []
    selection = report["selection"]
    if selection:
        validation_rows = selection["n_validation_rows"]
        for candidate in selection["candidates"]:
            rows.append(("candidate", candidate["name"], _remark(candidate, validation_rows)))
        if validation_rows:
            stacked, of = f"{selection['log_likelihood']:.4f}", f"{validation_rows:,} rows"
            rows.append(("validation", stacked, f"log-likelihood of the stacked model, {of}"))
    rows += [
        ("epochs", f"{report['epochs']:,}", ""),
        ("seconds", f"{report['seconds']:.2f}", remark),
    ]
    if report["bound"] == report["bound"]:
        rows.append(("bound", f"{report['bound']:.4f}", "nats per row, over the last epoch"))
    else:
        remark = "the method's own, over the last epoch; not a bound"
        rows.append(("objective", f"{report['objective']:.4f}", remark))
        remark = "true one of training rows, nats per row"
        rows.append(("log-likelihood", f"{report['log_likelihood']:.4f}", remark))
    validation = report["validation_log_likelihood"]
    if validation == validation:
        rows.append(("validation", f"{validation:.4f}", "log-likelihood of held-back rows, nats"))
    rows.append(("model", _output.size(report["model_bytes"]), report["model"]))
    return rows


def _remark(candidate: dict[str, Any], validation_rows: int) -> str:
    """Return what a candidate is made of, and what validation rows say of it."""
    settings, words = candidate["settings"], []
    if validation_rows:
        words.append(f"log-likelihood {candidate['log_likelihood']:.4f}")
        words.append(f"weight {candidate['weight']:.2f}")
    words += [f"{name} {settings[name]}" for name in ("bound", "sampler", "solver")]
    words.append(f"l2 {settings['l2']:g}")
    rate = settings.get("learning_rate")
    if rate is not None:
        words.append(f"learning rate {rate:.3g}" if isinstance(rate, float) else "")
    return ", ".join(word for word in words if word)


def _rank(text: str) -> int | str:
    if text in ("auto", FULL_RANK):
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a whole number nor auto nor {FULL_RANK}"
        ) from None


def _ridge(text: str) -> float | str:
    return text if text == "path" else _rate(text)


def _rate(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor auto") from None
