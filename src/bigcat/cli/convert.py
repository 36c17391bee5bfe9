"""``bigcat convert``: from files to a folder of rows that need not fit into memory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from bigcat.cli import _inputs, _options, _output

HELP = "turn data files into a folder of rows for fits that need not hold them in memory"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "FILE is xc, svmlight, label<TAB>text, csv (gzipped or not) or Parquet; `bigcat fit` and "
        "`bigcat evaluate` take the folder in the place of a file. What is in the folder is "
        "replaced when the conversion is complete, and not before."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="the data, all of one form")
    parser.add_argument("--out", metavar="FOLDER", required=True, help="the folder to write")
    parser.add_argument(
        "--like", metavar="FOLDER", help="converted training data, whose columns these shall have"
    )
    _options.add(parser, "form", "label_column", "max_bytes", "n_features")
    _options.add(parser, "analyzer", "ngram_range", "min_df", "text_columns")
    parser.add_argument(
        "--hashed",
        type=_options.whole(1),
        metavar="N",
        help="text: N features by hashing, without counting all words first",
    )
    parser.add_argument(
        "--jobs", type=_options.whole(1), metavar="N", help="processes (default: all cores)"
    )
    _options.add(parser, "random_state", "json")


def run(arguments: argparse.Namespace) -> int:
    paths = [_options.existing(name) for name in arguments.files]
    if arguments.like:
        _options.existing_data(arguments.like)
    if arguments.hashed is not None and arguments.min_df is not None:
        raise ValueError("--min-df counts words, and --hashed does not; give one of them")

    from bigcat.data import convert

    began = time.perf_counter()
    rows = convert(
        paths,
        arguments.out,
        arguments.form,
        like=arguments.like,
        n_features=arguments.n_features,
        vectorizer=_vectorizer(arguments),
        label_column=arguments.label_column,
        text_columns=arguments.text_columns or (),
        max_bytes=arguments.max_bytes,
        n_jobs=arguments.jobs,
        seed=arguments.random_state,
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
    speed = f"{read / seconds / 1e6:.0f} MB per second"
    facts = [
        ("rows", f"{len(rows):,}", f"in {report['shards']:,} shards, in random order"),
        ("features", f"{rows.shape[1]:,}", ""),
        ("classes", f"{len(rows.classes):,}", ""),
        ("folder", _output.size(rows.n_bytes), str(Path(arguments.out))),
        ("seconds", f"{seconds:.2f}", f"{_output.size(read)} of files, {speed}"),
    ]
    _output.show(arguments, report, facts)
    return 0


def _vectorizer(arguments: argparse.Namespace) -> Any:
    if arguments.hashed is None:
        return _inputs.vectorizer(arguments)
    import numpy as np
    from sklearn.feature_extraction.text import HashingVectorizer

    given = {"token_pattern": r"\w+", "dtype": np.float32, **_inputs.text_options(arguments)}
    return HashingVectorizer(n_features=arguments.hashed, **given)
