"""Model files: saving, loading and checking them.

`docs/model-files.md` describes the file.  Loading runs no code from it and reads no other file.
Digests reveal damage.  They do not prove an author, so all values that later code relies on are
checked too.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.pipeline import Pipeline

from bigcat._io.checks import check
from bigcat._io.tensors import BrokenFileError, TensorFile, open_tensors, write_tensors
from bigcat._version import __version__
from bigcat.data.vectorizers import UntrustedError, describe_vectorizer, make_vectorizer
from bigcat.files.codec import Arrays, describe_part, from_json, make_part, to_json
from bigcat.files.linear import check_dtype, linear_to_json, restore_linear
from bigcat.files.schema import FORMAT, SCHEMA, VERSION
from bigcat.files.steps import describe_columns, describe_steps, make_columns, make_steps
from bigcat.pipelines import apart
from bigcat.training.selection import Selection

if TYPE_CHECKING:
    from bigcat.estimators import BayesianClassifier, LinearClassifier

_ANOTHER_COPY = "take another copy of the file or fit the model again"
#: Parameters that are stored apart, or are folders of one machine.
_NOT_PARAMETERS = ("noise", "checkpoint")
#: Errors of code that takes the content of a file for what it should be.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ModelFileError(ValueError):
    """A file that is not a usable bigcat model; the message names file, cause and remedy."""

    def __init__(self, path: str | os.PathLike[str], cause: str, remedy: str) -> None:
        super().__init__(f"{os.fspath(path)}: {cause}; {remedy}")


class _UnusableError(ValueError):
    """A cause with a remedy of its own."""


def save_model(
    model: LinearClassifier | BayesianClassifier,
    path: str | os.PathLike[str],
    *,
    extra: dict[str, Any] | None = None,
    dtype: str = "float32",
) -> Path:
    """Write a fitted model to a file.

    The file appears under its name when it is complete and on the disk.  Until then, and after any
    failure, a file of that name stays as it was.  The same model gives the same bytes.

    Parameters
    ----------
    model : LinearClassifier, BayesianClassifier, or pipeline or search that ends in one
        A fitted estimator, of `bigcat.dask` too.  Steps of a pipeline before it are those of
        scikit-learn that transform rows (``pip install "bigcat[pipelines]"``).  Parameters that a
        file cannot hold (callbacks, a ``RandomState``, a prior of your own) are left out, and the
        header lists them.  A custom noise is stored by name only.
    path : path
        Name of the file, usually ending in ``.safetensors``.
    extra : dict, optional
        Plain values and arrays to be returned by ``load_model(path, with_extra=True)``.  The key
        ``vectorizer`` may hold a fitted scikit-learn text vectoriser (TfidfVectorizer,
        CountVectorizer, HashingVectorizer), and the key ``columns`` the
        `bigcat.data.Dataset.columns` of a table.
    dtype : {"float32", "float16", "int8"}
        Type of the stored weights of a `LinearClassifier`: as they are, or rounded to half or a
        quarter of the bytes (int8 with one scale for each class, or feature of ``embedding_``).

    Returns
    -------
    Path
        The written file.

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
    if hasattr(model, "to_local"):  # of `bigcat.dask`
        model = model.to_local()
    steps = None
    if hasattr(model, "steps") or hasattr(model, "best_estimator_"):
        whole = apart(model)
        model = whole.classifier
        if whole.steps:
            steps = {"last": whole.name, **describe_steps(whole.steps)}
    kind = type(model).__name__
    if kind not in ("LinearClassifier", "BayesianClassifier"):
        raise TypeError(
            f"a model file holds a LinearClassifier, a BayesianClassifier or a pipeline that ends "
            f"in one, got {kind}"
        )
    check_dtype(dtype)
    if kind == "BayesianClassifier" and dtype != "float32":
        raise ValueError(
            f"dtype={dtype!r} is for a LinearClassifier, and this is a BayesianClassifier; "
            "leave it out"
        )
    if not hasattr(model, "classes_"):
        raise ValueError("the model is not fitted, so there is nothing to save; call fit first")
    history = getattr(model, "history_", [])
    arrays: Arrays = {}
    linear = posterior = None
    if kind == "LinearClassifier":
        linear = linear_to_json(cast("LinearClassifier", model), dtype, arrays)
    else:
        from bigcat.files.bayesian import posterior_to_json

        posterior = posterior_to_json(cast("BayesianClassifier", model), arrays)
    parameters, left_out = {}, {}
    for name, value in model.get_params(deep=False).items():
        if name not in _NOT_PARAMETERS:
            try:
                described = describe_part(kind, name, value)
                parameters[name] = to_json(described, arrays, f"parameters.{name}")
            except TypeError as error:
                left_out[name] = str(error)
    fitted = {name: getattr(model, f"{name}_", None) for name in SCHEMA["fitted"]}
    extra = dict(extra or {})
    vectorizer, columns = extra.pop("vectorizer", None), None
    if hasattr(extra.get("columns"), "transformers_"):
        columns = extra.pop("columns")
    try:
        stored_extra = to_json(extra, arrays, "extra")
    except TypeError as error:
        raise TypeError(f"extra can hold only plain values and arrays: {error}") from None
    header = {
        "format": FORMAT,
        "version": VERSION,
        "bigcat_version": __version__,
        "estimator": kind,
        "parameters": parameters,
        "left_out": left_out,
        "noise": _describe_noise(model.noise if linear else model.fitted_noise),
        "fitted": to_json(fitted, arrays),
        "linear": linear,
        "posterior": posterior,
        "history": to_json([_without_seconds(row) for row in history], arrays, "history"),
        "selection": to_json(_selection(model), arrays, "selection"),
        "vectorizer": to_json(describe_vectorizer(vectorizer), arrays, "vectorizer"),
        "columns": to_json(describe_columns(columns, model.n_features_in_), arrays, "columns"),
        "steps": to_json(steps, arrays, "steps"),
        "extra": stored_extra,
    }
    _check_fitted(fitted)
    write_tensors(target, header, arrays)
    return Path(path)


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
        Name of the file.
    noise : bigcat.noise object, optional
        The custom noise of the fit, whose functions a file cannot hold.
    with_extra : bool
        Return a tuple of the model and the dict that was saved as ``extra``.
    mmap : bool
        Leave the weights of a `LinearClassifier` in the file: read-only views of it, which the
        system reads when they are needed and processes share.  For weights stored as float32.
    verify : bool
        Check mapped weights as well, which reads the whole file once.  Anything else is always
        checked.
    trust_vectorizer : bool
        Accept a vectoriser with any options: a regular expression that may run for hours, n-grams
        of any length, names of files as text.  For files whose author you trust.

    Returns
    -------
    LinearClassifier, BayesianClassifier or Pipeline
        The fitted model; with ``with_extra=True``, a tuple of it and a dict.

    Raises
    ------
    ModelFileError
        When the file is cut off, damaged, of another kind or of a later format.
    """
    from bigcat import estimators
    from bigcat.noise import Noise

    if not isinstance(noise, str | Noise | None):
        raise TypeError(f"noise={noise!r} is neither a name nor an object of bigcat.noise")
    with _opened(path) as file:
        header, read = file.header, file.read

        def get(key: str) -> Any:
            return from_json(header[key], read)

        kind, linear, posterior = header["estimator"], header["linear"], header["posterior"]
        if mmap and (linear is None or linear["dtype"] != "float32"):
            stored = "a posterior" if linear is None else f"stored as {linear['dtype']}"
            raise _UnusableError(
                f"its weights are {stored}, and only a LinearClassifier in float32 can be mapped",
                "load it without mmap=True, or save the model with dtype='float32'",
            )
        fitted = get("fitted")
        _check_fitted(fitted)
        fitted_noise = _chosen_noise(header["noise"], noise)
        parameters = {name: make_part(kind, name, v) for name, v in get("parameters").items()}
        if linear is not None:
            parameters["noise"] = fitted_noise
        elif fitted_noise is not None and hasattr(parameters.get("method"), "noise"):
            parameters["method"] = replace(parameters["method"], noise=fitted_noise)
        model = getattr(estimators, kind)(**parameters)
        for name, value in fitted.items():
            if value is not None:
                setattr(model, f"{name}_", value)
        rows = [{k: math.nan if v is None else v for k, v in row.items()} for row in get("history")]
        history = estimators.History(rows)
        if linear is not None:
            view = partial(file.view, verify=verify) if mmap else None
            restore_linear(model, linear, history, read, view, verify or not mmap)
        else:
            from bigcat.files.bayesian import restore_posterior

            restore_posterior(model, posterior, history, read, fitted_noise)
        _restore_selection(model, get("selection"))
        extra = get("extra") if with_extra else {}
        try:
            if (steps := get("steps")) is not None:
                model = Pipeline([*make_steps(steps, trust_vectorizer), (steps["last"], model)])
            if not with_extra:
                return model
            if header["vectorizer"] is not None:
                extra["vectorizer"] = make_vectorizer(get("vectorizer"), trust_vectorizer)
            if header["columns"] is not None:
                extra["columns"] = make_columns(get("columns"), trust_vectorizer)
        except UntrustedError as error:
            raise _UnusableError(
                f"its vectoriser has the option {error}, which could read other files or run for "
                "hours",
                "if you trust who wrote the file, load it in Python with trust_vectorizer=True",
            ) from None
        return model, extra


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON header of a model file without reading the arrays.

    Returns
    -------
    dict
        ``bigcat_version``, ``estimator``, ``parameters``, ``left_out``, ``noise``, ``tensors`` and
        the other keys that `docs/model-files.md` lists.
    """
    with _opened(path) as file:
        return file.header


