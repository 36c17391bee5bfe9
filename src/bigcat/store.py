"""Model files: safetensors with a JSON header, never pickle; written whole or not at all.

`docs/model-files.md` describes the file. Loading one runs no code that the file brings along.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from bigcat._file_values import (
    TYPE_NAMES,
    Tensors,
    from_json,
    pack_labels,
    pack_vectorizer,
    to_json,
    unpack_labels,
    unpack_vectorizer,
)
from bigcat._version import __version__

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, LinearClassifier

__all__ = ["ModelFileError", "check_destination", "load_model", "read_header", "save_model"]

FORMAT = "bigcat-model"
FORMAT_VERSION = 1

_BLOCK_BYTES = 1 << 26


class ModelFileError(ValueError):
    """A file that is not a usable bigcat model: says which, why and what to do."""

    def __init__(self, path: str | os.PathLike[str], cause: str, remedy: str) -> None:
        super().__init__(f"{os.fspath(path)}: {cause}; {remedy}")


def save_model(
    model: LinearClassifier | BayesianClassifier,
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a fitted model to a file.

    The file appears under its name only when it is complete and on the disk; until then, and
    after any failure, what was there before stays untouched.

    Parameters
    ----------
    model : LinearClassifier or BayesianClassifier
        A fitted one. Parameters that JSON cannot hold (callbacks, a ``RandomState``, a prior of
        your own) are left out, and the header says so. A custom noise is stored by name only.
    path : path
        Of the file, usually ending in ``.safetensors``.
    extra : dict, optional
        Anything that JSON can hold, for you to find again with ``load_model(path,
        with_extra=True)``. The key ``vectorizer`` may hold a fitted scikit-learn text vectoriser
        (TfidfVectorizer, CountVectorizer, HashingVectorizer).

    Returns
    -------
    Path
        Of the written file.

    Examples
    --------
    >>> import tempfile, numpy as np, bigcat
    >>> X = np.eye(3, dtype=np.float32).repeat(20, axis=0)
    >>> model = bigcat.LinearClassifier(max_epochs=2, random_state=0).fit(X, X.argmax(axis=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = bigcat.save_model(model, folder + "/model.safetensors")
    ...     loaded = bigcat.load_model(path)
    >>> bool((loaded.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    target = check_destination(path)
    kind = type(model).__name__
    if kind not in ("LinearClassifier", "BayesianClassifier"):
        raise TypeError(
            f"a model file holds a LinearClassifier or a BayesianClassifier, got {kind}; "
            "of a pipeline or a search, save the fitted classifier inside it"
        )
    if not hasattr(model, "classes_"):
        raise ValueError("the model is not fitted, so there is nothing to save; call fit first")

    tensors: dict[str, np.ndarray] = {}
    parameters, left_out = _storable_parameters(model, tensors)
    header: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "bigcat_version": __version__,
        "estimator": kind,
        "parameters": parameters,
        "parameters_left_out": left_out,
        "classes": pack_labels(tensors, "classes", np.asarray(model.classes_)),
        "n_features_in": int(model.n_features_in_),
        "n_iter": to_json(getattr(model, "n_iter_", None)),
        "history": [_without_nan(row) for row in getattr(model, "history_", [])],
        "choice": to_json(getattr(getattr(model, "history_", None), "choice", None)),
    }
    header |= (_pack_linear if kind == "LinearClassifier" else _pack_bayesian)(tensors, model)
    if hasattr(model, "feature_names_in_"):
        header["feature_names"] = pack_labels(tensors, "feature_names", model.feature_names_in_)
    extra = dict(extra or {})
    vectorizer = extra.pop("vectorizer", None)
    if vectorizer is not None:
        header["vectorizer"] = pack_vectorizer(tensors, vectorizer)
    try:
        header["extra"] = to_json(extra)
    except TypeError as error:
        raise TypeError(f"extra can hold only what JSON can hold: {error}") from None
    header["shapes"] = {name: list(tensor.shape) for name, tensor in tensors.items()}
    _write(target, header, tensors)
    return Path(path)


@overload
def load_model(
    path: str | os.PathLike[str], *, noise: Any = None, with_extra: Literal[False] = False
) -> Any: ...
@overload
def load_model(
    path: str | os.PathLike[str], *, noise: Any = None, with_extra: Literal[True]
) -> tuple[Any, dict[str, Any]]: ...
def load_model(path: str | os.PathLike[str], *, noise: Any = None, with_extra: bool = False) -> Any:
    """Read a `LinearClassifier` or `BayesianClassifier` that :func:`save_model` wrote.

    Parameters
    ----------
    path : path
    noise : bigcat.noise object, optional
        Needed where the model was fitted with a custom noise, whose functions a file cannot hold.
    with_extra : bool
        Also return the dict that was saved as ``extra`` (a vectoriser in it is ready for use).

    Raises
    ------
    ModelFileError
        When the file is cut off, damaged, of another kind or of a newer format.
    """
    from bigcat.estimators import History

    with _opened(path) as (header, read):
        classes = unpack_labels(read, "classes", header["classes"])
        model = _unfitted(path, header, read, noise)
        rows = [_with_nan(row) for row in header["history"]]
        history = History(rows, choice=from_json(header.get("choice")))
        if header["estimator"] == "LinearClassifier":
            _unpack_linear(path, header, read, model, classes, history)
        else:
            from bigcat._bayesian_files import unpack_posterior

            n_features = header["n_features_in"]
            unpack_posterior(read, header["posterior"], model, classes, n_features, history)
        model.n_features_in_ = header["n_features_in"]
        if header["n_iter"] is not None:
            model.n_iter_ = header["n_iter"]
        if "feature_names" in header:
            names = unpack_labels(read, "feature_names", header["feature_names"])
            model.feature_names_in_ = names
        if not with_extra:
            return model
        extra = from_json(header["extra"])
        if "vectorizer" in header:
            extra["vectorizer"] = unpack_vectorizer(read, header["vectorizer"])
        return model, extra


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, without reading the weights.

    Returns
    -------
    dict
        ``format_version``, ``bigcat_version``, ``estimator``, ``noise``, ``parameters``,
        ``parameters_left_out``, ``n_features_in``, ``n_iter``, ``history``, ``shapes``, ``extra``
        and what else `docs/model-files.md` lists.
    """
    with _opened(path) as (header, _read):
        return header


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Raise OSError now if a model could not be written there; else give the file to replace."""
    target = Path(os.path.realpath(path))
    folder = target.parent
    if target.is_dir():
        raise IsADirectoryError(
            errno.EISDIR, f"{os.fspath(path)} is a folder; give the name of a file to write"
        )
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT,
            f"cannot write {os.fspath(path)}: the folder {folder} does not exist; create it first",
        )
    if not os.access(folder, os.W_OK):
        raise PermissionError(
            errno.EACCES,
            f"cannot write {os.fspath(path)}: no permission to write to the folder {folder}; "
            "choose another one",
        )
    return target


# --- the two estimators -------------------------------------------------------------------------


def _pack_linear(tensors: dict[str, np.ndarray], model: LinearClassifier) -> dict[str, Any]:
    coef = model.coef_
    feature_major = coef.flags.f_contiguous and not coef.flags.c_contiguous
    tensors["coef"] = coef.T if feature_major else coef
    tensors["intercept"] = np.asarray(model.intercept_)
    header = {
        "noise": _describe_noise(model.noise),
        "coef_layout": "feature-major" if feature_major else "class-major",
    }
    if hasattr(model, "exact_classes_"):
        header["exact_classes"] = pack_labels(tensors, "exact_classes", model.exact_classes_)
    return header


def _unpack_linear(path, header, read: Tensors, model, classes, history) -> None:
    coef, intercept = read("coef"), read("intercept")
    if header["coef_layout"] == "feature-major":
        coef = coef.T
    expected = (len(classes), header["n_features_in"])
    if coef.shape != expected or intercept.shape != expected[:1]:
        raise _damaged(
            path,
            f"the weights have shape {coef.shape} and the intercept {intercept.shape}, but there "
            f"are {expected[0]} classes and {expected[1]} features",
        )
    model.coef_, model.intercept_ = coef, intercept
    model.classes_, model.history_ = classes, history
    if "exact_classes" in header:
        model.exact_classes_ = unpack_labels(read, "exact_classes", header["exact_classes"])


def _pack_bayesian(tensors: dict[str, np.ndarray], model: BayesianClassifier) -> dict[str, Any]:
    from bigcat._bayesian_files import pack_posterior

    noise = getattr(model.posterior_, "noise", model.noise)  # that of the fit
    return {"noise": _describe_noise(noise), "posterior": pack_posterior(tensors, model)}


def _unfitted(path: str | os.PathLike[str], header: dict[str, Any], read: Tensors, noise: Any):
    """An estimator with the parameters of the file."""
    from bigcat import estimators

    parameters = {
        name: _from_name(name, from_json(value), read)
        for name, value in header["parameters"].items()
    }
    parameters["noise"] = _chosen_noise(path, header["noise"], noise)
    kind = header["estimator"]
    wrote = f"bigcat {header['bigcat_version']} wrote it, and this is bigcat {__version__}"
    remedy = "load it with the version that wrote it"
    if kind not in ("LinearClassifier", "BayesianClassifier"):
        raise ModelFileError(path, f"{wrote}, which has no {kind}", remedy)
    try:
        return getattr(estimators, kind)(**parameters)
    except TypeError as error:
        raise ModelFileError(path, f"{wrote}: {error}", remedy) from error


# --- writing ------------------------------------------------------------------------------------


def _write(target: Path, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
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


# --- reading ------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], Tensors]]:
    """The checked header of a model file, and a function that reads a tensor by name."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(
            errno.ENOENT, f"there is no model file {os.fspath(path)}; check the name"
        )
    try:
        with safe_open(path, "numpy") as file:
            header = _checked_header(path, file)
            yield header, lambda name: np.require(file.get_tensor(name), requirements="W")
    except ModelFileError:
        raise
    except SafetensorError as error:
        raise _damaged(path, f"it is cut off, damaged or no safetensors file ({error})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header and tensors do not fit together ({error!r})") from error


