"""The log-likelihood of test rows after the same passes, in one process and on a cluster.

``python -m benchmarks.distributed quality SET [--rank 64] [--workers 1 2 4] [--rounds 128]``
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import dask.array as da
import scipy.sparse
from dask import delayed
from distributed import Client

from benchmarks.distributed.sets import read
from bigcat import LinearClassifier
from bigcat import dask as on_dask
from bigcat.auto import Parameters, plan_for_rounds
from bigcat.rows import Sizes


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("set")
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, nargs="*", default=[None])
    parser.add_argument("--passes", type=int, help="of all fits; as many as each chooses")


def collection(X: Any, n_chunks: int) -> Any:
    """A Dask array of CSR chunks, which this process holds."""
    edges = [X.shape[0] * i // n_chunks for i in range(n_chunks + 1)]
    meta = scipy.sparse.csr_matrix((0, 0), dtype=X.dtype)
    return da.concatenate(
        [
            da.from_delayed(delayed(X[a:b], pure=False), (b - a, X.shape[1]), X.dtype, meta)
            for a, b in itertools.pairwise(edges)
        ]
    )


def run(arguments: argparse.Namespace) -> None:
    rows = read(arguments.set, arguments.rows)
    settings = {"rank": arguments.rank, "random_state": 0, "progress": False}
    settings["max_epochs"] = arguments.passes or "auto"

    def report(what: str, model: Any, cpu: float) -> None:
        value = model.log_proba_of(rows.X_test, rows.y_test).mean()
        passes = len(model.history_)
        print(
            f"{arguments.set:8} {what:28} {value:9.4f} {passes:3} passes {cpu:7.1f} CPU s",
            flush=True,
        )

    started = time.process_time()
    report(
        "one process",
        LinearClassifier(**settings).fit(rows.X, rows.y),
        time.process_time() - started,
    )
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with Client(**options, dashboard_address=":0", memory_limit=None) as client:
        X = collection(rows.X, 8)
        y = da.from_array(rows.y, chunks=(X.chunks[0],))
        for n_workers in arguments.workers:
            for rounds in arguments.rounds:
                started = time.process_time()
                model = on_dask.LinearClassifier(client=client, n_workers=n_workers, **settings)
                what = f"{n_workers} workers"
                if rounds is not None:
                    passes = len_of_fit(model, X, y)
                    model.rows_per_round = max(1, len(rows.y) * passes // (n_workers * rounds))
                    what += f", {rounds} rounds"
                model.fit(X, y)
                report(what, model.to_local(), time.process_time() - started)


def len_of_fit(model: Any, X: Any, y: Any) -> int:
    """Passes that the fit will make."""
    forecast = LinearClassifier(rank=model.rank, max_epochs=model.max_epochs, random_state=0)
    n_classes = len(set(y.compute().tolist()))
    sizes = Sizes(X.shape[0], X.shape[1], n_classes, 20 * X.shape[0], True, 60)
    return plan_for_rounds(Parameters.of(forecast.get_params()), sizes).first.max_epochs
