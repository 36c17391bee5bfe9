"""``bigcat predict``: the most probable classes of each row."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from bigcat.cli import _bayesian, _inputs, _output

CHUNK_ROWS = 8192


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "predict",
        help="print the most probable classes of each row",
        description="Print the most probable classes of each row and their probabilities: a line "
        "a row, class<TAB>probability<TAB>class<TAB>probability..., the best first.",
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="DATA", help="a data file")
    parser.add_argument("--top-k", type=int, default=5, metavar="K", help="classes per row (5)")
    parser.add_argument(
        "--no-labels",
        action="store_true",
        help="DATA has no labels: lines of text alone, of index:value pairs alone, a table "
        "without label column, an archive without y",
    )
    _inputs.add_form_options(parser)
    _bayesian.add_posterior_option(parser)
    _bayesian.add_interval_option(parser)
    parser.add_argument("--output", metavar="OUT", help="write there instead of to the terminal")
    parser.add_argument("--json", action="store_true", help="a JSON object a line")
    return parser


def run(arguments: argparse.Namespace) -> int:
    import numpy as np

    if arguments.top_k < 1:
        raise ValueError(f"--top-k is {arguments.top_k}; it has to be at least 1")
    model = _inputs.StoredModel.load(arguments.model, arguments)
    dataset = model.read(
        arguments.data, arguments, labels="none" if arguments.no_labels else "optional"
    )
    if hasattr(dataset, "labels"):
        raise ValueError(
            f"{arguments.data}: the rows of a folder are in random order, and predictions would be "
            "of nobody knows which; give the file itself"
        )
    missing = dataset.report["rows_without_label"]
    if missing:
        raise ValueError(
            f"{arguments.data}: {missing} rows have no label and would be missing from the output; "
            "take the labels out and give --no-labels"
        )
    k = min(arguments.top_k, len(model.estimator.classes_))
    line = _json_line if arguments.json else _text_line
    apart = arguments.output is not None or not sys.stdout.isatty()
    with (
        _destination(arguments.output) as out,
        _output.rows_bar("predicting", wanted=apart) as on_rows,
    ):
        on_rows(0, len(dataset))
        for start in range(0, len(dataset), CHUNK_ROWS):
            X = dataset.X[start : start + CHUNK_ROWS]
            classes, log_proba = model.estimator.predict_top_k(X, k)
            rows = [classes.tolist(), np.exp(log_proba).tolist()]
            if arguments.interval is not None:
                rows += model.estimator.intervals_of(X, classes, arguments.interval).tolist()
            out.writelines(line(*row) for row in zip(*rows))
            on_rows(min(start + CHUNK_ROWS, len(dataset)), len(dataset))
    return 0


def _text_line(classes: list[Any], *numbers: list[float]) -> str:
    """A class, its probability and, if asked for, the ends of its interval; then the next one."""
    words = []
    for name, *values in zip(classes, *numbers):
        words += [str(name), *(f"{value:.6g}" for value in values)]
    return "\t".join(words) + "\n"


def _json_line(classes: list[Any], *numbers: list[float]) -> str:
    row = {"classes": classes, **dict(zip(("probabilities", "low", "high"), numbers))}
    return json.dumps(_output.plain(row), ensure_ascii=False) + "\n"


@contextmanager
def _destination(path: str | None) -> Iterator[IO[str]]:
    """Stdout, or a file that appears under its name when it is complete."""
    if path is None:
        yield sys.stdout
        return
    from bigcat.atomic import replacing
    from bigcat.files import check_destination

    with replacing(check_destination(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
        yield text
        text.detach()