def _checked_header(path: str | os.PathLike[str], file: Any) -> dict[str, Any]:
    try:
        header = json.loads((file.metadata() or {})["bigcat"])
        known = header["format"] == FORMAT
        version = header["format_version"]
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        raise ModelFileError(
            path,
            "it is a safetensors file, but not one of bigcat",
            "give a file that bigcat.save_model or `bigcat fit` wrote",
        )
    if version != FORMAT_VERSION:
        raise ModelFileError(
            path,
            f"its format is version {version}, this bigcat ({__version__}) reads version "
            f"{FORMAT_VERSION}",
            f"load it with bigcat {header.get('bigcat_version')}, which wrote it",
        )
    missing = sorted(set(header["shapes"]) - set(file.keys()))
    if missing:
        raise _damaged(path, f"it lacks the tensors {', '.join(missing)}")
    for name, shape in header["shapes"].items():
        found = list(file.get_slice(name).get_shape())
        if found != shape:
            raise _damaged(path, f"the tensor {name} has shape {found}, the header says {shape}")
    return header


def _damaged(path: str | os.PathLike[str], cause: str) -> ModelFileError:
    return ModelFileError(path, cause, "take another copy of the file or fit the model again")


# --- parameters and noise -----------------------------------------------------------------------


def _storable_parameters(
    model: Any, tensors: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, str]]:
    stored, left_out = {}, {}
    for name, value in model.get_params(deep=False).items():
        if name == "noise":
            continue
        try:
            stored[name] = to_json(_by_name(name, value, tensors))
        except TypeError as error:
            left_out[name] = str(error)
    return stored, left_out


