"""Heads from linear classifiers, and back, with the same probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from bigcat.estimators import History, LinearClassifier
from bigcat.linear import FullRankWeights
from bigcat.noise import REGISTRY, resolve
from bigcat.torch.head import CategoricalHead


def from_linear(model: LinearClassifier, **options: Any) -> CategoricalHead:
    """Return a head with the weights of a fitted linear classifier.

    Target k is class ``model.classes_[k]``, and hidden rows are the features.  A model of low rank
    becomes a head over all its features.

    Parameters
    ----------
    model : LinearClassifier
    **options
        For `CategoricalHead`, as ``method`` or ``n_negatives``.

    Examples
    --------
    >>> from bigcat.torch import CategoricalHead, from_linear, to_linear
    >>> model = to_linear(CategoricalHead(4, 30))
    >>> from_linear(model, method="one-vs-each", n_negatives=5)
    CategoricalHead(
      in_features=4, n_classes=30, noise='gumbel', method='one-vs-each', sparse_grad=True
      (sampler): Uniform()
    )
    """
    linear = model.linear_model()
    if linear.noise.name not in REGISTRY:
        raise ValueError(
            f"the model's noise is {linear.noise!r}, which runs in compiled code; make a "
            "CategoricalHead with the same noise as a bigcat.torch.Noise and set its weights"
        )
    coef = torch.from_numpy(np.array(model.coef_, dtype=np.float32, order="C"))
    head = CategoricalHead(coef.shape[1], coef.shape[0], noise=linear.noise.name, **options)
    with torch.no_grad():
        head.weight.copy_(coef)
        if head.bias is not None:
            head.bias.copy_(torch.from_numpy(np.array(linear.intercept)))
    return head


def to_linear(head: CategoricalHead, classes: ArrayLike | None = None) -> LinearClassifier:
    """Return a fitted linear classifier of hidden features with the weights of a head.

    Parameters
    ----------
    head : CategoricalHead
    classes : array of shape (n_classes,), optional
        Labels, in rising order; by default 0, 1, ...
    """
    resolve(head.noise.name)
    labels = np.arange(head.n_classes) if classes is None else np.asarray(classes)
    if len(labels) != head.n_classes or (labels[1:] <= labels[:-1]).any():
        raise ValueError(
            f"classes has {len(labels)} entries for {head.n_classes} classes, or is not in rising "
            "order; give each label once, in rising order"
        )
    bias = head.weight.new_zeros(head.n_classes) if head.bias is None else head.bias
    coef, intercept = (p.detach().float().cpu().numpy().copy() for p in (head.weight, bias))
    model = LinearClassifier(noise=head.noise.name)
    model.n_features_in_ = head.in_features
    model.restore(FullRankWeights(coef), intercept, labels, History([]))
    return model
