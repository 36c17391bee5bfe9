"""Large arrays whose memory is used again.

A round needs as much memory as the one before it.  Memory that was given back to the system is not
free of charge when it is asked for again: the system fills it with zeros, and a virtual machine may
have to get it from its host, which takes longer than all the arithmetic of a round.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np


class _Lent:
    """What an array and all its views hold on to, so that it ends with the last of them."""

    def __init__(self, memory: np.ndarray) -> None:
        self.__array_interface__ = memory.__array_interface__


class Spare:
    """Memory for arrays of a few shapes; arrays that nobody holds any more are what is spare."""

    def __init__(self) -> None:
        self._unused: dict[tuple[Any, ...], list[np.ndarray]] = {}

    def empty_like(self, array: np.ndarray, n_rows: int | None = None) -> np.ndarray:
        """An array with anything in it, of another number of rows if you like."""
        shape = (len(array) if n_rows is None else n_rows, *array.shape[1:])
        unused = self._unused.setdefault((shape, array.dtype), [])
        try:
            memory = unused.pop()
        except IndexError:
            memory = np.empty(shape, array.dtype)
        if not memory.nbytes:
            return memory
        lent = _Lent(memory)
        weakref.finalize(lent, unused.append, memory).atexit = False
        return np.asarray(lent)
