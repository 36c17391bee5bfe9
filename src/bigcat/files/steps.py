"""Pipelines and columns of tables in a model file: by skops, but for their text vectorisers.

skops stores attributes, not code, and loads the classes of scikit-learn alone.  Here it loads fewer
of them, from an archive that is as long as what it holds.  It would write half a kilobyte per word
of a vectoriser and would not look at its options; so vectorisers are stored apart.
"""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from bigcat._io.checks import check, is_names
from bigcat._system import require
from bigcat.data.opening import check_claim
from bigcat.data.tables import NUMBERS, numbers_only, require_pyarrow, words_of
from bigcat.data.vectorizers import VECTORIZERS, describe_vectorizer, make_vectorizer

_SCHEMA, _NEEDS = "schema.json", "steps of scikit-learn in a model file need"
#: Modules of allowed classes; trees and neighbours follow their arrays without checks.
_MODULES = re.compile(
    r"builtins|numpy(\..+)?|scipy\.special\..+|_operator|sklearn\.(compose|decomposition|"
    r"feature_extraction|feature_selection|impute|kernel_approximation|pipeline|preprocessing|"
    r"random_projection)(\..+)?"
)


def describe_steps(steps: Any) -> dict[str, Any]:
    """Return an archive of fitted steps of scikit-learn, and the text vectorisers in them."""
    skops = require("skops.io", _NEEDS, "pipelines")
    vectorizers = [*_vectorizers_in(steps)]
    # Neither copied nor stored, and made anew on loading.
    archived = copy.deepcopy(steps, {id(one): type(one)() for one in vectorizers})
    content = _reproducible(skops.dumps(archived))
    try:
        _types_in(content)
    except ValueError as error:
        raise TypeError(
            f"a model file holds steps of scikit-learn that transform rows, and {error}; save the "
            "classifier alone, and keep the steps yourself"
        ) from None
    return {
        "archive": np.frombuffer(content, np.uint8),
        "vectorizers": [describe_vectorizer(one, fitted=False) for one in vectorizers],
    }


def make_steps(stored: dict[str, Any], trusted: bool = False) -> Any:
    """Return what `describe_steps` was given; ValueError if it is damaged or made to do harm."""
    skops = require("skops.io", _NEEDS, "pipelines")
    content = np.asarray(stored["archive"], np.uint8).tobytes()
    try:
        steps = skops.loads(content, trusted=_types_in(content))
    except Exception as error:  # zipfile, NumPy and skops have no list of what they raise
        raise ValueError(f"its steps cannot be loaded ({error})") from error
    made = [make_vectorizer(one, trusted) for one in stored["vectorizers"]]
    found = [*_vectorizers_in(steps)]
    if [type(one) for one in found] != [type(one) for one in made]:
        raise ValueError("the text vectorisers of its steps are others")
    for one, other in zip(found, made):
        vars(one).clear()
        vars(one).update(vars(other))
    return steps


def describe_columns(columns: Any, n_features: int) -> dict[str, Any] | None:
    """Return what a file holds of a fitted ColumnTransformer: names, if it passes numbers on."""
    if columns is None:
        return None
    import pandas

    names, words = columns.feature_names_in_.tolist(), {*words_of(columns)}
    row = pandas.DataFrame([{name: "" if name in words else 0.0 for name in names}])
    if (found := columns.transform(row).shape[1]) != n_features:
        raise ValueError(
            f"extra['columns'] makes {found} features, and the model has {n_features}; give those "
            "that made the model's rows"
        )
    only_numbers = columns.transformers == [(NUMBERS, "passthrough", names)]
    return {"names": names, "steps": None if only_numbers else describe_steps(columns)}


def make_columns(stored: dict[str, Any], trusted: bool = False) -> Any:
    """Return the ColumnTransformer of `describe_columns`."""
    require_pyarrow()
    check("columns.names", stored["names"], is_names)
    if stored["steps"] is None:
        return numbers_only(stored["names"])
    columns = make_steps(stored["steps"], trusted)
    if (
        type(columns) is not ColumnTransformer
        or columns.feature_names_in_.tolist() != stored["names"]
    ):
        raise ValueError("its columns are others")
    return columns


def _vectorizers_in(value: Any) -> Iterator[Any]:
    """Yield the text vectorisers in steps, each once, in the order of attributes."""
    seen: set[int] = set()

    def visit(value: Any) -> Iterator[Any]:
        if id(value) in seen:
            return
        if type(value).__name__ in VECTORIZERS:
            seen.add(id(value))
            yield value
        elif isinstance(value, dict | list | tuple):
            for item in value.values() if isinstance(value, dict) else value:
                yield from visit(item)
        elif hasattr(value, "get_params") and not isinstance(value, type):
            seen.add(id(value))
            for item in vars(value).values():
                yield from visit(item)

    return visit(value)


def _types_in(content: bytes) -> list[str]:
    """Return the types that skops has to trust; ValueError for others than of steps."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if any(member.compress_type for member in members) or len(content) < sum(
            member.file_size for member in members
        ):
            raise ValueError("its archive claims more than it holds")
        for member in members:
            if member.filename.endswith(".npy"):
                with archive.open(member) as array:
                    check_claim(member, array)
            elif member.filename != _SCHEMA:
                raise ValueError(f"its archive holds {member.filename!r}")
        found = [*_kinds(json.loads(archive.read(_SCHEMA)))]
    for module, name in found:
        if not _MODULES.fullmatch(module):
            raise ValueError(f"{module}.{name} is another")
    trusted = require("skops.io", _NEEDS, "pipelines").get_untrusted_types(data=content)
    for name in trusted:
        if not name.startswith(("sklearn.", "numpy.dtype")):
            raise ValueError(f"{name} is another")
    return list(trusted)


def _kinds(node: Any) -> Iterator[tuple[str, str]]:
    """Yield module and name of each class and function of a schema."""
    if isinstance(node, dict):
        if "__module__" in node and isinstance(node["__module__"], str):
            yield node["__module__"], str(node.get("__class__"))
        for value in node.values():
            yield from _kinds(value)
    elif isinstance(node, list):
        for value in node:
            yield from _kinds(value)


def _reproducible(content: bytes) -> bytes:
    """Replace addresses in memory, by which skops names objects, by numbers; drop the time."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = members.pop(_SCHEMA).decode()
    pattern = re.compile(r'("__id__": |"file": ")(\d+)')
    numbers: dict[str, int] = {}
    for _, address in pattern.findall(schema):
        numbers.setdefault(address, len(numbers))
    schema = pattern.sub(lambda match: f"{match[1]}{numbers[match[2]]}", schema)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_SCHEMA), schema)
        for name, array in members.items():
            address, dot, suffix = name.partition(".")
            renamed = f"{numbers.get(address, address)}{dot}{suffix}"
            archive.writestr(zipfile.ZipInfo(renamed), array)
    return out.getvalue()
