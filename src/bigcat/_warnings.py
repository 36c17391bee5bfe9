"""Warnings that point at the line that called bigcat.

The number of frames between that line and a warning varies, and frames of Python, SciPy or joblib
lie among those of bigcat. So frames are not counted: the reported line is the one that called the
outermost function of bigcat on the stack.

- If scikit-learn calls bigcat, as in `cross_val_score`, the line belongs to scikit-learn, as for
  its own estimators.
- If a callback of the user calls bigcat again, the line is the one of the first call.
- Each thread has its own stack. If its target is a function of bigcat, the line belongs to Python's
  `threading`.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_PACKAGE = __name__.partition(".")[0]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called bigcat, once per line unless filters say otherwise."""
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
