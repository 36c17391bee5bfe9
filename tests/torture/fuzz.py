"""Fuzzing guided by coverage: inputs that reach new lines of a reader are changed further.

    pip install atheris
    python -m tests.torture.fuzz csv --minutes 30

Finds are left in the folder of the corpus as ``find-...``, the first one of each kind; the `read`
of `target` reads them again.  What counts as right is what `subjects` says.  The fuzzer would never
guess a digest or a check sum, so headers, manifests and arrays in archives get right ones.

Compiled scanners leave no trace of their lines.  With `--plain` they run as they are written, and
guide the fuzzer; a second run with the same corpus has the compiled ones read what was found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.torture.damage import Rng

#: What can be fuzzed: readers of data, and the loader of models.
READERS = (
    *("xc", "svmlight", "tsv", "csv", "csv, encoded"),
    *("npz", "npz of CSR", "parquet", "manifest", "model"),
)
#: Of an input, in bytes; CPU seconds for one; and MB of memory for the process.
LONGEST, SLOWEST, MOST_MEMORY = 4_096, 20, 2_048
#: Seconds after which an input hangs.  The clock also goes on while a busy machine has no time.
HANGS = 1_200
#: Rows of texts and tables to begin with: the fewer there are, the more inputs are read.
N_ROWS = 4
#: Part of the inputs that are made of one to begin with.  The fuzzer keeps only one of those that
#: reach the same lines, which most valid ones do.
FROM_A_SEED = 0.3
#: Inputs between two looks at the clock.
BETWEEN_LOOKS = 100

Read = Callable[[bytes], str]


class Target(NamedTuple):
    """What is fuzzed."""

    read: Read  # an input, and gives the verdict
    seeds: list[bytes]  # inputs to begin with
    change: Callable[[bytes, Rng], bytes]  # an input into another one


def target(reader: str, folder: Path) -> Target:
    """One of `READERS`; `folder` is for files on the way."""
    from tests.torture import subjects
    from tests.torture.damage import damaged
    from tests.torture.models import MODELS

    known = [*subjects.subjects(folder), subjects.encoded(folder)]
    by_name = {subject.name: subject for subject in known}

    def reads(name: str, made: Callable[[bytes], bytes] = bytes) -> Read:
        subject = by_name[name]
        path = folder / f"fuzzed{subject.suffix}"

        def read(content: bytes) -> str:
            content = made(content)
            path.write_bytes(content)
            return subject.verdict(path, content)

        return read

    if reader == "manifest":
        names = [name for name in by_name if name.startswith("made-up manifest")]
        readers = [reads(name, subjects.with_right_digest) for name in names]
        return _one_of(readers, [by_name[name].content for name in names], _change_json)
    if reader == "model":
        models = {name: by_name[f"header {name}"].content for name in MODELS}
        readers = [
            reads(f"header {name}", partial(subjects.with_header, content))
            for name, content in models.items()
        ]
        return _one_of(
            readers, [subjects.header_of(content) for content in models.values()], _change_json
        )
    if reader.startswith("npz"):
        archive = by_name[reader].content
        arrays = subjects.members(archive)
        readers = [
            reads(f"made-up {reader}", partial(subjects.with_member, archive, name))
            for name in arrays
        ]
        return _one_of([*readers, reads(reader)], [*arrays.values(), archive], damaged)
    if reader == "csv, encoded":
        seeds = [subjects.encoded_table(N_ROWS).encode()]
    elif reader == "parquet":
        seeds = [subjects.parquet_table(N_ROWS, checked) for checked in (True, False)]
    else:
        seeds = [subjects.texts(N_ROWS)[reader].encode()]
    return Target(reads(reader), seeds, damaged)


def _one_of(
    readers: list[Read], seeds: list[bytes], change: Callable[[bytes, Rng], bytes]
) -> Target:
    """Several readers: the first byte of an input says which one has the rest."""

    def read(content: bytes) -> str:
        which = content[0] if content else 0
        return readers[which % len(readers)](content[1:])

    firsts = [bytes([i]) + seed for i, seed in enumerate(seeds)]
    return Target(read, firsts, lambda content, rng: content[:1] + change(content[1:], rng))


def _change_json(content: bytes, rng: Rng) -> bytes:
    from tests.torture.damage import damaged
    from tests.torture.subjects import change_a_value

    try:
        found = json.loads(content)
        change_a_value(found, rng)
        return json.dumps(found).encode()
    except (ValueError, TypeError, RecursionError):
        return damaged(content, rng)


class Run:
    """Reads inputs for so many minutes of a processor, and says what came of them."""

    def __init__(self, read: Read, minutes: float, folder: Path, corpus: Path) -> None:
        self.read, self.folder, self.corpus = read, folder, corpus
        self.began, self.seconds = time.process_time(), 60 * minutes
        self.n, self.slowest = 0, 0.0
        self.verdicts: Counter[str] = Counter()
        self.finds: set[str] = set()

    def __call__(self, content: bytes) -> None:
        before = time.process_time()
        try:
            verdict = self.read(content)
            took = time.process_time() - before
            if took > SLOWEST:
                raise TimeoutError(f"an input of {len(content):,} bytes took {took:.0f} s")
            self.verdicts[verdict] += 1
        except Exception as error:
            self.note(content, error)
        self.n += 1
        self.slowest = max(self.slowest, time.process_time() - before)
        if self.n % BETWEEN_LOOKS == 0 and time.process_time() - self.began > self.seconds:
            self.end()

    def note(self, content: bytes, error: Exception) -> None:
        """Keep an input that was read wrongly, unless one was read wrongly at the same place."""
        self.verdicts["find"] += 1
        place = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__}-{Path(place.filename).stem}-{place.lineno}"
        if kind not in self.finds:
            self.finds.add(kind)
            (self.corpus / f"find-{kind}").write_bytes(content)
            traceback.print_exception(error)

    def end(self) -> None:
        seconds = time.process_time() - self.began
        verdicts = ", ".join(f"{n:,} {name}" for name, n in sorted(self.verdicts.items()))
        slowest = f"the slowest {self.slowest:.2f} s"
        print(f"{self.n:,} inputs in {seconds:.0f} CPU seconds, {slowest}: {verdicts}", flush=True)
        shutil.rmtree(self.folder)
        os._exit(bool(self.finds))  # the fuzzer knows no other way to end


def _import_all(*packages: str) -> None:
    for name in packages:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz a reader, guided by coverage.")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--minutes", type=float, default=30.0, help="of a processor")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder of inputs to begin with, and to keep")
    parser.add_argument("--plain", action="store_true", help="nothing is compiled")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing needs atheris: pip install atheris")
    if arguments.plain:
        os.environ["NUMBA_DISABLE_JIT"] = "1"
    _import_all("bigcat.kernels", "bigcat.bayes")  # what compiles must not be instrumented
    if arguments.plain:
        del sys.modules["bigcat.kernels.scan_text"]
    with atheris.instrument_imports(include=["bigcat"]):
        _import_all("bigcat.kernels", "bigcat.data", "bigcat.files")
        importlib.import_module("bigcat.tensor_file")
    in_memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="fuzz", dir=in_memory if in_memory.is_dir() else None))
    corpus = arguments.corpus or Path(tempfile.mkdtemp(prefix="corpus"))
    corpus.mkdir(parents=True, exist_ok=True)
    read, seeds, change = target(arguments.reader, folder)
    for i, seed in enumerate(seeds):
        (corpus / f"seed-{i}").write_bytes(seed)

    import numpy as np

    def mutator(content: bytes, max_size: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if rng.random() < FROM_A_SEED:
            content = seeds[int(rng.integers(len(seeds)))]
        changed = change(content, rng) if content and rng.random() < 0.5 else content
        return changed[:max_size] if changed != content else atheris.Mutate(content, max_size)

    options = [
        f"-max_len={max(LONGEST, *(2 * len(seed) for seed in seeds))}",
        f"-timeout={HANGS}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-seed={arguments.seed}",
        f"-artifact_prefix={corpus}/",
        "-mutate_depth=1",  # of several changes in a row there is hardly one that is not an error
        "-reduce_inputs=0",  # nor of what is left of an input when it is as short as can be
    ]
    run = Run(read, arguments.minutes, folder, corpus)
    atheris.Setup([sys.argv[0], *options, str(corpus)], run, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
