"""``bigcat evaluate``: how good a model is on data with labels."""

from __future__ import annotations

import argparse

from bigcat.cli import _bayesian, _inputs, _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "evaluate",
        help="measure a model on held-out data",
        description="Measure a model on data with labels.",
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a data file, or a folder of `bigcat convert`",
    )
    _inputs.add_form_options(parser)
    _bayesian.add_posterior_option(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat import metrics

    model = _inputs.StoredModel.load(arguments.model, arguments)
    dataset = model.read(arguments.data, arguments)
    with _output.rows_bar("evaluating", wanted=not arguments.json) as on_rows:
        rows = _inputs.rows_and_labels(dataset)
        report = metrics.evaluate(model.estimator, *rows, on_rows=on_rows)
    if arguments.json:
        _output.print_json(report)
    else:
        _output.console().print(_output.facts(_output.evaluation_rows(report)))
    return 0
