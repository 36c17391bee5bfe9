"""Classification with very many classes: softmax, probit and logistic models.

Public names are imported on first use, so ``import bigcat`` takes a few milliseconds and loads
neither numba nor scikit-learn nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bigcat._version import __version__

if TYPE_CHECKING:
    from bigcat import (
        bayes,
        bounds,
        dask,
        data,
        extending,
        inspection,
        metrics,
        noise,
        plots,
        samplers,
        solvers,
    )
    from bigcat.choice import ChoiceModel
    from bigcat.combinations import Method, methods
    from bigcat.estimators import BayesianClassifier, LinearClassifier
    from bigcat.estimators.checkpoint_folder import Checkpoint
    from bigcat.estimators.formula import FormulaClassifier, from_formula
    from bigcat.files import load_model, save_model
    from bigcat.pipelines import predict_top_k
    from bigcat.reporting import report
    from bigcat.serving import TopKIndex, save_onnx
    from bigcat.training.stopping import EarlyStopping

_HOME = {
    "LinearClassifier": "bigcat.estimators",
    "BayesianClassifier": "bigcat.estimators",
    "ChoiceModel": "bigcat.choice",
    "Method": "bigcat.combinations",
    "methods": "bigcat.combinations",
    "Checkpoint": "bigcat.estimators.checkpoint_folder",
    "EarlyStopping": "bigcat.training.stopping",
    "TopKIndex": "bigcat.serving",
    "FormulaClassifier": "bigcat.estimators.formula",
    "from_formula": "bigcat.estimators.formula",
    "load_model": "bigcat.files",
    "save_model": "bigcat.files",
    "save_onnx": "bigcat.serving",
    "predict_top_k": "bigcat.pipelines",
    "report": "bigcat.reporting",
}
_SUBMODULES = {
    "bayes",
    "bounds",
    "dask",
    "data",
    "extending",
    "inspection",
    "metrics",
    "noise",
    "plots",
    "samplers",
    "solvers",
}

__all__ = [
    "BayesianClassifier",
    "Checkpoint",
    "ChoiceModel",
    "EarlyStopping",
    "FormulaClassifier",
    "LinearClassifier",
    "Method",
    "TopKIndex",
    "__version__",
    "bayes",
    "bounds",
    "dask",
    "data",
    "extending",
    "from_formula",
    "inspection",
    "load_model",
    "methods",
    "metrics",
    "noise",
    "plots",
    "predict_top_k",
    "report",
    "samplers",
    "save_model",
    "save_onnx",
    "solvers",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"bigcat.{name}")
    raise AttributeError(f"module 'bigcat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
