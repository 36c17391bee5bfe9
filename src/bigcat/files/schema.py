"""Schema of the JSON header of a model file."""

from __future__ import annotations

from typing import Any

from bigcat._io.checks import is_number, is_whole

FORMAT, VERSION = "bigcat-model", 1
#: Types that weights can be stored in.
WEIGHT_DTYPES = ("float32", "float16", "int8")


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


#: Arrays are objects here; their content is checked when they are read.
SCHEMA: dict[str, Any] = {
    "format": {FORMAT},
    "version": {VERSION},
    "bigcat_version": str,
    "estimator": {"LinearClassifier", "BayesianClassifier"},
    "parameters": dict,
    "left_out": dict,
    "noise": ({"name": str, "custom": bool},),
    "fitted": {
        "classes": dict,
        "class_count": dict,
        "exact_classes": dict | None,
        "feature_names_in": dict | None,
        "n_features_in": lambda value: is_whole(value, 1),
        "n_iter": lambda value: value is None or is_whole(value),
    },
    "history": _is_rows,
    "selection": lambda value: value is None or _is_rows(value),
    "linear": (
        {
            "dtype": {*WEIGHT_DTYPES},
            "rank": lambda value: value is None or is_whole(value),  # 0 for pairs alone
            "bound": dict | None,
            "arrays": dict,
        },
    ),
    "posterior": (
        {
            "kind": str,
            "covariance": str,
            "facts": dict,
            "intercept": bool,
            "evidence": lambda value: is_number(value) or value == {"$float": "nan"},
            "bounds_evidence": bool,
            "why_no_evidence": str | None,
            "rows_seen": lambda value: is_number(value, 0),
            "steps_made": is_whole,
            "arrays": dict,
        },
    ),
    "vectorizer": dict | None,
    "columns": dict | None,
    "steps": dict | None,
    "extra": dict,
    "tensors": dict,
}
