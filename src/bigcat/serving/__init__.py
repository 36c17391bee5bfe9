"""Models for serving: ONNX files, and search for the best classes."""

from bigcat.serving.index import TopKIndex
from bigcat.serving.onnx import require_onnx, save_onnx

__all__ = [
    "TopKIndex",
    "require_onnx",
    "save_onnx",
]
