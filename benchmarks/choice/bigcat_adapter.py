"""bigcat's fit: a long table of Swissmetro, else choosers beside a table of alternatives."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from benchmarks.choice.adapter import Measured, read
from bigcat import ChoiceModel


def squared(data: Any) -> np.ndarray:
    return np.asarray((data["x"] - data["east"]) ** 2 + (data["y"] - data["north"]) ** 2)


def fit_table(
    data: dict[str, np.ndarray], estimation: str = "exact", **options: Any
) -> ChoiceModel:
    utility: dict[str, Any] = {
        **{f"a{k}": f"a{k}" for k in range(6)},
        "income:a0": "income:a0",
        "income:a1": "income:a1",
        "distance": lambda data: np.sqrt(squared(data)),
        "squared": squared,
    }
    people = {name: data[name] for name in ("x", "y", "income", "choice")}
    stores = {name: column for name, column in data.items() if name not in people}
    stores["choice"] = np.arange(len(stores["a0"]))
    model = ChoiceModel(utility, estimation=estimation, **{"random_state": 0} | options)
    return model.fit(people, alternatives=stores, choice="choice")


def fit_long(data: dict[str, np.ndarray]) -> ChoiceModel:
    n, J, P = data["X"].shape
    names = [f"v{k}" for k in range(P)]
    table = dict(zip(names, data["X"].reshape(-1, P).T))
    table |= {"case": np.repeat(np.arange(n), J), "mode": np.tile(np.arange(J), n)}
    table |= {"chosen": (data["choice"][:, None] == np.arange(J)).ravel()}
    table |= {"there": data["there"].ravel()}
    model = ChoiceModel(names)
    return model.fit(table, choice="chosen", case="case", alternative="mode", available="there")


def main(folder: str, estimation: str) -> None:
    with Measured(folder) as measured:
        data = read(folder)
        model = fit_long(data) if "X" in data else fit_table(data, estimation)
        measured.found(model.coef_, model.std_errors_, model.log_likelihood_)


if __name__ == "__main__":
    main(*sys.argv[1:])
