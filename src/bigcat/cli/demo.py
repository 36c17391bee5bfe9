"""``bigcat demo``: the first look at bigcat. Nothing to download, a few minutes at most."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bigcat.cli import _estimators, _options, _output

if TYPE_CHECKING:
    from rich.table import Table

    from bigcat.data import Split
    from bigcat.estimators import LinearClassifier

HELP = "watch a model over more than 10,000 classes learn"
#: Parameters of `stdlib_corpus` with --quick.
QUICK_CORPUS: dict[str, Any] = {"max_rows": 60_000, "max_features": 2_000, "min_classes": 500}
REPORT_ROWS = 8_000  # held-out rows that the report looks at
EXAMPLES = 6


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "The model learns to predict the next identifier in the source of Python's standard "
        "library, which every Python brings along."
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
    parser.add_argument("--quick", action="store_true", help="fewer rows and classes: seconds")
    _options.add(parser, "random_state", "json")


def run(arguments: argparse.Namespace) -> int:
    start = time.perf_counter()
    from bigcat import data, metrics, plots
    from bigcat._system import available_cores
    from bigcat.estimators import LinearClassifier
    from bigcat.reporting import report

    plots.require_matplotlib()
    folder = Path(arguments.output)
    folder.mkdir(parents=True, exist_ok=True)
    console = _output.console()
    console.quiet = arguments.json

    console.print("Reading the source of Python's standard library ...", style="dim")
    corpus = data.stdlib_corpus(**(QUICK_CORPUS if arguments.quick else {}))
    train, test = corpus.train, corpus.test
    estimator = LinearClassifier(n_threads=available_cores(), random_state=arguments.random_state)
    estimator.progress = _estimators.progress(arguments)
    console.print(_output.facts(_corpus_rows(corpus, estimator)))
    estimator.fit(train.X, train.y, groups=train.groups)  # whole files are held out
    estimator.progress = "auto"

    console.print("Measuring on the held-out files ...", style="dim")
    baseline = metrics.class_frequency_baseline(train.y, test.y)
    evaluation = metrics.evaluate(estimator, test.X, test.y)
    title = f"Next identifier in Python source, {len(estimator.classes_):,} classes"
    curve = folder / "curve.png"
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
    last = estimator.history_[-1]
    results = evaluation | {
        "class_frequency_baseline": baseline,
        "gain": evaluation["log_likelihood"] - baseline,
        "rows_train": len(train),
        "classes": len(estimator.classes_),
        "features": train.X.shape[1],
        "epochs": len(estimator.history_),
        "fit_seconds": last["seconds"],
        "compile_seconds": last["compile_seconds"],
        "seed": arguments.random_state,
        "selection": estimator.selection_.to_dict(),
        "curve": str(curve),
        "report": str(page),
    }
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
    console.print(_examples(corpus, estimator, arguments.random_state))
    model = results.get("model", "my.safetensors")
    console.print(
        f"\nThe report: {page} (open it in a browser)\nThe curve: {curve}\n"
        f"The figures: {folder / 'results.json'}\n\n"
        "[bold]Try next[/bold]\n"
        "  bigcat fit TRAIN.tsv --model my.safetensors --test TEST.tsv\n"
        f"  bigcat predict {model} {results.get('held_out', 'TEST.tsv')} --top-k 3\n"
        "  bigcat methods",
        soft_wrap=True,
    )
    return 0


def _save(folder: Path, estimator: LinearClassifier, test: Any) -> dict[str, str]:
    import numpy as np

    from bigcat.files import save_model

    model, held_out = folder / "model.safetensors", folder / "heldout.npz"
    save_model(estimator, model, extra={"trained_on": "stdlib_corpus", "form": "npz"})
    parts = {name: getattr(test.X, name) for name in ("data", "indices", "indptr", "shape")}
    np.savez(held_out, format=b"csr", y=test.y, **parts)
    return {"model": str(model), "held_out": str(held_out)}


def _corpus_rows(corpus: Split, estimator: LinearClassifier) -> _output.Facts:
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


def _result_rows(results: dict[str, Any]) -> _output.Facts:
    gain, baseline = results["gain"], f"{results['class_frequency_baseline']:.3f}"
    compared = f"the model is {gain:.2f} nats better"
    if gain > 0:
        compared += f": the true identifier is {math.exp(gain):.3g} times more probable"
    seconds = (
        f"of which {results['fit_seconds']:.0f} to fit {results['epochs']} epochs and "
        f"{results['compile_seconds']:.0f} to compile"
    )
    return [
        *_output.evaluation_rows(results)[:3],
        ("class frequencies alone", baseline, compared),
        ("seconds", f"{results['total_seconds']:.0f}", seconds),
    ]


def _examples(corpus: Split, estimator: LinearClassifier, seed: int) -> Table:
    import numpy as np
    from rich.table import Table
    from rich.text import Text

    rows = np.sort(np.random.default_rng(seed).permutation(len(corpus.test))[:EXAMPLES])
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
    """Return the tokens of a row in the order of the text."""
    names = (corpus.report["feature_names"][column] for column in row.indices)
    tokens = (token for _position, token in sorted(names, reverse=True))
    return " ".join("\\n" if token == "<newline>" else token for token in tokens)
