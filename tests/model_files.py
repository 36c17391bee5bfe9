"""Model files that somebody made up: their digests are right, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bigcat.files.opening import HEADER, HEADER_DIGEST
from bigcat.files.tensors import digest_of, open_tensors, text_digest, write_tensors


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
        header = json.loads(file.texts[HEADER])
        tensors = {name: file.read(name) for name in file.places if name not in drop}
    new = {name.replace("__", "."): np.asarray(value) for name, value in replaced.items()}
    tensors |= new
    header["shapes"] |= {name: list(array.shape) for name, array in new.items()}
    header["digests"] = {name: digest_of(array) for name, array in tensors.items()}
    change(header)
    write_header(path, json.dumps(header), tensors)


def write_header(path: Path, text: str, tensors: dict[str, np.ndarray]) -> None:
    """A file with that text as its header, whatever it is."""
    write_tensors(path, {HEADER: text, HEADER_DIGEST: text_digest(text)}, tensors)


def as_format_3(header: dict[str, Any]) -> None:
    """Make a header one of format 3, which had no digests."""
    header["format_version"] = 3
    header.pop("digests")
