"""`make torture`: prints what `docs/reliability.md` says.

python -m tests.torture --variants 100000 --kills 200
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.torture.killed_conversions import kill_conversions
from tests.torture.killed_fits import kill_fits
from tests.torture.kills import kill_saves
from tests.torture.models import MODELS, save_models
from tests.torture.subjects import subjects
from tests.torture.variants import most_memory, try_variants, unnoticed_flips

FLIPS = 500  # in the arrays of a model file
WEIGHED = 500  # variants of a file whose memory is looked at
COLUMNS = ("error", "same", "as it says")


def main() -> None:
    parser = argparse.ArgumentParser(description="Damage files and kill saves, many times.")
    parser.add_argument("--variants", type=int, default=53_344, help="of all files together")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = subjects(folder)
        each = -(-arguments.variants // len(found))
        print(f"{'file':28} {'variants':>8} " + " ".join(f"{c:>10}" for c in COLUMNS))
        total: Counter[str] = Counter()
        slowest, begin = 0.0, time.process_time()
        for subject in found:
            count = try_variants(subject, each, folder, arguments.seed)
            cells = " ".join(f"{count.verdicts[column]:10,}" for column in COLUMNS)
            print(f"{subject.name:28} {each:8,} {cells}", flush=True)
            total += count.verdicts
            slowest = max(slowest, count.slowest)
        cells = " ".join(f"{total[column]:10,}" for column in COLUMNS)
        print(f"{'all':28} {sum(total.values()):8,} {cells}")
        print(f"slowest {slowest:.2f} s, all {time.process_time() - begin:.0f} processor seconds")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory of the process {peak:.0f} MiB")
        for subject in found:
            valid, most = most_memory(subject, WEIGHED, folder, arguments.seed)
            print(
                f"{subject.name:28} {len(subject.content):8,} bytes, reading takes {valid:10,}, "
                f"that of damaged ones at most {most:10,}"
            )
        files = save_models(folder).values()
        n = sum(unnoticed_flips(file, FLIPS, folder, arguments.seed) for file in files)
        print(f"{n} of {FLIPS * len(MODELS)} flipped bits of arrays go unnoticed")
    with tempfile.TemporaryDirectory() as name:
        print(kill_saves(arguments.kills, Path(name), arguments.seed))
    with tempfile.TemporaryDirectory() as name:
        print(kill_conversions(arguments.kills, Path(name), arguments.seed))
    with tempfile.TemporaryDirectory() as name:
        print(kill_fits(arguments.kills, Path(name), arguments.seed))


if __name__ == "__main__":
    main()
