"""The command ``bigcat``; `docs/command-line.md` shows it at work.

A command is one module with ``HELP``, ``add_to(parser)`` and ``run(arguments)``.  Options and files
are checked before anything slow is imported, which is why imports are inside ``run``.
"""

from __future__ import annotations

import argparse
import codecs
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from bigcat._version import __version__
from bigcat.cli import (
    convert,
    demo,
    evaluate,
    explain,
    export,
    fit,
    info,
    methods,
    precompile,
    predict,
    report,
    update,
)
from bigcat.cli._output import log

__all__ = ["main"]

COMMANDS = {
    "demo": demo,
    "fit": fit,
    "update": update,
    "predict": predict,
    "evaluate": evaluate,
    "report": report,
    "explain": explain,
    "convert": convert,
    "export": export,
    "info": info,
    "methods": methods,
    "precompile": precompile,
}
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
    _write_utf8()
    try:
        arguments = parser().parse_args(words)
        with _messages(arguments):
            return int(arguments.run(arguments) or 0)
    except SystemExit as stop:  # argparse: --help, --version or a wrong option
        return int(stop.code or 0)
    except BrokenPipeError:  # `bigcat predict ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        text = "interrupted; nothing was left half-written"
        if getattr(arguments, "checkpoint", None):
            text += ", and the same command with --resume continues from the checkpoint"
        return _say(text, INTERRUPTED)
    except (ValueError, OSError, ImportError, MemoryError) as error:
        if debug:
            raise
        return _say(_message(error), BAD_INPUT)
    except Exception as error:
        if debug:
            raise
        text = f"unexpected {type(error).__name__}: {_message(error)}"
        return _say(f"{text} (--debug shows where)", UNEXPECTED)


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, such as for ``shtab``."""
    parser = _Parser(
        prog="bigcat",
        description="Probability over very many classes: fit, predict, evaluate.",
        epilog="`bigcat COMMAND --help` says more; `bigcat demo` is the place to start.",
    )
    parser.add_argument("--version", action="version", version=f"bigcat {__version__}")
    parser.add_argument("--debug", action="store_true", help=argparse.SUPPRESS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        description = f"{command.HELP[0].upper()}{command.HELP[1:]}."
        added = commands.add_parser(name, help=command.HELP, description=description)
        command.add_to(added)
        added.add_argument("--debug", action="store_true", help="show the traceback of an error")
        levels = added.add_mutually_exclusive_group()
        levels.add_argument(
            "--log-level",
            choices=("debug", "info", "warning", "error"),
            default="info",
            help="messages on stderr: progress and notes (info, the default), each kernel that is "
            "compiled (debug), or fewer",
        )
        levels.add_argument(
            "--quiet",
            dest="log_level",
            action="store_const",
            const="error",
            help="results and errors alone",
        )
        added.set_defaults(run=command.run)
    return parser


class _ToStderr(logging.Handler):
    """Writes records as lines; of the kernels that are compiled it announces the first."""

    announced = False

    def emit(self, record: logging.LogRecord) -> None:
        text, debug = record.getMessage(), log.isEnabledFor(logging.DEBUG)
        if record.levelno <= logging.INFO and record.name != log.name and not debug:
            if self.announced or not text.endswith("first run only"):
                return
            self.announced = True
            text += " (`bigcat precompile` does it ahead of time)"
        kind = "note" if record.levelno <= logging.INFO else record.levelname.lower()
        print(f"bigcat: {kind}: {text}", file=sys.stderr)


@contextmanager
def _messages(arguments: argparse.Namespace) -> Iterator[None]:
    """Write the log of bigcat and warnings to stderr, from the level that was asked for on."""

    def show_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
        log.warning(" ".join(str(message).split()))

    logger, handler = logging.getLogger("bigcat"), _ToStderr()
    handler.announced = arguments.run is precompile.run
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(arguments.log_level.upper())
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def _write_utf8() -> None:
    """Write UTF-8 where the locale knows ASCII alone: labels and paths may be anything."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure and codecs.lookup(stream.encoding or "ascii").name == "ascii":
            reconfigure(encoding="utf-8", errors="surrogateescape")


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
