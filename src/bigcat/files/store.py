"""Model files: safetensors with a JSON header, never pickle; written whole or not at all.

`docs/model-files.md` describes the file. Loading one runs no code that the file brings along, and
believes nothing that it says of itself: digests tell damage, `checks` what does not fit together.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, overload

import numpy as np

from bigcat._version import __version__
from bigcat.files.checks import check_classes, check_counts
from bigcat.files.columns import pack_columns, unpack_columns
from bigcat.files.formats import FORMAT, FORMAT_VERSION
from bigcat.files.linear import check_dtype, pack_linear, unpack_linear
from bigcat.files.opening import HEADER, HEADER_DIGEST, ModelFileError, opened
from bigcat.files.parameters import pack_parameter, unpack_parameter
from bigcat.files.tensors import TensorFile, Tensors, digest_of, text_digest, write_tensors
from bigcat.files.values import from_json, pack_labels, to_json, unpack_labels
from bigcat.files.vectorizers import UntrustedError, pack_vectorizer, unpack_vectorizer

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, LinearClassifier

__all__ = ["check_destination", "load_model", "save_model"]


def save_model(
    model: LinearClassifier | BayesianClassifier,
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any] | None = None,
    dtype: str = "float32",
) -> Path:
    """Write a fitted model to a file.

    The file appears under its name only when it is complete and on the disk; until then, and
    after any failure, what was there before stays untouched.

    Parameters
    ----------
    model : LinearClassifier or BayesianClassifier
        A fitted one, of `bigcat.dask` too. Parameters that JSON cannot hold (callbacks, a
        ``RandomState``, a prior of your own) are left out, and the header says so. A custom noise
        is stored by name only.
    path : path
        Of the file, usually ending in ``.safetensors``.
    extra : dict, optional
        Anything that JSON can hold, for you to find again with ``load_model(path,
        with_extra=True)``. The key ``vectorizer`` may hold a fitted scikit-learn text vectoriser
        (TfidfVectorizer, CountVectorizer, HashingVectorizer), and the key ``columns`` the
        `bigcat.data.Dataset.columns` of a table.
    dtype : {"float32", "float16", "int8"}
        In which numbers the weights of a `LinearClassifier` are stored: as they are, or rounded to
        half or a quarter of the bytes (int8 with one scale for each class, or feature of
        ``embedding_``).  `bigcat.storage_loss` tells what that costs.

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
    if hasattr(model, "to_local"):  # one of `bigcat.dask`
        model = model.to_local()
    kind = type(model).__name__
    if kind not in KINDS:
        raise TypeError(
            f"a model file holds a LinearClassifier or a BayesianClassifier, got {kind}; "
            "of a pipeline or a search, save the fitted classifier inside it"
        )
    check_dtype(dtype)
    if kind == "BayesianClassifier" and dtype != "float32":
        raise ValueError(
            f"dtype={dtype!r} is for a LinearClassifier, and this is a BayesianClassifier; "
            "leave it out"
        )
    if not hasattr(model, "classes_"):
        raise ValueError("the model is not fitted, so there is nothing to save; call fit first")
    classes = np.asarray(model.classes_)

    tensors: dict[str, np.ndarray] = {}
    parameters, left_out = _storable_parameters(model, tensors)
    header: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "bigcat_version": __version__,
        "estimator": kind,
        "parameters": parameters,
        "parameters_left_out": left_out,
        "classes": pack_labels(tensors, "classes", classes),
        "n_features_in": int(model.n_features_in_),
        "n_iter": to_json(getattr(model, "n_iter_", None)),
        "history": [_without_nan(row) for row in getattr(model, "history_", [])],
        "choice": to_json(getattr(getattr(model, "history_", None), "choice", None)),
    }
    header["noise"] = _describe_noise(_noise_of(model))
    if kind == "LinearClassifier":
        header |= pack_linear(tensors, cast("LinearClassifier", model), dtype)
    else:
        from bigcat.files.bayesian import pack_posterior

        header["posterior"] = pack_posterior(tensors, cast("BayesianClassifier", model))
    if hasattr(model, "class_count_"):
        tensors["class_count"] = np.asarray(model.class_count_, np.int64)
    if hasattr(model, "feature_names_in_"):
        header["feature_names"] = pack_labels(tensors, "feature_names", model.feature_names_in_)
    extra = dict(extra or {})
    vectorizer = extra.pop("vectorizer", None)
    if vectorizer is not None:
        header["vectorizer"] = pack_vectorizer(tensors, vectorizer)
    if hasattr(extra.get("columns"), "transformers_"):
        header["columns"] = pack_columns(tensors, extra.pop("columns"))
    try:
        header["extra"] = to_json(extra)
    except TypeError as error:
        raise TypeError(f"extra can hold only what JSON can hold: {error}") from None
    check_classes(classes)
    header["shapes"] = {name: list(tensor.shape) for name, tensor in tensors.items()}
    header["digests"] = {name: digest_of(tensor) for name, tensor in tensors.items()}
    text = json.dumps(header, allow_nan=False)
    write_tensors(target, {HEADER: text, HEADER_DIGEST: text_digest(text)}, tensors)
    return Path(path)


