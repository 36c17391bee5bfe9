"""``bigcat compress``: a model file in fewer bytes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bigcat.cli import _inputs, _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "compress",
        help="write a model file again, in fewer bytes",
        description="Write a model file again with its weights rounded, and measure on data with "
        "labels what that costs.",
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("output", metavar="OUT", help="the model file to write")
    parser.add_argument(
        "--dtype", default="int8", help="float16 (half the bytes) or int8 (a quarter, the default)"
    )
    parser.add_argument("--data", metavar="DATA", help="measure on a data file")
    _inputs.add_form_options(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser


def run(arguments: argparse.Namespace) -> int:
    import numpy as np

    from bigcat import files, serving

    files.check_destination(arguments.output)
    model = _inputs.StoredModel.load(arguments.model)
    report: dict[str, Any] = {}
    if arguments.data:
        dataset = model.read(arguments.data, arguments)
        known = np.isin(dataset.y, model.estimator.classes_)
        X, y = dataset.X[known], dataset.y[known]
        report = serving.storage_loss(model.estimator, X, y, arguments.dtype)
    before = Path(arguments.model).stat().st_size  # OUT may be the same file
    path = files.save_model(
        model.estimator, arguments.output, extra=model.extra, dtype=arguments.dtype
    )
    report |= {"model": str(path), "bytes": before, "stored_bytes": path.stat().st_size}
    if arguments.json:
        _output.print_json(report)
    else:
        _output.console().print(_output.facts(_rows(report)), soft_wrap=True)
    return 0


def _rows(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    before = _output.size(report["bytes"])
    rows = [("model", _output.size(report["stored_bytes"]), f"{report['model']}, was {before}")]
    if "loss" in report:
        remark = f"nats per row, was {report['log_likelihood']:.4f}"
        rows.append(("log-likelihood", f"{report['stored_log_likelihood']:.4f}", remark))
        remark = f"± {report['loss_std_error']:.6f}"
        rows.append(("loss", f"{report['loss']:.6f}", remark))
    return rows
