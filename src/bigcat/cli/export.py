"""``bigcat export``: a model file as an ONNX file."""

from __future__ import annotations

import argparse

from bigcat.cli import _inputs, _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "export",
        help="write a model as an ONNX file",
        description="Write a model as an ONNX file, for runtimes without Python. Of a model of "
        "text it takes the columns that the model's vectoriser makes.",
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("output", metavar="OUT", help="the ONNX file to write")
    parser.add_argument(
        "--top-k", type=int, metavar="K", help="give the K most probable classes, not all"
    )
    parser.add_argument(
        "--sparse", action="store_true", help="rows are lists of columns and values, not all values"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat import serving

    serving.require_onnx()
    model = _inputs.StoredModel.load(arguments.model).estimator
    path = serving.save_onnx(
        model, arguments.output, top_k=arguments.top_k, sparse=arguments.sparse
    )
    report = {"model": str(path), "bytes": path.stat().st_size}
    if arguments.json:
        _output.print_json(report)
    else:
        rows = [("model", _output.size(path.stat().st_size), str(path))]
        _output.console().print(_output.facts(rows), soft_wrap=True)
    return 0
