"""ADVI and NUTS for categorical regression with a Gaussian prior. Runs in numpyro.txt's place."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr
from numpyro.infer.hmc import hmc

jax.config.update("jax_enable_x64", True)


def log_probabilities(link, scores):
    """Log class probabilities; CBC-logit is the softmax."""
    if link == "softmax":
        return jax.nn.log_softmax(scores)
    if link == "cbm-logit":
        log_h = jax.nn.log_sigmoid(scores)
    elif link == "cbm-probit":
        log_h = log_ndtr(scores)
    elif link == "cbc-probit":
        log_h = log_ndtr(scores) - log_ndtr(-scores)
    else:
        raise ValueError(f"unknown link {link!r}")
    return jax.nn.log_softmax(log_h)


class Problem:
    """One data set, and the log density of its weights (classes, 1 + features)."""

    def __init__(self, arrays, i, options):
        def with_ones(X):
            return jnp.column_stack([jnp.ones(len(X)), X])

        self.X, self.y = with_ones(arrays["X_train"][i]), jnp.asarray(arrays["y_train"][i])
        self.X_test, self.y_test = with_ones(arrays["X_test"][i]), arrays["y_test"][i]
        self.link = options.get("link", "softmax")
        self.shape = (options["n_classes"], self.X.shape[1])

    def evaluate(self, weights):
        log_p = np.asarray(log_probabilities(self.link, self.X_test @ jnp.asarray(weights).T))
        rows = np.arange(len(log_p))
        return log_p[rows, self.y_test].mean(), (log_p.argmax(1) == self.y_test).mean()


def make_log_density(link, sigma):
    def log_density(weights, X, y):
        log_p = log_probabilities(link, X @ weights.T)
        fit = jnp.take_along_axis(log_p, y[:, None], axis=1).sum()
        return fit - 0.5 * (weights**2).sum() / sigma**2

    return log_density


class Trace:
    """Mean of the draws so far, scored on the test rows at about 12 iterations per decade."""

    def __init__(self, problem):
        self.problem, self.rows, self.next = problem, [], 1

    def add(self, iteration, seconds, weights, last=False):
        if iteration >= self.next or last:
            self.rows.append((iteration, seconds, *self.problem.evaluate(weights)))
            self.next = max(iteration + 1, int(iteration * 1.2))

    def columns(self):
        names = ("iteration", "seconds", "log_likelihood", "accuracy")
        return {f"trace_{name}": np.array(c) for name, c in zip(names, zip(*self.rows))}


def run_advi(problem, options, key, compiled):
    """Mean-field ADVI, one draw a step, the step sizes of Kucukelbir et al. 2017, section 2.6."""
    log_density = make_log_density(problem.link, options.get("sigma", 1.0))
    rate = options.get("learning_rate", 0.1)

    def objective(parameters, noise, X, y):
        mean, log_sd = parameters
        return log_density(mean + jnp.exp(log_sd) * noise, X, y) + log_sd.sum()

    def step(state, X, y):
        parameters, squares, i, key = state
        key, sub = jax.random.split(key)
        noise = jax.random.normal(sub, problem.shape)
        gradient = jax.grad(objective)(parameters, noise, X, y)
        weight = jnp.where(i == 0, 1.0, 0.1)
        squares = jax.tree.map(lambda s, g: weight * g**2 + (1 - weight) * s, squares, gradient)
        scale = rate * (i + 1.0) ** (-0.5 + 1e-16)
        parameters = jax.tree.map(
            lambda p, g, s: p + scale * g / (1 + jnp.sqrt(s)), parameters, gradient, squares
        )
        return parameters, squares, i + 1, key

    zero = (jnp.zeros(problem.shape), jnp.zeros(problem.shape))
    state = (zero, zero, jnp.asarray(0), key)
    began = time.process_time()
    if "step" not in compiled:
        compiled["step"] = jax.jit(step).lower(state, problem.X, problem.y).compile()
    compile_seconds = time.process_time() - began
    trace, seconds = Trace(problem), 0.0
    for i in range(1, options["n_samples"] + 1):
        began = time.process_time()
        state = jax.block_until_ready(compiled["step"](state, problem.X, problem.y))
        seconds += time.process_time() - began
        last = i == options["n_samples"] or seconds > options.get("max_seconds", np.inf)
        trace.add(i, seconds, state[0][0], last)
        if last:
            break
    mean, log_sd = (np.asarray(part) for part in state[0])
    result = {"mean": mean, "sd": np.exp(log_sd), "compile_seconds": compile_seconds}
    if options.get("thin"):
        noise = np.random.default_rng(0).normal(size=(1000, *problem.shape))
        result["samples"] = mean + np.exp(log_sd) * noise
    return result | {"seconds": seconds, **trace.columns()}


class KnownScale:
    """Weights N(0, sigma^2), sampled directly by NUTS."""

    def __init__(self, options, shape):
        self.shape, self.size = shape, shape[0] * shape[1]
        self.log_density = make_log_density(options.get("link", "softmax"), options["sigma"])

    def weights(self, flat):
        return flat.reshape(self.shape)

    def log_posterior(self, flat, X, y):
        return self.log_density(self.weights(flat), X, y)


class LearnedScales:
    """Weights N(0, s^2), intercepts N(0, t^2), s and t half-t with 4 degrees of freedom.

    NUTS moves log s, log t and standard normals, which rows of few labels leave as they are.
    """

    FREEDOM = 4.0

    def __init__(self, options, shape):
        self.shape, self.size = shape, shape[0] * shape[1] + 2
        self.link, self.width = options.get("link", "softmax"), options["scale_width"]

    def weights(self, flat):
        scales = jnp.full(self.shape[1], jnp.exp(flat[0])).at[0].set(jnp.exp(flat[1]))
        return flat[2:].reshape(self.shape) * scales

    def log_posterior(self, flat, X, y):
        log_p = log_probabilities(self.link, X @ self.weights(flat).T)
        fit = jnp.take_along_axis(log_p, y[:, None], axis=1).sum()
        power = -0.5 * (self.FREEDOM + 1.0)
        squares = jnp.exp(2.0 * flat[:2]) / (self.FREEDOM * self.width**2)
        of_scales = (flat[:2] + power * jnp.log1p(squares)).sum()
        return fit - 0.5 * (flat[2:] ** 2).sum() + of_scales


def run_nuts(problem, options, key, compiled):
    options = {"sigma": 1.0} | options
    prior = (LearnedScales if "scale_width" in options else KnownScale)(options, problem.shape)
    n_warmup = options.get("n_warmup", 200)
    start = options.get("init_mean", np.zeros(prior.size))
    variance = options.get("init_variance")

    def potential(X, y):
        return lambda flat: -prior.log_posterior(flat, X, y)

    initial_state, sample = hmc(potential_fn_gen=potential, algo="NUTS")
    began = time.process_time()
    data = (problem.X, problem.y)
    flat = jnp.asarray(start, float).reshape(prior.size)
    state = initial_state(
        flat,
        n_warmup,
        inverse_mass_matrix=None if variance is None else jnp.asarray(variance).ravel(),
        adapt_mass_matrix=options.get("adapt_scales", True),
        max_tree_depth=options.get("max_tree_depth", 10),
        model_args=data,
        rng_key=key,
    )
    if "step" not in compiled:
        compiled["step"] = (
            jax.jit(lambda state, X, y: sample(state, (X, y), {})).lower(state, *data).compile()
        )
    compile_seconds = time.process_time() - began
    trace, seconds, leapfrogs, kept = Trace(problem), 0.0, 0, []
    total = np.zeros(problem.shape)
    n_total = n_warmup + options["n_samples"]
    for i in range(1, n_total + 1):
        began = time.process_time()
        state = jax.block_until_ready(compiled["step"](state, *data))
        seconds += time.process_time() - began
        leapfrogs += int(state.num_steps)
        weights = np.asarray(prior.weights(state.z))
        last = i == n_total or seconds > options.get("max_seconds", np.inf)
        if i > n_warmup:
            total = total + weights
            if options.get("thin") and (i - n_warmup) % options["thin"] == 0:
                kept.append(weights)
        mean = total / (i - n_warmup) if i > n_warmup else weights
        trace.add(i, seconds, mean, last)
        if last:
            break
    result = {"mean": mean, "compile_seconds": compile_seconds, "seconds": seconds}
    if kept:
        result["samples"] = np.array(kept)
    warm = {"iterations": i, "n_warmup": min(i, n_warmup), "leapfrogs": leapfrogs}
    return result | warm | trace.columns()


def main(folder):
    arrays = dict(np.load(folder / "input.npz"))
    options = json.loads((folder / "options.json").read_text())
    options |= {name: arrays[name] for name in ("init_mean", "init_variance") if name in arrays}
    run = {"advi": run_advi, "nuts": run_nuts}[options["method"]]
    results, compiled = [], dict[str, Any]()
    for i in range(len(arrays["X_train"])):
        key = jax.random.PRNGKey(options.get("seed", 0) + i)
        results.append(run(Problem(arrays, i, options), options, key, compiled))
    common = set.intersection(*(set(result) for result in results))
    lengths = {name: {np.shape(r[name]) for r in results} for name in common}
    stacked: dict[str, Any] = {
        n: np.stack([r[n] for r in results]) for n in common if len(lengths[n]) == 1
    }
    np.savez(folder / "output.npz", **stacked)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
