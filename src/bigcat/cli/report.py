"""``bigcat report``: a page about a model, to open in a browser."""

from __future__ import annotations

import argparse

from bigcat.cli import _inputs, _options, _output

HELP = "write a page about a model on held-out data, to open in a browser"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="held-out data: a file")
    parser.add_argument(
        "--out", metavar="HTML", default="report.html", help="the page (default: report.html)"
    )
    parser.add_argument("--title", help="its title")
    parser.add_argument(
        "--max-rows",
        type=_options.whole(1),
        metavar="N",
        help="rows to use, drawn at random if the data have more (20,000)",
    )
    _options.add(parser, "form", "label_column", "max_bytes")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.existing_data(arguments.data)
    _options.destination(arguments.out)

    from bigcat import plots
    from bigcat.reporting import MAX_ROWS, report

    plots.require_matplotlib()
    model = _inputs.StoredModel.load(arguments.model)
    dataset = model.read(arguments.data, arguments)
    X, y = (dataset, None) if hasattr(dataset, "labels") else (dataset.X, dataset.y)
    path = report(
        model.estimator,
        X,
        y,
        arguments.out,
        title=arguments.title,
        feature_names=model.feature_names(),
        facts={"model file": arguments.model, "held-out data": arguments.data}
        | ({"trained on": model.extra["trained_on"]} if "trained_on" in model.extra else {}),
        max_rows=MAX_ROWS if arguments.max_rows is None else arguments.max_rows,
    )
    size = _output.size(path.stat().st_size)
    _output.console().print(f"{path} ({size}): open it in a browser", soft_wrap=True)
    return 0
