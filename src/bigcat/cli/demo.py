"""``bigcat demo``: the first look at bigcat. Nothing to download, a few minutes at most."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigcat.cli import _output

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from bigcat.data import Split
    from bigcat.estimators import LinearClassifier

# What --quick changes: parameters of stdlib_corpus.
QUICK_CORPUS: dict[str, Any] = {"max_rows": 60_000, "max_features": 2_000, "min_classes": 500}

CURVE_ROWS = 4_000  # held-out rows behind each point of the curve
REPORT_ROWS = 8_000  # held-out rows that the report looks at
EXAMPLES = 6


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "demo",
        help="watch a model over more than 10,000 classes learn",
        description="Learn to predict the next identifier in the source of Python's standard "
        "library, a task with more than 10,000 classes that every Python brings along.",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="bigcat-demo",
        help="folder for report.html, curve.png and results.json (default: bigcat-demo)",
    )
    parser.add_argument(
        "--save-model",
        action="store_true",
        help="keep the model and the held-out rows there as well (several hundred MB)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (default 0)")
    parser.add_argument("--quick", action="store_true", help="fewer rows and classes: seconds")
    parser.add_argument("--json", action="store_true", help="print the results as JSON only")
    return parser


def run(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    from bigcat import data, metrics, plots
    from bigcat.estimators import LinearClassifier
    from bigcat.machine import available_cores
    from bigcat.reporting import report

    plots.require_matplotlib()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    console = _output.console()
    if arguments.json:
        console.quiet = True

    console.print("Reading the source of Python's standard library ...", style="dim")
    corpus = data.stdlib_corpus(**(QUICK_CORPUS if arguments.quick else {}))
    estimator = LinearClassifier(n_threads=available_cores(), random_state=arguments.seed)
    if arguments.json:
        estimator.set_params(progress=False)
    elif not sys.stderr.isatty():  # where there is no progress bar, a line per epoch
        estimator.set_params(callbacks=[lambda info: _print_epoch(console, info)])
    console.print(_output.facts(_corpus_rows(corpus, estimator)))

    train, test = corpus.train, corpus.test
    sample = _some_rows(len(test), CURVE_ROWS, arguments.seed)
    X_sample, y_sample = test.X[sample], test.y[sample]
    # The curve is drawn from rows that the fit itself must not see.
    curve_points: list[float] = []
    watch = [lambda info: curve_points.append(info["log_likelihood_of"](X_sample, y_sample))]
    estimator.set_params(callbacks=[*(estimator.callbacks or []), *watch])
    estimator.fit(train.X, train.y, groups=train.groups)  # whole files are held out
    for row, value in zip(estimator.history_, curve_points):
        row["validation_log_likelihood"] = value
    console.print("Measuring on the held-out files ...", style="dim")
    results = _results(corpus, estimator, X_sample, y_sample)
    baseline = metrics.class_frequency_baseline(train.y, test.y)
    results["class_frequency_baseline"] = baseline
    results["gain"] = results["log_likelihood"] - baseline
    curve = folder / "curve.png"
    title = f"Next identifier in Python source, {results['classes']:,} classes"
    plots.save(plots.history(estimator, baseline=baseline, label=title), curve)
    page = report(
        estimator,
        test.X,
        test.y,
        folder / "report.html",
        title=title,
        feature_names=[
            f"{position}: {token}" for position, token in corpus.report["feature_names"]
        ],
        max_rows=REPORT_ROWS,
    )
    selection = estimator.selection_
    results |= {
        "seed": arguments.seed,
        "selection": selection.to_dict(),
        "curve": str(curve),
    }
    results["report"] = str(page)
    if arguments.save_model:
        results |= _save(folder, estimator, test)
    results["total_seconds"] = time.perf_counter() - start
    _output.write_json(results, folder / "results.json")

    if arguments.json:
        _output.print_json(results)
        return 0
    console.print("\n[bold]Held-out files[/bold]")
    console.print(_output.facts(_result_rows(results)))
    console.print(f"\n[bold]{EXAMPLES} held-out rows, drawn at random[/bold]")
    console.print(_examples(corpus, estimator, arguments.seed))
    console.print(
        f"\nThe report: {page} (open it in a browser)\nThe curve: {curve}\n"
        f"The figures: {folder / 'results.json'}",
        soft_wrap=True,
    )
    console.print("\n[bold]Try next[/bold]")
    for command, remark in _next_commands(folder, arguments.save_model):
        console.print(f"  [cyan]{command}[/cyan]", soft_wrap=True)
        console.print(f"      {remark}", style="dim", markup=False)
    return 0


def _results(
    corpus: Split, estimator: LinearClassifier, X_sample: Any, y_sample: Any
) -> dict[str, Any]:
    from bigcat import metrics

    last = estimator.history_[-1]
    evaluation = metrics.evaluate(estimator, corpus.test.X, corpus.test.y)
    return {
        "log_likelihood": evaluation["log_likelihood"],
        "accuracy": evaluation["accuracy"],
        "hit_at_5": evaluation["hit_at_5"],
        "bound": float(estimator.lower_bound(X_sample, y_sample).mean()),
        "bound_rows": len(y_sample),
        "bound_rows_log_likelihood": metrics.log_likelihood(estimator, X_sample, y_sample),
        "training_bound": last["bound"],
        "rows_train": len(corpus.train),
        "rows": evaluation["rows"],
        "rows_dropped_unseen": evaluation["rows_dropped_unseen"],
        "classes": len(estimator.classes_),
        "features": corpus.train.X.shape[1],
        "epochs": len(estimator.history_),
        "fit_seconds": last["seconds"],
        "compile_seconds": last["compile_seconds"],
        "evaluate_seconds": evaluation["seconds"],
    }


def _save(folder: Path, estimator: LinearClassifier, test: Any) -> dict[str, str]:
    import numpy as np

    from bigcat.files import save_model

    model, held_out = folder / "model.safetensors", folder / "heldout.npz"
    estimator.set_params(callbacks=None)
    save_model(estimator, model, extra={"trained_on": "stdlib_corpus", "form": "npz"})
    X = test.X
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(held_out, format=b"csr", y=test.y, **parts)
    return {"model": str(model), "held_out": str(held_out)}


def _some_rows(n_rows: int, wanted: int, seed: int) -> Any:
    import numpy as np

    return np.sort(np.random.default_rng(seed).permutation(n_rows)[:wanted])


# --- what is shown ------------------------------------------------------------------------------


def _corpus_rows(corpus: Split, estimator: LinearClassifier) -> list[tuple[str, str, str]]:
    n_rows, n_features = corpus.train.X.shape
    n_classes = corpus.train.report["classes"]
    memory = _output.forecast(estimator, corpus.train, n_classes)
    return [
        ("training rows", f"{n_rows:,}", "an identifier each, with the tokens before it"),
        ("held-out rows", f"{len(corpus.test):,}", "from other files"),
        ("features", f"{n_features:,}", "which token stands in which place"),
        ("classes", f"{n_classes:,}", "identifiers"),
        ("memory", _output.size(memory), "the fit needs about that much"),
    ]


def _print_epoch(console: Console, info: dict[str, Any]) -> None:
    stage = f"{info['stage']}, {info['candidate']}"
    console.print(
        f"{stage:28s}  epoch {info['epoch']:2d}  {info['seconds']:7.1f} s  "
        f"log-likelihood of training rows {info['log_likelihood']:9.4f}"
    )


def _result_rows(results: dict[str, Any]) -> list[tuple[str, str, str]]:
    gain = results["gain"]
    compared = f"the model is {gain:.2f} nats better"
    if gain > 0:
        compared += f": the true identifier is {math.exp(gain):.3g} times more probable"
    return [
        ("log-likelihood", f"{results['log_likelihood']:.3f}", "nats per row"),
        (
            "class frequencies alone",
            f"{results['class_frequency_baseline']:.3f}",
            compared,
        ),
        (
            "bound",
            f"{results['bound']:.3f}",
            f"augment-and-reduce's, on {results['bound_rows']:,} of these rows, whose "
            f"log-likelihood is {results['bound_rows_log_likelihood']:.3f}",
        ),
        ("accuracy", f"{results['accuracy']:.3f}", ""),
        ("hit@5", f"{results['hit_at_5']:.3f}", "the identifier is among the five most probable"),
        (
            "seconds",
            f"{results['total_seconds']:.0f}",
            f"of which {results['fit_seconds']:.0f} to fit {results['epochs']} epochs and "
            f"{results['compile_seconds']:.0f} to compile",
        ),
    ]


def _examples(corpus: Split, estimator: LinearClassifier, seed: int) -> Table:
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    rows = _some_rows(len(corpus.test), EXAMPLES, seed + 1)
    X, y = corpus.test.X[rows], corpus.test.y[rows]
    classes, log_proba = estimator.predict_top_k(X, 5)
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("tokens before", justify="right")
    table.add_column("truth")
    table.add_column("most probable")
    for i, truth in enumerate(y):
        guesses = Text()
        for name, probability in zip(classes[i], np.exp(log_proba[i])):
            guesses.append(f"{name}", style="bold green" if name == truth else "")
            guesses.append(f":{probability:.2f}  ", style="dim")  # no space: a pair stays together
        table.add_row(Text(_context(corpus, X[i])), Text(str(truth), style="bold"), guesses)
    return table


def _context(corpus: Split, row: Any) -> str:
    """The tokens of a row in the order of the text."""
    names = (corpus.report["feature_names"][column] for column in row.indices)
    tokens = (token for _position, token in sorted(names, reverse=True))
    return " ".join("\\n" if token == "<newline>" else token for token in tokens)


def _next_commands(folder: Path, saved: bool) -> list[tuple[str, str]]:
    own = ("bigcat fit TRAIN.tsv --model my.safetensors --test TEST.tsv", "label<TAB>text a line")
    listing = ("bigcat methods", "what else can be fitted, and what each method promises")
    if saved:
        use = f"bigcat predict {folder / 'model.safetensors'} {folder / 'heldout.npz'} --top-k 3"
        return [(use, "the model at work"), own, listing]
    return [own, ("bigcat predict my.safetensors TEST.tsv --top-k 3", "the model at work"), listing]
