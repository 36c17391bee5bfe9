"""Model files of choice models: safetensors with a JSON header, as for the other estimators."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat._io.tensors import BrokenFileError, open_tensors, write_tensors
from bigcat._version import __version__
from bigcat.bayes import GaussianPrior
from bigcat.choice.data import Layout
from bigcat.choice.utility import Coding, Utility
from bigcat.files import ModelFileError, check_destination
from bigcat.files.codec import from_json, to_json
from bigcat.noise import REGISTRY, Noise

if TYPE_CHECKING:
    from bigcat.choice.model import ChoiceModel

_FORMAT, _VERSION = "bigcat choice model", 1
#: Placeholder of a function, which a file does not hold.
_FUNCTION = {"function": True}


def write(model: ChoiceModel, path: str | os.PathLike[str]) -> Path:
    """Write a fitted model to a file."""
    target = check_destination(path)
    if model.utility_.has_state:
        raise ValueError(
            "a formula whose values depend on the rows of the fit, as with scale(), has no model "
            "file; compute such columns before the fit"
        )
    parameters = {name: _plain(value) for name, value in model.get_params(deep=False).items()}
    state = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and name not in ("utility_", "coding_", "layout_")
    }
    state["seconds_"] = float("nan")  # the same model gives the same bytes
    arrays: dict[str, np.ndarray] = {}
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "bigcat_version": __version__,
        "parameters": to_json(parameters, arrays, "parameters"),
        "layout": to_json(asdict(model.layout_), arrays, "layout"),
        "coding": to_json(
            {f.name: getattr(model.coding_, f.name) for f in fields(Coding) if f.init},
            arrays,
            "coding",
        ),
        "fitted": to_json(state, arrays, "fitted"),
    }
    write_tensors(target, header, arrays)
    return Path(path)


def read(
    kind: type[ChoiceModel],
    path: str | os.PathLike[str],
    functions: Mapping[str, Callable[..., Any]],
    noise: Noise | None,
) -> ChoiceModel:
    """Return the model of a file; ModelFileError for any other file."""
    try:
        with open_tensors(path) as file:
            if (file.header.get("format"), file.header.get("version")) != (_FORMAT, _VERSION):
                raise BrokenFileError(f"its format is {file.header.get('format')!r}")
            found = {
                name: from_json(file.header[name], file.read)
                for name in ("parameters", "layout", "coding", "fitted")
            }
    except (BrokenFileError, LookupError, TypeError, AttributeError) as error:
        cause = f"it is damaged or not a file of a ChoiceModel ({error})"
        raise ModelFileError(path, cause, "take another copy or fit the model again") from error
    parameters = _restored(found["parameters"], functions)
    if noise is not None:
        parameters["noise"] = noise
    model = kind(**parameters)
    model.layout_ = Layout(**found["layout"])
    model.coding_ = Coding(**found["coding"])
    model.utility_ = Utility.of(model.utility, model.by_alternative, model.constants)
    for name, value in found["fitted"].items():
        setattr(model, name, value)
    return model


def _plain(value: Any) -> Any:
    """Return a parameter as a file holds it: functions and own noises by their places only."""
    if isinstance(value, Noise):
        return value.name if value.name in REGISTRY else {"noise": value.name}
    if isinstance(value, GaussianPrior):
        return {"prior": value.options()}
    if isinstance(value, np.random.RandomState):
        return None
    if callable(value):
        return _FUNCTION
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _restored(parameters: dict[str, Any], functions: Mapping[str, Any]) -> dict[str, Any]:
    def function(name: str) -> Any:
        if name not in functions:
            raise ValueError(
                f"a file holds no functions; give that of the fit: functions={{{name!r}: ...}}"
            )
        return functions[name]

    def whole(name: str, value: Any) -> Any:
        if value == _FUNCTION:
            return function(name)
        if isinstance(value, dict) and value.keys() == {"prior"}:
            return GaussianPrior(**value["prior"])
        if isinstance(value, dict) and value.keys() == {"noise"}:
            return value["noise"]
        if isinstance(value, dict):
            return {inner: whole(inner, item) for inner, item in value.items()}
        return value

    return {name: whole(name, value) for name, value in parameters.items()}
