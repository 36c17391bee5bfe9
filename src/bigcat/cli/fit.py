"""``bigcat fit``: from a file to a model file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from bigcat._warnings import warn_caller
from bigcat.cli import _estimators, _inputs, _options, _output

if TYPE_CHECKING:
    from bigcat.data import Dataset, Shards

HELP = "fit a model to a data file and save it"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "TRAIN and TEST are files (xc, svmlight, label<TAB>text, npz, csv or parquet; gzipped or "
        "not), or folders of `bigcat convert`."
    )
    parser.add_argument("train", metavar="TRAIN", help="the training data")
    parser.add_argument("--model", metavar="FILE", required=True, help="the model file to write")
    parser.add_argument("--test", metavar="TEST", help="evaluate the model on these data")
    parser.add_argument("--plot", metavar="PNG", help="draw the learning curve")
    _options.add(parser, "json")
    data = parser.add_argument_group("data")
    _options.add(data, "form", "label_column", "max_bytes", "n_features")
    _options.add(data, "analyzer", "ngram_range", "min_df")
    _options.add(data, "categorical", "text_columns", "group_column")
    model = parser.add_argument_group("model (`bigcat methods` lists what fits together)")
    _options.add(model, "noise", "method", "effort", "rank", "l2")
    posterior = parser.add_argument_group(
        "posterior over the weights (docs/bayesian.md)",
        "; ".join(
            f"{name} takes {', '.join(map(_options.flag, options))}"
            for name, options in _options.POSTERIORS.items()
        ),
    )
    _options.add(posterior, "bayesian", *_estimators.NEED_BAYESIAN)
    training = parser.add_argument_group("training")
    _options.add(training, "max_epochs", "early_stopping", "validation_fraction")
    _options.add(training, "n_threads", "random_state", "window_bytes")
    _options.add(training, "checkpoint", "checkpoint_every", "resume")


def run(arguments: argparse.Namespace) -> int:
    # Whatever can fail for a reason that is known by now fails before the long work.
    _estimators.check(arguments)
    for name in (arguments.train, arguments.test):
        if name is not None:
            _options.existing_data(name)
    for name in (arguments.model, arguments.plot):
        _options.destination(name)

    from bigcat import files, metrics
    from bigcat.estimators import checkpoint_folder

    if arguments.plot:
        from bigcat import plots

        plots.require_matplotlib()
    estimator = _estimators.estimator(arguments)
    train = _inputs.read(
        arguments.train,
        arguments,
        vectorizer=_inputs.vectorizer(arguments),
        n_features=arguments.n_features,
        window_bytes=arguments.window_bytes,
    )
    groups = getattr(train, "groups", None)
    if arguments.group_column is not None and groups is None:
        raise ValueError(
            f"--group-column is for tables that are read into memory, and {arguments.train} is "
            "none; leave it out, or give a csv or parquet file"
        )
    extra, test = _description(arguments.train, train), None
    if arguments.test:
        test = _inputs.read(arguments.test, arguments, like=extra)
        test = _inputs.as_model_has_it(arguments.test, test, train.X.shape[1], train.y)

    memory = _output.forecast(estimator, train, train.report["classes"])
    console = _output.console()
    console.quiet = arguments.json
    console.print(_output.facts(_data_rows(train, memory)))
    estimator.fit(*_inputs.rows_and_labels(train), groups=groups, resume=arguments.resume)
    estimator.progress = "auto"
    path = files.save_model(estimator, arguments.model, extra=extra)
    if arguments.checkpoint:
        try:
            checkpoint_folder.remove(arguments.checkpoint)
        except OSError as error:
            warn_caller(
                f"could not delete the checkpoint: {error}; the model is saved, and you can "
                "delete the folder"
            )

    report: dict[str, Any] = {
        "data": train.report,
        "memory_bytes": memory,
        **_estimators.report(estimator),
        "model": str(path),
        "model_bytes": path.stat().st_size,
    }
    console.print(_output.facts(_estimators.rows_of(report)), soft_wrap=True)
    baseline = None
    if test is not None:
        model = _estimators.Predictor(estimator) if arguments.bayesian else estimator
        report["test"] = metrics.evaluate(model, *_inputs.rows_and_labels(test))
        baseline = metrics.class_frequency_baseline(train.y, test.y)
        report["test"]["class_frequency_baseline"] = baseline
        console.print(f"\n[bold]{arguments.test}[/bold]")
        console.print(_output.facts(_output.evaluation_rows(report["test"])))
        console.print(f"Class frequencies alone: {baseline:.4f} nats per row.", style="dim")
    if arguments.plot:
        plots.save(plots.history(estimator, baseline=baseline), arguments.plot)
        report["plot"] = arguments.plot
    if arguments.json:
        _output.print_json(report)
    return 0


def _description(name: str, train: Dataset | Shards) -> dict[str, Any]:
    """Return what the model file has to know to read more data of this kind."""
    extra = {"trained_on": name, "form": train.report["form"], "rows": len(train)}
    extra |= {
        key: train.report[key] for key in ("zero_based", "label_column") if key in train.report
    }
    for made_by in ("vectorizer", "columns"):
        if getattr(train, made_by) is not None:
            extra[made_by] = getattr(train, made_by)
    return extra


def _data_rows(train: Dataset | Shards, memory: int) -> _output.Facts:
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
