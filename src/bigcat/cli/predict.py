"""``bigcat predict``: the most probable classes of each row."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from bigcat.cli import _inputs, _options, _output

HELP = "print the most probable classes of each row"
MAX_CHUNK_ROWS = 8192
#: Probabilities of all classes that exist at a time, for intervals.
MAX_PROBABILITIES = 1 << 22


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A line per row: class<TAB>probability<TAB>class<TAB>probability..., the best first."
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="a data file")
    _options.add(parser, "top_k", default=5, help="classes per row (5)")
    _options.add(parser, "no_labels", "form", "label_column", "max_bytes", "plug_in", "interval")
    parser.add_argument("--output", metavar="OUT", help="write there instead of to the terminal")
    _options.add(parser, "json", help="a JSON object per line")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    _options.existing_data(arguments.data)
    _options.destination(arguments.output)

    import numpy as np

    model = _inputs.StoredModel.load(arguments.model, arguments)
    dataset = model.read(
        arguments.data, arguments, labels="none" if arguments.no_labels else "optional"
    )
    if hasattr(dataset, "labels"):
        raise ValueError(
            f"{arguments.data}: the rows of a folder are in random order, so predictions could not "
            "be matched to rows; give the file that was converted"
        )
    missing = dataset.report["rows_without_label"]
    if missing:
        raise ValueError(
            f"{arguments.data}: {missing} rows have no label and would be missing from the output; "
            "remove the labels and pass --no-labels"
        )
    n_classes = len(model.estimator.classes_)
    k, step = min(arguments.top_k, n_classes), MAX_CHUNK_ROWS
    if arguments.interval is not None:
        step = min(step, max(1, MAX_PROBABILITIES // n_classes))
    line = _json_line if arguments.json else _text_line
    apart = arguments.output is not None or not sys.stdout.isatty()
    with (
        _destination(arguments.output) as out,
        _output.rows_bar("predicting", wanted=apart) as on_rows,
    ):
        on_rows(0, len(dataset))
        for start in range(0, len(dataset), step):
            X = dataset.X[start : start + step]
            classes, log_proba = model.estimator.predict_top_k(X, k)
            rows = [classes.tolist(), np.exp(log_proba).tolist()]
            if arguments.interval is not None:
                rows += model.estimator.intervals_of(X, classes, arguments.interval).tolist()
            out.writelines(line(*row) for row in zip(*rows))
            on_rows(min(start + step, len(dataset)), len(dataset))
    return 0


def _text_line(classes: list[Any], *numbers: list[float]) -> str:
    """Return classes, each with its probability and perhaps the ends of its interval."""
    words = []
    for name, *values in zip(classes, *numbers):
        words += [str(name), *(f"{value:.6g}" for value in values)]
    return "\t".join(words) + "\n"


def _json_line(classes: list[Any], *numbers: list[float]) -> str:
    row = {"classes": classes, **dict(zip(("probabilities", "low", "high"), numbers))}
    return json.dumps(_output.plain(row), ensure_ascii=False) + "\n"


@contextmanager
def _destination(path: str | None) -> Iterator[IO[str]]:
    """Yield stdout, or a file that appears under its name when it is complete."""
    if path is None:
        yield sys.stdout
        return
    from bigcat._io.atomic import replacing
    from bigcat.files import check_destination

    with replacing(check_destination(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
        yield text
        text.detach()
