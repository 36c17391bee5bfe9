"""The defaults at each effort on the problems of the peers' campaign, beside another checkout.

Each fit runs alone in a process of its own, on one thread.  Log-likelihoods are taken on the common
rows of the campaign, so that they compare with those of the peers; differences are paired by row.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import _report
from benchmarks.peers import configuration
from benchmarks.peers.problems import CACHE, Problem, folder_of

#: Rows whose accuracy is measured, in scores of all classes.
MAX_SCORES = 1 << 28
#: Suffix of a contender whose `fit` receives the groups of the rows, where the data have them.
WITH_GROUPS = ", groups"

#: A fit as a program: the folder of the problem, where results go, and the parameters.
CHILD = """
import json, sys, time, warnings
import numpy as np, scipy.sparse as sp
from bigcat import LinearClassifier
from benchmarks._peak import memory
folder, out, parameters, most = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
warnings.simplefilter("ignore")
X = sp.load_npz(folder + "/X_train.npz").tocsr()
X_test = sp.load_npz(folder + "/X_test.npz").tocsr()
labels = np.load(folder + "/labels.npz")
known = {"groups": labels["groups_train"]} if "groups" in sys.argv[5:] else {}
y, y_test, common = labels["y_train"], labels["y_test"], labels["common_rows"]
before = memory("VmHWM")
started = time.process_time()
model = LinearClassifier(n_threads=1, random_state=0, progress=False, **parameters)
model.fit(X, y, **known)
cpu = time.process_time() - started
peak = memory("VmHWM")
K = len(model.classes_)
some = np.union1d(common, np.arange(min(len(y_test), max(most // K, 1))))
log_p, ranks, step = [], [], max(1, (1 << 22) // K)
for i in range(0, len(some), step):
    rows = some[i : i + step]
    logs = model.predict_log_proba(X_test[rows])
    own = logs[np.arange(len(rows)), y_test[rows]]
    log_p.append(own)
    ranks.append((logs > own[:, None]).sum(axis=1))
log_p, ranks = np.concatenate(log_p), np.concatenate(ranks)
compiled = model.history_[-1]["compile_seconds"] if len(model.history_) else 0.0
weights = sum(a.nbytes for a in model._weights().arrays().values())
np.savez(out, log_p=log_p[np.isin(some, common)], ranks=ranks, cpu=cpu - compiled,
         megabytes=(peak - before) / 2**20, weights=weights / 2**20)
print(model.selection_ if hasattr(model, "selection_") else "")
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    command = commands.add_parser(
        "efforts", help="the defaults at each effort, beside another checkout and the peers"
    )
    command.add_argument("problems", nargs="*", help="of the campaign; default: all")
    command.add_argument("--efforts", nargs="+", default=["quick", "balanced"], metavar="EFFORT")
    command.add_argument("--checkout", type=Path, metavar="DIR", help="another one to compare")
    command.add_argument("--output", type=Path, default=CACHE / "efforts", metavar="DIR")
    command.add_argument("--stored", action="store_true", help="print what was measured only")
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Measure, and print a row per problem and contender."""
    campaign = configuration.read()
    names = args.problems or campaign.default_problems
    args.output.mkdir(parents=True, exist_ok=True)
    for name in [] if args.stored else names:
        problem = campaign.problems[name]
        if args.checkout is not None:
            _fit(problem, "before", {}, args.output, args.checkout)
        for effort in args.efforts:
            _fit(problem, effort, {"effort": effort}, args.output, None)
            if "groups_train" in np.load(folder_of(problem) / "labels.npz"):
                contender = effort + WITH_GROUPS
                _fit(problem, contender, {"effort": effort}, args.output, None, "groups")
    contenders = ["before"] if args.checkout is not None or args.stored else []
    contenders += [effort + how for effort in args.efforts for how in ("", WITH_GROUPS)]
    rows = [row for name in names for row in _rows(name, contenders, args.output)]
    _report.save("efforts", rows)
    _report.show(rows, args.json)


def _fit(
    problem: Problem,
    contender: str,
    parameters: dict[str, Any],
    output: Path,
    checkout: Path | None,
    *options: str,
) -> None:
    root = checkout or Path(__file__).parents[1]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(Path(__file__).parents[1])]),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    path = output / f"{problem.name}.{contender}.npz"
    words = [str(folder_of(problem)), str(path), json.dumps(parameters), str(MAX_SCORES)]
    words += options
    found = subprocess.run(
        [sys.executable, "-c", CHILD, *words], env=environment, capture_output=True, text=True
    )
    if found.returncode:
        raise RuntimeError(f"{problem.name}, {contender}: {found.stderr[-2_000:]}")
    print(f"{problem.name}, {contender}\n{found.stdout}", file=sys.stderr, flush=True)


def _rows(name: str, contenders: list[str], output: Path) -> list[dict[str, Any]]:
    rows = []
    found = {
        contender: dict(np.load(output / f"{name}.{contender}.npz"))
        for contender in contenders
        if (output / f"{name}.{contender}.npz").exists()
    }
    first = found.get("before")
    for contender, values in found.items():
        log_p, ranks = values["log_p"], values["ranks"]
        row: dict[str, Any] = {
            "problem": name,
            "contender": contender,
            "log-likelihood": float(log_p.mean()),
            "accuracy": float((ranks == 0).mean()),
            "hit@5": float((ranks < 5).mean()),
            "cpu seconds": float(values["cpu"]),
            "peak MB": float(values["megabytes"]),
            "weights MB": float(values["weights"]),
        }
        if first is not None and contender != "before":
            for measure, ours, theirs in (
                ("log-likelihood", log_p, first["log_p"]),
                ("accuracy", ranks == 0, first["ranks"] == 0),
                ("hit@5", ranks < 5, first["ranks"] < 5),
            ):
                gain = ours.astype(float) - theirs.astype(float)
                row[f"{measure} gained"] = float(gain.mean())
                row[f"{measure} error"] = float(gain.std() / np.sqrt(len(gain)))
        rows.append(row)
    return rows
