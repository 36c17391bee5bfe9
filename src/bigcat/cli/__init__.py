"""The command ``bigcat``; `docs/command-line.md` shows it at work.

A command is one module with ``add_to(commands)``, which describes it, and ``run(arguments)``.
What is slow to import is imported inside ``run``.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from bigcat._version import __version__
from bigcat.cli import (
    _output,
    completion,
    compress,
    convert,
    demo,
    evaluate,
    explain,
    export,
    fit,
    info,
    methods,
    predict,
    report,
    warm,
)
from bigcat.cli._words import in_own_words

__all__ = ["main"]

BAD_INPUT = 2
UNEXPECTED = 1
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after ``bigcat``; those of the process by default.

    Returns
    -------
    int
        The exit code: 0, or 2 for bad input, 1 for a defect of bigcat, 130 when interrupted.

    Examples
    --------
    >>> from bigcat.cli import main
    >>> main(["fit", "nowhere.txt"])  # writes what is wrong to stderr
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    arguments = argparse.Namespace()

    def show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
        text = in_own_words(" ".join(str(message).split()), arguments)
        print(f"bigcat: warning: {text}", file=sys.stderr)

    expected = words[:1] == ["warm"]
    with warnings.catch_warnings(), _told_of_compilations(_FirstCompilation(expected)):
        warnings.showwarning = show_warning
        try:
            arguments = parser().parse_args(words)
            return int(arguments.run(arguments) or 0)
        except SystemExit as stop:  # argparse: --help, --version or a wrong option
            return int(stop.code or 0)
        except BrokenPipeError:  # `bigcat predict ... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            text = "interrupted; nothing was left half-written"
            if getattr(arguments, "checkpoint", None):
                text += ", and the same command with --resume goes on from the checkpoint"
            return _say(text, INTERRUPTED)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if debug:
                raise
            return _say(in_own_words(_message(error), arguments), BAD_INPUT)
        except Exception as error:
            if debug:
                raise
            text = f"unexpected {type(error).__name__}: {_message(error)}"
            return _say(f"{text} (--debug shows where)", UNEXPECTED)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = _Parser(
        prog="bigcat",
        description="Probability over very many classes: fit, predict, evaluate.",
        epilog="`bigcat COMMAND --help` says more; `bigcat demo` is the place to start.",
    )
    parser.add_argument("--version", action="version", version=f"bigcat {__version__}")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    use = (fit, predict, evaluate, report, explain)
    for command in (demo, *use, convert, compress, export, info, methods, warm, completion):
        added = command.add_to(commands)
        added.set_defaults(run=command.run)
        added.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


class _FirstCompilation(logging.Handler):
    """Says once that kernels are compiled, since whoever waits sees nothing else happen."""

    def __init__(self, said: bool) -> None:
        super().__init__()
        self.said = said

    def emit(self, record: logging.LogRecord) -> None:
        if not self.said and record.getMessage().endswith("first run only"):
            self.said = True
            _output.note("compiling, first run only (`bigcat warm` does it ahead of time)")


@contextmanager
def _told_of_compilations(handler: logging.Handler) -> Iterator[None]:
    """By the log, since what compiles is slow to import."""
    logger = logging.getLogger("bigcat")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong option like any other wrong input: in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(_say(f"{message} (`{self.prog} --help` lists what is possible)", BAD_INPUT))


def _say(message: str, code: int) -> int:
    print(f"bigcat: error: {message}", file=sys.stderr)
    return code


def _message(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:  # without "[Errno 28]"
        text = error.strerror
        if error.filename is not None:
            text = f"{error.filename}: {text}"
    if isinstance(error, MemoryError) and not text:
        text = "not enough memory"
    return " ".join(text.split()) or type(error).__name__
