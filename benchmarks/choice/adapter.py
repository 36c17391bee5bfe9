"""Shared code of adapters; it runs in environments of other libraries and imports only NumPy."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

NAMES = [*(f"a{k}" for k in range(6)), "income:a0", "income:a1", "distance", "squared"]


def read(folder: str) -> dict[str, np.ndarray]:
    """Return the arrays of a problem."""
    with np.load(Path(folder) / "input.npz") as file:
        return {name: file[name] for name in file.files}


def pairs(folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variables of all pairs, (cases, alternatives, coefficients), choices and mask."""
    data = read(folder)
    if "X" in data:
        return data["X"], data["choice"], data["there"]
    n, J = len(data["x"]), len(data["a0"])
    X = np.empty((n, J, len(NAMES)))
    for k in range(6):
        X[:, :, k] = data[f"a{k}"]
    for k in range(2):
        X[:, :, 6 + k] = data["income"][:, None] * data[f"a{k}"]
    X[:, :, 9] = (data["x"][:, None] - data["east"]) ** 2
    X[:, :, 9] += (data["y"][:, None] - data["north"]) ** 2
    X[:, :, 8] = np.sqrt(X[:, :, 9])
    return X, data["choice"], np.ones((n, J), bool)


class Measured:
    """Timer from the tables to the standard errors; it writes the estimates with the seconds."""

    def __init__(self, folder: str) -> None:
        self.folder, self.content = Path(folder), dict[str, Any]()

    def __enter__(self) -> Measured:
        self._wall, self._cpu = time.perf_counter(), time.process_time()
        return self

    def found(self, coef: Any, std_errors: Any, log_likelihood: float) -> None:
        self.content = {
            "coef": [float(value) for value in coef],
            "std_errors": [float(value) for value in std_errors],
            "log-likelihood": float(log_likelihood),
        }

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        status = Path("/proc/self/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        self.content |= {
            "seconds": time.perf_counter() - self._wall,
            "CPU seconds": time.process_time() - self._cpu,
            "peak MB": peak / 1024,
        }
        (self.folder / "output.json").write_text(json.dumps(self.content))
