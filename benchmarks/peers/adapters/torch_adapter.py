"""PyTorch: rows times a matrix of inputs, then one of several softmax layers.

Variants: ``full`` has a weight for every feature and class; ``factored`` (plain cross entropy),
``chunked`` (linear_cross_entropy), ``adaptive`` and ``sampled`` go through `hidden` numbers, so
they are low-rank models. Intercepts start at the class frequencies, except adaptive's.
"""

import numpy as np
import scipy.sparse as sp
import torch
from scoring import Model
from torch import nn
from torch.nn import functional as F

DENSE = 0.05  # share of non-zeros above which rows are made dense
MAX_FLOAT64_WEIGHTS = 30_000_000  # where dense gradients would cost more than the rest


class Inputs(nn.Module):
    """Sparse rows times a matrix."""

    def __init__(self, X, width, zero, sparse):
        super().__init__()
        n_features = X.shape[1]
        self.dense_rows = X.nnz > DENSE * X.shape[0] * n_features
        self.sparse = sparse and not self.dense_rows
        scale = n_features**-0.5 if self.dense_rows else 1.0
        start = torch.zeros if zero else torch.randn
        self.weight = nn.Parameter(scale * start(n_features, width))

    def forward(self, X):
        if self.dense_rows:
            return torch.from_numpy(X.toarray()) @ self.weight
        columns, starts, values = (
            torch.from_numpy(array.astype(kind))
            for array, kind in ((X.indices, np.int64), (X.indptr[:-1], np.int64), (X.data, "f4"))
        )
        return F.embedding_bag(
            columns, self.weight, starts, mode="sum", sparse=self.sparse, per_sample_weights=values
        )


class Intercepts(nn.Module):
    """The whole layer of a full-rank model, whose inputs are scores already."""

    def __init__(self, frequencies):
        super().__init__()
        self.bias = nn.Parameter(frequencies.log())

    def loss(self, scores, y):
        return F.cross_entropy(scores + self.bias, y)

    def log_proba(self, scores):
        return torch.log_softmax(scores + self.bias, dim=1)


class Softmax(Intercepts):
    def __init__(self, frequencies, hidden):
        super().__init__(frequencies)
        self.weight = nn.Parameter(torch.zeros(len(frequencies), hidden))

    def loss(self, h, y):
        return F.cross_entropy(F.linear(h, self.weight, self.bias), y)

    def log_proba(self, h):
        return torch.log_softmax(F.linear(h, self.weight, self.bias.flatten()), dim=1)


class ChunkedSoftmax(Softmax):
    def loss(self, h, y):
        options = nn.LinearCrossEntropyOptions()
        return F.linear_cross_entropy(h, self.weight, y, linear_bias=self.bias, options=options)


class SampledSoftmax(Softmax):
    """Negatives by a power of the frequencies, shared by the batch, with the logQ correction."""

    def __init__(self, frequencies, hidden, n_sampled, power=0.75):
        super().__init__(frequencies, hidden)
        self.bias = nn.Parameter(self.bias.detach()[:, None])  # sparse gradients want a matrix
        q = frequencies.numpy().astype(np.float64) ** power
        self.steps = np.cumsum(q / q.sum())
        self.n_sampled = min(n_sampled, len(q))
        self.log_expected = torch.from_numpy(np.log(self.n_sampled * q / q.sum())).float()
        self.rng = np.random.default_rng(0)

    def loss(self, h, y):
        drawn = np.searchsorted(self.steps, self.rng.random(self.n_sampled))
        negatives = torch.from_numpy(np.minimum(drawn, len(self.steps) - 1))

        def pick(classes):
            arrays = (self.weight, self.bias)
            return (F.embedding(classes, array, sparse=True) for array in arrays)

        weights, biases = pick(negatives)
        scores = h @ weights.T + biases[:, 0] - self.log_expected[negatives]
        scores = scores.masked_fill(negatives[None] == y[:, None], -1e9)  # no label is a negative
        weights, biases = pick(y)
        own = (h * weights).sum(dim=1) + biases[:, 0]
        return (torch.logsumexp(torch.cat([own[:, None], scores], dim=1), dim=1) - own).mean()


class AdaptiveSoftmax(nn.Module):
    """Clusters of falling frequency."""

    def __init__(self, frequencies, hidden):
        super().__init__()
        n_classes = len(frequencies)
        order = torch.argsort(frequencies, descending=True, stable=True)
        self.rank = torch.empty_like(order)
        self.rank[order] = torch.arange(n_classes)
        cutoffs = sorted({max(1, n_classes // 10), max(2, n_classes // 3)})
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(hidden, n_classes, cutoffs, div_value=2.0)

    def loss(self, h, y):
        return self.layer(h, self.rank[y]).loss

    def log_proba(self, h):
        return self.layer.log_prob(h)[:, self.rank]


def warm_up(rows, settings):
    """Use an optimiser once, because its first use imports for seconds."""
    torch.set_flush_denormal(True)  # vanishing gradients make an epoch many times slower without
    torch.set_num_threads(rows.threads)
    density = 0.5 if rows.X.nnz > DENSE * np.prod(rows.X.shape) else DENSE / 2
    X = sp.random(64, 50, density, "csr", dtype=np.float32, random_state=0)
    small = type(rows)(X, np.arange(64) % 32, 32, rows.threads, rows.variant)
    fit(small, None, **settings | {"epochs": 1})


def fit(rows, watch, epochs=15, batch=256, lr=0.001, optimizer="adam", hidden=256, n_sampled=200):
    torch.manual_seed(0)
    frequencies = torch.from_numpy(np.bincount(rows.y, minlength=rows.n_classes) + 1.0).float()
    frequencies /= frequencies.sum()
    sampled, full = rows.variant == "sampled", rows.variant == "full"
    width = rows.n_classes if full else hidden
    sparse = sampled or (full and rows.X.shape[1] * width > MAX_FLOAT64_WEIGHTS)
    inputs = Inputs(rows.X, width, zero=full, sparse=sparse)
    layer = {
        "full": lambda: Intercepts(frequencies),
        "factored": lambda: Softmax(frequencies, hidden),
        "chunked": lambda: ChunkedSoftmax(frequencies, hidden),
        "adaptive": lambda: AdaptiveSoftmax(frequencies, hidden),
        "sampled": lambda: SampledSoftmax(frequencies, hidden, n_sampled),
    }[rows.variant]()
    optimizers = _optimizers(inputs, layer, optimizer, lr, sampled)

    @torch.no_grad()
    def log_proba(X):
        return layer.log_proba(inputs(X)).numpy()

    rng = np.random.default_rng(0)
    for epoch in range(1, epochs + 1):
        order = rng.permutation(len(rows.y))
        for first in range(0, len(order), batch):
            chosen = order[first : first + batch]
            loss = layer.loss(inputs(rows.X[chosen]), torch.from_numpy(rows.y[chosen]))
            for o in optimizers:
                o.zero_grad()
            loss.backward()
            for o in optimizers:
                o.step()
        if watch is not None and watch.after_epoch(epoch, log_proba):
            break
    return Model(log_proba)


def _optimizers(inputs, layer, name, lr, sampled):
    kinds = {"adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD}
    if not sampled:
        return [kinds[name]([*inputs.parameters(), *layer.parameters()], lr=lr)]
    sparse, dense = [*layer.parameters()], [*inputs.parameters()]
    if inputs.sparse:
        return [torch.optim.SparseAdam(sparse + dense, lr=lr)]
    return [torch.optim.SparseAdam(sparse, lr=lr), torch.optim.Adam(dense, lr=lr)]
