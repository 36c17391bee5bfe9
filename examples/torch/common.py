"""Shared code of the examples: options, a plain layer, a loop with a progress bar, a curve."""

import argparse
import gzip
import os
import time
from pathlib import Path

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class PlainHead(torch.nn.Linear):
    """The output layer and its loss in plain PyTorch."""

    def forward(self, hidden, target):
        return -self.log_prob(hidden, target).mean()

    def log_prob(self, hidden, target):
        scores = super().forward(hidden).flatten(0, -2)
        loss = torch.nn.functional.cross_entropy(scores, target.flatten(), reduction="none")
        return -loss.reshape(target.shape)


def options(text: str, data: str | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data is not None:
        folder = Path(os.environ.get("BIGCAT_DATA", "."), data)
        parser.add_argument("folder", nargs="?", type=Path, default=folder)
    parser.add_argument("--steps", type=int, default=2_000)
    parser.add_argument("--figure", type=Path, help="a file for the curves")
    return parser.parse_args()


def read_lines(folder: Path, file: str) -> list[str]:
    """Return the lines of a compressed text file."""
    with gzip.open(folder / file, "rt", encoding="utf-8") as text:
        return text.read().splitlines()


def train(network, optimizers, batches, evaluate, n_steps, name):
    """Train, and return seconds of training and held-out log-likelihoods."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    seconds, found = 0.0, []
    with Progress(*columns) as progress:
        task = progress.add_task(name, total=n_steps)
        for step in range(1, n_steps + 1):
            rows, target = next(batches)
            start = time.perf_counter()
            for optimizer in optimizers:
                optimizer.zero_grad()
            network.head(network(rows), target).backward()
            for optimizer in optimizers:
                optimizer.step()
            seconds += time.perf_counter() - start
            if step == n_steps or step % max(1, n_steps // 10) == 0:
                network.eval()
                with torch.no_grad():
                    found.append((seconds, float(evaluate(network))))
                network.train()
                progress.update(task, description=f"{name}: {found[-1][1]:.3f} nats")
            progress.advance(task)
    return found


def curve(curves, path: Path | None) -> None:
    """Print where each fit ended, and draw the curves where a file is named."""
    for name, points in curves.items():
        print(f"{name}: {points[-1][1]:.3f} nats per row after {points[-1][0]:.1f} s of training")
    if path is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, points in curves.items():
        axes.plot(*zip(*points), "o-", label=name)
    axes.set(xlabel="seconds of training", ylabel="held-out log-likelihood per row")
    axes.legend()
    figure.savefig(path, dpi=120)
