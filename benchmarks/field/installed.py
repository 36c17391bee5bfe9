"""Rows from Python's standard library and from installed packages.

Rows depend on the versions of Python and of the packages.  A problem is skipped where its package
is not installed.
"""

from __future__ import annotations

import ast
import functools
import html.entities
import importlib
import importlib.resources
import io
import re
import sys
import sysconfig
import tokenize
import unicodedata
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer

from benchmarks.field.dense import Rows
from benchmarks.field.itself import BY_RULE, LEFT_OUT
from benchmarks.field.problem import (
    Data,
    Problem,
    from_groups,
    from_one_pool,
    from_ordered,
    from_series,
    from_two_pools,
)
from benchmarks.field.sparse import csr
from bigcat.data import DataError

TEST_PART = 1 / 4
#: Every so many files of the standard library are parsed, and nodes are taken from fewer.
FILES_STEP, NODES_STEP = 2, 16
Read = Callable[[np.random.Generator], tuple[Any, np.ndarray]]


def of_pool(
    family: str, variant: str, read: Read, share: float = TEST_PART, split: Any = from_one_pool
) -> Problem:
    """Return a problem whose test rows are a share of all rows, by the function `split`."""

    def make(rng: np.random.Generator) -> Data:
        X, y = read(rng)
        return split(X, y, round(share * len(y)), rng)

    return Problem(family, variant, make)


def codes_of(names: Sequence[Any]) -> np.ndarray:
    """Return labels as whole numbers in the order of their names."""
    return np.unique(names, return_inverse=True)[1]


def import_optional(name: str) -> Any:
    """Import a package that may be missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DataError(f"{name} is not installed") from error


# The source of the standard library


class Source(NamedTuple):
    """Facts about the standard library's source: a list of tuples per kind of row."""

    raises: list[tuple[str, str]]  # message, exception
    calls: list[tuple[dict[str, int], str]]  # arguments, name of the function
    nodes: list[tuple[dict[str, int], str, int]]  # place in the tree, type, file
    shapes: list[tuple[Counter[str], str]]  # nodes of a function, module
    openings: list[tuple[str, str]]  # docstring after its first word, that word


def _files() -> list[Path]:
    folder = Path(sysconfig.get_path("stdlib"))
    files = sorted(folder.rglob("*.py"))
    return [path for path in files if not LEFT_OUT & set(path.relative_to(folder).parts)]


