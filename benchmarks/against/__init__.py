"""Compare the bits and the speed of this checkout with those of another one.

``python -m benchmarks against BASE`` runs the same cases with BASE's package and with this one,
each in processes of its own.  Answers are compared bit by bit, seconds side by side.  A case is
spelled for both interfaces by `benchmarks.against.spell`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.against import compare
from benchmarks.against.checkouts import ROOT, Checkout, opened

#: Pairs of processes a case; and for a first fit, which compiles.
ROUNDS, COLD_ROUNDS, IMPORT_ROUNDS = 4, 2, 5


def against(
    base: str,
    answers: bool = False,
    speed: bool = False,
    as_json: bool = False,
    only: list[str] | None = None,
    rounds: int = ROUNDS,
    jobs: int = 1,
) -> None:
    """Print differences, in bits and speed by default; return 1 if answers differ."""
    from benchmarks._report import save, show

    both = not answers and not speed
    failed: list[dict[str, Any]] = []
    with opened(base) as other:
        head = Checkout(ROOT)
        if answers or both:
            rows = compare_answers(other, head, only or [], jobs)
            save("against_answers", rows)
            failed = [row for row in rows if row["different"]]
            if as_json or failed:
                show(rows if as_json else failed, as_json)
            digests = sum(row["digests"] for row in rows)
            _say(f"{len(rows)} cases, {digests} digests: {len(failed)} cases differ")
        if speed or both:
            rows = compare_speed(other, head, only or [], rounds)
            save("against_speed", rows)
            show(rows, as_json)
    if failed:
        raise SystemExit(1)


def compare_answers(
    base: Checkout, head: Checkout, only: list[str], jobs: int = 1
) -> list[dict[str, Any]]:
    """Compare fits and model files written by the base; one row per case."""
    _say("answers of the base")
    theirs = base.run_cases("answers", only=only, jobs=jobs)
    _say("answers of this one")
    ours = head.run_cases("answers", only=only, jobs=jobs)
    with tempfile.TemporaryDirectory() as folder:
        _say("model files of the base")
        written = base.run_cases("save", folder, only, jobs)
        broken = {row["name"]: row for row in written if "error" in row}
        for checkout, rows in ((base, theirs), (head, ours)):
            read = checkout.run_cases("load", folder, only, jobs)
            rows += [broken.get(row["name"], row) for row in read]
    return compare.differences(theirs, ours)


def compare_speed(
    base: Checkout, head: Checkout, only: list[str], rounds: int = ROUNDS
) -> list[dict[str, Any]]:
    """Compare seconds; one row per timed function."""
    from benchmarks.against.child import wanted
    from benchmarks.against.speed_cases import CASES

    rows = []
    for name in (name for name in CASES if wanted(name, only)):
        _say(name)
        rows += compare.ratios(name, *_in_turn(base, head, rounds, "speed", name))
    if wanted("import", only):
        _say("import")
        _in_turn(base, head, 1, "import")  # writes what Python keeps of the source
        rows += compare.ratios("import", *_in_turn(base, head, IMPORT_ROUNDS, "import"))
    if wanted("first fit", only):
        _say("first fit")
        rows += _first_fits(base, head)
    return rows


def _in_turn(base: Checkout, head: Checkout, rounds: int, *words: str) -> tuple[list, list]:
    """Yield the answers of both in turn: base, head, head, base, base, head, ..."""
    runs: tuple[list, list] = ([], [])
    for number in range(rounds):
        sides = ((0, base), (1, head))
        for side, checkout in sides if number % 2 == 0 else sides[::-1]:
            runs[side].append(_without_compiling(checkout, *words))
    return runs


def _without_compiling(checkout: Checkout, *words: str) -> dict[str, Any]:
    (row,) = checkout.run(*words)
    if row.get("compiled"):  # now they are kept; a process that compiled is not like one that loads
        (row,) = checkout.run(*words)
    return row


def _first_fits(base: Checkout, head: Checkout) -> list[dict[str, Any]]:
    """A fit in a fresh process, with an empty folder for kernels and with a full one."""
    runs: dict[str, tuple[list, list]] = {"cold": ([], []), "warm": ([], [])}
    for _ in range(COLD_ROUNDS):
        for side, checkout in enumerate((base, head)):
            with tempfile.TemporaryDirectory() as kernels:
                for state in runs:  # cold first
                    runs[state][side].extend(checkout.run("first-fit", kernels=Path(kernels)))
    return [row for s in runs for row in compare.ratios(f"first fit, {s}", *runs[s])]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
