"""``bigcat evaluate``: how good a model is on data with labels."""

from __future__ import annotations

import argparse

from bigcat.cli import _inputs, _options, _output

HELP = "measure a model on held-out data with labels"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="a data file, or a folder of `bigcat convert`")
    _options.add(parser, "form", "label_column", "max_bytes", "plug_in", "json")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.existing_data(arguments.data)

    from bigcat import metrics

    model = _inputs.StoredModel.load(arguments.model, arguments)
    dataset = model.read(arguments.data, arguments)
    with _output.rows_bar("evaluating", wanted=not arguments.json) as on_rows:
        rows = _inputs.rows_and_labels(dataset)
        report = metrics.evaluate(model.estimator, *rows, on_rows=on_rows)
    _output.show(arguments, report, _output.evaluation_rows(report))
    return 0