def _by_name(parameter: str, value: Any, tensors: dict[str, np.ndarray]) -> Any:
    """A registered method by its name; a solver, sampler or prior by its name and fields."""
    if parameter == "prior" and not isinstance(value, str):
        from bigcat._bayesian_files import pack_prior

        return pack_prior(tensors, value)
    if parameter == "method" and not isinstance(value, str):
        from bigcat.combinations import _METHODS

        return value.name if _METHODS.get(value.name) == value else value
    if parameter in ("solver", "sampler") and type(value) is _parts(parameter).get(
        getattr(value, "name", None)
    ):
        return {
            "name": value.name,
            "fields": {f.name: getattr(value, f.name) for f in fields(value)},
        }
    return value


def _from_name(parameter: str, value: Any, read: Tensors) -> Any:
    if parameter == "prior" and isinstance(value, dict):
        from bigcat._bayesian_files import unpack_prior

        return unpack_prior(read, value)
    if parameter in ("solver", "sampler") and isinstance(value, dict):
        return _parts(parameter)[value["name"]](**value["fields"])
    return value


def _parts(parameter: str) -> dict[Any, Any]:
    from bigcat import samplers, solvers

    return solvers.REGISTRY if parameter == "solver" else samplers.REGISTRY


def _describe_noise(noise: Any) -> dict[str, Any]:
    if isinstance(noise, str):
        return {"name": noise, "custom": False}
    from bigcat.noise import CustomNoise

    return {"name": noise.name, "custom": isinstance(noise, CustomNoise)}


def _chosen_noise(path: str | os.PathLike[str], stored: dict[str, Any], given: Any) -> Any:
    name = stored["name"]
    if given is None:
        if stored["custom"]:
            raise ModelFileError(
                path,
                f"the model was fitted with the custom noise {name!r}, and a file cannot hold its "
                "functions",
                "pass them: load_model(path, noise=...)",
            )
        return name
    given_name = given if isinstance(given, str) else given.name
    if given_name != name:
        raise ModelFileError(
            path,
            f"the model was fitted with the noise {name!r}, not {given_name!r}",
            "pass that one, or leave out noise= if it is not a custom one",
        )
    return given


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers as plain JSON has them: NaN becomes null."""
    values = {
        key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()
    }
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in values.items()
    }


def _with_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {key: math.nan if value is None else value for key, value in row.items()}
