"""A Gaussian posterior over the weights, by augment and reduce (A&R, end of 3.1 and 3.2).

q(w_kj) = N(mean_kj, scale_kj^2), prior N(0, prior^2), all independent. A row sees the weights
through its scores, psi_k ~ N(m_k, v_k), v_k = sum_j x_j^2 scale_kj^2; an intercept is the weight of
a feature that is always one. For the ELBO, sum_n E_q[bound of row n] - KL(q || prior), no weight is
ever drawn:

    softmax      E[exp(psi_k - psi_y)] = exp(m_k - m_y + (v_k + v_y)/2)
    other noise  with q(e) = N(mu, s^2) the argument of log Phi(e + psi_y - psi_k) is Gaussian, of
                 variance s^2 + v_y + v_k: one quadrature a class
"""

from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import logsumexp

from . import bounds
from .noise import Noise


class ExpectedBound(NamedTuple):
    """Expected bound, its derivatives in the scores' means, and -2 times those in variances.

    The label's come last.
    """

    value: float
    grads: np.ndarray
    curvatures: np.ndarray


def _with_label(value, grads, curvatures) -> ExpectedBound:
    """Append the label's derivatives: only score differences and sums of variances matter."""
    return ExpectedBound(
        value, np.append(grads, -grads.sum()), np.append(curvatures, curvatures.sum())
    )


def softmax(m_y, v_y, m, v, weights, log_eta: float) -> ExpectedBound:
    """Return the expectation of A&R's equation 8 over the scores, at a given log eta."""
    log_terms = m - m_y + 0.5 * (v + v_y)
    terms = weights * np.exp(log_terms - log_eta)
    value = 1.0 - log_eta - np.exp(-log_eta) - terms.sum()
    return _with_label(value, -terms, terms)


def softmax_log_eta(m_y, v_y, m, v, weights) -> float:
    """Return the best log eta; the bound there is minus log eta."""
    return bounds.log_eta_estimate(m_y - 0.5 * v_y, m + 0.5 * v, weights)


def gaussian_q(noise: Noise, m_y, v_y, m, v, weights, mu, s, n_nodes: int) -> ExpectedBound:
    """Return the expectation of A&R's equation 7 over the scores, with q(e) = N(mu, s^2).

    Twice the derivative of E[f] in the variance of a Gaussian argument is E[f''] = E[u f'] / scale.
    """
    u, w = bounds.quadrature("gaussian", n_nodes)
    scale = np.sqrt(s**2 + v_y + v)
    t = (mu + m_y - m)[:, None] + scale[:, None] * u
    gradients = noise.log_cdf_grad(t)
    value = w @ noise.log_pdf(mu + s * u) + np.log(s) + bounds.ENTROPY["gaussian"]
    value += weights @ (noise.log_cdf(t) @ w)
    return _with_label(value, -weights * (gradients @ w), -weights * (gradients @ (w * u)) / scale)


# The whole ELBO and its optimum; for the softmax with every eta at its best


def kl(mean: np.ndarray, scale: np.ndarray, prior: np.ndarray) -> float:
    """Return KL(q || prior) of independent Gaussians; ``prior`` holds standard deviations."""
    ratio = (scale / prior) ** 2
    return 0.5 * float(np.sum(ratio - 1.0 - np.log(ratio) + (mean / prior) ** 2))


def softmax_elbo(mean, scale, X, y, prior):
    """Return the ELBO and its gradients in the means and in the logarithms of the scales.

    A row is worth -log(1 + sum_k exp(m_k - m_y + (v_k + v_y)/2)): minus the best log eta.
    """
    rows = np.arange(len(y))
    m, v = X @ mean.T, X**2 @ (scale**2).T
    d = m + 0.5 * v - (m - 0.5 * v)[rows, y][:, None]
    d[rows, y] = 0.0
    log_eta = logsumexp(d, axis=1)
    grads = -np.exp(d - log_eta[:, None])
    grads[rows, y] = 0.0
    curvatures = -grads
    grads[rows, y], curvatures[rows, y] = -grads.sum(axis=1), curvatures.sum(axis=1)
    gradient = grads.T @ X - mean / prior**2
    log_scale_gradient = 1.0 - scale**2 * (curvatures.T @ X**2 + prior**-2.0)
    return -log_eta.sum() - kl(mean, scale, prior), gradient, log_scale_gradient


def gaussian_q_elbo(noise: Noise, mean, scale, mu, s, X, y, prior, n_nodes: int):
    """Return the ELBO with q(e_n) = N(mu_n, s_n^2) and gradients in all its parameters."""
    u, w = bounds.quadrature("gaussian", n_nodes)
    value, gradient = -kl(mean, scale, prior), -mean / prior**2
    curvature = prior**-2.0 * np.ones_like(mean)
    grads_mu, grads_s = np.empty(len(y)), np.empty(len(y))
    for n, label in enumerate(y):
        others = np.arange(len(mean)) != label
        m, v = mean @ X[n], scale**2 @ X[n] ** 2
        ones = np.ones(len(mean) - 1)
        row = gaussian_q(
            noise, m[label], v[label], m[others], v[others], ones, mu[n], s[n], n_nodes
        )
        order = np.append(np.flatnonzero(others), label)
        value += row.value
        gradient[order] += np.outer(row.grads, X[n])
        curvature[order] += np.outer(row.curvatures, X[n] ** 2)
        # e has the label's place in every term, and a density of its own.
        own = noise.log_pdf_grad(mu[n] + s[n] * u)
        grads_mu[n] = w @ own + row.grads[-1]
        grads_s[n] = 1.0 + s[n] * (w @ (u * own)) - s[n] ** 2 * row.curvatures[-1]
    return value, gradient, 1.0 - scale**2 * curvature, grads_mu, grads_s


