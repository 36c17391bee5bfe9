"""Models for serving: ONNX files, and the best classes without a look at all of them."""

from bigcat.serving.index import TopKIndex
from bigcat.serving.onnx import require_onnx, save_onnx

__all__ = [
    "TopKIndex",
    "require_onnx",
    "save_onnx",
]
