"""Public interface for user-defined noises, bounds, samplers and solvers.

``docs/extending/`` has a page and a skeleton for each. A part is a frozen dataclass (`Noise`,
`Bound`, `Sampler`, `Solver`) whose ``lower`` returns a tag: a NamedTuple that compiled code sees.
`implement` registers the implementation of a verb for a tag. All names keep their meaning within a
minor version.

Examples
--------
>>> from bigcat import extending
>>> "draw" in extending.__all__
True
"""

from bigcat.bounds import Bound
from bigcat.combinations import Method, register
from bigcat.compile import device, implement
from bigcat.noise import CustomNoise, Noise
from bigcat.numerics.random import (
    below,
    standard_gumbel,
    standard_logistic,
    standard_normal,
    uniform,
)
from bigcat.numerics.special import (
    exp_differences,
    log1p_exp,
    log_ndtr_grad,
    log_ndtr_with_grad,
    log_sigmoid_grad,
    log_sigmoid_with_grad,
    log_softmax_with_grads,
    log_sum_exp,
    negative_sum,
    sigmoid,
    softplus_inverse,
    wright_omega,
)
from bigcat.numerics.vector import vector_exp, vector_log
from bigcat.part import Part
from bigcat.rows import Problem
from bigcat.samplers import Sampler
from bigcat.solvers import Solver
from bigcat.verbs import (
    at_local,
    coordinate_rate,
    damping,
    draw,
    fit_local,
    label_count,
    local_floor,
    log_cdf,
    log_cdf_grad,
    log_cdf_with_grad,
    log_pdf,
    log_pdf_grad,
    move,
    move_vector,
    rate,
    step,
    visit,
)

__all__ = [
    "Bound",
    "CustomNoise",
    "Method",
    "Noise",
    "Part",
    "Problem",
    "Sampler",
    "Solver",
    "at_local",
    "below",
    "coordinate_rate",
    "damping",
    "device",
    "draw",
    "exp_differences",
    "fit_local",
    "implement",
    "label_count",
    "local_floor",
    "log1p_exp",
    "log_cdf",
    "log_cdf_grad",
    "log_cdf_with_grad",
    "log_ndtr_grad",
    "log_ndtr_with_grad",
    "log_pdf",
    "log_pdf_grad",
    "log_sigmoid_grad",
    "log_sigmoid_with_grad",
    "log_softmax_with_grads",
    "log_sum_exp",
    "move",
    "move_vector",
    "negative_sum",
    "rate",
    "register",
    "sigmoid",
    "softplus_inverse",
    "standard_gumbel",
    "standard_logistic",
    "standard_normal",
    "step",
    "uniform",
    "vector_exp",
    "vector_log",
    "visit",
    "wright_omega",
]
