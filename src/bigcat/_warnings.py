"""Warnings name the line that called bigcat.

How many frames are between that line and a warning depends on the way there, and frames of Python,
SciPy or joblib lie among those of bigcat.  So nobody counts: the line is the one that called the
outermost function of bigcat on the stack.

- Where scikit-learn calls bigcat, as in `cross_val_score`, it is a line of scikit-learn's, as for
  its own estimators.
- Where bigcat calls code of yours, such as a callback, and that calls bigcat again, it is the line
  that began it all.  Code between two functions of bigcat is the same to us, whoever wrote it.
- A thread has a stack of its own.  Where its target is a function of bigcat, the line is the one of
  Python's that started it.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, once per line that called bigcat unless filters say otherwise."""
    frame = _caller()
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _caller() -> FrameType:
    outermost = sys._getframe()
    frame: FrameType | None = outermost
    while frame is not None:
        # By name, since functions that dataclasses make for us are in no file.
        if str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            outermost = frame
        frame = frame.f_back
    return outermost.f_back or outermost  # where C called bigcat there is nothing above it