def check_model_file(path: str | os.PathLike[str]) -> None:
    """Read a model file once and compare all of it with its digests, in little memory.

    Raises
    ------
    ModelFileError
        When anything is not what was written.
    """
    with _opened(path) as file:
        file.check()


def check_destination(path: str | os.PathLike[str]) -> Path:
    """Return the file to replace; OSError if a model could not be written there."""
    target = Path(os.path.realpath(path))
    folder, name = target.parent, os.fspath(path)
    if target.is_dir():
        raise OSError(errno.EISDIR, f"{name} is a folder; give the name of a file to write")
    if not folder.is_dir():
        cause = f"the folder {folder} does not exist; create it first"
        raise OSError(errno.ENOENT, f"cannot write {name}: {cause}")
    if not os.access(folder, os.W_OK):
        cause = f"no permission to write to the folder {folder}; choose another one"
        raise OSError(errno.EACCES, f"cannot write {name}: {cause}")
    return target


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[TensorFile]:
    """Open a model file with a valid header; errors of the block become a ModelFileError."""
    if not os.path.isfile(path):
        raise FileNotFoundError(
            errno.ENOENT, f"there is no model file {os.fspath(path)}; check the name"
        )
    try:
        with open_tensors(path) as file:
            _check_header(file.header)
            yield file
    except _UnusableError as error:
        raise ModelFileError(path, *error.args) from error.__cause__
    except BrokenFileError as error:
        cause = f"it is cut off, damaged or not a model file ({error})"
        raise ModelFileError(path, cause, _ANOTHER_COPY) from error
    except _MISFITS as error:
        cause = str(error) if isinstance(error, ValueError) else repr(error)
        cause = f"its content does not fit together, or a later bigcat wrote it ({cause})"
        raise ModelFileError(path, cause, _ANOTHER_COPY) from error


