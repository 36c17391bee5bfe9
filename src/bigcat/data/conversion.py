"""Conversion of data files to a folder of rows mapped to memory, with bounded memory.

1. A file is cut into pieces.  Any process parses one and saves its rows in random order.
2. When all parts are there, classes and words are known.  Counts of words become features.
3. A shard takes a slice of each part, in random order, and is appended to the arrays.

So neighbours in a shard come from all over the files, and a fit may visit shard after shard.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed

from bigcat._io.atomic import lock, sync_folder
from bigcat._system import available_cores
from bigcat.data.dataset import DataError, check_columns
from bigcat.data.files import check_form, check_options, form_of_file, given_options, stacked
from bigcat.data.forms import FORMS
from bigcat.data.opening import opened
from bigcat.data.reading import COUNTED, Facts, Labels, Reader, total
from bigcat.data.shards import INDEX, Index, Shards, shard_digest

#: Default bytes of rows in a shard.
SHARD_BYTES = 1 << 25
#: Below this many bytes of files, one process is faster than starting others.
MIN_PARALLEL_BYTES = 1 << 25

_LOCK, _PREFIX, _PARTS = "lock", "rows-", "parts"


def convert(
    source: str | PathLike[str] | Sequence[str | PathLike[str]],
    folder: str | PathLike[str],
    form: str | None = None,
    *,
    like: str | PathLike[str] | Shards | None = None,
    n_features: int | None = None,
    vectorizer: Any = None,
    zero_based: bool | Literal["auto"] = "auto",
    label_column: str | int | None = None,
    text_columns: Sequence[str] = (),
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
        Files of one form, plain or gzipped: xc, svmlight, tsv, csv or Parquet (which need
        ``bigcat[tables]``).
    folder : path
        Made if it does not exist.  It takes about twice the bytes of the rows while the conversion
        runs.
    form : {"xc", "svmlight", "tsv", "csv", "parquet"}, optional
        Guessed as by `bigcat.data.read` unless given.
    like : path or Shards, optional
        Folder of training rows; the new rows get its number of features, its way to count them and
        its vectoriser.
    n_features, zero_based, label_column, max_bytes
        As in `bigcat.data.read`.
    text_columns : sequence of str
        csv and Parquet: the one column of text, in a table that has no others beside the labels.
    vectorizer : scikit-learn vectoriser, optional
        Vectoriser of text.  A ``HashingVectorizer`` or a fitted one is used as it is.  For others,
        by default the tf-idf of `bigcat.data.read`, words are counted in the one pass.  Of more
        than two million different words the rarest are forgotten (``report["words_forgotten"]``).
    n_jobs : int, optional
        Processes; by default all cores, or one for small files.
    seed : int
        Seed of the random order.
    shard_bytes : int
        Approximate bytes of rows in a shard.

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
    paths = [Path(source)] if isinstance(source, str | PathLike) else [Path(p) for p in source]
    if not paths:
        raise ValueError("there is no file to convert")
    check_form(form)
    form = form or form_of_file(paths[0])
    if not FORMS[form].in_parts:
        able = ", ".join(other.name for other in FORMS.values() if other.in_parts)
        raise ValueError(f"files of the form {form} cannot be converted, but {able} can")
    options = given_options(
        {
            "zero_based": (zero_based, "auto"),
            "label_column": (label_column, None),
            "text_columns": (text_columns, ()),
        }
    )
    check_options(form, paths[0], options)
    if like is not None:
        like = like if isinstance(like, Shards) else Shards(like)
        n_features = like.shape[1] if n_features is None else n_features
        vectorizer = like.vectorizer if vectorizer is None else vectorizer
        for name in ("zero_based", "label_column"):
            if name in FORMS[form].options and name in like.report:
                options.setdefault(name, like.report[name])
    if FORMS[form].is_table:
        options["in_parts"] = True
    readers = [FORMS[form].open_reader(p, n_features=n_features, **options) for p in paths]
    if readers[0].is_text:
        from bigcat.data.text import default_vectorizer
        from bigcat.data.vectorizers import check_vectorizer

        vectorizer = default_vectorizer() if vectorizer is None else vectorizer
        check_vectorizer(vectorizer)
    elif vectorizer is not None:
        raise ValueError(f"vectorizer= is for text, and {paths[0]} holds numbers")
    few = sum(path.stat().st_size for path in paths) < MIN_PARALLEL_BYTES
    n_jobs = n_jobs or (1 if few else available_cores())
    with _new_arrays(Path(folder)) as arrays:
        (arrays / _PARTS).mkdir()
        conversion = _Conversion(arrays, readers, vectorizer, n_jobs, seed)
        index = conversion.run(form, like, max_bytes, shard_bytes)
        shutil.rmtree(arrays / _PARTS)
        sync_folder(arrays)
        index.write(Path(folder))
        return Shards(folder)


@dataclass(frozen=True)
class _SavedRows:
    """Rows of a piece, saved as arrays."""

    path: Path  # the beginning of the files' names
    n_rows: int
    n_values: int
    names: list[Any]
    facts: Facts

    def load(self, name: str) -> np.ndarray:
        found: np.ndarray = np.load(
            f"{self.path}.{name}.npy", mmap_mode="r" if self.n_values else None
        )
        return found

    @property
    def is_sparse(self) -> bool:
        return Path(f"{self.path}.indptr.npy").exists()

    def words(self) -> list[str]:
        """Return the words of a part whose rows are counts of them."""
        return json.loads(Path(f"{self.path}.words.json").read_text())  # type: ignore[no-any-return]

    def rows(self, first: int, last: int, n_columns: int) -> Any:
        """Return a slice of the rows."""
        if not self.is_sparse:
            return self.load("values")[first:last]
        ends = np.array(self.load("indptr")[first : last + 1])
        begin, end = ends[0], ends[-1]
        parts = (self.load("values")[begin:end], self.load("indices")[begin:end], ends - begin)
        return sp.csr_matrix(parts, shape=(last - first, n_columns))


def _save_rows(path: Path, X: Any) -> int:
    """Save rows, and return how many values they have."""
    if not sp.issparse(X):
        np.save(f"{path}.values.npy", X)
        return X.size  # type: ignore[no-any-return]
    X = sp.csr_matrix(X, dtype=np.float32)
    X.sum_duplicates()
    for name in ("indptr", "indices"):
        np.save(f"{path}.{name}.npy", getattr(X, name))
    np.save(f"{path}.values.npy", X.data)
    return X.nnz  # type: ignore[no-any-return]


def _save_part(
    folder: Path, reader: Reader, vectorizer: Any, seed: int, number: int, piece: Any
) -> _SavedRows:
    """Parse a piece and save its rows in random order; words are counted, or features at once."""
    chunk = reader.parse(piece)
    order = np.random.default_rng([seed, 0, number]).permutation(len(chunk.codes))
    path, X = folder / f"{number:06d}", chunk.X
    if vectorizer is None:
        X = X[order]
    else:
        from bigcat.data.text import is_fitted
        from bigcat.data.vectorizers import counter_of

        texts = [X[i] for i in order]
        if is_fitted(vectorizer):
            X = vectorizer.transform(texts) if texts else sp.csr_matrix((0, 0))
        else:
            X, words = _counted(counter_of(vectorizer), texts)
            Path(f"{path}.words.json").write_text(json.dumps(words))
    np.save(f"{path}.codes.npy", chunk.codes[order])
    return _SavedRows(path, X.shape[0], _save_rows(path, X), chunk.names, chunk.facts)


def _counted(counter: Any, texts: list[str]) -> tuple[Any, list[str]]:
    """Return counts of words, and the words, of which scikit-learn demands some."""
    analyze = counter.build_analyzer()
    if not any(analyze(text) for text in texts):
        return sp.csr_matrix((len(texts), 0), dtype=np.float32), []
    return counter.fit_transform(texts), counter.get_feature_names_out().tolist()


def _weigh_part(vectorizer: Any, part: _SavedRows) -> _SavedRows:
    """Turn counts of words into features."""
    from bigcat.data.vectorizers import weigh

    words = part.words()
    X = weigh(vectorizer, part.rows(0, part.n_rows, len(words)), words)
    return replace(part, n_values=_save_rows(part.path, X))


class _Conversion:
    """Steps of a conversion, on some processes."""

    def __init__(
        self, arrays: Path, readers: list[Reader], vectorizer: Any, n_jobs: int, seed: int
    ) -> None:
        self.arrays, self.readers, self.vectorizer = arrays, readers, vectorizer
        self.n_jobs, self.seed = n_jobs, seed
        self.report: dict[str, Any] = {}
        self.labels = Labels(readers[0])
        #: Names of the columns of a table.
        self.names: list[str] | None = None

    def run(self, form: str, like: Shards | None, max_bytes: int | None, shard_bytes: int) -> Index:
        self.names = None if like is None else like.index.column_names
        parts, (first, n_features) = self.parts(max_bytes)
        values = self.labels.values()
        settings = None
        if self.vectorizer is not None:
            parts = self.features(parts)
            from bigcat.data.vectorizers import n_features_of, save_vectorizer

            n_features, settings = (
                n_features_of(self.vectorizer),
                save_vectorizer(self.vectorizer, self.arrays),
            )
            check_columns(self.readers[0].path, n_features, self.readers[0].n_features)
        n_rows, n_values = (sum(sizes) for sizes in zip(*((p.n_rows, p.n_values) for p in parts)))
        sparse = parts[0].is_sparse
        n_shards = round(((8 if sparse else 4) * n_values + 8 * n_rows) / shard_bytes)
        order = np.argsort(values)
        counts = {"rows": n_rows, "features": n_features, "classes": len(values)}
        index = Index(
            arrays=self.arrays.name,
            n_features=n_features,
            sparse=sparse,
            rows=[n_rows],
            values=[n_values],
            digests=[""],
            classes=values[order].tolist(),
            report={"form": form, **self.report, **counts},
            column_names=self.names,
            vectorizer=settings,
        )
        rank = np.argsort(order)
        shards = self.shards(parts, n_features, first, max(1, min(n_rows, n_shards)))
        return write_shards(self.arrays, index, ((X, rank[codes]) for X, codes in shards))

    def on_processes(self, function: Callable[..., Any], calls: Iterable[Any]) -> Iterator[Any]:
        """Yield results in order, as they come; only a few calls are made ahead."""
        pool = Parallel(self.n_jobs, return_as="generator", max_nbytes=None, batch_size=1)
        found: Iterator[Any] = pool(delayed(function)(*call) for call in calls)
        return found

    def parts(self, max_bytes: int | None) -> tuple[list[_SavedRows], tuple[int, int]]:
        """Save all pieces of all files; return the parts, the first column and their number."""
        parts: list[_SavedRows] = []
        facts, reports, widths = [], [], set()
        for reader in self.readers:
            folder = self.arrays / _PARTS
            save = partial(_save_part, folder, reader, self.vectorizer, self.seed)
            with opened(reader.path, max_bytes=max_bytes) as file:
                pieces = reader.pieces(file, max_bytes)
                calls = enumerate(pieces, len(parts))
                found = [self._numbered(part) for part in self.on_processes(save, calls)]
            if not found:
                continue
            parts += found
            facts.append(total(part.facts for part in found))
            reports.append(reader.report(facts[-1]))
            if not reader.is_text:
                widths.add(reader.columns(facts[-1])[1])
                self._check_names(reader)
        kept = [part for part in parts if part.n_rows]
        if not kept:
            raise DataError(f"{self.readers[0].path}: expected labelled rows, found none")
        last, whole = self.readers[-1], total(facts)
        if last.states_columns and len(widths) > 1:
            raise DataError(
                f"{last.path}: expected as many columns in all files, found {sorted(widths)}"
            )
        counts = {name: sum(report[name] for report in reports) for name in COUNTED}
        self.report = last.report(whole) | counts
        return kept, (0, 0) if last.is_text else last.columns(whole)

    def _numbered(self, part: _SavedRows) -> _SavedRows:
        """Give labels their codes among those of all parts."""
        np.save(f"{part.path}.codes.npy", self.labels.codes(part.load("codes"), part.names))
        return replace(part, names=[])

    def _check_names(self, reader: Reader) -> None:
        here = getattr(reader, "features", None)
        if self.names is not None and here is not None and here != self.names:
            raise DataError(
                f"{reader.path}: expected the columns {', '.join(self.names[:5])} of the other "
                f"rows, in this order, found {', '.join(here[:5])}"
            )
        self.names = here

    def features(self, parts: list[_SavedRows]) -> list[_SavedRows]:
        """Turn counts of words into features, if the vectoriser had to wait for all words."""
        from bigcat.data.text import is_fitted
        from bigcat.data.vectorizers import WordCounts

        if is_fitted(self.vectorizer):
            return parts
        counts = WordCounts()
        for part in parts:
            words = part.words()
            X = part.rows(0, part.n_rows, len(words))
            rows = np.bincount(X.indices, minlength=len(words))
            times = np.bincount(X.indices, X.data, minlength=len(words))
            counts.add(part.n_rows, words, rows, times)
        self.report["words_forgotten"] = counts.forgotten
        self.vectorizer = counts.fitted(self.vectorizer, self.readers[0].path)
        weigh = partial(_weigh_part, self.vectorizer)
        return list(self.on_processes(weigh, ((part,) for part in parts)))

    def shards(
        self, parts: list[_SavedRows], n_columns: int, first: int, n_shards: int
    ) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield rows and codes of shard after shard, each a slice of every part."""
        cuts = [np.linspace(0, part.n_rows, n_shards + 1).astype(np.int64) for part in parts]
        for shard in range(n_shards):
            slices = [(p, *cut[shard : shard + 2].tolist()) for p, cut in zip(parts, cuts)]
            X = stacked([part.rows(a, b, first + n_columns) for part, a, b in slices])
            codes = np.concatenate([part.load("codes")[a:b] for part, a, b in slices])
            order = np.random.default_rng([self.seed, 1, shard]).permutation(len(codes))
            X = X[order]
            if first:
                X = sp.csr_matrix((X.data, X.indices - first, X.indptr), (len(codes), n_columns))
            yield X, codes[order]


