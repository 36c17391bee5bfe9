"""Lines that tests came by, of each part of the package; an error below `LEAST`.

make coverage
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import coverage

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "bigcat"
#: Per cent of all lines.
LEAST = 95.0


def main() -> None:
    data = coverage.Coverage()
    data.load()
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        data.json_report(outfile=file.name)
        files = json.load(file)["files"]
    lines: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    for name, found in files.items():
        part = Path(name).resolve().relative_to(PACKAGE).parts[0]
        lines[part] += found["summary"]["num_statements"]
        missed[part] += found["summary"]["missing_lines"]
    for part in sorted(lines):
        print(f"{part:20} {lines[part]:6,} lines {_per_cent(lines[part], missed[part]):6.1f} %")
    total = _per_cent(lines.total(), missed.total())
    print(f"{'all':20} {lines.total():6,} lines {total:6.1f} %")
    if total < LEAST:
        sys.exit(f"fewer than {LEAST} % of the lines")


def _per_cent(lines: int, missed: int) -> float:
    return 100.0 - 100.0 * missed / max(lines, 1)


if __name__ == "__main__":
    main()
