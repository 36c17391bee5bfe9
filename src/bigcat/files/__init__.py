"""Model files: safetensors with a JSON header, never pickle; written whole or not at all."""

from bigcat.files.store import (
    ModelFileError,
    check_destination,
    check_model_file,
    load_model,
    read_header,
    save_model,
)

__all__ = [
    "ModelFileError",
    "check_destination",
    "check_model_file",
    "load_model",
    "read_header",
    "save_model",
]