@overload
def load_model(
    path: str | os.PathLike[str],
    *,
    noise: Any = None,
    with_extra: Literal[False] = False,
    mmap: bool = False,
    verify: bool = False,
    trust_vectorizer: bool = False,
) -> Any: ...
@overload
def load_model(
    path: str | os.PathLike[str],
    *,
    noise: Any = None,
    with_extra: Literal[True],
    mmap: bool = False,
    verify: bool = False,
    trust_vectorizer: bool = False,
) -> tuple[Any, dict[str, Any]]: ...
def load_model(
    path: str | os.PathLike[str],
    *,
    noise: Any = None,
    with_extra: bool = False,
    mmap: bool = False,
    verify: bool = False,
    trust_vectorizer: bool = False,
) -> Any:
    """Read a `LinearClassifier` or `BayesianClassifier` that :func:`save_model` wrote.

    Parameters
    ----------
    path : path
    noise : bigcat.noise object, optional
        Needed where the model was fitted with a custom noise, whose functions a file cannot hold.
    with_extra : bool
        Also return the dict that was saved as ``extra`` (a vectoriser in it is ready for use).
    mmap : bool
        Leave the weights in the file: read-only views of it, which the system reads when they are
        needed and processes share.  For a `LinearClassifier` stored as float32; other numbers are
        turned into float32 by loading them.
    verify : bool
        Hold mapped weights to their digests, too, and look whether they are finite: the whole file
        is read once.  What is not mapped is always checked.
    trust_vectorizer : bool
        Take a vectoriser whatever its options are: a regular expression that may take for ever,
        n-grams of any length, names of files as text.  For files whose author you trust.

    Raises
    ------
    ModelFileError
        When the file is cut off, damaged, of another kind or of a newer format.
    """
    from bigcat.estimators import History
    from bigcat.noise import Noise

    if not isinstance(noise, str | Noise | None):
        raise TypeError(f"noise={noise!r} is neither a name nor an object of bigcat.noise")
    with opened(path) as (header, file):
        read: Tensors = file.read
        read_weights = read
        if mmap:
            _check_can_be_mapped(path, header)
            read_weights = _mapped(file, verify)
        classes = unpack_labels(read, "classes", header["classes"])
        check_classes(classes)
        model = _unfitted(path, header, read, noise)
        rows = [_with_nan(row) for row in header["history"]]
        history = History(rows, choice=from_json(header.get("choice")))
        if header["estimator"] == "LinearClassifier":
            finite = verify or not mmap
            unpack_linear(read, read_weights, header, model, classes, history, finite=finite)
        else:
            from bigcat.files.bayesian import unpack_posterior

            n_features = header["n_features_in"]
            the_noise = _chosen_noise(path, header["noise"], noise)
            unpack_posterior(
                read, header["posterior"], model, classes, n_features, history, the_noise
            )
        model.n_features_in_ = header["n_features_in"]
        if header["n_iter"] is not None:
            model.n_iter_ = header["n_iter"]
        if "class_count" in header["shapes"]:
            model.class_count_ = read("class_count")
            check_counts(model.class_count_, len(classes))
        if "feature_names" in header:
            names = unpack_labels(read, "feature_names", header["feature_names"])
            if names.shape != (header["n_features_in"],):
                raise ValueError(f"there are {len(names)} names of columns")
            model.feature_names_in_ = names
            if hasattr(model, "posterior_"):
                model.posterior_.feature_names = names
        if not with_extra:
            return model
        extra = from_json(header["extra"])
        if "vectorizer" in header:
            extra["vectorizer"] = _trusted(
                path, unpack_vectorizer, read, header["vectorizer"], trust_vectorizer
            )
        if "columns" in header:
            n_features = header["n_features_in"]
            extra["columns"] = _trusted(
                path, unpack_columns, read, header["columns"], n_features, trust_vectorizer
            )
        return model, extra


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

