"""Experiments of a paper: run in pieces, stored as they finish, compared with the publication."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS, clock, commit, markdown
from benchmarks.published import known, published

FOLDER = RESULTS / "reproduce"
Row = dict[str, Any]
#: A piece of an experiment: what it is called, and what gives its rows.
Pieces = dict[str, Callable[[], Iterable[Row]]]


@dataclass(frozen=True)
class Claim:
    """Claim of a paper without a figure."""

    text: str
    ours: str
    holds: bool


def _nothing(rows: list[Row]) -> list[Claim]:
    return []


@dataclass(frozen=True)
class Experiment:
    """A table or figure.

    Parameters
    ----------
    name : str
        For the command line; that of `published.toml` where there are figures.
    paper, where, title : str
        The paper, the number there, what it shows.
    status : str
        What came out when it was last run as a whole, in a few words.
    pieces : callable
        From "is it a quick run?" to the pieces.
    shares : str
        The experiment whose rows this one shows in another way; its own, if empty.
    claims : callable
        From rows to what the paper says of them.
    draw : callable
        Draws rows on a figure file.
    data : tuple of str
        Sets of the catalogue that a whole run reads.
    quick_data : tuple of str
        Those that a quick run reads.
    """

    name: str
    paper: str
    where: str
    title: str
    status: str
    pieces: Callable[[bool], Pieces]
    shares: str = ""
    claims: Callable[[list[Row]], list[Claim]] = _nothing
    draw: Callable[[list[Row], Path], None] | None = None
    data: tuple[str, ...] = ()
    quick_data: tuple[str, ...] = field(default=())

    def file(self, quick: bool, ending: str) -> Path:
        """Return the paths of raw rows (jsonl), table (md) and figure (png)."""
        name = self.shares if ending == "jsonl" and self.shares else self.name
        return FOLDER / f"{name}{'-quick' if quick else ''}.{ending}"

    def done(self, quick: bool) -> dict[str, Row]:
        """Pieces that an earlier run has finished: their rows, date, commit and CPU seconds."""
        path = self.file(quick, "jsonl")
        if not path.exists():
            return {}
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return {line["piece"]: line for line in lines}

    def missing(self, quick: bool) -> list[str]:
        """Return the required sets that are not in `BIGCAT_DATA`."""
        home = os.environ.get("BIGCAT_DATA", "")
        wanted = self.quick_data if quick else self.data
        return [name for name in wanted if not home or not (Path(home) / name).exists()]

    def run(self, quick: bool, again: bool = False) -> list[Row]:
        """Return all rows; finished pieces run again only with `again`."""
        path = self.file(quick, "jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        if again:
            path.unlink(missing_ok=True)
        done = self.done(quick)
        for piece, rows_of in self.pieces(quick).items():
            if piece in done:
                continue
            print(f"{self.name}: {piece}", flush=True)
            with clock() as times:
                rows = [_as_json(row) for row in rows_of()]
            done[piece] = {
                "piece": piece,
                "rows": rows,
                "date": datetime.date.today().isoformat(),
                "commit": commit(),
                "CPU seconds": round(times["cpu"], 1),
            }
            with path.open("a") as file:
                file.write(json.dumps(done[piece]) + "\n")
        return [row for piece in self.pieces(quick) for row in done[piece]["rows"]]

    def compared(self, rows: list[Row]) -> list[Row]:
        """Return one line per published figure of a row, and one per claim."""
        lines = []
        if self.name in known():
            table = published(self.name)
            for key, figures in table.rows():
                for row in rows:
                    if tuple(row.get(k) for k in table.keys) != key:
                        continue
                    for quantity, figure in zip(table.quantities, figures):
                        if figure is not None and quantity.name in row:
                            what = ", ".join(map(str, (*key, quantity.name)))
                            lines.append(_line(what, figure, row[quantity.name], quantity))
        for claim in self.claims(rows):
            verdict = "holds" if claim.holds else "does not hold"
            lines.append(_of(claim.text, "claimed", claim.ours, "", verdict))
        return lines


def _as_json(row: Row) -> Row:
    return json.loads(json.dumps(row, default=float))


def _of(what: str, figure: Any, ours: Any, difference: Any, verdict: str) -> Row:
    return {
        "what": what,
        "published": figure,
        "ours": ours,
        "difference": difference,
        "verdict": verdict,
    }


def _line(what: str, figure: float, ours: Any, quantity: Any) -> Row:
    if not isinstance(ours, (int, float)):
        return _of(what, figure, ours, "", str(ours))
    return _of(what, figure, ours, ours - figure, quantity.verdict(figure, ours))


def as_markdown(experiment: Experiment, lines: list[Row], quick: bool) -> str:
    """The table that a run writes."""
    kind = " (quick: smaller or fewer pieces)" if quick else ""
    text = f"# {experiment.paper}, {experiment.where}: {experiment.title}{kind}\n\n"
    if not lines:
        return text + "The paper gives no figures; the raw rows and the picture are the result.\n"
    return text + markdown(lines) + "\n"
