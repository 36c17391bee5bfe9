"""Fitted models as ONNX files: for services that have no Python, or no bigcat.

The file holds the softmax of linear scores, which is two or three operators.  Rows are dense, or
of few values: then a row is a list of columns and a list of values, filled up with zeros, and only
the vectors of these columns are read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bigcat._io.atomic import replacing
from bigcat._system import require
from bigcat._version import __version__
from bigcat.files import check_destination
from bigcat.linear import Weights
from bigcat.linear.top_k import check_k
from bigcat.pipelines import apart

if TYPE_CHECKING:
    from bigcat.estimators import LinearClassifier

__all__ = ["require_onnx", "save_onnx"]

#: Protocol buffers, which these files are, end at two gigabytes.
MAX_BYTES = (1 << 31) - (1 << 20)
#: Operators as they were defined in this version; any runtime since 2021 has it.
OPSET = 13


def require_onnx() -> None:
    """Raise ImportError with an installation hint if onnx is missing."""
    require("onnx", "ONNX files need", "onnx")


def save_onnx(
    model: LinearClassifier,
    path: str | os.PathLike[str],
    *,
    top_k: int | None = None,
    sparse: bool = False,
) -> Path:
    """Write a fitted model to an ONNX file.

    Parameters
    ----------
    model : LinearClassifier, or pipeline that ends in one
        Fitted, with Gumbel noise: the softmax.  skl2onnx has to know the steps of a pipeline.
    path : path
        Of the file, usually ending in ``.onnx``.
    top_k : int, optional
        Give the `top_k` most probable classes of each row; without it, all classes.
    sparse : bool
        Rows are two inputs of shape (n, m), ``columns`` (int64) and ``values`` (float32), where m
        is the most values of a row and shorter ones are filled up with values of 0.  Without it,
        they are one input ``X`` of shape (n, n_features), float32; for a pipeline of text, strings
        of shape (n, 1).

    Returns
    -------
    Path
        Of the written file, whose outputs are ``label`` and ``probabilities``: (n,) and (n,
        n_classes), or (n, top_k) both, best first.

    Examples
    --------
    >>> import tempfile, numpy as np, bigcat
    >>> X = np.eye(3, dtype=np.float32).repeat(20, axis=0)
    >>> model = bigcat.LinearClassifier(max_epochs=2, random_state=0).fit(X, X.argmax(axis=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = bigcat.save_onnx(model, folder + "/model.onnx", top_k=2)
    ...     path.name, path.stat().st_size > 100
    ('model.onnx', True)
    """
    require_onnx()
    target = check_destination(path)
    whole = apart(model)
    model = whole.classifier
    _check_model(model)
    if whole.steps and sparse:
        raise ValueError("sparse=True is for rows of a classifier, and a pipeline makes its own")
    if top_k is not None:
        check_k(top_k, len(model.classes_))
    matrices = _matrices(model.linear_model().weights)
    graph = _Graph("features" if whole.steps else "X")
    scores = graph.scores(matrices, model.intercept_, sparse)
    graph.answers(scores, model.classes_, top_k)
    found = graph.model(len(matrices[0]), sparse)
    if whole.steps:
        found = _after(whole.steps, found)
    with replacing(target) as file:
        file.write(found.SerializeToString())
    return Path(path)


def _after(steps: list[tuple[str, Any]], model: Any) -> Any:
    """Return a model with the steps of a pipeline before it, by skl2onnx."""
    convert_sklearn = require("skl2onnx", "ONNX files of pipelines need", "onnx").convert_sklearn
    from onnx.compose import merge_models
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.pipeline import Pipeline

    first = steps[0][1]
    is_text = hasattr(first, "build_analyzer")
    rows = StringTensorType([None, 1]) if is_text else FloatTensorType([None, first.n_features_in_])
    before = convert_sklearn(
        Pipeline(steps), initial_types=[("X", rows)], target_opset={"": OPSET, "ai.onnx.ml": 2}
    )
    before.ir_version = model.ir_version
    return merge_models(before, model, io_map=[(before.graph.output[0].name, "features")])


def _check_model(model: Any) -> None:
    kind = type(model).__name__
    if kind != "LinearClassifier":
        raise TypeError(
            f"an ONNX file holds a LinearClassifier, or a pipeline that ends in one, got {kind}"
        )
    if not model.linear_model().noise.softmax:
        raise ValueError(
            f"an ONNX file holds the softmax, and probabilities of noise={model.noise!r} are "
            "integrals; fit the model with noise='gumbel'"
        )


def _matrices(weights: Weights) -> tuple[np.ndarray, ...]:
    """Return the matrices that rows are multiplied by; ValueError if too large for a file."""
    n_bytes = 4 * weights.n_in_prediction_matrices
    if n_bytes > MAX_BYTES:
        raise ValueError(
            f"the weights take {n_bytes:,} bytes as matrices, and an ONNX file holds up to "
            f"{MAX_BYTES:,}; fit the model with a rank, such as rank=256"
        )
    return tuple(matrix.astype(np.float32, copy=False) for matrix in weights.matrices())


class _Graph:
    """Operators and constants, in the order in which they are added."""

    def __init__(self, rows: str) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self.rows = rows  # name of the input
        self.onnx, self.types, self.as_tensor = helper, TensorProto, numpy_helper.from_array
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.outputs: list[Any] = []

    def add(self, operator: str, *inputs: str, to: str = "", n_outputs: int = 1, **how: Any) -> str:
        """Apply an operator; return the name of its first result."""
        name = to or f"{operator.lower()}_{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, n_outputs))]
        self.nodes.append(self.onnx.make_node(operator, list(inputs), names, **how))
        return name

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(self.as_tensor(np.ascontiguousarray(array), name))
        return name

    def scores(self, matrices: tuple[np.ndarray, ...], intercept: np.ndarray, sparse: bool) -> str:
        """Add the scores of all classes; return their name."""
        first, *others = (self.constant(f"matrix_{i}", m) for i, m in enumerate(matrices))
        if sparse:  # the rows of the first one for a row's own columns, times its values, added up
            gathered = self.add("Gather", first, "columns", axis=0)
            last = self.constant("last_axis", np.array([-1], np.int64))
            values = self.add("Unsqueeze", "values", last)
            products = self.add("Mul", gathered, values)
            middle = self.constant("middle_axis", np.array([1], np.int64))
            found = self.add("ReduceSum", products, middle, keepdims=0)
        else:
            found = self.add("MatMul", self.rows, first)
        for matrix in others:
            found = self.add("MatMul", found, matrix)
        return self.add("Add", found, self.constant("intercept", intercept.astype(np.float32)))

    def answers(self, scores: str, classes: np.ndarray, top_k: int | None) -> None:
        """Add labels and probabilities, the outputs."""
        text = classes.dtype.kind in "OSU"
        labels = self.constant("labels", _as_labels(classes))
        of_label = self.types.STRING if text else self.types.INT64
        if top_k is None:
            best = self.add("ArgMax", scores, axis=1, keepdims=0)
            self.add("Softmax", scores, to="probabilities", axis=1)
            shapes: tuple[list[Any], list[Any]] = (["n"], ["n", len(classes)])
        else:
            k = self.constant("k", np.array([top_k], np.int64))
            probabilities = self.add("Softmax", scores, axis=1)
            # By scores, not by probabilities, of which small ones may be equal.
            best = f"{self.add('TopK', scores, k, n_outputs=2, axis=1)}_1"
            self.add("GatherElements", probabilities, best, to="probabilities", axis=1)
            shapes = (["n", top_k], ["n", top_k])
        self.add("Gather", labels, best, to="label", axis=0)
        value = self.onnx.make_tensor_value_info
        self.outputs = [
            value("label", of_label, shapes[0]),
            value("probabilities", self.types.FLOAT, shapes[1]),
        ]

    def model(self, n_features: int, sparse: bool) -> Any:
        """Return the model of all operators."""
        value, types = self.onnx.make_tensor_value_info, self.types
        inputs = [value(self.rows, types.FLOAT, ["n", n_features])]
        if sparse:
            inputs = [value("columns", types.INT64, ["n", "m"])]
            inputs.append(value("values", types.FLOAT, ["n", "m"]))
        graph = self.onnx.make_graph(self.nodes, "bigcat", inputs, self.outputs, self.constants)
        return self.onnx.make_model(
            graph,
            producer_name="bigcat",
            producer_version=__version__,
            opset_imports=[self.onnx.make_opsetid("", OPSET)],
            ir_version=8,
        )


def _as_labels(classes: np.ndarray) -> np.ndarray:
    """Return labels as ONNX has them: strings, or integers of 64 bits."""
    if classes.dtype.kind in "OSU":
        return np.array([_as_text(label) for label in classes.tolist()], dtype=object)
    whole = classes.astype(np.int64)
    if not np.array_equal(whole, classes):
        raise ValueError(
            "an ONNX file holds labels that are strings or integers of 64 bits, and "
            f"{classes[whole != classes][0]!r} is neither; fit the model to such labels"
        )
    return whole


def _as_text(label: Any) -> str:
    return label.decode() if isinstance(label, bytes) else str(label)
