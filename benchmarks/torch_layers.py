"""Output layers of PyTorch: seconds to quality, cost of a step, optimum, and intervals."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import yardsticks
from benchmarks._curves import seconds_to_reach
from benchmarks._peak import memory
from benchmarks._report import append, markdown, save, saved, show, written_between
from benchmarks.datasets import load

try:  # the parser of commands needs no torch
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError:
    torch = None

PROBLEMS = ("ptb", "yelp", "geonames")
CONTENDERS = (
    "cross_entropy",
    "linear_cross_entropy",
    "AdaptiveLogSoftmax",
    "sampled softmax, Adam",
    "CategoricalHead, Adam",
    "CategoricalHead, Adagrad",
)
#: Learning rates of Adam that each contender tries.  Adagrad takes ten times as much.
RATES = (1e-2, 3e-2, 3e-3)
N_FEATURES, N_NEGATIVES, BATCH = 64, 512, 256
HELD_OUT = 1_000
#: Held-out rows are looked at after 100 steps, and whenever steps have grown by a quarter.
FIRST_LOOK, BETWEEN_LOOKS, PATIENCE = 100, 1.25, 2
STEP_CLASSES = (10**4, 10**5, 10**6)
LEVEL = 0.9
ROOT = Path(__file__).parent.parent


def need_torch() -> None:
    """Exit with an installation hint if torch is missing."""
    if torch is None:
        raise SystemExit("this benchmark needs PyTorch; pip install 'bigcat[torch]'")


# Seconds to quality


@dataclass
class Rows:
    """Rows of a problem as bags of features, and their labels."""

    features: Tensor
    offsets: Tensor
    values: Tensor
    labels: Tensor

    @staticmethod
    def of(X: Any, y: np.ndarray) -> Rows:
        X = X.tocsr()
        return Rows(
            torch.from_numpy(X.indices.astype(np.int64)),
            torch.from_numpy(X.indptr.astype(np.int64)),
            torch.from_numpy(X.data.astype(np.float32)),
            torch.from_numpy(y.astype(np.int64)),
        )

    def part(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return features, offsets, values and labels of some rows."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        offsets = lengths.cumsum(0) - lengths
        place = torch.arange(int(lengths.sum())) + (starts - offsets).repeat_interleave(lengths)
        return self.features[place], offsets, self.values[place], self.labels[rows]


def problem(name: str) -> tuple[Rows, Rows, int, int]:
    """Return training and held-out rows, features and classes (numbered by frequency)."""
    split = load(name)
    classes, y, counts = np.unique(split.train.y, return_inverse=True, return_counts=True)
    rank = np.empty(len(classes), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(classes))
    test = rank[np.searchsorted(classes, split.test.y)]
    kept = np.random.default_rng(0).permutation(len(test))[:HELD_OUT]
    held_out = Rows.of(split.test.X.tocsr()[kept], test[kept])
    return Rows.of(split.train.X, rank[y]), held_out, split.train.X.shape[1], len(classes)


def cached_problem(name: str) -> tuple[Rows, Rows, int, int]:
    """Return a problem from a file that the first call makes."""
    path = ROOT / "benchmarks" / ".cache" / f"torch_{name}.pt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        torch.save(problem(name), path)
    found: tuple[Rows, Rows, int, int] = torch.load(path, weights_only=False)
    return found


def layer(contender: str, train: Rows, n_classes: int, rate: float) -> tuple[Any, Any, Any]:
    """Return loss and log-probabilities of hidden rows and labels, and an optimiser."""
    from bigcat.torch import CategoricalHead, RowSparseAdagrad, RowSparseAdam

    if contender == "AdaptiveLogSoftmax":
        cuts = [n_classes // 20, n_classes // 4]
        adaptive = nn.AdaptiveLogSoftmaxWithLoss(N_FEATURES, n_classes, cuts, div_value=2.0)
        adam = torch.optim.Adam(adaptive.parameters(), rate)
        return lambda h, y: adaptive(h, y).loss, lambda h, y: adaptive(h, y).output, adam
    counts = torch.bincount(train.labels, minlength=n_classes)
    method = "complementary" if contender.startswith("CategoricalHead") else "exact"
    head = CategoricalHead(
        N_FEATURES, n_classes, method=method, n_negatives=N_NEGATIVES, class_counts=counts
    )
    W, b = head.weight, head.bias
    assert b is not None
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "cross_entropy": lambda h, y: functional.cross_entropy(h @ W.T + b, y),
        "linear_cross_entropy": lambda h, y: functional.linear_cross_entropy(
            h, W, y, linear_bias=b, options=nn.LinearCrossEntropyOptions()
        ),
        "sampled softmax, Adam": lambda h, y: sampled_softmax(h, y, W, b),
    }
    adam = torch.optim.Adam(head.parameters(), rate)
    if contender == "CategoricalHead, Adam":
        adam = RowSparseAdam(head.parameters(), rate)
    elif contender == "CategoricalHead, Adagrad":
        adam = RowSparseAdagrad(head.parameters(), 10.0 * rate)
    return losses.get(contender, head), head.log_prob, adam


def sampled_softmax(hidden: Tensor, labels: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """Sampled softmax as users write it: log-uniform draws shared by the batch, log q taken off."""
    n_classes = len(W)
    log_range = float(np.log(n_classes + 1))
    drawn = (torch.rand(N_NEGATIVES) * log_range).exp().long().sub(1).clamp(0, n_classes - 1)

    def log_expected(k: Tensor) -> Tensor:
        return torch.log(N_NEGATIVES * torch.log1p(1.0 / (k + 1.0)) / log_range)

    own = (hidden * W[labels]).sum(1) + b[labels] - log_expected(labels)
    others = hidden @ W[drawn].T + b[drawn] - log_expected(drawn)
    others = others.masked_fill(drawn == labels[:, None], -torch.inf)
    scores = torch.cat([own[:, None], others], 1)
    return functional.cross_entropy(scores, torch.zeros_like(labels))


def train(
    name: str,
    contender: str,
    rate: float,
    threads: int,
    max_steps: int,
    max_seconds: float,
    target: float,
) -> dict[str, Any]:
    """Train one network until it has the target, or seconds, steps or patience run out.

    Returns its held-out log-likelihoods, seconds without those of evaluations, and memory.
    """
    from bigcat.torch import RowSparseAdam

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    rows, held_out, n_columns, n_classes = cached_problem(name)
    before = memory("VmHWM")
    bag = nn.EmbeddingBag(n_columns, N_FEATURES, mode="sum", sparse=True)
    nn.init.normal_(bag.weight, std=0.1)
    loss_of, log_prob, optimizer = layer(contender, rows, n_classes, rate)
    of_bag = RowSparseAdam(bag.parameters(), rate)

    def hidden_of(features: Tensor, offsets: Tensor, values: Tensor) -> Tensor:
        return torch.tanh(bag(features, offsets, values))

    @torch.no_grad()
    def evaluate() -> float:
        parts = torch.arange(len(held_out.labels)).split(250)
        values = [log_prob(hidden_of(*p[:3]), p[3]).sum() for p in map(held_out.part, parts)]
        return float(sum(values)) / len(held_out.labels)

    curve: dict[str, list[float]] = {"steps": [], "wall": [], "cpu": [], "value": []}
    wall = cpu = 0.0
    next_look = FIRST_LOOK
    for step, chosen in enumerate(_batches(len(rows.labels)), 1):
        start, start_cpu = time.perf_counter(), time.process_time()
        *bags, labels = rows.part(chosen)
        optimizer.zero_grad()
        of_bag.zero_grad()
        loss_of(hidden_of(*bags), labels).backward()
        optimizer.step()
        of_bag.step()
        wall, cpu = wall + time.perf_counter() - start, cpu + time.process_time() - start_cpu
        is_last = step >= max_steps or wall >= max_seconds
        if step >= next_look or is_last:
            next_look = int(step * BETWEEN_LOOKS)
            for key, value in zip(curve, (step, wall, cpu, evaluate())):
                curve[key].append(value)
            best = int(np.argmax(curve["value"]))
            if is_last or curve["value"][-1] >= target or len(curve["value"]) - best > PATIENCE:
                break
    peak = memory("VmHWM") - before
    return {"classes": n_classes, "peak MB": peak / 1e6, "curve": curve}


def _batches(n: int) -> Iterator[Tensor]:
    while True:
        yield from torch.randperm(n).split(BATCH)[: n // BATCH]


def in_process(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function in a process of its own, so that peaks of memory are its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *args).result()


def torch_quality(
    problems: list[str],
    contenders: list[str],
    rates: list[float],
    threads: int,
    max_steps: int,
    max_seconds: float,
    into: str,
    to_page: bool,
    as_json: bool,
) -> None:
    """Seconds to within 1 % of the full softmax, for each contender at the best of its rates.

    Each run is kept as a line of a file, and those that the file has are not repeated.  The full
    softmax sets the target.  Other contenders stop once they reach it, or have taken as many steps
    as they need at another rate.
    """
    need_torch()
    for name, contender, rate in itertools.product(problems, contenders, rates):
        key = {"problem": name, "layer": contender, "rate": rate, "threads": threads}
        kept = saved(into)
        if any(key.items() <= row.items() for row in kept):
            continue
        target, most = np.inf, max_steps
        if contender != "cross_entropy":
            target = _target(kept, name)
            most = min([most, *_steps_to_target(kept, name, contender)])
        run = in_process(train, name, contender, rate, threads, most, max_seconds, target)
        append(into, key | run)
        print(f"{name}, {contender}, rate {rate:g}: {max(run['curve']['value']):.4f}")
    table = quality_table(saved(into), problems)
    show(table, as_json)
    if to_page:
        page = ROOT / "docs" / "results" / "torch.md"
        page.write_text(written_between(page.read_text(), "torch-quality", markdown(table)))


def _target(runs: list[dict[str, Any]], name: str) -> float:
    """1 % below the best value of the full softmax."""
    full = [r for r in runs if (r["problem"], r["layer"]) == (name, "cross_entropy")]
    return 1.01 * max((max(r["curve"]["value"]) for r in full), default=np.inf)


def _steps_to_target(runs: list[dict[str, Any]], name: str, contender: str) -> list[int]:
    """Return the steps of each run that came within 1 % of the full softmax."""
    found = []
    for run in runs:
        if (run["problem"], run["layer"]) == (name, contender):
            looks = zip(run["curve"]["steps"], run["curve"]["value"])
            found += [step for step, value in looks if value >= _target(runs, name)][:1]
    return found


def quality_table(runs: list[dict[str, Any]], problems: list[str]) -> list[dict[str, Any]]:
    """A row per problem and contender, at the rate with the fewest steps to within 1 %."""
    table = []
    for name, contender in itertools.product(problems, CONTENDERS):
        found = []
        for run in runs:
            if (run["problem"], run["layer"]) == (name, contender):
                curve = run["curve"]
                steps, wall, cpu = (
                    seconds_to_reach(_target(runs, name), curve[clock], curve["value"])
                    for clock in ("steps", "wall", "cpu")
                )
                row = {
                    "problem": name,
                    "classes": run["classes"],
                    "layer": contender,
                    "rate": run["rate"],
                    "steps to 1 %": steps and round(steps),
                    "seconds to 1 %": wall,
                    "CPU seconds to 1 %": cpu,
                    "CPU milliseconds per step": 1e3 * curve["cpu"][-1] / curve["steps"][-1],
                    "best held-out, nats": max(curve["value"]),
                    "peak MB": run["peak MB"],
                }
                found.append((steps or np.inf, -row["best held-out, nats"], row))
        table += [min(found, key=lambda f: f[:2])[2]] if found else []
    return table


# A step


def torch_step(n_classes: list[int], n_steps: int, threads: int, as_json: bool) -> None:
    """Milliseconds of forward pass, backward pass and update, and of the parts of a step."""
    need_torch()
    from bigcat.torch import CategoricalHead, RowSparseAdagrad, RowSparseAdam

    torch.set_num_threads(threads)
    optimizers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "complementary, RowSparseAdam": ("complementary", RowSparseAdam),
        "complementary, RowSparseAdagrad": ("complementary", RowSparseAdagrad),
        "augment-reduce, RowSparseAdam": ("augment-reduce", RowSparseAdam),
        "one-vs-each, RowSparseAdam": ("one-vs-each", RowSparseAdam),
        "exact, torch.optim.Adam": ("exact", torch.optim.Adam),
    }
    table: list[dict[str, Any]] = []
    for name, (method, make) in optimizers.items():
        for k in n_classes:
            if method == "exact" and k > 10**5:
                continue
            head = CategoricalHead(N_FEATURES, k, method=method, n_negatives=N_NEGATIVES)
            optimizer = make(head.parameters())
            hidden = torch.randn(BATCH, N_FEATURES, requires_grad=True)
            times = []
            for _ in range(n_steps):
                target = torch.randint(k, (BATCH,))
                start = time.perf_counter(), time.process_time()
                optimizer.zero_grad()
                head(hidden, target).backward()
                optimizer.step()
                times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
            wall, cpu = 1e3 * np.median(times[1:], axis=0)
            first = next((r["CPU milliseconds"] for r in table if r["layer"] == name), cpu)
            table.append(
                {
                    "layer": name,
                    "classes": k,
                    "milliseconds": float(wall),
                    "CPU milliseconds": float(cpu),
                    "against the fewest": float(cpu / first),
                }
            )
    show(table, as_json)
    save("torch_step", table)


# The optimum


def gap_problems() -> dict[str, tuple[Tensor, Tensor, int]]:
    """Rows, labels and number of classes of three convex problems."""
    torch.manual_seed(0)
    W, X = 1.5 * torch.randn(500, 10), torch.randn(20_000, 10)
    y = torch.distributions.Categorical(logits=X @ W.T).sample()
    found = {"simulated": (X, y, 500)}
    for name in ("bibtex", "delicious"):
        part = load(name).train
        classes, labels = np.unique(part.y, return_inverse=True)
        rows = torch.from_numpy(part.X.toarray().astype(np.float32))
        rows = rows / rows.norm(dim=1, keepdim=True).clamp_min(1.0)
        found[name] = (rows, torch.from_numpy(labels), len(classes))
    return found


def sampled_optimum(
    X: Tensor,
    y: Tensor,
    n_classes: int,
    method: str,
    l2: float,
    epochs: int,
    n_negatives: int,
    batch: int = 100,
    with_intercepts: bool = False,
) -> Any:
    """Fit by sampled steps with falling rates; the ridge, too, is sampled, and unbiased."""
    from bigcat.torch import CategoricalHead, RowSparseAdagrad, by_count
    from bigcat.torch.rows import take_rows

    counts = torch.bincount(y, minlength=n_classes)
    by_row, sampler = method.endswith("by row"), by_count(counts, n_negatives)
    head = CategoricalHead(
        X.shape[1],
        n_classes,
        method=method.removesuffix(", by row"),
        sampler=sampler,
        n_rows=len(y) if by_row else None,
    )
    nn.init.zeros_(head.weight)
    optimizer = RowSparseAdagrad(head.parameters(), lr=0.5)
    n_steps, step = epochs * math.ceil(len(y) / batch), 0
    for epoch in range(epochs):
        head.local_rate = (2.0 + epoch) ** -0.6
        for rows in torch.randperm(len(y)).split(batch):
            optimizer.param_groups[0]["lr"] = 0.5 * max(1e-3, 1.0 - step / n_steps)
            drawn = sampler.draw_for(y[rows], torch.ones_like(y[rows], dtype=torch.bool), None)
            optimizer.zero_grad()
            loss = head(X[rows], y[rows], negatives=drawn, rows=rows if by_row else None)
            weights, intercepts = take_rows(head.weight, head.bias, drawn.classes, True)
            squares = weights.square().sum(1)
            if with_intercepts:
                assert intercepts is not None
                squares = squares + intercepts.square()
            ridge = (drawn.log_weights.exp() * squares).sum()
            (loss + 0.5 * l2 * ridge).backward()
            optimizer.step()
            step += 1
    return head


def torch_gap(
    methods: list[str], epochs: int, n_negatives: int, names: list[str], as_json: bool
) -> None:
    """Measure how far sampled fits end above the minimum of the penalised log-loss."""
    need_torch()
    from bigcat.torch import CategoricalHead

    table = []
    for name, (X, y, n_classes) in gap_problems().items():
        if name not in names:
            continue
        l2 = 1.0 / len(y)
        exact = CategoricalHead(X.shape[1], n_classes, method="exact")
        nn.init.zeros_(exact.weight)

        def objective(head: Any, X: Tensor = X, y: Tensor = y, l2: float = l2) -> Tensor:
            parts = [head.log_prob(X[r], y[r]).sum() for r in torch.arange(len(y)).split(2000)]
            value: Tensor = 0.5 * l2 * head.weight.square().sum() - torch.stack(parts).sum() / len(
                y
            )
            return value

        solver = torch.optim.LBFGS(
            exact.parameters(), max_iter=1000, history_size=20, line_search_fn="strong_wolfe"
        )

        def closure(exact: Any = exact, solver: Any = solver, objective: Any = objective) -> Any:
            solver.zero_grad()
            value = objective(exact)
            value.backward()
            return value

        solver.step(closure)
        best = float(objective(exact).detach())
        for method in methods:
            torch.manual_seed(0)
            start = time.process_time()
            head = sampled_optimum(X, y, n_classes, method, l2, epochs, n_negatives)
            seconds = time.process_time() - start
            reached = float(objective(head).detach())
            table.append(
                {
                    "problem": name,
                    "classes": n_classes,
                    "method": method,
                    "optimum": best,
                    "reached": reached,
                    "gap, %": 100.0 * (reached - best) / best,
                    "CPU seconds": seconds,
                }
            )
    show(table, as_json)
    save("torch_gap", table)


# Bias


def torch_bias(n_classes: int, n_draws: int, as_json: bool) -> None:
    """Mean loss over the draws minus the exact one, and how far the mean gradient is off."""
    need_torch()
    from bigcat.torch import CategoricalHead

    torch.manual_seed(0)
    n, spread = 64, 2.0
    hidden = torch.randn(n, N_FEATURES) * spread / N_FEATURES**0.5
    hidden.requires_grad_()
    exact = CategoricalHead(N_FEATURES, n_classes, method="exact", bias=False)
    nn.init.normal_(exact.weight)
    with torch.no_grad():
        target = torch.distributions.Categorical(logits=hidden @ exact.weight.T).sample()
    loss = exact(hidden, target)
    (gradient,) = torch.autograd.grad(loss, hidden)
    table = []
    for name in (
        "complementary",
        "importance",
        "augment-reduce",
        "augment-reduce, by row",
        "umax, by row",
        "one-vs-each",
    ):
        by_row, method = name.endswith("by row"), name.removesuffix(", by row")
        head = CategoricalHead(
            N_FEATURES,
            n_classes,
            method=method,
            weight=exact.weight,
            bias=False,
            n_negatives=N_NEGATIVES,
            n_rows=n if by_row else None,
            local_rate=0.1,
            sparse_grad=False,
        )
        options = {"rows": torch.arange(n)} if by_row else {}
        for _ in range(100 if by_row else 0):  # visits that came before
            head(hidden, target, **options)
        values, sums, squares = [], torch.zeros_like(gradient), torch.zeros(())
        for _ in range(n_draws):
            value = head(hidden, target, **options)
            (found,) = torch.autograd.grad(value, hidden)
            values.append(value.item())
            sums += found
            squares += found.square().sum()
        mean = sums / n_draws
        variance = squares / n_draws - mean.square().sum()
        off = (mean - gradient).square().sum() - variance / n_draws
        table.append(
            {
                "method": name,
                "loss": float(np.mean(values)),
                "above the exact loss": float(np.mean(values) - loss.item()),
                "standard error": float(np.std(values) / n_draws**0.5),
                "gradient's bias": float((off.clamp_min(0.0) / gradient.square().sum()).sqrt()),
                "gradient's deviation": float((variance / gradient.square().sum()).sqrt()),
            }
        )
    show(table, as_json)
    save("torch_bias", table)


# Intervals


def torch_posterior(
    n_classes: int,
    n_features: int,
    rows_per_class: int,
    scale: float,
    epochs: int,
    laplace_torch: bool,
    as_json: bool,
) -> None:
    """Measure coverage of 90 % intervals of class probabilities, with weights from the prior."""
    need_torch()
    from bigcat.torch import CategoricalHead

    torch.manual_seed(0)
    n, n_test = n_classes * rows_per_class, 200
    # Features of this size, so that weights of variance 1 give scores of deviation `scale`.
    hidden = torch.randn(n + n_test, n_features) * scale / n_features**0.5
    truth = CategoricalHead(n_features, n_classes, method="exact")
    nn.init.normal_(truth.weight)
    nn.init.normal_(truth.bias)

    def scores_of(rows: Tensor) -> Tensor:
        return rows @ truth.weight.T + truth.bias

    with torch.no_grad():
        target = torch.cat(
            [
                torch.distributions.Categorical(logits=scores_of(h)).sample()
                for h in hidden[:n].split(1000)
            ]
        )
        p = scores_of(hidden[n:]).softmax(1)
    sizes = {"classes": n_classes, "features": n_features, "rows": n}
    times = [time.process_time()]
    n_negatives = min(N_NEGATIVES, n_classes // 2)
    head = sampled_optimum(
        hidden[:n], target, n_classes, "complementary", 1.0 / n, epochs, n_negatives, BATCH, True
    )
    times.append(time.process_time())
    posterior = head.posterior([(hidden[:n], target)])
    times.append(time.process_time())
    asked = {
        "any": torch.randint(n_classes, (n_test, 50)),
        "most probable": head.top_k(hidden[n:], min(50, n_classes)).classes,
    }
    row: dict[str, Any] = sizes | {"posterior": "bigcat.torch"}
    for name, classes in asked.items():
        low, _, high = posterior.interval(hidden[n:], classes, LEVEL)
        true = p.gather(1, classes)
        row[f"coverage, {name} classes"] = float(((low <= true) & (true <= high)).float().mean())
    times.append(time.process_time())
    for name, seconds in zip(("fit", "posterior", "intervals"), np.diff(times)):
        row[f"CPU seconds, {name}"] = float(seconds)
    row["peak MB"] = memory("VmHWM") / 1e6
    rows = [row]
    if laplace_torch:
        rows.append(sizes | _laplace_torch(head, hidden[:n], target, hidden[n:], asked, p))
    show(rows, as_json)
    for row in rows:
        append("torch_posterior", row)


def _laplace_torch(
    head: Any, X: Tensor, y: Tensor, X_test: Tensor, asked: dict[str, Tensor], p: Tensor
) -> dict[str, Any]:
    """Kronecker factors of laplace-torch at the same mode, with the same prior."""
    weights = torch.cat([head.bias[:, None], head.weight], 1).detach()
    found = yardsticks.run(
        "laplace-torch",
        X.numpy(),
        y.numpy(),
        X_test.numpy(),
        np.zeros(len(X_test)),
        head.n_classes,
        init_mean=weights.double().numpy(),
        structure="kron",
        sigma=1.0,
        intercept_sigma=1.0,
        n_samples=400,
    )
    row: dict[str, Any] = {"posterior": "laplace-torch, Kronecker factors"}
    draws = torch.from_numpy(found["samples"][0])
    z = torch.cat([torch.ones(len(X_test), 1), X_test], 1).to(draws.dtype)
    low_high = []
    for rows, *classes in zip(z.split(10), *(c.split(10) for c in asked.values())):
        drawn = torch.einsum("nd,skd->snk", rows, draws).softmax(2)
        wanted = torch.cat(classes, 1).expand(len(drawn), -1, -1)
        tails = torch.tensor([0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], dtype=drawn.dtype)
        low_high.append(torch.quantile(drawn.gather(2, wanted), tails, dim=0))
    true = p.gather(1, torch.cat([*asked.values()], 1))
    low, high = torch.cat(low_high, 1)
    inside = ((low <= true) & (true <= high)).float()
    for name, part in zip(asked, inside.split([c.shape[1] for c in asked.values()], 1)):
        row[f"coverage, {name} classes"] = float(part.mean())
    row["CPU seconds, posterior"] = float(found["seconds"].sum())
    row["peak MB"] = float(found["peak_mb"][0])
    return row


def add_to(commands: Any) -> None:
    """Add the commands to the parser."""
    quality = commands.add_parser(
        "torch-quality", help="PyTorch: seconds to within 1 %% of the full softmax"
    )
    quality.add_argument("--problems", nargs="+", default=list(PROBLEMS), metavar="NAME")
    quality.add_argument("--layers", nargs="+", default=list(CONTENDERS), metavar="NAME")
    quality.add_argument(
        "--rates", nargs="+", type=float, default=list(RATES), metavar="RATE", help="of Adam"
    )
    quality.add_argument("--threads", type=int, default=2)
    quality.add_argument("--steps", type=int, default=10**6, help="per network, at most")
    quality.add_argument("--seconds", type=float, default=300.0, help="per network, at most")
    quality.add_argument("--page", action="store_true", help="write the table of results/torch.md")
    quality.add_argument("--into", default="torch_quality", help="name of the file of runs")
    step = commands.add_parser("torch-step", help="PyTorch: cost of a step, optimiser included")
    step.add_argument("--classes", nargs="+", type=int, default=list(STEP_CLASSES), metavar="K")
    step.add_argument("--steps", type=int, default=100)
    step.add_argument("--threads", type=int, default=1)
    gap = commands.add_parser(
        "torch-gap", help="PyTorch: how far sampled fits end from the optimum"
    )
    gap.add_argument(
        "--methods",
        nargs="+",
        default=["augment-reduce", "augment-reduce, by row", "complementary", "importance"],
        metavar="NAME",
    )
    gap.add_argument("--epochs", type=int, default=100)
    gap.add_argument("--negatives", type=int, default=100)
    gap.add_argument("--problems", nargs="+", default=["simulated", "bibtex", "delicious"])
    bias = commands.add_parser("torch-bias", help="PyTorch: bias of sampled losses and gradients")
    bias.add_argument("--classes", type=int, default=10_000, metavar="K")
    bias.add_argument("--draws", type=int, default=300, metavar="N")
    posterior = commands.add_parser("torch-posterior", help="PyTorch: what intervals hold")
    posterior.add_argument("--classes", type=int, default=10_000, metavar="K")
    posterior.add_argument("--features", type=int, default=16, metavar="D")
    posterior.add_argument("--rows-per-class", type=int, default=10, metavar="N")
    posterior.add_argument("--scale", type=float, default=1.5, help="of the scores")
    posterior.add_argument("--epochs", type=int, default=20)
    posterior.add_argument(
        "--laplace-torch", action="store_true", help="with its Kronecker factors beside"
    )
    for command in (quality, step, gap, bias, posterior):
        command.add_argument("--json", action="store_true", help="print the rows as JSON")


def run(args: Any) -> None:
    """Run the selected command."""
    if args.command == "torch-quality":
        torch_quality(
            args.problems,
            args.layers,
            args.rates,
            args.threads,
            args.steps,
            args.seconds,
            args.into,
            args.page,
            args.json,
        )
    elif args.command == "torch-step":
        torch_step(args.classes, args.steps, args.threads, args.json)
    elif args.command == "torch-gap":
        torch_gap(args.methods, args.epochs, args.negatives, args.problems, args.json)
    elif args.command == "torch-bias":
        torch_bias(args.classes, args.draws, args.json)
    else:
        torch_posterior(
            args.classes,
            args.features,
            args.rows_per_class,
            args.scale,
            args.epochs,
            args.laplace_torch,
            args.json,
        )
