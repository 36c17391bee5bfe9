"""Models for serving: smaller files, and the best classes without a look at all of them."""

from bigcat.serving.compression import compressed, storage_loss
from bigcat.serving.index import TopKIndex
from bigcat.serving.onnx import require_onnx, save_onnx

__all__ = [
    "TopKIndex",
    "compressed",
    "require_onnx",
    "save_onnx",
    "storage_loss",
]
