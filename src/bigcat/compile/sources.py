"""Version of all compiled code: a hash of its source."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

#: Files and folders with compiled code: every kernel and all that kernels call.
COMPILED = (
    "compile",
    "numerics",
    "verbs.py",
    "part.py",
    "rows",
    "noise",
    "probabilities.py",
    "samplers",
    "bounds",
    "solvers",
    "kernels",
)


def compiled_sources() -> Iterator[tuple[str, Path]]:
    """Yield the name inside the package and the path of each file of `COMPILED`."""
    root = Path(__file__).parents[1]
    for name in COMPILED:
        place = root / name
        files = [place] if place.suffix else sorted(place.rglob("*.py"))
        for path in files:
            yield path.relative_to(root).as_posix(), path


@functools.cache
def source_hash() -> str:
    """Return the hash of the source of all compiled code."""
    digest = hashlib.sha256()
    for name, path in compiled_sources():
        digest.update(name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
