"""Our posterior as the start of NUTS, the sampler that is exact but slow to find its feet.

The softmax model with a N(0, 1) prior on 10 classes. The fit of independent binary regressions
gives NUTS a place to start from and the scales of the weights, which it then keeps; a cold start
has to learn them in its warm-up. Their means are held against those of a long run.

NUTS runs in an environment of its own, which ``python -m benchmarks yardsticks`` makes.
"""

import sys
import time
from pathlib import Path

import numpy as np

from bigcat import BayesianClassifier
from bigcat.bayes import IndependentBinary

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
yardsticks = __import__("benchmarks.yardsticks").yardsticks
synthetic = __import__("benchmarks.datasets.synthetic").datasets.synthetic


def compare() -> None:
    drawn = synthetic.predictable_classes(1500, 10, 10, sigma_high=2.0, seed=1)
    train, test = slice(0, 1000), slice(1000, None)
    data = (drawn.X[train], drawn.y[train], drawn.X[test], drawn.y[test], 10)

    began = time.process_time()
    model = BayesianClassifier(IndependentBinary("logit", "conditioned")).fit(*data[:2])
    seconds = time.process_time() - began
    log_p = model.log_proba_of(*data[2:4], posterior="plug-in").mean()
    print(f"ours:      test log-likelihood {log_p:.4f} after {seconds:.2f} CPU seconds")

    # A shift common to all classes changes no probability: its mean is 0 and its variance the
    # prior's, 1 in 10. The intercept is our last column and the yardsticks' first.
    mean = model.posterior_.mean - model.posterior_.mean.mean(axis=0)
    spread = model.posterior_.sample(400, random_state=0).var(axis=0) + 0.1
    ours = {"init_mean": np.roll(mean, 1, axis=1), "init_variance": np.roll(spread, 1, axis=1)}
    ours["adapt_scales"] = False

    long = yardsticks.run("nuts", *data, n_warmup=300, n_samples=500, thin=1)
    sd = long["samples"][0].std(axis=0)
    print(f"long run:  {long['trace_log_likelihood'][0, -1]:.4f}, {long['seconds'][0]:.1f} seconds")
    print("20 draws of warm-up, then 200: log-likelihood, leapfrogs, seconds, error of the means")
    for name, start in {"cold": {}, "warm": ours}.items():
        run = yardsticks.run("nuts", *data, n_warmup=20, n_samples=200, seed=1, **start)
        error = np.sqrt((((run["mean"] - long["mean"])[0] / sd) ** 2).mean())
        first, last = run["trace_log_likelihood"][0][[4, -1]]
        print(
            f"{name} start: {first:8.4f} after 5 draws, {last:.4f} at last, "
            f"{run['leapfrogs'][0]:6d}, {run['seconds'][0]:5.2f}, {error:.2f} posterior sd"
        )


if yardsticks.is_ready("nuts"):
    compare()
else:
    print("NUTS is not installed: python -m benchmarks yardsticks makes its environment")
