"""``bigcat explain``: the features that speak for a class and against another."""

from __future__ import annotations

import argparse
from typing import Any

from bigcat.cli import _inputs, _options, _output

HELP = "say what each feature of a row adds to the difference of two classes' scores"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="a data file")
    parser.add_argument(
        "--row",
        type=_options.whole(0),
        default=0,
        metavar="N",
        help="which row, from 0 (the default)",
    )
    parser.add_argument("--class", dest="label", metavar="A", help="default: the most probable one")
    parser.add_argument("--against", metavar="B", help="default: the next most probable one")
    parser.add_argument(
        "--top", type=_options.whole(1), default=15, metavar="N", help="features to show (15)"
    )
    _options.add(parser, "no_labels", "form", "label_column", "max_bytes", "json")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.existing_data(arguments.data)

    from bigcat import inspection

    model = _inputs.StoredModel.load(arguments.model)
    dataset = model.read(
        arguments.data, arguments, labels="none" if arguments.no_labels else "needed"
    )
    if arguments.row >= len(dataset):
        raise ValueError(
            f"--row is {arguments.row}, and {arguments.data} has {len(dataset):,} rows, counted "
            "from 0"
        )
    found = inspection.explain(
        model.estimator,
        dataset.X[arguments.row : arguments.row + 1],
        _label(model.estimator, arguments.label),
        _label(model.estimator, arguments.against),
        top=arguments.top,
        feature_names=model.feature_names(),
    )
    if not arguments.no_labels:
        found["truth"] = dataset.y[arguments.row]
    if arguments.json:
        _output.print_json(found)
    else:
        console = _output.console()
        truth = f" (it is {found['truth']})" if "truth" in found else ""
        console.print(
            f"Row {arguments.row}{truth}: {found['label']} rather than {found['against']}",
            markup=False,
        )
        console.print(_output.facts(_rows(found)), markup=False)
    return 0


def _rows(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = [
        (
            str(one["feature"]),
            f"{one['contribution']:+.3f}",
            f"weight {one['weight']:+.3f}, value {one['value']:g}",
        )
        for one in found["features"]
    ]
    if found["left_out"]:
        rows.append(("other features", f"{found['left_out']:+.3f}", "--top shows more"))
    rows.append(("intercepts", f"{found['intercept']:+.3f}", "how frequent both classes are"))
    rows.append(("together", f"{found['difference']:+.3f}", "difference of the scores"))
    return rows


def _label(estimator: Any, text: str | None) -> Any:
    """Return the class of the model that the user typed."""
    if text is None:
        return None
    import numpy as np

    return _inputs.like_classes(np.array([text]), estimator.classes_)[0]
