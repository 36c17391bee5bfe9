"""A model file, opened: its header is checked, and so is each tensor when it is read."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

from bigcat._version import __version__
from bigcat.files.checks import check_header
from bigcat.files.formats import (
    FORMAT,
    FORMAT_VERSION,
    LAST_WITHOUT_DIGESTS,
    current,
    is_known,
)
from bigcat.files.tensors import DigestError, TensorFile, open_tensors, text_digest
from bigcat.tensor_heads import BrokenFileError, strict_json

#: Texts of a file: the header, and a digest of it.
HEADER, HEADER_DIGEST = "bigcat", "bigcat_digest"
#: What code that takes the content of a file for what it should be may meet.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ModelFileError(ValueError):
    """A file that is not a usable bigcat model: says which, why and what to do."""

    def __init__(self, path: str | os.PathLike[str], cause: str, remedy: str) -> None:
        super().__init__(f"{os.fspath(path)}: {cause}; {remedy}")


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], TensorFile]]:
    """The checked header of a model file, and the file, which checks tensors as they are read.

    What goes wrong in the block because of the file is a ModelFileError.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(
            errno.ENOENT, f"there is no model file {os.fspath(path)}; check the name"
        )
    try:
        with open_tensors(path) as file:
            yield _checked_header(path, file), file
    except ModelFileError:
        raise
    except BrokenFileError as error:
        raise _damaged(path, f"it is cut off, damaged or no safetensors file ({error})") from error
    except DigestError as error:
        raise _damaged(path, f"it is damaged ({error})") from error
    except _MISFITS as error:
        cause = str(error) if isinstance(error, ValueError) else repr(error)
        raise _damaged(path, f"its header and tensors do not fit together ({cause})") from error


def _checked_header(path: str | os.PathLike[str], file: TensorFile) -> dict[str, Any]:
    text = file.texts.get(HEADER, "")
    known = False
    with contextlib.suppress(ValueError, RecursionError):
        header = strict_json(text)
        known = isinstance(header, dict) and header.get("format") == FORMAT
    digest = file.texts.get(HEADER_DIGEST)
    if digest is not None and digest != text_digest(text):
        raise DigestError("its header is not what was written")
    if not known:
        raise ModelFileError(
            path,
            "it is a safetensors file, but not one of bigcat",
            "give a file that bigcat.save_model or `bigcat fit` wrote",
        )
    version = header.get("format_version")
    if not is_known(version):
        raise ModelFileError(
            path,
            f"its format is version {version!r}, this bigcat ({__version__}) reads versions up to "
            f"{FORMAT_VERSION}",
            f"load it with bigcat {header.get('bigcat_version')}, which wrote it",
        )
    missing = sorted(set(header["shapes"]) - set(file.places))
    if missing:
        raise _damaged(path, f"it lacks the tensors {', '.join(missing)}")
    for name, shape in header["shapes"].items():
        found = list(file.places[name].shape)
        if found != shape:
            raise _damaged(path, f"the tensor {name} has shape {found}, the header says {shape}")
    header = current(header)
    check_header(header)
    if version > LAST_WITHOUT_DIGESTS:
        if digest is None or set(header["digests"]) != set(file.places):
            raise _damaged(path, "it lacks digests of its header or its tensors")
        file.digests = header["digests"]
    return header


def _damaged(path: str | os.PathLike[str], cause: str) -> ModelFileError:
    return ModelFileError(path, cause, "take another copy of the file or fit the model again")


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, without reading the weights.

    Returns
    -------
    dict
        ``format_version``, ``bigcat_version``, ``estimator``, ``noise``, ``parameters``,
        ``parameters_left_out``, ``n_features_in``, ``n_iter``, ``history``, ``shapes``, ``extra``
        and what else `docs/model-files.md` lists.
    """
    with opened(path) as (header, _file):
        return header


def check_model_file(path: str | os.PathLike[str]) -> bool:
    """Read a model file once from end to end and hold it to what it says of itself.

    Little memory is needed, whatever the size of the file.

    Returns
    -------
    bool
        Whether the file has digests; those of format 3 and before have none, and damage to their
        arrays may go unnoticed.

    Raises
    ------
    ModelFileError
        When anything is not what was written.
    """
    with opened(path) as (_header, file):
        for name in file.digests:
            file.check(name)
        return bool(file.digests)