def _maximise(elbo, shapes, starts):
    """Return maximum and maximiser, by L-BFGS, of a function that returns its gradients too."""
    cuts = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]

    def negative(flat):
        pieces = [a.reshape(shape) for a, shape in zip(np.split(flat, cuts), shapes)]
        value, *gradients = elbo(*pieces)
        return -value, -np.concatenate([g.ravel() for g in gradients])

    start = np.concatenate([np.full(shape, a).ravel() for shape, a in zip(shapes, starts)])
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-13, "gtol": 1e-7}
    found = optimize.minimize(negative, start, jac=True, method="L-BFGS-B", options=options)
    pieces = [a.reshape(shape) for a, shape in zip(np.split(found.x, cuts), shapes)]
    return -found.fun, pieces


def fit_softmax(X, y, n_classes: int, prior):
    """Return means, scales and the ELBO at its optimum; ``prior`` has a number per feature."""
    shape = (n_classes, X.shape[1])
    prior = np.broadcast_to(prior, shape)
    value, (mean, log_scale) = _maximise(
        lambda mean, log_scale: softmax_elbo(mean, np.exp(log_scale), X, y, prior),
        (shape, shape),
        (0.0, -1.0),
    )
    return mean, np.exp(log_scale), value


def fit_gaussian_q(noise: Noise, X, y, n_classes: int, prior, n_nodes: int = 8):
    """Return means, scales and the ELBO at its optimum, for any noise."""
    shape, rows = (n_classes, X.shape[1]), (len(y),)
    prior = np.broadcast_to(prior, shape)
    value, pieces = _maximise(
        lambda mean, log_scale, mu, log_s: gaussian_q_elbo(
            noise, mean, np.exp(log_scale), mu, np.exp(log_s), X, y, prior, n_nodes
        ),
        (shape, shape, rows, rows),
        (0.0, -1.0, 1.0, -0.5),
    )
    return pieces[0], np.exp(pieces[1]), value


def log_marginal_likelihood(X, y, n_classes: int, prior, rng, n_draws: int = 200_000) -> float:
    """Return the log of the softmax likelihood averaged over draws of the prior."""
    weights = prior * rng.standard_normal((n_draws, n_classes, X.shape[1]))
    scores = np.einsum("skd,nd->snk", weights, X)
    log_p = scores[:, np.arange(len(y)), y].sum(axis=1) - logsumexp(scores, axis=2).sum(axis=1)
    return float(logsumexp(log_p) - np.log(n_draws))


# Training: rows one by one, the KL after every one, on all coordinates


def train_softmax(X, y, n_classes: int, prior, draws, start, *, rate: float, n_epochs: int):
    """Run AdaGrad on the means and natural-gradient steps on the precisions, row by row.

    ``draws`` yields the drawn classes and their weights, row after row; ``start`` holds the means,
    the information 1/scale^2 - 1/prior^2 and log eta. The gradient flow of the KL for the share of
    one row is exact: mean exp(-step / (N prior^2)) and information exp(-step / N).

    A coordinate's first step size is its first gradient's: until then it stays where it is.
    """
    mean, information, log_eta = (np.array(a, dtype=float) for a in start)
    n_rows = len(y)
    squares, values = np.zeros_like(mean), []
    for epoch in range(n_epochs):
        step = (2.0 + epoch) ** -0.7
        total = 0.0
        for n in range(n_rows):
            with np.errstate(divide="ignore"):
                pull = np.where(squares > 0, rate / (np.sqrt(squares) + 1e-8), 0.0)
            mean *= np.exp(-pull / (n_rows * prior**2))
            information *= np.exp(-step / n_rows)
            drawn, weights = next(draws)
            classes = np.append(drawn, y[n])
            m = mean[classes] @ X[n]
            v = (1.0 / (prior**-2.0 + information))[classes] @ X[n] ** 2
            row = m[-1], v[-1], m[:-1], v[:-1], weights
            total += softmax(*row, log_eta[n]).value
            log_eta[n] = bounds.softmax_local_step(log_eta[n], softmax_log_eta(*row), step)
            _, grads, curvatures = softmax(*row, log_eta[n])
            gradient = np.outer(grads, X[n])
            squares[classes] += gradient**2
            mean[classes] += rate * gradient / (np.sqrt(squares[classes]) + 1e-8)
            forgotten = -n_rows * np.expm1(-step / n_rows)
            information[classes] += forgotten * np.outer(curvatures, X[n] ** 2)
        values.append(total)
    return mean, 1.0 / np.sqrt(prior**-2.0 + information), np.array(values)
