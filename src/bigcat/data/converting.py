"""From data files to a folder of rows that are mapped to memory: once, in bounded memory.

The steps are in `bigcat.data.conversion`; here they are put in a row, and what comes of them takes
the place of what was there, whole or not at all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from joblib import Parallel, delayed

from bigcat.atomic import lock, sync_folder
from bigcat.data import vectorizers
from bigcat.data.conversion import CLASSES, Layout, Place, Task, gather, settle, write_blocks
from bigcat.data.dataset import DataError, check_columns, integers_or_strings
from bigcat.data.files import check_form, form_of_file, used_options
from bigcat.data.forms import FORMS
from bigcat.data.manifest import Manifest, Shard
from bigcat.data.parts import Part
from bigcat.data.shards import Shards, is_folder_of_rows
from bigcat.data.spill import Spilled, read_json, write_json
from bigcat.data.text import default_vectorizer
from bigcat.machine import available_cores, keep_freed_memory
from bigcat.storage import reserve

#: Bytes of rows in a shard, about.
SHARD_BYTES = 1 << 25
#: Below so many bytes of files one process is quicker than starting others.
FEW_BYTES = 1 << 25

_LOCK, _PREFIX = "lock", "rows-"


def convert(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    folder: str | PathLike[str],
    form: str | None = None,
    *,
    like: str | PathLike[str] | Shards | None = None,
    label: Literal["first", "single"] = "first",
    n_features: int | None = None,
    vectorizer: Any = None,
    zero_based: bool | Literal["auto"] = "auto",
    label_column: str | int | None = None,
    max_bytes: int | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    shard_bytes: int = SHARD_BYTES,
) -> Shards:
    r"""Turn data files into a folder of rows for fits that need not hold them in memory.

    The rows are put in random order.  A conversion that fails or is killed leaves the folder as it
    was: without rows, or with those of an earlier conversion, which another one replaces.

    Parameters
    ----------
    source : path or sequence of paths
        Files of one form, plain or gzipped: xc, svmlight, tsv, csv or Parquet (which needs
        ``bigcat[parquet]``).
    folder : path
        Made where there is none.  It takes about twice the bytes of the rows while the conversion
        runs.
    form : {"xc", "svmlight", "tsv", "csv", "parquet"}, optional
        Guessed as by `bigcat.data.read` unless given.
    like : path or Shards, optional
        A folder of training rows, whose columns these shall have: its number of features, its way
        to count them, its vectoriser.
    label, n_features, zero_based, label_column, max_bytes
        As in `bigcat.data.read`.  Parquet takes `label_column`, too; its other columns are numbers,
        or one column of texts.
    vectorizer : scikit-learn vectoriser, optional
        Of text.  A ``HashingVectorizer`` or a fitted one is used as it is.  For others, by default
        the tf-idf of `bigcat.data.read`, words are counted in the one pass.  Of more than two
        million different words the rarest are forgotten (``report["words_forgotten"]``).
    n_jobs : int, optional
        Processes; by default all cores, or one for small files.
    seed : int
        Of the random order.
    shard_bytes : int
        Bytes of rows in a shard, about.

    Returns
    -------
    Shards
        The folder, opened.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bigcat.data import convert
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "pets.txt").write_text("3 4 2\n1 0:1 3:0.5\n0,1 2:1\n 1:1\n")
    >>> convert(folder / "pets.txt", folder / "pets")
    Shards(2 rows, 4 features (1.5 per row), 2 classes, 1 shards)
    """
    alone = isinstance(source, str | PathLike)
    paths = [Path(source)] if alone else [Path(path) for path in source]  # type: ignore
    if not paths:
        raise ValueError("there is no file to convert")
    check_form(form)
    form = form or form_of_file(paths[0])
    options = {
        "label": (label, "first"),
        "zero_based": (zero_based, "auto"),
        "label_column": (label_column, None),
    }
    used = {"n_features": n_features, **used_options(form, paths[0], options)}
    if like is not None:
        like = like if isinstance(like, Shards) else Shards(like)
        used["n_features"] = like.shape[1] if n_features is None else n_features
        vectorizer = like.vectorizer if vectorizer is None else vectorizer
        if "label_column" in used and label_column is None:
            used["label_column"] = like.report.get("label_column")
        if "zero_based" in used:
            used["zero_based"] = like.report.get("zero_based", zero_based)
    reader = FORMS[form].parts_reader(**used)
    if reader.has_text(paths[0]):
        vectorizer = default_vectorizer() if vectorizer is None else vectorizer
        vectorizers.check(vectorizer)
    elif vectorizer is not None:
        raise ValueError(f"vectorizer= is for text, and {paths[0]} holds numbers")
    few = sum(path.stat().st_size for path in paths) < FEW_BYTES
    n_jobs = n_jobs or (1 if few else available_cores())
    with _new_arrays(Path(folder)) as arrays:
        packed = None if vectorizer is None else vectorizers.pack(vectorizer, arrays)
        task = Task(arrays, reader, packed, seed)
        conversion = _Conversion(task, form, n_jobs)
        if like is not None:
            conversion.names, conversion.named_by = like.manifest.column_names, like.folder
        manifest = conversion.run(paths, max_bytes, shard_bytes)
        _take_over(Path(folder), manifest)
    return Shards(folder)


class _Conversion:
    """The steps in a row, on some processes."""

    def __init__(self, task: Task, form: str, n_jobs: int) -> None:
        self.task, self.form, self.n_jobs = task, form, n_jobs
        self.report: dict[str, Any] = {"form": form}
        #: Names that columns shall have, in order, and what says so.
        self.names: list[str] | None = None
        self.named_by: Path | None = None

    def run(self, paths: list[Path], max_bytes: int | None, shard_bytes: int) -> Manifest:
        blocks = self.blocks(paths, max_bytes)
        if not any(block.n_rows for block in blocks):
            raise DataError(f"{paths[0]}: expected labelled rows, found none")
        classes = self.classes(blocks)
        first_column, n_features = self.columns(paths[0], blocks)
        value_bytes = 8 if blocks[0].width is None else 4
        n_bytes = sum(value_bytes * block.n_values + 8 * block.n_rows for block in blocks)
        n_shards = max(1, round(n_bytes / shard_bytes))
        blocks, shards = self.settled(blocks, n_shards)
        self.report |= {"rows": sum(shard.rows for shard in shards), "features": n_features}
        manifest = Manifest(
            arrays=self.task.folder.name,
            sparse=blocks[0].width is None,
            n_features=n_features,
            shards=shards,
            classes=classes,
            report={**self.report, "classes": len(classes)},
            column_names=self.names,
            vectorizer=self.task.vectorizer,
        )
        return self.gathered(blocks, manifest, first_column)

    def on_processes(self, function: Callable[..., Any], calls: Iterable[Any]) -> Iterator[Any]:
        """Results in order, as they come; only a few calls are made ahead."""
        pool = Parallel(self.n_jobs, return_as="generator", max_nbytes=None, batch_size=1)
        found: Iterator[Any] = pool(delayed(_run)(os.getpid(), function, *call) for call in calls)
        return found

    def blocks(self, paths: list[Path], max_bytes: int | None) -> list[Spilled]:
        """All parts of all files, written down."""
        reader, blocks = self.task.reader, []
        counts = {"multi_label_rows": 0, "rows_without_label": 0}
        n_parts = 0
        for path in paths:
            heads: list[Any] = []
            began = n_parts

            def calls(
                path: Path = path, heads: list[Any] = heads, began: int = began
            ) -> Iterator[tuple[Task, Part, int]]:
                for i, part in enumerate(reader.parts(path, max_bytes)):
                    heads[:] = [part.head]
                    yield self.task, part, began + i

            of_path: list[Spilled] = []
            for written in self.on_processes(write_blocks, calls()):
                of_path += written
                n_parts += 1
            blocks += of_path
            if not heads:
                continue
            found = reader.complete(path, heads[0], [block.facts for block in of_path])
            counts = {name: counts[name] + found[name] for name in counts}
            here = reader.column_names(heads[0])
            if self.names is not None and here is not None and self.names != here:
                named = f"expected {_some(self.names)} as in {self.named_by}, in this order"
                raise DataError(f"{path}: other columns: {named}, found {_some(here)}")
            if here is not None:
                self.names, self.named_by = here, path
                self.report["label_column"] = reader.label_name(heads[0])
        self.report |= counts
        return blocks

    def classes(self, blocks: list[Spilled]) -> list[Any]:
        """All labels in order; a file tells tasks which number each name has."""
        known: set[Any] = set()
        for block in blocks:
            known.update(read_json(block.names_path))
        spelled = sorted(known)
        labels = spelled
        if isinstance(spelled[0], str):
            labels = integers_or_strings(spelled).tolist()
            order = sorted(range(len(labels)), key=labels.__getitem__)
            spelled, labels = [spelled[i] for i in order], [labels[i] for i in order]
        write_json(self.task.folder / CLASSES, spelled)
        return labels

    def columns(self, path: Path, blocks: list[Spilled]) -> tuple[int, int]:
        """The number of the first column, and how many there are."""
        task = self.task
        if task.vectorizer is not None:
            vectorizer = vectorizers.unpack(task.vectorizer, task.folder)
            if not vectorizers.is_known(vectorizer):
                counts = vectorizers.WordCounts()
                for block in blocks:
                    counts.add(block.n_rows, *vectorizers.read_words(block.words_path))
                self.report["words_forgotten"] = counts.forgotten
                vectorizer = counts.fitted(vectorizer, path)
                packed = vectorizers.pack(vectorizer, task.folder)
                self.task = task._replace(vectorizer=packed)
            n_features = vectorizers.width(vectorizer)
            check_columns(path, n_features, task.reader.n_features)
            return 0, n_features
        widths = {block.facts["columns"] for block in blocks if block.n_rows}
        lowest = min(block.facts.get("lowest", 0) for block in blocks)
        first, n_features = task.reader.first_and_number(path, lowest, widths)
        if "zero_based" in FORMS[self.form].options:
            self.report["zero_based"] = first == 0
        return first, n_features

    def settled(self, blocks: list[Spilled], n_shards: int) -> tuple[list[Spilled], list[Shard]]:
        """Blocks with their numbers, and how large shards will be."""
        rows, values = np.zeros(n_shards, np.int64), np.zeros(n_shards, np.int64)
        settled: list[Spilled] = []
        calls = ((self.task, block, i, n_shards) for i, block in enumerate(blocks))
        of_block: Any
        for block, of_block in self.on_processes(settle, calls):
            settled.append(block)
            values += of_block
            rows += np.diff(np.fromfile(block.cuts_path, np.int64)).astype(np.int64)
        sizes = zip(rows.tolist(), values.tolist())
        return settled, [Shard(n, m, "") for n, m in sizes]

    def gathered(self, blocks: list[Spilled], manifest: Manifest, first_column: int) -> Manifest:
        """The arrays, on the disk, and digests of their shards."""
        folder = self.task.folder
        for name, (dtype, shape) in manifest.shapes().items():
            with open(folder / name, "wb") as file:
                reserve(file, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        layout = Layout(manifest.sparse, manifest.n_features, first_column, manifest.index_dtype)
        calls = ((self.task, blocks, layout, place) for place in _places(manifest.shards))
        shards = list(self.on_processes(gather, calls))
        for path in [*folder.glob("block-*"), folder / CLASSES]:
            path.unlink()
        return replace(manifest, shards=shards)


def _run(starter: int, function: Callable[..., Any], task: Task, *call: Any) -> Any:
    """A step, in the process that started it or in another one, which is ours."""
    if os.getpid() != starter and task.vectorizer is not None:
        keep_freed_memory()  # to have pages cleared anew took a fifth of the time of words
    return function(task, *call)


def _places(shards: list[Shard]) -> Iterator[Place]:
    row = value = 0
    for i, shard in enumerate(shards):
        yield Place(i, row, value, shard.rows, shard.values)
        row, value = row + shard.rows, value + shard.values


def _some(names: list[str] | None) -> str:
    return ", ".join([*(names or [])[:5], *["..."] * (len(names or []) > 5)])


@contextlib.contextmanager
def _new_arrays(folder: Path) -> Iterator[Path]:
    """A folder for arrays within `folder`, which is gone after a failure.

    It is locked while the conversion runs; what a killed one leaves nobody has locked, and the next
    one removes it.
    """
    if (
        folder.exists()
        and not is_folder_of_rows(folder)
        and any(not path.name.startswith((_PREFIX, ".")) for path in folder.iterdir())
    ):
        raise ValueError(
            f"{folder} holds other files; give a folder of its own, or one of converted rows"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _remove_others(folder)
    arrays, held = _locked_folder(folder)
    try:
        with held:
            yield arrays
    except BaseException:
        _remove(arrays)
        raise


def _locked_folder(folder: Path) -> tuple[Path, IO[bytes]]:
    while True:
        arrays = folder / f"{_PREFIX}{secrets.token_hex(4)}"
        arrays.mkdir()
        with contextlib.suppress(FileNotFoundError):  # somebody may take it for left behind
            held = open(arrays / _LOCK, "wb")  # noqa: SIM115
            lock(held, wait=True)
            if (arrays / _LOCK).exists():
                return arrays, held
            held.close()


def _take_over(folder: Path, manifest: Manifest) -> None:
    """Put the new rows in the place of those before, in one step."""
    arrays = folder / manifest.arrays
    for path in arrays.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
    sync_folder(arrays)
    manifest.write(folder)
    _remove_others(folder)


def _remove_others(folder: Path) -> None:
    """Remove arrays that the manifest does not name and nobody is writing."""
    named = None
    if is_folder_of_rows(folder):
        try:
            named = Manifest.read(folder).arrays
        except DataError:  # the new one takes its place; until then nothing is touched
            return
    for path in folder.glob(f"{_PREFIX}*"):
        if path.name == named:
            continue
        with contextlib.suppress(OSError):
            if not (path / _LOCK).exists():
                path.rmdir()  # killed before it was locked, or while it was removed
                continue
            with open(path / _LOCK, "r+b") as file:
                if lock(file, wait=False):
                    _remove(path)


def _remove(arrays: Path) -> None:
    """The lock goes last: a folder without it is empty."""
    with contextlib.suppress(OSError):
        for path in sorted(arrays.iterdir(), key=lambda path: path.name == _LOCK):
            path.unlink()
        arrays.rmdir()
