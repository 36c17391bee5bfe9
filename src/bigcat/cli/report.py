"""``bigcat report``: a page about a model, to open in a browser."""

from __future__ import annotations

import argparse

from bigcat.cli import _inputs, _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "report",
        help="write a page about a model",
        description="Write a self-contained HTML page about a model: how good and how honest it "
        "is on held-out data, what it confuses and what it learned.",
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="held-out data: a file")
    parser.add_argument(
        "--out", metavar="HTML", default="report.html", help="the page (default: report.html)"
    )
    parser.add_argument("--title", help="its title")
    parser.add_argument(
        "--max-rows", type=int, metavar="N", help="of more rows so many are drawn (20,000)"
    )
    _inputs.add_form_options(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat import files, plots
    from bigcat.reporting import MOST_ROWS, report

    plots.require_matplotlib()
    files.check_destination(arguments.out)
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
        max_rows=MOST_ROWS if arguments.max_rows is None else arguments.max_rows,
    )
    size = _output.size(path.stat().st_size)
    _output.console().print(f"{path} ({size}): open it in a browser", soft_wrap=True)
    return 0