def write_shards(arrays: Path, index: Index, shards: Iterable[tuple[Any, np.ndarray]]) -> Index:
    """Append rows and their labels' places to arrays; return the index with their shards.

    `index` says how many rows there are, as one shard.
    """
    rows, values, digests = [0], [0], []
    with contextlib.ExitStack() as stack:
        files = {}
        for name, (dtype, shape) in index.shapes.items():
            files[name] = stack.enter_context(open(arrays / f"{name}.npy", "wb"))
            head = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(files[name], head)
        if index.sparse:
            files["indptr"].write(np.zeros(1, index.index_dtype).data)
        for X, labels in shards:
            parts = {"labels": labels.astype(np.int32), "values": X}
            if index.sparse:
                ends = (values[-1] + X.indptr.astype(np.int64)).astype(index.index_dtype)
                indices = X.indices.astype(index.index_dtype, copy=False)
                parts |= {"indptr": ends[1:], "indices": indices, "values": X.data}
                digested = [parts["labels"], np.diff(ends), indices, X.data]
            else:
                digested = list(parts.values())
            for name, array in parts.items():
                files[name].write(np.ascontiguousarray(array).data)
            rows.append(rows[-1] + len(labels))
            values.append(values[-1] + (X.nnz if index.sparse else X.size))
            digests.append(shard_digest(digested))
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return replace(index, rows=rows[1:], values=values[1:], digests=digests)


