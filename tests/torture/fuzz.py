"""Fuzzing guided by coverage: inputs that reach new lines of a reader are changed further.

    pip install atheris
    python -m tests.torture.fuzz csv --minutes 30

A find ends the run and is left in the folder `--corpus` as ``crash-...``; `read_one` reads it
again.  What counts as right is what `subjects` says; for model files the fuzzer writes headers,
which get a digest that is right, since it would never guess one, and likewise for manifests.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: What can be fuzzed: readers of data, and the loader of models.
READERS = ("xc", "svmlight", "tsv", "csv", "npz", "npz of CSR", "parquet", "manifest", "model")
#: Of an input, in bytes; seconds for one; and MB of memory for the process.
LONGEST, SLOWEST, MOST_MEMORY = 4_096, 20, 2_048


def read_one(reader: str, folder: Path) -> tuple[Callable[[bytes], str], list[bytes]]:
    """A function that reads an input and gives the verdict, and inputs to begin with."""
    from tests.torture.subjects import MODELS, subjects, with_right_digest

    by_name = {subject.name: subject for subject in subjects(folder)}
    if reader == "manifest":
        manifests = [s for name, s in by_name.items() if name.startswith("made-up manifest")]

        def open_folder(content: bytes) -> str:
            which = manifests[content[0] % len(manifests)] if content else manifests[0]
            return which.verdict(folder, with_right_digest(content[1:]))

        return open_folder, [bytes([i]) + s.content for i, s in enumerate(manifests)]
    if reader != "model":
        subject = by_name[reader]
        path = folder / f"fuzzed{subject.suffix}"

        def read(content: bytes) -> str:
            path.write_bytes(content)
            return subject.verdict(path, content)

        return read, [subject.content]
    models = [by_name[f"header {name}"] for name in MODELS]
    path = folder / f"fuzzed{models[0].suffix}"

    def load(content: bytes) -> str:
        which = models[content[0] % len(models)] if content else models[0]
        path.write_bytes(_with_header(which.content, content[1:].decode(errors="replace")))
        return which.verdict(path, content)

    seeds = [bytes([i]) + _header(model.content).encode() for i, model in enumerate(models)]
    return load, seeds


def _parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    import json

    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _header(content: bytes) -> str:
    from bigcat.files.opening import HEADER

    return str(_parts(content)[0]["__metadata__"][HEADER])


def _with_header(content: bytes, header: str) -> bytes:
    import json

    from bigcat.files.opening import HEADER, HEADER_DIGEST
    from bigcat.files.tensors import text_digest

    index, data = _parts(content)
    index["__metadata__"] = {HEADER: header, HEADER_DIGEST: text_digest(header)}
    head = json.dumps(index).encode()
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + data


def _import_all(*packages: str) -> None:
    for name in packages:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz a reader, guided by coverage.")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="folder of inputs to begin with, and to keep")
    arguments = parser.parse_args()
    try:
        import atheris
    except ImportError:
        sys.exit("fuzzing needs atheris: pip install atheris")
    _import_all("bigcat.kernels", "bigcat.bayes")  # what compiles must not be instrumented
    with atheris.instrument_imports(include=["bigcat"]):
        _import_all("bigcat.data", "bigcat.files")
    folder = Path(tempfile.mkdtemp(prefix="fuzz"))
    corpus = arguments.corpus or folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    read, seeds = read_one(arguments.reader, folder)
    for i, seed in enumerate(seeds):
        (corpus / f"seed-{i}").write_bytes(seed)
    options = [
        f"-max_total_time={round(60 * arguments.minutes)}",
        f"-max_len={max(LONGEST, *(2 * len(seed) for seed in seeds))}",
        f"-timeout={SLOWEST}",
        f"-rss_limit_mb={MOST_MEMORY}",
        f"-seed={arguments.seed}",
        f"-artifact_prefix={corpus}/",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
