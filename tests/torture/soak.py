"""Hours of use in one process: does it keep memory, descriptors, threads or files?

    python -m tests.torture.soak --minutes 60

Some threads fit, predict, save and load without end, each round another kind of model, and every
loaded model has to predict what the saved one did.  Once in a while the process is looked at.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bigcat import BayesianClassifier, Checkpoint, LinearClassifier, load_model, save_model

N_THREADS, N_PREDICTING = 3, 4
#: Seconds between two looks.
EVERY = 5.0
FIGURE = Path(__file__).resolve().parents[2] / "docs" / "figures" / "soak.png"


def _rows(seed: int, sparse: bool) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 20, 600)
    X = rng.standard_normal((600, 30)).astype(np.float32)
    X[np.arange(600), y] += 3.0
    return (scipy.sparse.csr_array(X * (np.abs(X) > 1.0)) if sparse else X), y


def _models(folder: Path, who: int) -> list[Any]:
    return [
        LinearClassifier(random_state=0, progress=False),
        LinearClassifier(
            method="augment-reduce", max_epochs=5, progress=False, early_stopping=False
        ),
        LinearClassifier(
            method="augment-reduce",
            max_epochs=5,
            progress=False,
            checkpoint=Checkpoint(folder / f"fit-{who}", 0.05),
            random_state=0,
            early_stopping=False,
        ),
        BayesianClassifier(random_state=0, n_threads=1, progress=False),
    ]


def one_round(folder: Path, number: int) -> None:
    """Fit, predict on threads, save over the last file, load, predict the same."""
    me = threading.get_ident()
    X, y = _rows(number, sparse=number % 2 == 1)
    models = _models(folder, me)
    model = models[number % len(models)]
    if isinstance(model, BayesianClassifier):
        X, y = X[:150, :4], y[:150] % 3  # draws take longer than all else
    model.fit(X, y)
    with ThreadPoolExecutor(N_PREDICTING) as pool:
        first, *others = pool.map(model.predict_proba, [X] * N_PREDICTING)
    assert all(np.array_equal(first, other) for other in others)
    path = folder / f"model-{me}.safetensors"
    save_model(model, path)
    assert np.array_equal(load_model(path).predict_proba(X), first)
    if isinstance(model, LinearClassifier):
        assert np.array_equal(load_model(path, mmap=True).predict_proba(X), first)


class Look(dict[str, float]):
    """What the process has."""

    @classmethod
    def now(cls, folder: Path, rounds: int, since: float) -> Look:
        status = Path("/proc/self/status").read_text().splitlines()
        fields = {line.partition(":")[0]: line.partition(":")[2].strip() for line in status}
        return cls(
            minutes=(time.monotonic() - since) / 60,
            rounds=rounds,
            megabytes=int(fields["VmRSS"].removesuffix("kB")) / 1024,
            descriptors=len(os.listdir("/proc/self/fd")),
            threads=int(fields["Threads"]),
            temporary_files=sum(1 for p in folder.rglob("*.tmp")),
            files=sum(1 for p in folder.rglob("*") if p.is_file()),
        )


def soak(minutes: float, pause: float) -> list[Look]:
    """Looks at a process that worked for so long, with a pause after each round."""
    looks: list[Look] = []
    done = [0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(len(_models(folder, 0)) * 2):  # compiles
            one_round(folder, number)
        since = time.monotonic()
        end = since + 60 * minutes

        def work(first: int) -> None:
            number = first
            while time.monotonic() < end:
                one_round(folder, number)
                done[0] += 1
                number += 1
                time.sleep(pause)

        with ThreadPoolExecutor(N_THREADS) as pool:
            workers = [pool.submit(work, i) for i in range(N_THREADS)]
            while time.monotonic() < end and not any(w.done() for w in workers):
                gc.collect()
                looks.append(Look.now(folder, done[0], since))
                print(json.dumps(looks[-1]), file=sys.stderr, flush=True)
                time.sleep(EVERY)
            for worker in workers:
                worker.result()
        gc.collect()
        looks.append(Look.now(folder, done[0], since))
    return looks


def draw(looks: list[Look], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = ("megabytes", "descriptors", "threads", "files")
    figure, axes = plt.subplots(len(shown), sharex=True, figsize=(7, 7), layout="constrained")
    for ax, name in zip(axes, shown):
        ax.plot([look["minutes"] for look in looks], [look[name] for look in looks])
        ax.set(ylabel=name, ylim=(0, None))
    axes[-1].set(xlabel=f"minutes, {int(looks[-1]['rounds']):,} rounds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Work for long, and look at what is left.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each round")
    parser.add_argument("--figure", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    looks = soak(arguments.minutes, arguments.pause)
    third = len(looks) // 3
    for name in looks[0]:
        parts = [[look[name] for look in part] for part in (looks[:third], looks[-third:])]
        first, last = (float(np.median(part)) for part in parts)
        print(
            f"{name:16} median of the first third {first:10.2f}, of the last {last:10.2f}, "
            f"at the end {looks[-1][name]:10.2f}"
        )
    draw(looks, arguments.figure)


if __name__ == "__main__":
    main()
