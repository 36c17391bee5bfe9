"""From weights of centred columns to those of the columns themselves: b = b_c - w . means."""

from __future__ import annotations

import numpy as np

from bigcat.bayes._arrays import Floats
from bigcat.bayes._frames import ClassFrame, DiagonalFrame, GaussianAtMode, JointFrame
from bigcat.bayes._low_rank_frame import LowRankFrame
from bigcat.bayes.covariance import ClassDiagonal, ClassFull, Covariance, JointFull, LowRank


def uncentred(stack: Floats, means: Floats | None) -> Floats:
    """Draws (S, K, M) for the columns as they are; `means` None where they were not centred."""
    if means is None:
        return stack
    out = stack.copy()
    out[:, :, -1] -= stack[:, :, :-1] @ means
    return out


def uncentred_covariance(frame: GaussianAtMode, means: Floats | None) -> Covariance:
    """The covariance of a frame's weights."""
    turn = None
    if means is not None:
        turn = np.eye(len(means) + 1)
        turn[-1, :-1] = -means
    if isinstance(frame, JointFrame):
        n_classes = len(frame.mode)
        roots = frame.inverse_root
        if turn is not None:
            roots = roots.reshape(len(roots), n_classes, -1) @ turn.T
            roots = roots.reshape(len(roots), -1)
        return JointFull(roots.T @ roots, n_classes)
    if isinstance(frame, ClassFrame):
        class_roots = frame.inverse_roots if turn is None else frame.inverse_roots @ turn.T
        matrices = np.matmul(class_roots.transpose(0, 2, 1), class_roots)
        logs = -2.0 * np.log(np.diagonal(frame.roots, axis1=1, axis2=2)).sum(axis=1)
        return ClassFull(matrices, logs)
    if isinstance(frame, LowRankFrame):
        found = frame.covariance
        if turn is None:
            return found
        return LowRank(found.scales, found.directions, found.shrinkage, turn @ found.basis)
    assert isinstance(frame, DiagonalFrame)
    return ClassDiagonal(1.0 / frame.diagonal)
