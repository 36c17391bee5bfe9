"""``bigcat precompile``: kernels compiled ahead of time, for a container or a first impression."""

from __future__ import annotations

import argparse
import time

from bigcat.cli import _options, _output

HELP = "compile ahead of time what default fits and predictions call"


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Run it once after installation, or while a container is built. Compiled code is kept "
        "beside the package, or in the user's cache folder where that cannot be written; the "
        "environment variable NUMBA_CACHE_DIR names another folder."
    )
    _options.add(
        parser,
        "noise",
        action="append",
        help="a noise to compile for (default: gumbel); may be repeated",
    )
    parser.add_argument(
        "--double",
        action="store_true",
        help="also for rows of float64, as NumPy and scikit-learn make them; files are float32",
    )
    _options.add(parser, "json")


def run(arguments: argparse.Namespace) -> int:
    from bigcat.compile.cache import cache_folder
    from bigcat.precompile import precompile

    console = _output.console()
    console.quiet = arguments.json
    began = time.perf_counter()
    compiled = precompile(
        noises=tuple(arguments.noise or ["gumbel"]),
        dtypes=("float32", "float64") if arguments.double else ("float32",),
        on_case=lambda name: console.print(name, style="dim"),
    )
    seconds, folder = time.perf_counter() - began, cache_folder()
    report = {"compiled": len(compiled), "seconds": seconds, "folder": folder}
    where = str(folder or "nowhere: no folder can be written; set NUMBA_CACHE_DIR")
    rows = [
        ("kernels", str(len(compiled)), "compiled now; those in the cache are not counted"),
        ("seconds", f"{seconds:.1f}", ""),
        ("kept in", "", where),
    ]
    _output.show(arguments, report, rows)
    return 0
