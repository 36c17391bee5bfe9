"""Results as JSON lines, a case a line, written as soon as it is done."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.field.measure import Record


def read(path: Path) -> list[Record]:
    """Return all cases of a file, without a truncated last line."""
    *lines, _ = path.read_text().split("\n")
    return [json.loads(line) for line in lines]


def append(path: Path, record: Record) -> None:
    with path.open("a") as file:
        file.write(json.dumps(record) + "\n")


def begin(path: Path, resume: bool) -> list[Record]:
    """Return finished results without a truncated line; empty without a file."""
    if not path.exists():
        return []
    if not resume:
        raise SystemExit(f"{path} is there already: --resume goes on with it, or name another file")
    done = read(path)
    path.write_text("".join(json.dumps(record) + "\n" for record in done))
    return done
