"""``bigcat export``: a model file as an ONNX file."""

from __future__ import annotations

import argparse

from bigcat.cli import _inputs, _options, _output

HELP = "write a model as an ONNX file, for runtimes without Python"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "A model of text takes the columns that its vectoriser makes."
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("output", metavar="OUT", help="the ONNX file to write")
    _options.add(parser, "top_k", help="give the K most probable classes, not all")
    parser.add_argument(
        "--sparse", action="store_true", help="rows are lists of columns and values, not all values"
    )
    _options.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.destination(arguments.output)

    from bigcat import serving

    serving.require_onnx()
    model = _inputs.StoredModel.load(arguments.model).estimator
    path = serving.save_onnx(
        model, arguments.output, top_k=arguments.top_k, sparse=arguments.sparse
    )
    n_bytes = path.stat().st_size
    report = {"model": str(path), "bytes": n_bytes}
    _output.show(arguments, report, [("model", _output.size(n_bytes), str(path))])
    return 0
