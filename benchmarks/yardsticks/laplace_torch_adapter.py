"""Laplace approximations of a linear layer at a given mode. Runs in laplace_torch.txt's place."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def layer_of(weights):
    """A linear layer with these weights, (classes, 1 + features), the intercepts first."""
    layer = torch.nn.Linear(weights.shape[1] - 1, len(weights))
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weights[:, 1:]))
        layer.bias.copy_(torch.as_tensor(weights[:, 0]))
    return layer


def approximate(X, y, weights, options):
    """Draws of the weights, (S, classes, 1 + features), and CPU seconds of the curvature."""
    n_classes, n_features = weights.shape[0], weights.shape[1] - 1
    precision = torch.full((n_classes * (n_features + 1),), options["sigma"] ** -2.0)
    precision[n_classes * n_features :] = options["intercept_sigma"] ** -2.0
    if options["structure"] == "kron":  # a number for each of its two blocks
        precision = precision[[0, -1]]
    # All but Kronecker factors hold derivatives of all scores by all weights for a batch at a time.
    batch_size = 500
    if options["structure"] != "kron":
        batch_size = int(np.clip(2e7 / weights.size / n_classes, 1, batch_size))

    def fitted_to(n_rows):
        found = Laplace(
            layer_of(weights),
            "classification",
            subset_of_weights="all",
            hessian_structure=options["structure"],
            prior_precision=precision,
        )
        data = TensorDataset(torch.as_tensor(X[:n_rows]), torch.as_tensor(y[:n_rows]))
        found.fit(DataLoader(data, batch_size=batch_size))
        return found

    torch.manual_seed(options.get("seed", 0))
    fitted_to(2)  # what is made on the first call does not count
    began = time.process_time()
    found = fitted_to(len(X))
    fitted = time.process_time() - began
    began = time.process_time()
    draws = found.sample(options["n_samples"]).detach().numpy()
    seconds = np.array([fitted, time.process_time() - began])
    flat = draws[:, : n_classes * n_features].reshape(-1, n_classes, n_features)
    return np.concatenate([draws[:, n_classes * n_features :, None], flat], axis=2), seconds


def main(folder):
    arrays = dict(np.load(folder / "input.npz"))
    options = json.loads((folder / "options.json").read_text())
    X, y = arrays["X_train"][0], arrays["y_train"][0]
    samples, seconds = approximate(X, y, arrays["init_mean"], options)
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else ["VmHWM: nan kB"]
    peak = next(float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM"))
    np.savez(
        folder / "output.npz",
        samples=samples[None],
        seconds=seconds[None],
        peak_mb=np.array([peak]),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
