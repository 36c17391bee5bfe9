"""Conditional logit with few and many alternatives, beside other programs for discrete choice.

Problems are the mode choices of Swissmetro, three alternatives that are not all available to
everyone, and simulated choosers beside a table of alternatives with ten coefficients.  Every fit,
with classical standard errors, runs in a process of its own: seconds from the tables to the
standard errors, compilation included, and the peak memory of the process.  Other programs run in
environments of their own (``*.txt``): adapters read ``input.npz`` and write ``output.json``.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environments
from benchmarks._report import FIGURES, markdown, save, show, written_between

_HERE = Path(__file__).parent
#: Programs, and the file of their environment; bigcat's is this one.
PROGRAMS = {
    "bigcat": None,
    "bigcat sampled": None,
    "bigcat mcfadden": None,
    "xlogit": "xlogit",
    "larch": "larch",
    "torch-choice": "torch_choice",
    "biogeme": "biogeme",
}
PROBLEMS = ("swissmetro", "100", "500", "1000", "10000", "100000")
COEF = np.array([0.5, -0.5, 0.3, -0.3, 0.2, -0.2, 0.3, -0.2, -2.0, -0.5])
#: Programs other than ours hold all pairs times coefficients, several times.
_COPIES = 3


def swissmetro() -> dict[str, np.ndarray]:
    """Return cost, time and constants of pairs, the availability mask, and the choices."""
    path = Path(os.environ.get("BIGCAT_DATA", ""), "choice", "swissmetro", "swissmetro.dat.gz")
    with gzip.open(path, "rt") as file:
        names, values = file.readline().split(), np.loadtxt(file)
    data = dict(zip(names, values.T))
    kept = np.isin(data["PURPOSE"], (1, 3)) & (data["CHOICE"] != 0)
    data = {name: column[kept] for name, column in data.items()}
    modes, paying = ("TRAIN", "SM", "CAR"), data["GA"] == 0
    cost = [data[f"{mode}_CO"] * (paying if mode != "CAR" else 1) / 100 for mode in modes]
    time = [data[f"{mode}_TT"] / 100 for mode in modes]
    there = [data[f"{mode}_AV"] * (data["SP"] != 0 if mode != "SM" else 1) for mode in modes]
    X = np.zeros((len(cost[0]), 3, 4))
    X[:, :, 0], X[:, :, 1] = np.transpose(cost), np.transpose(time)
    X[:, 0, 2] = X[:, 2, 3] = 1.0  # constants of train and car
    return {"X": X, "there": np.transpose(there) > 0, "choice": data["CHOICE"].astype(int) - 1}


def simulate(n_cases: int, n_alternatives: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return columns of choosers and alternatives, and the choices."""
    rng = np.random.default_rng(seed)
    data = {f"a{k}": rng.normal(size=n_alternatives) for k in range(6)}
    data |= {"east": rng.uniform(size=n_alternatives), "north": rng.uniform(size=n_alternatives)}
    data |= {"x": rng.uniform(size=n_cases), "y": rng.uniform(size=n_cases)}
    data["income"] = rng.normal(size=n_cases)
    A = np.column_stack([data[f"a{k}"] for k in range(6)])
    choice = np.empty(n_cases, np.int64)
    for i in range(n_cases):
        squared = (data["x"][i] - data["east"]) ** 2 + (data["y"][i] - data["north"]) ** 2
        V = A @ COEF[:6] + data["income"][i] * (A[:, :2] @ COEF[6:8])
        V += COEF[8] * np.sqrt(squared) + COEF[9] * squared
        totals = np.cumsum(np.exp(V - V.max()))
        choice[i] = np.searchsorted(totals, rng.uniform() * totals[-1])
    return data | {"choice": choice}


