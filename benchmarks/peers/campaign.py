"""Problems times contenders: choose settings on validation rows, fit again, measure, keep."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks._report import RESULTS
from benchmarks.peers import jobs, problems
from benchmarks.peers.configuration import Contender, Settings
from benchmarks.peers.problems import Problem

RECORDS = RESULTS / "peers"
LIMIT = 150.0

Record = dict[str, Any]


class Runner:
    """Run contenders on problems, and skip those that have a record.

    Parameters
    ----------
    limit : float
        Seconds a fit.
    threads : int
    fixed : bool
        Take the first setting of each contender instead of choosing one on validation rows.
    again : bool
        Run also what has a result already.
    records, cache : Path
        Where results and matrices are kept.
    """

    def __init__(
        self,
        *,
        limit: float = LIMIT,
        threads: int = 2,
        fixed: bool = False,
        again: bool = False,
        records: Path = RECORDS,
        cache: Path = problems.CACHE,
    ) -> None:
        self.limit, self.threads = limit, threads
        self.fixed, self.again = fixed, again
        self.records, self.cache = records, cache

    def run(self, problem: Problem, contender: Contender) -> Record:
        """Return the test record of a contender on a problem, with its selected settings."""
        listed = contender.settings_for(problem.name)
        chosen, how = listed[0], {"chosen_by": "configuration", "settings_tried": 1}
        if not self.fixed:
            tried = [self._record(problem, contender, "validation", s) for s in listed]
            finished = [record for record in tried if record["status"] == "ok"]
            how = {"chosen_by": "validation", "settings_tried": len(tried)}
            if not finished:
                worst = {
                    key: tried[-1].get(key) for key in ("status", "error", "curve", "settings")
                }
                return self.keep(problem, contender, "test", worst | how)
            best = max(finished, key=lambda record: record["log_likelihood"])
            chosen = dict(best["settings"])
            if "best_epoch" in best:
                chosen["epochs"] = best["best_epoch"]
        return self._record(problem, contender, "test", chosen, how)

    def _record(
        self,
        problem: Problem,
        contender: Contender,
        stage: str,
        settings: Settings,
        more: dict[str, Any] | None = None,
    ) -> Record:
        more = more or {}
        before = read(self._path(problem, contender, stage, settings))
        if before is not None and not self.again and not self._worth_another_try(before):
            known = all(before.get(key) == value for key, value in more.items())
            return before if known else self.keep(problem, contender, stage, before | more)
        folder = problems.folder_of(problem, self.cache)
        outcome = jobs.run(
            contender, folder, stage, settings, limit=self.limit, threads=self.threads
        )
        return self.keep(problem, contender, stage, {"settings": settings} | more | outcome)

    def _worth_another_try(self, record: Record) -> bool:
        """Return True if a fit that was cut or stopped early may get further with more time."""
        short = record["status"] == "cut" or record.get("stopped_by_limit", False)
        return short and self.limit > record["limit"]

    def keep(
        self, problem: Problem, contender: Contender, stage: str, outcome: dict[str, Any]
    ) -> Record:
        """Store the result, and return the whole record."""
        record: Record = {
            "problem": problem.name,
            "contender": contender.name,
            "kind": contender.kind,
            "stage": stage,
            "limit": self.limit,
            "threads": self.threads,
        }
        record |= outcome | {"when": time.time()}
        path = self._path(problem, contender, stage, record["settings"])
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(record))
        part.replace(path)
        print(in_brief(record), file=sys.stderr, flush=True)
        return record

    def _path(self, problem: Problem, contender: Contender, stage: str, settings: Settings) -> Path:
        slug = re.sub(r"\W+", "-", contender.name).strip("-").lower()
        what = json.dumps([settings, self.threads], sort_keys=True)
        key = hashlib.sha256(what.encode()).hexdigest()[:8]
        return self.records / problem.name / f"{slug}.{stage}.{key}.json"


def read(path: Path) -> Record | None:
    """Return a record, or None."""
    return json.loads(path.read_text()) if path.exists() else None


def read_all(folder: Path = RECORDS) -> list[Record]:
    """All records, the oldest first."""
    records = [json.loads(path.read_text()) for path in folder.glob("*/*.json")]
    return sorted(records, key=lambda record: record["when"])


def in_brief(record: Record) -> str:
    """A line about a record."""
    what = f"{record['problem']:10} {record['contender']:24} {record['stage']:10}"
    if record["status"] != "ok":
        return f"{what} {record['status']}: {record['error'].splitlines()[-1]}"
    seconds, value = record["fit_seconds"], record["log_likelihood"]
    return f"{what} {value:9.4f}  {seconds:7.2f} s  {record['settings']}"
