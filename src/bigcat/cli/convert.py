"""``bigcat convert``: from files to a folder of rows that need not fit into memory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from bigcat.cli import _inputs, _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "convert",
        help="turn data files into a folder for fits that need not hold them in memory",
        description="Turn data files into a folder of rows in random order, once and in bounded "
        "memory; `bigcat fit` and `bigcat evaluate` take the folder in the place of a file.",
        epilog="FILE is xc, svmlight, label<TAB>text, csv (gzipped or not) or Parquet. What is in "
        "the folder is replaced when the conversion is complete, and not before.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="the data, all of one form")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the folder to write")
    parser.add_argument(
        "--like", metavar="FOLDER", help="converted training data, whose columns these shall have"
    )
    _inputs.add_form_options(parser)
    _inputs.add_features_option(parser)
    _inputs.add_text_options(parser)
    _inputs.add_text_column_option(parser)
    parser.add_argument(
        "--hashed",
        type=int,
        metavar="N",
        help="text: N features by hashing, without a look at all words first",
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (default: all cores)")
    parser.add_argument("--seed", type=int, default=0, help="of the random order (default 0)")
    parser.add_argument("--json", action="store_true", help="print a JSON report instead")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat.data import convert

    paths = [_inputs.existing(name) for name in arguments.files]
    began = time.perf_counter()
    rows = convert(
        paths,
        arguments.out,
        arguments.form,
        like=arguments.like,
        n_features=arguments.features,
        vectorizer=_vectorizer(arguments),
        label_column=arguments.label_column,
        text_columns=arguments.text_column or (),
        max_bytes=arguments.max_bytes,
        n_jobs=arguments.jobs,
        seed=arguments.seed,
    )
    seconds = time.perf_counter() - began
    read = sum(path.stat().st_size for path in paths)
    report: dict[str, Any] = {
        **rows.report,
        "shards": len(rows.index.rows),
        "bytes": rows.n_bytes,
        "file_bytes": read,
        "seconds": seconds,
    }
    if arguments.json:
        _output.print_json(report)
        return 0
    speed = f"{read / seconds / 1e6:.0f} MB per second"
    facts = [
        ("rows", f"{len(rows):,}", f"in {report['shards']:,} shards, in random order"),
        ("features", f"{rows.shape[1]:,}", ""),
        ("classes", f"{len(rows.classes):,}", ""),
        ("folder", _output.size(rows.n_bytes), str(Path(arguments.out))),
        ("seconds", f"{seconds:.2f}", f"{_output.size(read)} of files, {speed}"),
    ]
    _output.console().print(_output.facts(facts), soft_wrap=True)
    return 0


def _vectorizer(arguments: argparse.Namespace) -> Any:
    options = _inputs.text_options(arguments)
    if arguments.hashed is None:
        return _inputs.vectorizer(arguments)
    if options.pop("min_df", None) is not None:
        raise ValueError("--min-df counts words, and --hashed does not; give one of them")
    import numpy as np
    from sklearn.feature_extraction.text import HashingVectorizer

    given = {"token_pattern": r"\w+", "dtype": np.float32, **options}
    return HashingVectorizer(n_features=arguments.hashed, **given)
