"""``bigcat warm``: kernels compiled ahead of time, for a container or a first impression."""

from __future__ import annotations

import argparse
import time

from bigcat.cli import _output


def add_to(commands: _output.Commands) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "warm",
        help="compile ahead of time what first runs would wait for",
        description="Compile what default fits and predictions call, so that no first run waits "
        "for it. Run it once after installation, or while a container is built.",
        epilog="Compiled code is kept beside the package, or in the user's cache folder where that "
        "cannot be written; the environment variable NUMBA_CACHE_DIR names another folder.",
    )
    parser.add_argument(
        "--noise",
        action="append",
        help="a noise to compile for (default: gumbel); can be given several times",
    )
    parser.add_argument(
        "--double",
        action="store_true",
        help="also for rows of float64, as NumPy and scikit-learn make them; files are float32",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON report instead")
    return parser


def run(arguments: argparse.Namespace) -> int:
    from bigcat.compile.cache import cache_folder
    from bigcat.noise import REGISTRY
    from bigcat.precompile import precompile

    noises = tuple(arguments.noise or ["gumbel"])
    unknown = [name for name in noises if name not in REGISTRY]
    if unknown:
        raise ValueError(f"--noise {unknown[0]} is not known; choose of {', '.join(REGISTRY)}")
    console = _output.console()
    began = time.perf_counter()
    compiled = precompile(
        noises=noises,
        dtypes=("float32", "float64") if arguments.double else ("float32",),
        on_case=lambda name: None if arguments.json else console.print(name, style="dim"),
    )
    report = {
        "compiled": len(compiled),
        "seconds": time.perf_counter() - began,
        "folder": cache_folder(),
    }
    if arguments.json:
        _output.print_json(report)
        return 0
    where = report["folder"] or "nowhere: no folder can be written; set NUMBA_CACHE_DIR"
    seconds = f"{report['seconds']:.1f}"
    rows = [("kernels", str(len(compiled)), "compiled now; those in the cache are not counted")]
    console.print(_output.facts([*rows, ("seconds", seconds, ""), ("kept in", "", str(where))]))
    return 0
