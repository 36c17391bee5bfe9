"""Messages in the words of the command line: ``--label-column``, not ``label_column=``."""

from __future__ import annotations

import argparse
import re

from bigcat.cli import _bayesian, fit

# Parameters whose options have other names.
_OPTIONS = {
    **{name: option for option, name in (fit.PARAMETERS | fit.OF_PARTS).items()},
    **{name: option for option, names in _bayesian.METHOD_OPTIONS.items() for name in names},
    "n_features": "features",
    "text_columns": "text_column",
    "categorical": "categorical",
    "label_column": "label_column",
    "group_column": "group_column",
    "max_bytes": "max_bytes",
    "form": "form",
    "window_bytes": "window_bytes",
    "resume": "resume",
    "n_jobs": "jobs",
}
_VALUE = r"'[^']*'|\"[^\"]*\"|[+-]?\d[\d.e+-]*(?<=\d)|True|False|None"
_NAMES = "|".join(sorted(_OPTIONS, key=len, reverse=True))
_LONG_NAMES = "|".join(sorted((name for name in _OPTIONS if "_" in name), key=len, reverse=True))
_QUOTES = "'\""
#: `name=value`, `name=`; and the name alone where it can be nothing but a parameter.
_PARAMETER = re.compile(
    rf"(?<![\w.-])(?:(?P<name>{_NAMES})=(?P<value>{_VALUE})?|(?P<alone>{_LONG_NAMES})\b)"
)


def in_own_words(text: str, arguments: argparse.Namespace) -> str:
    """A message of the library, for somebody who gave options of a command.

    Examples
    --------
    >>> from argparse import Namespace
    >>> given = Namespace(label_column=None, epochs=3, solver=None)
    >>> in_own_words("found no label (label_column= names another)", given)
    'found no label (--label-column names another)'
    >>> in_own_words("raise max_epochs, or take solver='newton'", given)
    'raise --epochs, or take --solver newton'
    """

    def worded(found: re.Match[str]) -> str:
        option = _OPTIONS[found["name"] or found["alone"]]
        if not hasattr(arguments, option):  # the command has no such option
            return found[0]
        flag, value = "--" + option.replace("_", "-"), found["value"]
        if value is None or value == "True":
            return flag
        return f"{flag} {'none' if value == 'None' else value.strip(_QUOTES)}"

    return _PARAMETER.sub(worded, text)
