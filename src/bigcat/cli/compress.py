"""``bigcat compress``: a model file in fewer bytes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bigcat.cli import _inputs, _options, _output

HELP = "write a model file again with rounded weights, in fewer bytes"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("output", metavar="OUT", help="the model file to write")
    parser.add_argument(
        "--dtype",
        choices=("float16", "int8"),
        default="int8",
        help="float16 (half the bytes) or int8 (a quarter, the default)",
    )
    parser.add_argument(
        "--data", metavar="DATA", help="measure on a data file with labels what that costs"
    )
    _options.add(parser, "form", "label_column", "max_bytes", "json")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.destination(arguments.output)
    if arguments.data:
        _options.existing_data(arguments.data)

    import numpy as np

    from bigcat import files, serving

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
    after = path.stat().st_size
    report |= {"model": str(path), "bytes": before, "stored_bytes": after}
    rows = [("model", _output.size(after), f"{path}, was {_output.size(before)}")]
    if "loss" in report:
        remark = f"nats per row, was {report['log_likelihood']:.4f}"
        rows.append(("log-likelihood", f"{report['stored_log_likelihood']:.4f}", remark))
        remark = f"± {report['loss_std_error']:.6f}"
        rows.append(("loss", f"{report['loss']:.6f}", remark))
    _output.show(arguments, report, rows)
    return 0
