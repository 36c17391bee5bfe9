"""Our fit of the problem of `benchmarks.choice`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choice.adapter import Measured
from bigcat import ChoiceModel


def squared(data: Any) -> np.ndarray:
    return np.asarray((data["x"] - data["east"]) ** 2 + (data["y"] - data["north"]) ** 2)


def main(folder: str, estimation: str) -> None:
    with np.load(Path(folder) / "input.npz") as file:
        data = {name: file[name] for name in file.files}
    utility: dict[str, Any] = {
        **{f"a{k}": f"a{k}" for k in range(6)},
        "income:a0": "income:a0",
        "income:a1": "income:a1",
        "distance": lambda data: np.sqrt(squared(data)),
        "squared": squared,
    }
    with Measured(folder) as measured:
        people = {name: data[name] for name in ("x", "y", "income", "choice")}
        stores = {name: column for name, column in data.items() if name not in people}
        stores["choice"] = np.arange(len(stores["a0"]))
        model = ChoiceModel(utility, estimation=estimation, random_state=0)
        model.fit(people, alternatives=stores, choice="choice")
        measured.found(model.coef_, model.std_errors_, model.log_likelihood_)


if __name__ == "__main__":
    main(*sys.argv[1:])