@functools.lru_cache(maxsize=1)
def _source() -> Source:
    folder = Path(sysconfig.get_path("stdlib"))
    found = Source([], [], [], [], [])
    for number, path in enumerate(_files()[::FILES_STEP]):
        tree = ast.parse(path.read_text(errors="replace"))
        module = path.relative_to(folder).parts[0].removesuffix(".py")
        if number % (NODES_STEP // FILES_STEP) == 0:
            found.nodes.extend((*row, number) for row in _nodes(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                found.raises.extend(_raised(node.exc))
            elif isinstance(node, ast.Call):
                found.calls.extend(_called(node))
            elif isinstance(node, ast.FunctionDef):
                counts = Counter(type(child).__name__ for child in ast.walk(node))
                found.shapes.append((counts, module))
                words = (ast.get_docstring(node) or "").split(maxsplit=1)
                if len(words) == 2:
                    found.openings.append((words[1], words[0]))
    return found


def _raised(call: ast.Call) -> Iterator[tuple[str, str]]:
    parts = [
        node.value
        for argument in call.args[:1]
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    if parts and isinstance(call.func, ast.Name):
        yield " ".join(parts), call.func.id


def _called(call: ast.Call) -> Iterator[tuple[dict[str, int], str]]:
    name = getattr(call.func, "attr", getattr(call.func, "id", None))
    if name is None:
        return
    features = {f"keyword {word.arg}": 1 for word in call.keywords}
    features[f"{len(call.args)} arguments"] = 1
    features[f"is {type(call.func).__name__}"] = 1
    for place, argument in enumerate(call.args[:4]):
        features[f"argument {place} is {type(argument).__name__}"] = 1
        if isinstance(argument, ast.Name):
            features[f"argument {place} is named {argument.id}"] = 1
    yield features, name


def _nodes(tree: ast.AST) -> Iterator[tuple[dict[str, int], str]]:
    """Yield parent, grandparent, field and previous node of each node with its type."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, above = waiting.pop()
        kind = type(node).__name__
        before = "first"
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST):
                    continue
                here = type(child).__name__
                place = (f"in {kind}", f"field {field}", f"below {above}", f"after {before}")
                yield dict.fromkeys(place, 1), here
                waiting.append((child, kind))
                before = here


def _chosen(rows: list[Any], n: int, rng: np.random.Generator) -> list[Any]:
    """Return `n` rows at random, in the order of the list."""
    return [rows[i] for i in np.sort(rng.permutation(len(rows))[:n])]


def _raised_messages(rng: np.random.Generator) -> Rows:
    messages, names = zip(*_source().raises)
    X = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+").fit_transform(messages)
    return X.tocsr(), codes_of(names)


def _callees(n: int) -> Read:
    def read(rng: np.random.Generator) -> Rows:
        features, names = zip(*_chosen(_source().calls, n, rng))
        return DictVectorizer(dtype=np.float32).fit_transform(features), codes_of(names)

    return read


def _function_shapes(n: int) -> Read:
    def read(rng: np.random.Generator) -> Rows:
        counts, modules = zip(*_chosen(_source().shapes, n, rng))
        return DictVectorizer(sparse=False).fit_transform(counts), codes_of(modules)

    return read


def _opening_words(rng: np.random.Generator) -> Rows:
    rest, words = zip(*_source().openings)
    return CountVectorizer(min_df=2).fit_transform(rest).astype(np.float32), codes_of(words)


def _syntax_nodes(rng: np.random.Generator) -> Data:
    nodes = _source().nodes
    rows = sorted(rng.permutation(len(nodes))[:30_000])
    features, names, files = zip(*(nodes[i] for i in rows))
    X = DictVectorizer(dtype=np.float32).fit_transform(features)
    return from_groups(X, codes_of(names), np.array(files), 4_000, rng)


def _python_tokens(rng: np.random.Generator, n: int = 16_000, before: int = 3) -> Data:
    """The next token from those before it, one-hot by place; test rows come later in the files."""
    words: list[str] = []
    for path in _files()[1::7]:
        text = io.StringIO(path.read_text(errors="replace"))
        for token in tokenize.generate_tokens(text.readline):
            if token.type == tokenize.NUMBER or token.type == tokenize.STRING:
                words.append(tokenize.tok_name[token.type])
            elif token.type not in (tokenize.COMMENT, tokenize.NL):
                words.append(token.string.strip() or tokenize.tok_name[token.type])
        if len(words) > n + before:
            break
    codes = codes_of(words[: n + before])
    size = int(codes.max()) + 1
    columns = np.stack([codes[k : k + n] + k * size for k in range(before)], axis=1)
    return from_series(csr(columns, before * size), codes[before : before + n], n // 8, rng)


# Names and tables of Python


def _letters(texts: list[str], longest: int = 3) -> Any:
    """Return counts of groups of one to so many letters."""
    vectorizer = CountVectorizer(analyzer="char", ngram_range=(1, longest), lowercase=False)
    return vectorizer.fit_transform(texts).astype(np.float32)


def _entities(rng: np.random.Generator) -> Rows:
    """Letters of the name of an HTML entity, and the category of its character."""
    names = sorted(name for name in html.entities.html5 if name.endswith(";"))
    characters = [html.entities.html5[name][0] for name in names]
    return _letters(names), codes_of([unicodedata.category(c) for c in characters])


def _scripts(n: int) -> Read:
    """Hashed letters of a character's name without its first word; the script; by code point."""

    def read(rng: np.random.Generator) -> Rows:
        script = import_optional("fontTools.unicodedata").script
        named = [(unicodedata.name(chr(code), ""), code) for code in range(sys.maxunicode)]
        kept = [(name, code) for name, code in named if " " in name]
        kept = [(name, code) for name, code in kept if not name.startswith(BY_RULE)]
        rows = _chosen(kept, n, rng)
        hashed = HashingVectorizer(analyzer="char", ngram_range=(2, 3), n_features=2**13)
        X = hashed.transform([name.split(" ", 1)[1] for name, _ in rows])
        return X.astype(np.float32), codes_of([script(chr(code)) for _, code in rows])

    return read


def _encoded_names(rng: np.random.Generator) -> Rows:
    """Counts of bytes of Cyrillic letters, of which some are frequent; the encoding."""
    letters = [chr(code) for code in range(0x410, 0x450)]
    frequencies = rng.dirichlet(np.full(len(letters), 0.7))
    words = ["".join(rng.choice(letters, 4 + rng.poisson(12), p=frequencies)) for _ in range(4_000)]
    names = ("cp1251", "koi8-r", "cp866", "iso8859-5", "mac-cyrillic", "utf-8", "utf-16-le")
    y = rng.integers(len(names), size=len(words))
    encoded = [list(word.encode(names[k])) for word, k in zip(words, y)]
    return np.stack([np.bincount(row, minlength=256) for row in encoded]).astype(np.uint8), y


def _zones() -> list[tuple[str, str]]:
    """Return coordinates and names of time zones."""
    table = importlib.resources.files(import_optional("tzdata")) / "zoneinfo" / "zone.tab"
    lines = [line.split("\t") for line in table.read_text().splitlines() if line[0] != "#"]
    return [(line[1], line[2]) for line in lines]


def _zone_places(rng: np.random.Generator) -> Rows:
    """Latitude and longitude in degrees; the region."""
    found = []
    for text, _ in _zones():
        degrees = re.fullmatch(r"([+-]\d\d)(\d\d)(?:\d\d)?([+-]\d{3})(\d\d)(?:\d\d)?", text)
        assert degrees is not None
        parts = [int(part) for part in degrees.groups()]
        signs = [-1.0 if degrees[k].startswith("-") else 1.0 for k in (1, 3)]
        found.append([parts[0] + signs[0] * parts[1] / 60, parts[2] + signs[1] * parts[3] / 60])
    return np.array(found), codes_of([name.split("/")[0] for _, name in _zones()])


def _zone_offsets(rng: np.random.Generator) -> Rows:
    """Hours from UTC at the beginning of each half of a year; the region."""
    times = [datetime(year, month, 1, tzinfo=UTC) for year in range(1925, 2025) for month in (1, 7)]
    X = np.empty((len(_zones()), len(times)))
    for row, (_, name) in zip(X, _zones()):
        zone = zoneinfo.ZoneInfo(name)
        offsets = [time.astimezone(zone).utcoffset() for time in times]
        row[:] = [offset.total_seconds() / 3_600 for offset in offsets if offset is not None]
    return X, codes_of([name.split("/")[0] for _, name in _zones()])


# Installed packages


def _php_functions(rng: np.random.Generator) -> Rows:
    """Letters of the name of a PHP function, and its module."""
    modules = import_optional("pygments.lexers._php_builtins").MODULES
    pairs = sorted({(name, module) for module, names in modules.items() for name in names})
    names, module_names = zip(*pairs)
    X = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5)).fit_transform(names)
    return X.tocsr(), codes_of(module_names)


_PARAMETER = re.compile(r"^( +)([a-z]\w*) : .*\n((?:\1 +.+\n)+)", re.MULTILINE)


def _parameters(package: str) -> Read:
    """Words of the description of a parameter, and the parameter's name."""

    def read(rng: np.random.Generator) -> Rows:
        folder = Path(import_optional(package).__file__).parent
        pairs = set()
        for path in sorted(folder.rglob("*.py")):
            if "tests" not in path.parts:
                found = _PARAMETER.findall(path.read_text(errors="replace"))
                pairs |= {(text, name) for _, name, text in found}
        texts, names = zip(*sorted(pairs))
        return CountVectorizer(min_df=2).fit_transform(texts).astype(np.float32), codes_of(names)

    return read


def _colour_names(rng: np.random.Generator) -> Rows:
    """Red, green and blue from 0 to 255, and the last word of a colour's name."""
    colours = sorted(import_optional("matplotlib.colors").XKCD_COLORS.items())
    y = codes_of([name.removeprefix("xkcd:").split()[-1] for name, _ in colours])
    return np.array([list(bytes.fromhex(code[1:])) for _, code in colours]), y


def _photographs(rng: np.random.Generator, n: int = 9_000, n_test: int = 2_000) -> Data:
    """Eight pixels around one of a photograph, whose brightness is the class; the test is below."""
    image = sklearn.datasets.load_sample_image("china.jpg").astype(np.int64)
    places = np.sort(rng.permutation(425 * 638)[: n + n_test])
    rows, columns = np.divmod(places, 638)
    around = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    X = np.hstack([image[rows + i, columns + j] for i, j in around]).astype(np.uint8)
    y = image[rows + 1, columns + 1].sum(axis=1) // 48
    return from_series(X, y, n_test, rng)


def _digit_sums(rng: np.random.Generator, n: int = 4_000, n_test: int = 2_000) -> Data:
    """Two pictures of digits side by side, and the sum; test pictures are others."""
    pictures, digits = sklearn.datasets.load_digits(return_X_y=True)
    order = rng.permutation(len(digits))
    pools: list[np.ndarray] = []
    for chosen, size in ((order[600:], n), (order[:600], n_test)):
        pairs = rng.choice(chosen, size=(size, 2))
        pools += [np.hstack([pictures[pairs[:, 0]], pictures[pairs[:, 1]]]), digits[pairs].sum(1)]
    X, y, X_test, y_test = pools
    return from_two_pools(X, y, X_test, y_test, rng)


def _survey(name: str, target: str, *left_out: str, most: float = np.inf) -> Read:
    """Columns of a data set of statsmodels as they are; classes are values of one, at most so."""

    def read(rng: np.random.Generator) -> Rows:
        table = getattr(import_optional("statsmodels.api").datasets, name).load_pandas().data
        X = table.drop(columns=[target, *left_out]).to_numpy(float)
        return X, codes_of(np.minimum(table[target].to_numpy(float), most))

    return read


def problems() -> list[Problem]:
    """Return all problems, with those of a family one after another."""
    return [
        of_pool("raised messages", "tf-idf", _raised_messages),
        of_pool("callees", "n=20000", _callees(20_000), 0.2),
        of_pool("function shapes", "n=4000", _function_shapes(4_000)),
        of_pool("opening words", "counts", _opening_words),
        Problem("syntax nodes", "other files", _syntax_nodes),
        Problem("python tokens", "three before", _python_tokens),
        of_pool("html entities", "letters", _entities),
        of_pool("scripts", "by code point", _scripts(12_000), split=from_ordered),
        of_pool("encodings", "bytes", _encoded_names),
        of_pool("time zones", "places", _zone_places),
        of_pool("time zones", "offsets", _zone_offsets),
        of_pool("php functions", "letters", _php_functions),
        of_pool("parameters", "sklearn", _parameters("sklearn")),
        of_pool("colour names", "red, green, blue", _colour_names),
        Problem("photographs", "brightness", _photographs),
        Problem("digit sums", "other pictures", _digit_sums),
        of_pool("party", "anes96", _survey("anes96", "PID", "vote", "selfLR")),
        of_pool("marriages", "fair", _survey("fair", "rate_marriage")),
        of_pool(
            "doctor visits", "by person", _survey("randhie", "mdvis", most=12), 0.2, from_series
        ),
    ]
