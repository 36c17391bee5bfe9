"""The Python standard library's own source as a next-identifier task: nothing to download."""

from __future__ import annotations

import hashlib
import keyword
import re
import sys
import sysconfig
import tokenize
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bigcat.data.dataset import DataError, Dataset, Split, make_dataset

# A scanner in one expression, some ten times faster than the tokenize module. It never fails: a
# quote without its partner is a token like any other character.
_TOKEN = re.compile(
    r"""
      (?P<blank> [ \t\f\r]+ | \\\n )
    | (?P<comment> \#[^\n]* )
    | (?P<string> (?i:[rbuf]{0,2}) (?:
            \"\"\" (?: [^\\] | \\. )*? \"\"\"
          | ''' (?: [^\\] | \\. )*? '''
          | " (?: [^"\\\n] | \\. )* "
          | ' (?: [^'\\\n] | \\. )* ' ) )
    | (?P<number> \.?\d (?: [eE][+-] | [\w.] )* )
    | (?P<newline> \n\s* )
    | (?P<word> \w+ )
    | (?P<sign> \*\*=? | //=? | >>=? | <<=? | \.\.\. | -> | := | [-+*/%&|^=<>!@]= | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_START, _OTHER = "<start>", "<other>"
_TEST_EVERY = 10


def stdlib_corpus(
    max_rows: int | None = 800_000,
    *,
    n_previous: int = 4,
    max_features: int = 10_000,
    min_count: int = 5,
    min_classes: int = 10_001,
    source: str | PathLike[str] | None = None,
) -> Split:
    """Predict each identifier of the standard library's source from the tokens before it.

    Every identifier (a name that is no keyword) is a row. Its features are the `n_previous` tokens
    before it, one-hot by position, each with weight ``1/sqrt(n_previous)``, so that rows have unit
    length; strings, numbers, comments and line ends count as one token each. A token that is not
    among the `max_features` most frequent pairs of position and token becomes that position's
    ``<other>``. Files are split by a hash of their relative path, about one in ten being test:
    the same Python version gives the same rows everywhere.

    Parameters
    ----------
    max_rows : int or None
        Stop after the file that brings the training identifiers to this number, and cut there.
        Files come in the order of their hash, so that this is a fair sample.
    n_previous : int
        Tokens before the identifier.
    max_features : int
        Columns at most. A dense model takes ``4 * max_features * classes`` bytes.
    min_count : int
        Classes are the identifiers that are seen this often in training. Other rows are dropped
        and counted.
    min_classes : int
        Raise rather than return fewer classes.
    source : path, optional
        Another folder of Python source, all of it taken.

    Returns
    -------
    Split
        ``groups`` of both parts are the files that rows come from.  ``report`` has ``files``,
        ``files_unreadable``, ``classes``, ``features``, ``feature_names`` (a tuple (position,
        token) a column; position 1 is the token just before) and the rows kept and dropped of both
        parts.

    Examples
    --------
    >>> from bigcat.data import stdlib_corpus
    >>> split = stdlib_corpus(max_rows=20_000, min_classes=100)
    >>> set(split.test.y) <= set(split.train.y)
    True
    """
    for name, value in (
        ("max_rows", max_rows),
        ("n_previous", n_previous),
        ("min_count", min_count),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if max_features < 2 * n_previous:
        raise ValueError(
            f"max_features must be at least 2 * n_previous = {2 * n_previous}, got {max_features}"
        )
    root, files = (Path(source), _all_files(Path(source))) if source else _stdlib_files()
    parts, tokens, files_read, unreadable = _read_contexts(root, files, n_previous, max_rows)

    train = parts["train"]
    counts = np.bincount(train[:, 0], minlength=len(tokens))
    classes = np.flatnonzero(counts >= min_count)
    if len(classes) < min_classes:
        raise DataError(
            f"{root}: expected {min_classes:,} identifiers seen at least {min_count} times, found "
            f"{len(classes):,} in {len(train):,} training rows of {files_read:,} files "
            f"({len(files):,} there); raise max_rows, or lower min_classes. Some distributions "
            "leave the standard library's tests out, and with them half of its text"
        )
    class_of = np.full(len(tokens), -1)
    class_of[classes] = np.arange(len(classes))
    names = np.array([tokens[code] for code in classes])
    kept = {part: contexts[class_of[contexts[:, 0]] >= 0] for part, contexts in parts.items()}
    columns, feature_names = _choose_features(kept["train"][:, 1:-1], tokens, max_features)

    def dataset(part: str) -> Dataset:
        target, before, file = kept[part][:, 0], kept[part][:, 1:-1], kept[part][:, -1]
        X = _one_hot(columns, before, len(feature_names))
        dropped = len(parts[part]) - len(target)
        found = make_dataset(X, names[class_of[target]], "corpus", rows_of_unseen_classes=dropped)
        return replace(found, groups=file)

    split = Split(dataset("train"), dataset("test"))
    split.report.update(
        name="stdlib_corpus",
        files=files_read,
        files_unreadable=unreadable,
        classes=len(classes),
        features=len(feature_names),
        feature_names=feature_names,
        rows_train=len(split.train),
        rows_test=len(split.test),
        rows_train_dropped=split.train.report["rows_of_unseen_classes"],
        rows_test_dropped=split.test.report["rows_of_unseen_classes"],
    )
    return split


def scan(text: str) -> list[str]:
    """Return the tokens of Python source; literals, comments and line ends by their type.

    Examples
    --------
    >>> from bigcat.data.corpus import scan
    >>> scan("x = f(1.5e-3, 'a')  # why")
    ['x', '=', 'f', '(', '<number>', ',', '<string>', ')', '<comment>']
    """
    tokens = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "word" or kind == "sign":
            tokens.append(match.group())
        elif kind != "blank":
            tokens.append(f"<{kind}>")
    return tokens


def _all_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*.py") if path.is_file()]


def _stdlib_files() -> tuple[Path, list[Path]]:
    """Return the folder and its files that belong to CPython, without installed packages."""
    root = Path(sysconfig.get_path("stdlib"))
    shipped = sys.stdlib_module_names | {"test"}
    tops = (top for top in root.iterdir() if top.name.removesuffix(".py") in shipped)
    files: list[Path] = []
    for top in tops:
        files += _all_files(top) if top.is_dir() else [top] * (top.suffix == ".py")
    return root, files


def _read_contexts(
    root: Path, files: list[Path], n_previous: int, max_rows: int | None
) -> tuple[dict[str, np.ndarray], list[str], int, int]:
    """Return for each part rows of (identifier, token before, the one before it, ..., file)."""
    code: dict[str, int] = {_START: 0}
    is_identifier = [False]
    found: dict[str, list[np.ndarray]] = {"train": [], "test": []}
    n_train = n_files = unreadable = 0

    def digest(path: Path) -> bytes:
        return hashlib.sha256(path.relative_to(root).as_posix().encode()).digest()

    for key, path in sorted((digest(path), path) for path in files):
        if max_rows is not None and n_train >= max_rows:
            break
        try:
            with tokenize.open(path) as file:  # minds the coding line
                tokens = scan(file.read())
        except (SyntaxError, UnicodeDecodeError, OSError):
            unreadable += 1
            continue
        n_files += 1
        for token in dict.fromkeys(tokens):
            if token not in code:
                code[token] = len(code)
                is_identifier.append(token.isidentifier() and not keyword.iskeyword(token))
        codes = np.zeros(n_previous + len(tokens), np.int32)  # 0 is _START
        codes[n_previous:] = [code[token] for token in tokens]
        at = n_previous + np.flatnonzero(np.array(is_identifier)[codes[n_previous:]])
        contexts = codes[at[:, None] - np.arange(n_previous + 1)]
        contexts = np.column_stack([contexts, np.full(len(at), n_files, np.int32)])
        if key[-1] % _TEST_EVERY == 0:
            found["test"].append(contexts)
        else:
            found["train"].append(contexts)
            n_train += len(contexts)
    empty = np.empty((0, n_previous + 2), np.int32)
    parts = {part: np.concatenate([empty, *arrays]) for part, arrays in found.items()}
    parts["train"] = parts["train"][:max_rows]
    return parts, list(code), n_files, unreadable


def _choose_features(
    before: np.ndarray, tokens: list[str], max_features: int
) -> tuple[np.ndarray, list[tuple[int, str]]]:
    """Return the column of each (position, token), and the meaning of the columns.

    One column a position is for the tokens that have none of their own.
    """
    n_previous = before.shape[1]
    counts = np.stack(
        [np.bincount(before[:, p], minlength=len(tokens)) for p in range(n_previous)]
    ).ravel()
    frequent = np.argsort(-counts, kind="stable")[: max_features - n_previous]
    chosen = np.sort(frequent[counts[frequent] > 1])  # by position, so that rows are in order
    positions, codes = np.divmod(chosen, len(tokens))
    columns = np.empty((n_previous, len(tokens)), np.int32)
    names: list[tuple[int, str]] = []
    for p in range(n_previous):
        columns[p] = len(names)
        names.append((p + 1, _OTHER))
        here = codes[positions == p]
        columns[p, here] = len(names) + np.arange(len(here))
        names += [(p + 1, tokens[c]) for c in here]
    return columns, names


def _one_hot(columns: np.ndarray, before: np.ndarray, n_features: int) -> Any:
    n, n_previous = before.shape
    indices = columns[np.arange(n_previous), before]
    values = np.full(indices.size, n_previous**-0.5, np.float32)
    indptr = np.arange(0, indices.size + 1, n_previous, dtype=np.int32)
    X = sp.csr_matrix((values, indices.ravel(), indptr), shape=(n, n_features))
    X.has_canonical_format = True
    return X
