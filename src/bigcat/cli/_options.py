"""The options of all commands, and checks of their values that need no import.

An option is described once; commands name those that they take.  Its destination is the parameter
of the library, so that a message about ``max_epochs`` is one about ``--max-epochs``.
"""

from __future__ import annotations

import argparse
import csv
import errno
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bigcat.data.forms import FORMS

#: Names that the library knows; a test compares them with its tables, which are slow to import.
NOISES = ("gumbel", "gaussian", "logistic")
METHODS = (
    "augment-reduce",
    "one-vs-each",
    "implicit",
    "umax",
    "vanilla",
    "raman",
    "nce",
    "importance",
    "complementary",
    "bouchard",
    "exact",
)
#: Methods of `BayesianClassifier`, and which of the options below belong to them.
POSTERIORS = {
    "laplace": ("noise", "covariance", "n_draws", "rank"),
    "independent-binary": ("covariance", "max_epochs", "n_draws"),
    "augment-reduce": ("noise", "max_epochs", "validation_fraction", "n_draws"),
}

Option = tuple[tuple[str, ...], dict[str, Any]]

STDIN = "-"
INDEX = "index.json"  # as in bigcat.data.shards, which is slow to import
FULL_RANK = "none"  # since None is an option that was not given


def whole(least: int) -> Callable[[str], int]:
    """Return a type of options: a whole number of at least `least`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return value

    return parse


def number(
    low: float, high: float = math.inf, *, closed: bool = False, words: tuple[str, ...] = ()
) -> Callable[[str], float | str]:
    """Return a type of options: a number above `low` (or equal) and below `high`, or a word."""

    def parse(text: str) -> float | str:
        if text in words:
            return text
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (low < value < high or (closed and value == low)):
            bounds = f"of at least {low:g}" if closed else f"above {low:g}"
            bounds += f" and below {high:g}" if high < math.inf else ""
            others = "".join(f", nor {word}" for word in words)
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {bounds}{others}")
        return value

    return parse


def _rank(text: str) -> int | str:
    return text if text in ("auto", FULL_RANK) else whole(1)(text)


def _names(text: str) -> list[str]:
    """Split at commas that are not in quotes."""
    return [name.strip() for name in next(csv.reader([text]))]


def _ngrams(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not low.isdigit() or not (high or low).isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a range such as 1-2")
    found = int(low), int(high or low)
    if not 1 <= found[0] <= found[1] <= 20:  # as in bigcat.data.vectorizers
        raise argparse.ArgumentTypeError(f"{text!r} is not a rising range within 1 to 20")
    return found


def _option(flags: str, text: str, parse: Any = None, **more: Any) -> tuple[str, Option]:
    """Return an option: its flags, of which the first names a parameter, and its description."""
    names = tuple(flags.split())
    described = {"help": text, **({"type": parse, "metavar": "N"} if parse else {}), **more}
    return names[0][2:].replace("-", "_"), (names, described)


_SWITCH = {"action": "store_true"}
_DIR, _NAME = {"metavar": "DIR"}, {"metavar": "NAME"}

#: Flags and description of each option, by its destination.
OPTIONS: dict[str, Option] = dict(
    [
        # Data
        _option(
            "--form",
            "form of the data files; by default told from names or first lines",
            choices=FORMS,
        ),
        _option("--label-column", "tables: the column with the labels (default: label)", **_NAME),
        _option(
            "--max-bytes",
            "bytes to which a file may unpack (default: 100 times its size, at least 256 MiB)",
            whole(1),
        ),
        _option(
            "--n-features --features",
            "svmlight: number of features, if the file lacks the last ones",
            whole(1),
        ),
        _option("--analyzer", "text: words or characters", choices=("word", "char", "char_wb")),
        _option("--ngram-range --ngrams", "text: such as 1-2", _ngrams, metavar="LOW-HIGH"),
        _option("--min-df", "text: rows that a feature has to occur in", whole(1)),
        _option(
            "--categorical",
            "tables: columns of which each value becomes a feature",
            _names,
            action="extend",
            metavar="NAME[,NAME]",
        ),
        _option(
            "--text-columns --text-column",
            "tables: a column whose words become features; may be repeated",
            action="append",
            **_NAME,
        ),
        _option(
            "--group-column",
            "tables: rows with one value here, such as one person's, are held out together",
            **_NAME,
        ),
        _option(
            "--no-labels",
            "DATA has no labels: texts or index:value pairs alone, no label column, no y",
            **_SWITCH,
        ),
        # The model
        _option("--noise", "softmax, probit, or logistic errors", choices=NOISES),
        _option(
            "--method",
            f"a name that `bigcat methods` lists; with --bayesian {', '.join(POSTERIORS)}",
            choices=("auto", *dict.fromkeys((*METHODS, *POSTERIORS))),
            **_NAME,
        ),
        _option(
            "--effort",
            "how many models are fitted and stacked, and how long (default balanced)",
            choices=("quick", "balanced", "best"),
        ),
        _option(
            "--rank",
            "length of the vectors of classes and features, none, or auto (default)",
            _rank,
        ),
        _option(
            "--l2",
            "ridge: a number, auto or path",
            number(0.0, closed=True, words=("auto", "path")),
            metavar="X",
        ),
        # The posterior
        _option("--bayesian", "fit a BayesianClassifier", **_SWITCH),
        _option(
            "--covariance",
            "how much of the posterior is kept; independent-binary: full or diagonal",
            choices=("auto", "draws", "full", "class", "diagonal"),
        ),
        _option("--n-draws --draws", "draws kept, or made for averages", whole(1)),
        _option(
            "--prior",
            "default: learned for laplace, gaussian for the others",
            choices=("auto", "gaussian", "horseshoe", "learned"),
        ),
        _option(
            "--prior-scale",
            "a gaussian prior with this standard deviation of the weights",
            number(0.0),
            metavar="X",
        ),
        _option(
            "--plug-in",
            "of a Bayesian model: probabilities at the posterior mean, not averaged",
            **_SWITCH,
        ),
        _option(
            "--interval",
            "of a Bayesian model: also print credible intervals of this level, such as 0.9",
            number(0.0, 1.0),
            metavar="LEVEL",
        ),
        # Training
        _option("--max-epochs --epochs", "passes over the data, at most", whole(1)),
        _option("--max-classes", "refuse rows with which the model would have more", whole(2)),
        _option(
            "--early-stopping",
            "stop when the log-likelihood of validation rows no longer rises",
            default=None,
            **_SWITCH,
        ),
        _option(
            "--validation-fraction", "share of rows to hold out", number(0.0, 1.0), metavar="X"
        ),
        _option("--n-threads --threads", "default 1; several give other bits each time", whole(1)),
        _option("--random-state --seed", "of random numbers (default 0)", whole(0), default=0),
        _option(
            "--window-bytes",
            "folders: bytes that are visited in random order at a time (default 256 MiB)",
            whole(1),
        ),
        _option(
            "--checkpoint",
            "save the state of the fit there as it goes; deleted when the model is saved",
            **_DIR,
        ),
        _option(
            "--checkpoint-every",
            "seconds between two (default 60)",
            number(0.0, closed=True),
            metavar="S",
        ),
        _option("--resume", "go on from the checkpoint; begin where there is none yet", **_SWITCH),
        # Everywhere
        _option("--top-k", "classes per row", whole(1), metavar="K"),
        _option("--json", "print JSON instead of text", **_SWITCH),
    ]
)


def add(parser: argparse._ActionsContainer, *names: str, **changes: Any) -> None:
    """Add options to a parser, or one of them with changes."""
    for name in names:
        flags, description = OPTIONS[name]
        parser.add_argument(*flags, **{**description, **changes})


def flag(name: str) -> str:
    """Return how an option is written."""
    return OPTIONS[name][0][-1]


def existing(name: str, *, kind: str = "file", may_be_folder: bool = False) -> Path:
    """Return the path of a file, or of a folder of converted rows."""
    path = Path(name)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, f"there is no such {kind}; check the name", name)
    if path.is_dir() and not (may_be_folder and (path / INDEX).exists()):
        raise IsADirectoryError(
            errno.EISDIR, "is a folder without converted rows; give a file", name
        )
    return path


def existing_data(name: str) -> None:
    """Raise if there is no file or folder of rows of that name; standard input has none."""
    if name != STDIN:
        existing(name, may_be_folder=True)


def destination(name: str | None) -> None:
    """Raise if no file can be written there."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; give the name of a file", name)
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"its folder {path.parent} does not exist; create it first", name
        )
