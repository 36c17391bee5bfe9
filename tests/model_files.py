"""Forged model files: their digests are right, whatever their content."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from bigcat._io.tensors import KEY, open_tensors, seal, write_tensors


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


def rewrite_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Write a file again with a changed header, also in what it says of its tensors."""
    with open_tensors(path) as file:
        header, tensors = file.header, {name: file.read(name) for name in file.header["tensors"]}
    change(header)
    write_header(path, header, tensors)


def write_header(path: Path, header: dict[str, Any] | str, tensors: dict[str, np.ndarray]) -> None:
    """Write a file with that header, or that text in place of one."""
    text = header if isinstance(header, str) else seal(header)
    safetensors.numpy.save_file(tensors, path, {KEY: text})
