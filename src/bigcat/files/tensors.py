"""Safetensors files as bytes on the disk: written whole or not at all, and mapped to memory."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from bigcat.files.values import TYPE_NAMES, Tensors

_BLOCK_BYTES = 1 << 26


def write_tensors(target: Path, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
    """Write a file that appears under its name when it is complete and on the disk."""
    # We lay the bytes out ourselves, which the format makes easy, because then the arrays go to
    # the disk without a copy and a full disk is an OSError with its number.
    ordered = sorted(tensors.items(), key=lambda item: -item[1].itemsize)  # keeps data aligned
    index: dict[str, Any] = {"__metadata__": {"bigcat": json.dumps(header, allow_nan=False)}}
    offset = 0
    for name, tensor in ordered:
        end = offset + tensor.nbytes
        index[name] = {
            "dtype": TYPE_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    head = json.dumps(index, allow_nan=False).encode()
    head += b" " * (-len(head) % 8)
    size = 8 + len(head) + offset

    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(len(head).to_bytes(8, "little"))
            file.write(head)
            for _name, tensor in ordered:
                little_endian = tensor.astype(tensor.dtype.newbyteorder("<"), copy=False)
                content = np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8)
                for start in range(0, len(content), _BLOCK_BYTES):
                    file.write(content[start : start + _BLOCK_BYTES].data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(
                error.errno,
                f"could not save the model to {target}: {os.strerror(error.errno or 0)}; "
                f"it takes {size:,} bytes: free some space or choose another folder "
                "(nothing was changed there)",
            ) from error
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system lets folders be synced."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems refuse; the file itself is on the disk already
        pass
    finally:
        os.close(descriptor)


def map_tensors(path: str | os.PathLike[str]) -> Tensors:
    """A function that gives a tensor of float32 by name, as a read-only view of the file."""
    with open(path, "rb") as file:
        head_bytes = int.from_bytes(file.read(8), "little")
        index = json.loads(file.read(head_bytes))

    def view(name: str) -> np.ndarray:
        start, shape = 8 + head_bytes + index[name]["data_offsets"][0], tuple(index[name]["shape"])
        if index[name]["dtype"] != "F32" or start % 4:
            raise ValueError(f"{name} is not float32 that lies at a multiple of 4 bytes")
        # Not a memmap itself, which every array computed from it would be too.
        return np.asarray(np.memmap(path, "<f4", mode="r", offset=start, shape=shape))

    return view
