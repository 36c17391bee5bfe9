"""``python -m benchmarks.distributed MEASUREMENT ...``"""

from __future__ import annotations

import argparse
from importlib import import_module

MEASUREMENTS = (
    "demo",
    "quality",
    "speed",
    "parity",
    "faults",
    "larger_than_memory",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.distributed", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name in MEASUREMENTS:
        module = import_module(f"benchmarks.distributed.{name}")
        about = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name.replace("_", "-"), help=about)
        module.add_to(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