@contextlib.contextmanager
def _new_arrays(folder: Path) -> Iterator[Path]:
    """Yield a new folder for arrays within `folder`, which is removed after a failure.

    One conversion writes to a folder at a time.  It removes arrays of others that were killed, and
    at its end those that its own replaced.
    """
    others = list(folder.iterdir()) if folder.exists() else []
    if not (folder / INDEX).is_file() and any(
        path.name != _LOCK and not path.name.startswith((_PREFIX, ".")) for path in others
    ):
        raise ValueError(
            f"{folder} holds other files; give a folder of its own, or one of converted rows"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / _LOCK, "wb") as file:
        if not lock(file, wait=False) and os.name == "posix":
            raise ValueError(
                f"{folder}: another conversion writes to it; wait for its end, or give another "
                "folder"
            )
        _remove_unused(folder)
        arrays = folder / f"{_PREFIX}{secrets.token_hex(4)}"
        arrays.mkdir()
        try:
            yield arrays
        except BaseException:
            shutil.rmtree(arrays, ignore_errors=True)
            raise
        _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove arrays that the index does not name; those of a damaged index stay."""
    named = None
    if (folder / INDEX).is_file():
        try:
            named = Index.read(folder).arrays
        except DataError:
            return
    for path in folder.glob(f"{_PREFIX}*"):
        if path.name != named:
            shutil.rmtree(path, ignore_errors=True)
