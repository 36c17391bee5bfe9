"""`make torture`: kills saves, conversions and fits, and prints what `docs/reliability.md` says.

python -m tests.torture --kills 200
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.torture.killed_conversions import kill_conversions
from tests.torture.killed_fits import kill_fits
from tests.torture.kills import kill_saves


def main() -> None:
    parser = argparse.ArgumentParser(description="Kill saves, conversions and fits, many times.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for kill in (kill_saves, kill_conversions, kill_fits):
        with tempfile.TemporaryDirectory() as name:
            print(kill(arguments.kills, Path(name), arguments.seed))


if __name__ == "__main__":
    main()