def _check_header(header: dict[str, Any]) -> None:
    version = header.get("version")
    if header.get("format") == FORMAT and version != VERSION:
        raise _UnusableError(
            f"its format has version {version!r}, and bigcat {__version__} reads version {VERSION}",
            f"load it with bigcat {header.get('bigcat_version')}, which wrote it",
        )
    check("header", header, SCHEMA)
    part = "linear" if header["estimator"] == "LinearClassifier" else "posterior"
    if [key for key in ("linear", "posterior") if header[key] is not None] != [part]:
        raise ValueError(f"a {header['estimator']} needs {part}, and nothing else")


def _check_fitted(fitted: dict[str, Any]) -> None:
    """Raise ValueError unless labels, names and counts fit together."""
    classes, count = fitted["classes"], fitted["class_count"]
    names, n_features = fitted["feature_names_in"], fitted["n_features_in"]
    if classes.ndim != 1 or len(classes) < 2:
        raise ValueError(f"classes have shape {classes.shape}, and a model has two or more")
    if not np.all(classes[:-1] < classes[1:]):  # which bisection needs, and NaN is not
        raise ValueError("classes are not in ascending order, each of them once")
    if fitted["exact_classes"] is not None and not np.isin(fitted["exact_classes"], classes).all():
        raise ValueError("exact_classes holds labels that are not among the classes")
    if (count.shape, count.dtype.kind) != (classes.shape, "i") or count.min() < 0:
        raise ValueError(f"class_count is not one number of rows for {len(classes)} classes")
    if names is not None and names.shape != (n_features,):
        raise ValueError(f"feature_names_in has shape {names.shape} for {n_features} features")
    if names is not None and len(set(names.tolist())) < n_features:
        raise ValueError("a name occurs twice in feature_names_in; rename it")


# --- noise, history, selection ------------------------------------------------------------------


def _describe_noise(noise: Any) -> dict[str, Any] | None:
    from bigcat.noise import CustomNoise, resolve

    if noise is None:
        return None
    noise = resolve(noise)
    custom = isinstance(noise, CustomNoise)
    return {"name": noise.name, "custom": custom}


def _chosen_noise(stored: dict[str, Any] | None, given: Any) -> Any:
    """Return the noise that the file names, or the one that was given for it, or None."""
    if stored is None:
        return None
    name = stored["name"]
    if given is not None:
        given_name = given if isinstance(given, str) else given.name
        if given_name != name:
            raise _UnusableError(
                f"the model was fitted with the noise {name!r}, not {given_name!r}",
                "pass that one, or leave out noise= if it is not a custom one",
            )
        return given
    if stored["custom"]:
        raise _UnusableError(
            f"the model was fitted with the custom noise {name!r}, whose functions a file cannot "
            "hold",
            "pass them: load_model(path, noise=...)",
        )
    return name


def _without_seconds(value: Any) -> Any:
    """Return a copy in which measured times are None, since a fit takes others each time."""
    if isinstance(value, dict):
        return {
            key: None if str(key).endswith("seconds") else _without_seconds(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map(_without_seconds, value))
    return None if isinstance(value, float) and math.isnan(value) else value


def _selection(model: Any) -> list[dict[str, Any]] | None:
    """Return what a fit selected as rows of plain values; None where nothing was selected."""
    if hasattr(model, "selection_"):
        return [_without_seconds(model.selection_.to_dict())]
    selection = getattr(getattr(model, "history_", None), "selection", None)
    return None if selection is None else [_without_seconds(selection)]


def _restore_selection(model: Any, rows: list[dict[str, Any]] | None) -> None:
    """Give a fitted model what `_selection` returned."""
    if rows is None:
        return
    if hasattr(model, "selection_"):
        model.selection_ = Selection.from_dict(rows[0])
    else:
        model.history_.selection = rows[0]
