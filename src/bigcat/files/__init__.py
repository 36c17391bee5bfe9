"""Model files: safetensors with a JSON header, never pickle; written whole or not at all."""

from bigcat.files.opening import ModelFileError, check_model_file, read_header
from bigcat.files.store import check_destination, load_model, save_model

__all__ = [
    "ModelFileError",
    "check_destination",
    "check_model_file",
    "load_model",
    "read_header",
    "save_model",
]
