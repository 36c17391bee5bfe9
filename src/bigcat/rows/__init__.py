"""Rows and problems: the only code that knows the memory layout of rows.

Kernels access rows through verbs (`bigcat.verbs`), with one implementation per format: `forms` has
dense and sparse rows, `embedded` rows that meet the classes through vectors.
"""

from bigcat.rows.blocks import add_features
from bigcat.rows.columns import MIN_COLUMN_SIZE, ColumnScaling, SparseColumnScaling, varies
from bigcat.rows.embedded import EmbeddedRows, embedded
from bigcat.rows.forms import DenseRows, Rows, SparseRows, as_rows, is_sparse, read_only
from bigcat.rows.layout import class_major, gather_majors, gather_minors, weights_shape
from bigcat.rows.paired import PairedRows, TrainedPairRows, trained_pairs
from bigcat.rows.problem import Problem, Sizes
from bigcat.rows.sums import batch_grams, squared_columns, squared_norms

__all__ = [
    "MIN_COLUMN_SIZE",
    "ColumnScaling",
    "DenseRows",
    "EmbeddedRows",
    "PairedRows",
    "Problem",
    "Rows",
    "Sizes",
    "SparseColumnScaling",
    "SparseRows",
    "TrainedPairRows",
    "add_features",
    "as_rows",
    "batch_grams",
    "class_major",
    "embedded",
    "gather_majors",
    "gather_minors",
    "is_sparse",
    "read_only",
    "squared_columns",
    "squared_norms",
    "trained_pairs",
    "varies",
    "weights_shape",
]
