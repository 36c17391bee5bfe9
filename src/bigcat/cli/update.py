"""``bigcat update``: a model file that learns from new rows."""

from __future__ import annotations

import argparse
import hashlib
import time
from typing import TYPE_CHECKING, Any

from bigcat.cli import _estimators, _inputs, _options, _output

if TYPE_CHECKING:
    from bigcat.data import Dataset, Shards

HELP = "train a model on new rows, which may bring new classes"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The model file is replaced when the new one is complete. Until then, and after any error, "
        "it stays as it was."
    )
    parser.add_argument("model", metavar="FILE", help="a model file")
    parser.add_argument("data", metavar="NEW", help="new rows with labels, without earlier ones")
    parser.add_argument(
        "--output", metavar="FILE", help="write another model file, and leave the first one"
    )
    parser.add_argument("--test", metavar="TEST", help="evaluate the new model on these data")
    parser.add_argument(
        "--again",
        action="store_true",
        help="train on rows that were the last update of this file, which is an error without it",
    )
    _options.add(parser, "max_classes", "max_epochs", "n_threads", "random_state")
    _options.add(parser, "form", "label_column", "max_bytes", "json")


def run(arguments: argparse.Namespace) -> int:
    _options.existing(arguments.model, kind="model file")
    for name in (arguments.data, arguments.test):
        if name is not None:
            _options.existing_data(name)
    path = arguments.output or arguments.model
    _options.destination(path)

    from bigcat import files, metrics

    header = files.read_header(arguments.model)
    model = _inputs.StoredModel.load(arguments.model)
    estimator = model.estimator
    if not hasattr(estimator, "partial_fit"):
        raise ValueError(
            f"{arguments.model} holds a {type(estimator).__name__} whose method has no "
            "partial_fit; fit it again on all rows"
        )
    new = model.read(arguments.data, arguments, new_classes=True)
    test = model.read(arguments.test, arguments) if arguments.test else None
    digest, extra = _digest(new), model.extra
    if extra.get("last_update") == digest and not arguments.again:
        raise ValueError(
            f"the rows of {arguments.data} were the last update of {arguments.model}; to train on "
            "them once more, give --again"
        )
    before = len(estimator.classes_)
    own = {name: getattr(estimator, name) for name in ("n_threads", "random_state", "progress")}
    estimator.set_params(
        n_threads=arguments.n_threads,
        random_state=arguments.random_state,
        progress=_estimators.progress(arguments),
    )
    options: dict[str, Any] = {}
    if arguments.max_epochs is not None:
        own["max_epochs"] = estimator.max_epochs
        estimator.max_epochs = arguments.max_epochs
    if arguments.max_classes is not None:
        options["max_classes"] = arguments.max_classes
    made, started = len(estimator.history_), time.perf_counter()
    estimator.partial_fit(*_inputs.rows_and_labels(new), **options)
    seconds, passes = time.perf_counter() - started, len(estimator.history_) - made
    estimator.set_params(**own)
    extra |= {"last_update": digest, "rows": extra.get("rows", 0) + len(new)}
    linear = header["linear"]
    dtype = {} if linear is None else {"dtype": linear["dtype"]}
    written = files.save_model(model.whole, path, extra=model.extra_of_file(), **dtype)

    report: dict[str, Any] = {
        "rows": len(new),
        "new_classes": len(estimator.classes_) - before,
        "classes": len(estimator.classes_),
        "passes": passes,
        "seconds": seconds,
        "model": str(written),
        "model_bytes": written.stat().st_size,
    }
    shown = [
        ("rows", f"{report['rows']:,}", ""),
        ("classes", f"{report['classes']:,}", f"{report['new_classes']:,} of them are new"),
        ("passes", str(report["passes"]), f"{seconds:.2f} s"),
        ("model", _output.size(report["model_bytes"]), str(written)),
    ]
    if test is not None:
        report["test"] = metrics.evaluate(estimator, *_inputs.rows_and_labels(test))
        shown += _output.evaluation_rows(report["test"])
    _output.show(arguments, report, shown)
    return 0


def _digest(data: Dataset | Shards) -> str:
    """Return a digest of rows and labels, to know them again."""
    found = hashlib.sha256()
    X: Any = data.X
    parts = (X.indptr, X.indices, X.data) if hasattr(X, "indptr") else (X,)
    for array in (*parts, data.y.astype(str)):
        found.update(memoryview(array.tobytes()))
    return found.hexdigest()
