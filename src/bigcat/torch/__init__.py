"""Output layers of PyTorch networks over very many classes.

`CategoricalHead` is the layer and its loss; `RowSparseAdam` and `RowSparseAdagrad` update the rows
of the classes that a step visited.
"""

try:
    import torch
except ImportError as error:
    raise ImportError(
        "bigcat.torch needs PyTorch, which is not installed; pip install 'bigcat[torch]'"
    ) from error

from bigcat.torch.conversion import from_linear, to_linear
from bigcat.torch.head import CategoricalHead
from bigcat.torch.noise import Noise
from bigcat.torch.optim import RowSparseAdagrad, RowSparseAdam
from bigcat.torch.posterior import HeadPosterior
from bigcat.torch.samplers import (
    InBatch,
    Negatives,
    Sampler,
    Uniform,
    Weighted,
    by_count,
    log_uniform,
)

del torch

__all__ = [
    "CategoricalHead",
    "HeadPosterior",
    "InBatch",
    "Negatives",
    "Noise",
    "RowSparseAdagrad",
    "RowSparseAdam",
    "Sampler",
    "Uniform",
    "Weighted",
    "by_count",
    "from_linear",
    "log_uniform",
    "to_linear",
]
