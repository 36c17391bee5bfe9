"""The best classes of a row by search in an index, beside the scan of all classes.

The model is one of low rank, fitted for an epoch to `coded_classes` (Zipf frequencies, eight
non-zeros a row) as the defaults fit one of many classes.  Rows are asked for one by one, as a
server does it, and many at once.  A scan is `predict_top_k` of the model on all cores, which also
gives probabilities.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks._models import linear
from benchmarks._report import save, show
from benchmarks.cost_against_classes import coded_classes
from bigcat import LinearClassifier, TopKIndex
from bigcat.samplers import Shared
from bigcat.solvers import AdaGrad

N_CLASSES, ROWS_A_CLASS, RANK = 10**6, 2, 64
EXPANSIONS = (64, 128, 256, 512, 1024)
K, SINGLE_ROWS, TOGETHER = 10, 100, 1_000


def classifier(rank: int = RANK) -> LinearClassifier:
    """The model whose classes are searched."""
    return linear(
        method="complementary",
        rank=rank,
        sampler=Shared(n_negatives=512),
        solver=AdaGrad(
            learning_rate=0.065,
            schedule="linear",
            power=1.25,
            per="vector",
            batch_size=128,
        ),
        max_epochs=1,
        random_state=None,
        n_threads=2,
    )


def serving(n_classes: int = N_CLASSES, rank: int = RANK, as_json: bool = False) -> None:
    """Print recall and milliseconds a row of searches, and of the scan."""
    data = coded_classes(n_classes, ROWS_A_CLASS * n_classes, n_held_out=TOGETHER)
    model = classifier(rank).fit(data.X, data.y)
    X = data.held_out[0]
    index = TopKIndex(model)
    scan = _milliseconds(lambda row: model.predict_top_k(row, K), X)
    rows = []
    for expansion in EXPANSIONS:
        index.expansion = expansion
        single = _milliseconds(lambda row: index.top_k(row, K), X)
        together = index.recall(X, K)
        rows.append(
            {
                "classes": n_classes,
                "rank": rank,
                "expansion": expansion,
                "recall": together["recall"],
                "one row, ms": single,
                "scan, ms": scan,
                "times faster": scan / single,
                f"of {TOGETHER:,} rows, ms": 1e3 * together["seconds"] / TOGETHER,
                f"scan of {TOGETHER:,}, ms": 1e3 * together["exact_seconds"] / TOGETHER,
                "times faster together": together["exact_seconds"] / together["seconds"],
                "built in, s": index.build_seconds,
                "index, MB": index.nbytes / 1e6,
            }
        )
    save("serving", rows)
    show(rows, as_json)


def _milliseconds(ask: Callable[[Any], Any], X: Any) -> float:
    """Return the median milliseconds of a request with one row."""
    ask(X[:1])
    singles = []
    for i in range(min(SINGLE_ROWS, X.shape[0])):
        row = X[i : i + 1]
        started = time.perf_counter()
        ask(row)
        singles.append(time.perf_counter() - started)
    return 1e3 * statistics.median(singles)
