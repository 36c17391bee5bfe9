"""Conditional logit with many alternatives, beside other programs for discrete choice.

One problem for all: choosers beside a table of alternatives, ten coefficients, simulated choices.
Every fit, with classical standard errors, runs in a process of its own: seconds from the tables to
the standard errors, and the most memory that the process had.  Other programs run in environments
of their own (``*.txt``), by adapters that read ``input.npz`` and write ``output.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import environments
from benchmarks._report import save, show

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
ALTERNATIVES = (100, 500, 1_000, 10_000, 100_000)
COEF = np.array([0.5, -0.5, 0.3, -0.3, 0.2, -0.2, 0.3, -0.2, -2.0, -0.5])
#: Programs other than ours hold all pairs times coefficients, several times.
_COPIES = 3


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
    programs: list[str], alternatives: list[int], n_cases: int, seconds: float, as_json: bool
) -> None:
    """Fit each problem with each program, and show seconds, memory and estimates."""
    rows = []
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stopped = set[str]()
    for n_alternatives in alternatives:
        with tempfile.TemporaryDirectory() as folder:
            data: dict[str, Any] = dict(simulate(n_cases, n_alternatives))
            np.savez(Path(folder) / "input.npz", **data)
            exact = None
            for program in programs:
                needed = _COPIES * 8 * n_cases * n_alternatives * len(COEF)
                row: dict[str, Any] = {"alternatives": n_alternatives, "program": program}
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
                rows.append(row)
                print(json.dumps(row), file=sys.stderr, flush=True)
    save("choice", rows)
    show(rows, as_json=as_json)


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
    """Add the command to those of ``python -m benchmarks``."""
    parser = commands.add_parser("choice", help="discrete choice with up to 100,000 alternatives")
    parser.add_argument("--programs", nargs="+", choices=list(PROGRAMS), default=list(PROGRAMS))
    parser.add_argument(
        "--alternatives", nargs="+", type=int, default=list(ALTERNATIVES), metavar="J"
    )
    parser.add_argument("--cases", type=int, default=20_000, metavar="N")
    parser.add_argument("--seconds", type=float, default=1800.0, help="most of one fit")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(args: Any) -> None:
    """Run the command."""
    choice(args.programs, args.alternatives, args.cases, args.seconds, args.json)