def choice(
    programs: list[str],
    problems: list[str],
    n_cases: int,
    seconds: float,
    as_json: bool,
    page: bool,
) -> None:
    """Fit each problem with each program, and show seconds, memory and estimates."""
    rows = []
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stopped = set[str]()
    for problem in problems:
        with tempfile.TemporaryDirectory() as folder:
            real = problem == "swissmetro"
            data: dict[str, Any] = swissmetro() if real else simulate(n_cases, int(problem))
            np.savez(Path(folder) / "input.npz", **data)
            needed = 0 if real else _COPIES * 8 * n_cases * int(problem) * len(COEF)
            exact = None
            for program in programs:
                row: dict[str, Any] = {"problem": problem, "program": program}
                if real and " " in program:  # estimators of a table of alternatives
                    continue
                if program in stopped:
                    row["ended"] = "not run: it stopped before"
                elif PROGRAMS[program] and needed > available:
                    row["ended"] = f"not run: needs about {needed / 2**30:,.0f} GB"
                else:
                    row |= _run(program, Path(folder), seconds)
                    if row["ended"]:
                        stopped.add(program)
                if "coef" in row:
                    coef, errors = np.array(row.pop("coef")), np.array(row.pop("std_errors"))
                    exact = (coef, errors) if exact is None else exact
                    row["largest difference, standard errors"] = float(
                        np.abs((coef - exact[0]) / exact[1]).max()
                    )
                    row["ratio of standard errors"] = float(
                        np.exp(np.log(errors / exact[1]).mean())
                    )
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
    save("choice", rows)
    if page:
        write_page("choice", _beside(rows, programs, problems))
    show(rows, as_json=as_json)


def write_page(name: str, rows: list[dict[str, Any]]) -> None:
    """Put a table into the page of results."""
    path = FIGURES.parent / "results" / "choice.md"
    path.write_text(written_between(path.read_text(), name, markdown(rows)))


def _beside(
    rows: list[dict[str, Any]], programs: list[str], problems: list[str]
) -> list[dict[str, Any]]:
    """Return seconds and memory, one row per program and one column per problem."""
    found = {(row["program"], row["problem"]): _cell(row) for row in rows}
    return [
        {"program": program} | {name: found.get((program, name), "") for name in problems}
        for program in programs
    ]


def _cell(row: dict[str, Any]) -> str:
    if row["ended"]:
        return str(row["ended"])
    return f"{row['seconds']:.3g} s, {row['peak MB'] / 1024:.2g} GB"


def _run(program: str, folder: Path, seconds: float) -> dict[str, Any]:
    name, output = PROGRAMS[program], folder / "output.json"
    output.unlink(missing_ok=True)
    if name is None:
        command = [sys.executable, "-m", "benchmarks.choice.bigcat_adapter"]
        estimation = program.partition(" ")[2] or "exact"
    else:
        python = environments.python_of(_HERE / f"{name}.txt")
        command, estimation = [str(python), str(_HERE / f"{name}_adapter.py")], ""
    environment = {k: v for k, v in os.environ.items() if name is None or k != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [*command, str(folder), estimation],
            cwd=_HERE.parents[1],
            env=environment,
            timeout=seconds,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"ended": f"stopped after {seconds:.0f} s"}
    if not output.exists():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"ended": f"failed ({done.returncode}): {last[:100]}"}
    found: dict[str, Any] = json.loads(output.read_text())
    return {**found, "ended": ""}


def add_to(commands: Any) -> None:
    """Add the commands to those of ``python -m benchmarks``."""
    parser = commands.add_parser("choice", help="discrete choice beside other programs")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument(
        "problems", nargs="*", default=list(PROBLEMS), help="swissmetro, or numbers of alternatives"
    )
    parser.add_argument("--cases", type=int, default=20_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=1800.0, help="longest fit")
    _add_outputs(parser)
    parser = commands.add_parser("choice-sampling", help="estimates from sampled alternatives")
    parser.add_argument("--sets", type=int, default=100, help="simulated data sets")
    _add_outputs(parser)


def _add_outputs(parser: Any) -> None:
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--page", action="store_true", help="write tables into the documentation")


def run(args: Any) -> None:
    """Run one of the two commands."""
    if args.command == "choice-sampling":
        from benchmarks.choice.sampling import sampling

        sampling(args.sets, args.json, args.page)
        return
    choice(args.programs, args.problems, args.cases, args.seconds, args.json, args.page)
