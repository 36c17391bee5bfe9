"""Forged model files: their digests are right, whatever their content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bigcat._io.tensors import open_tensors, write_tensors


def rewrite(
    path: Path,
    change: Callable[[dict[str, Any]], object] = lambda header: None,
    drop: tuple[str, ...] | list[str] = (),
    **replaced: np.ndarray,
) -> None:
    """Write a file again with a changed header, without some tensors and with others replaced.

    Underscores in pairs stand for dots in names of tensors.
    """
    with open_tensors(path) as file:
        header = file.header
        tensors = {name: file.read(name) for name in header["tensors"] if name not in drop}
    tensors |= {name.replace("__", "."): np.asarray(value) for name, value in replaced.items()}
    change(header)
    write_tensors(path, header, tensors)
