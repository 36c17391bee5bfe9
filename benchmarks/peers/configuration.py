"""The campaign as campaign.toml describes it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.peers.problems import Problem

_HERE = Path(__file__).parent
KINDS = ("full-rank", "low-rank", "tree")

Settings = dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """A peer, or a method of ours, with the settings to try.

    Parameters
    ----------
    name : str
    adapter : Path
        A module with ``fit(rows, watch, **settings)``, run by ``adapters/run_adapter.py``.
    kind : {"full-rank", "low-rank", "tree"}
        What model it fits.
    settings : dict
        For a problem's name, or "any", what to try; the best known first.
    environment : Path, optional
        Requirements of its virtual environment; without, it runs in this interpreter.
    variant : str
        Which of an adapter's several models.
    skip : dict
        Why it is not run, for a problem's name.
    """

    name: str
    adapter: Path
    kind: str
    settings: dict[str, list[Settings]]
    environment: Path | None = None
    variant: str = ""
    skip: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.name}: kind {self.kind!r} is none of {', '.join(KINDS)}")

    def settings_for(self, problem: str) -> list[Settings]:
        """Return the settings to try on a problem, the best known one first."""
        return self.settings.get(problem, self.settings["any"])


@dataclass(frozen=True)
class Campaign:
    """All problems and contenders, and the parts of a plain and a quick run."""

    problems: dict[str, Problem]
    contenders: dict[str, Contender]
    default_problems: list[str]
    quick: dict[str, Any]


def read(path: Path = _HERE / "campaign.toml") -> Campaign:
    """The campaign of a configuration file."""
    text = tomllib.loads(path.read_text())
    return Campaign(
        {name: Problem(name, **fields) for name, fields in text["problems"].items()},
        {name: _contender(name, fields) for name, fields in text["contenders"].items()},
        text["campaign"]["problems"],
        text["quick"],
    )


def _contender(name: str, fields: dict[str, Any]) -> Contender:
    common, skip = fields.get("common", {}), fields.get("skip", {})
    environment = fields.get("environment")
    return Contender(
        name,
        _HERE / "adapters" / f"{fields['adapter']}_adapter.py",
        fields["kind"],
        {
            problem: [common | settings for settings in listed]
            for problem, listed in fields["settings"].items()
        },
        environment and _HERE / "environments" / f"{environment}.txt",
        fields.get("variant", ""),
        dict.fromkeys(skip.get("problems", ()), skip.get("reason", "")),
    )