#: Estimators that files hold, and the parameter on which the noise is an option.
KINDS = {"LinearClassifier": None, "BayesianClassifier": "method"}


def _unfitted(
    path: str | os.PathLike[str], header: dict[str, Any], read: Tensors, noise: Any
) -> Any:
    """An estimator with the parameters of the file."""
    from bigcat import estimators

    kind = header["estimator"]
    wrote = f"bigcat {header['bigcat_version']} wrote it, and this is bigcat {__version__}"
    remedy = "load it with the version that wrote it"
    if kind not in KINDS:
        raise ModelFileError(path, f"{wrote}, which has no {kind}", remedy)
    parameters = {
        name: unpack_parameter(kind, name, value, read)
        for name, value in header["parameters"].items()
    }
    the_noise = _chosen_noise(path, header["noise"], noise)
    owner = KINDS[kind]
    if owner is None:
        parameters["noise"] = the_noise
    elif the_noise is not None and hasattr(parameters[owner], "noise"):
        parameters[owner] = replace(parameters[owner], noise=the_noise)
    try:
        return getattr(estimators, kind)(**parameters)
    except TypeError as error:
        raise ModelFileError(path, f"{wrote}: {error}", remedy) from error


# --- reading ------------------------------------------------------------------------------------


def _check_can_be_mapped(path: str | os.PathLike[str], header: dict[str, Any]) -> None:
    remedy = "load it without mmap=True"
    if header["estimator"] != "LinearClassifier":
        raise ModelFileError(path, f"it holds a {header['estimator']}, which is not mapped", remedy)
    stored = header["weights_dtype"]
    if stored != "float32":
        raise ModelFileError(
            path,
            f"its weights are stored as {stored}, and only float32 can be used where it lies",
            f"{remedy}, or save the model with dtype='float32'",
        )


def _mapped(file: TensorFile, verify: bool) -> Tensors:
    """A function that gives weights by name as read-only views of the file."""

    def view(name: str) -> np.ndarray:
        if verify and name in file.digests:
            file.check(name)
        return file.view(name)

    return view


def _trusted(path: str | os.PathLike[str], unpack: Callable[..., Any], *what: Any) -> Any:
    """What was unpacked, or an error that says how to trust a vectoriser."""
    try:
        return unpack(*what)
    except UntrustedError as error:
        raise ModelFileError(
            path,
            f"its vectoriser has the option {error}, which could read other files or take for ever",
            "if you trust who wrote the file, load it in Python with trust_vectorizer=True",
        ) from None


# --- parameters and noise -----------------------------------------------------------------------


def _storable_parameters(
    model: Any, tensors: dict[str, np.ndarray]
) -> tuple[dict[str, Any], dict[str, str]]:
    kind = type(model).__name__
    stored, left_out = {}, {}
    for name, value in model.get_params(deep=False).items():
        # Apart; and folders of one machine, for one fit.
        if name in ("noise", "checkpoint", "weights_folder"):
            continue
        try:
            stored[name] = pack_parameter(kind, name, value, tensors)
        except TypeError as error:
            left_out[name] = str(error)
    return stored, left_out


def _noise_of(model: Any) -> Any:
    """The noise that a model was fitted with; None where it has none."""
    owner = KINDS[type(model).__name__]
    return model.noise if owner is None else model.fitted_noise


def _describe_noise(noise: Any) -> dict[str, Any] | None:
    if noise is None:
        return None
    from bigcat.noise import CustomNoise, resolve

    if isinstance(noise, str):
        noise = resolve(noise)
    return {
        "name": noise.name,
        "custom": isinstance(noise, CustomNoise),
        "probabilities": noise.probabilities,
    }


def _chosen_noise(path: str | os.PathLike[str], stored: dict[str, Any] | None, given: Any) -> Any:
    """The noise that the file names, or the one that was given for it; None where it has none."""
    if stored is None:
        return None
    from bigcat.noise import resolve

    name = stored["name"]
    if given is None:
        if stored["custom"]:
            raise ModelFileError(
                path,
                f"the model was fitted with the custom noise {name!r}, and a file cannot hold its "
                "functions",
                "pass them: load_model(path, noise=...)",
            )
        usual = stored["probabilities"] == "quadrature"
        return name if usual else replace(resolve(name), probabilities=stored["probabilities"])
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
